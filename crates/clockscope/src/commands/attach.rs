//! `clockscope trace -p`: counting in processes that run already.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::observers::{self, Observing};
use super::top::Stage;
use super::trace::{Outputs, say, text_options};
use crate::cli::trace::TraceArgs;
use crate::exit;
use clockscope_model::trace::Clock;
use clockscope_model::trace::{Attached as AttachedRow, DeclineRow};
use clockscope_report::what_if;
use clockscope_sys::access;
use clockscope_sys::ending::{Asked, Ending};
use clockscope_sys::real_time::Service;
use clockscope_syscalls::filter::Filter;
use clockscope_trace::clock_reads::SyscallCosts;
use clockscope_trace::counter::Counter;
use clockscope_trace::launch::{self, Outcome};
use clockscope_trace::summary;
use clockscope_tracee::attach::detach::{Detached, restore_all};
use clockscope_tracee::attach::{self, Attached, Refusal, command_name};
use clockscope_tracee::follow::{self, End, Followed, Follower, Left};
use clockscope_tracee::image::Route;
use clockscope_tracee::observers::{Observers, SignalObserver, SyscallObserver, Watcher};
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;

/// Nobody passes signals on to a program that somebody else has started.
struct Nobody;

impl SignalObserver for Nobody {
    fn delivered(&self, _signal: i32, _sender: i32) {}
}

/// Counts until the processes have ended or somebody asks for the end; gives the exit status.
///
/// # Errors
///
/// When there is no memory to count in, no timer, or no system calls can be counted as was asked.
pub fn trace(args: &TraceArgs) -> anyhow::Result<i32> {
    let options = text_options(args)?;
    let filter = Filter::parse(&args.filter)?;
    let (pids, refused) = looked_at(args);
    if pids.is_empty() {
        return Ok(exit::BEFORE_START);
    }
    let Some(outputs) = Outputs::open(args)? else { return Ok(exit::FAILURE) };
    let costs = SyscallCosts::here();
    let stage = observers::stage(args)?;
    let ending = Ending::expect().context(NO_TIMER)?;
    if matches!(stage, Some(Stage::Screen(_))) {
        ending.keep_stops();
    }
    // Where that is not allowed, attaching says so.
    let _ = access::join_ipc_namespace(pids[0]);
    let session = Session::new(launch::counting(args.count_by), Route::Kernel)?;
    let counter = Counter::start(&args.counting(), &filter, None, say(args))?;
    session.allow_timing()?;
    let mut observer = counter.observer();
    let syscalls = observer.as_mut().map(|observer| observer as &mut dyn SyscallObserver);
    let mut observers =
        Observing::start(args, stage.as_ref(), &wanted(args), &counter, &filter, &session)?;
    let mut watchers = observers.watchers();
    let all = (&pids[..], refused);
    // Attaching and letting go are served, too; a service inside another one is harmless.
    let service = Service::begin();
    let counted = count(args, all, &session, syscalls, &counter, watchers.watcher(), &ending);
    let Some((mut counted, follower, left)) = counted else { return Ok(exit::BEFORE_START) };
    let (mut processes, mut new_tasks, ends) = follower.into_parts();
    // What the processes do from now on, they do because they are let go.
    let stopped = counter.stopped();
    let ended = Instant::now();
    processes.stop_cpu();
    session.stop_timing();
    let detached = restore_all(&mut processes, &mut new_tasks);
    drop(service);
    detached.iter().for_each(|detached| say_remains(detached, &processes));
    let (left, stopped) = (left.context("cannot wait for the processes")?, stopped?);
    follow::finish(&mut processes);
    let seen = observers.finish(&processes);
    drop(stage);
    counted.fill(&detached, &ends, left);
    let outcome = Outcome {
        followed: Followed { end: None, ended, cpu: Duration::ZERO, left: true },
        started: counted.started,
        processes,
        failure: None,
    };
    let source = summary::Source {
        command: &counted.command(),
        session: &session,
        outcome: &outcome,
        counter: &stopped,
        costs,
        clock: Clock::Kernel,
        latency: args.keeps_latency(),
        per_process: args.per_process,
        per_thread: args.per_thread,
        wanted: &|name| filter.matches(name),
    };
    let mut report = summary::report(&source, seen)?;
    report.declines.extend(counted.declines);
    report.attached = counted.rows;
    report.what_if = args.what_if.map(|question| what_if::answer(&report, question));
    drop((observer, counter));
    outputs.write(&mut report, args, &options);
    Ok(if counted.complete { exit::OK } else { exit::INCOMPLETE })
}

/// The processes that may be attached to, each once, and those that may not, which has been said. Nothing is
/// measured before that.
fn looked_at(args: &TraceArgs) -> (Vec<i32>, Vec<Refused>) {
    let (mut pids, mut refusals) = (Vec::new(), Vec::new());
    let mut named = HashSet::new();
    for pid in args.pids().into_iter().filter(|pid| named.insert(*pid)) {
        match attach::look(pid) {
            Ok(()) => pids.push(pid),
            Err(refusal) => refusals.push(refused(pid, &refusal)),
        }
    }
    (pids, refusals)
}

/// Timers count as queued signals.
const NO_TIMER: &str = "cannot start a timer; see `ulimit -i`";

/// A process that is not attached to: a row of the report, but for one that does not exist.
type Refused = Option<DeclineRow>;

/// What the live view names before anything is known of the processes.
fn wanted(args: &TraceArgs) -> Vec<OsString> {
    args.pids().iter().map(|pid| format!("-p {pid}").into()).collect()
}

/// What is known of the processes while they are counted.
struct Counting {
    started: Instant,
    rows: Vec<AttachedRow>,
    declines: Vec<DeclineRow>,
    /// Whether all processes that were named are counted.
    complete: bool,
}

/// Attaches to all and follows them, and how that ended: an error is told when they have been let go. `None`
/// if no process could be attached to, which has been said.
fn count<'a>(
    args: &TraceArgs,
    (pids, mut refusals): (&[i32], Vec<Refused>),
    session: &'a Session,
    syscalls: Option<&'a mut dyn SyscallObserver>,
    counter: &Counter,
    watcher: Option<&'a mut dyn Watcher>,
    ending: &Ending,
) -> Option<(Counting, Follower<'a>, io::Result<Left>)> {
    let observers = Observers { syscalls, signals: Box::new(Nobody), watcher };
    let mut follower = Follower::of_running(session, observers);
    // Before anything is done to a process that could not be followed without it.
    let ticker = match follower.ticker() {
        Ok(ticker) => ticker,
        Err(error) => {
            super::warn_user(&format!("{NO_TIMER}: {error}"));
            return None;
        }
    };
    let (mut rows, mut declines) = (Vec::new(), Vec::new());
    for pid in pids {
        let mut traced = |pid: i32| {
            // If it has ended meanwhile, attaching says so.
            let _ = counter.follow(pid);
        };
        match follower.attach(*pid, &mut traced) {
            Ok(attached) => {
                let (name, pid) = (&attached.command, attached.pid);
                say(args)(&format!("attached to {name} ({pid}); Ctrl-C ends it"));
                declines.extend(not_redirected(&attached));
                rows.push(row(&attached));
            }
            Err(refusal) => refusals.push(refused(*pid, &refusal)),
        }
    }
    if rows.is_empty() {
        return None;
    }
    let complete = refusals.is_empty();
    declines.extend(refusals.into_iter().flatten());
    if let Some(limit) = args.duration {
        ending.after(limit);
    }
    let counting = Counting { started: Instant::now(), rows, declines, complete };
    let left = follower.run_until(ending, ticker);
    Some((counting, follower, left))
}

impl Counting {
    /// The programs' names and numbers.
    fn command(&self) -> Vec<OsString> {
        self.rows.iter().map(|row| format!("{} ({})", row.command, row.pid).into()).collect()
    }

    /// Adds how it ended, for each process.
    fn fill(&mut self, detached: &[Detached], ends: &HashMap<i32, Option<End>>, left: Left) {
        for row in &mut self.rows {
            let own = detached.iter().find(|detached| detached.pid == row.pid);
            row.detach_pause_ns = own.map_or(0, |detached| nanos(detached.pause));
            let ended = match (ends.get(&row.pid).copied().flatten(), left) {
                (Some(End::Exited(_)), _) => "exited",
                (Some(End::Killed(_)), _) => "killed",
                (None, Left::Asked(Asked::Time)) => "duration",
                (None, _) => "interrupted",
            };
            ended.clone_into(&mut row.ended);
        }
    }
}

/// Says what a process keeps of us, and how it gets rid of that.
fn say_remains(detached: &Detached, processes: &Processes) {
    let Some(remains) = detached.remains else { return };
    let pid = detached.pid;
    let process = processes.all().iter().rev().find(|process| process.pid == pid);
    let name = process.map(|process| process.command.clone()).unwrap_or_default();
    super::warn_user(&format!(
        "{name} ({pid}) is not as it was: {remains}; run `clockscope trace -p {pid} --duration 0.1` to \
         put it back"
    ));
}

fn row(attached: &Attached) -> AttachedRow {
    AttachedRow {
        pid: attached.pid,
        command: attached.command.clone(),
        title: attach::title(attached.pid),
        threads: attached.threads.len() as u64,
        pause_ns: nanos(attached.pause),
        ..AttachedRow::default()
    }
}

/// Says why a process is not attached to.
fn refused(pid: i32, refusal: &Refusal) -> Refused {
    let command = command_name(pid);
    let who = if command.is_empty() { pid.to_string() } else { format!("{command} ({pid})") };
    super::warn_user(&format!("cannot attach to {who}: {refusal}"));
    let row = DeclineRow { pid, command, what: "vdso".to_owned(), reason: refusal.to_string() };
    (!row.command.is_empty()).then_some(row)
}

fn not_redirected(attached: &Attached) -> Vec<DeclineRow> {
    let row = |(name, why): &(&str, String)| DeclineRow {
        pid: attached.pid,
        command: attached.command.clone(),
        what: "vdso".to_owned(),
        reason: format!("calls of {name} are not counted: {why}"),
    };
    attached.patch.left().iter().map(row).collect()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
