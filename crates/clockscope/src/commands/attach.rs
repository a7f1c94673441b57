//! `clockscope trace -p`: counting in processes that run already.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::groups::{Groups, PATIENCE};
use super::observers::{self, Observing};
use super::top::Stage;
use super::trace::{Outputs, say, text_options};
use crate::cli::trace::TraceArgs;
use crate::exit;
use clockscope_containers::place::Place;
use clockscope_model::trace::Clock;
use clockscope_model::trace::{Attached as AttachedRow, DeclineRow, ProcessDetail};
use clockscope_report::what_if;
use clockscope_sys::ending::{Asked, Ending};
use clockscope_sys::ipc_namespace::{self, Way};
use clockscope_sys::real_time::Service;
use clockscope_syscalls::filter::Filter;
use clockscope_trace::clock_reads::SyscallCosts;
use clockscope_trace::counter::Counter;
use clockscope_trace::launch::{self, Outcome};
use clockscope_trace::summary;
use clockscope_tracee::attach::{
    self, Attached, Detached, Refusal, Remains, command_name, restore_all,
};
use clockscope_tracee::follow::{self, Arrivals, End, Followed, Follower, Left};
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
    let mut attaching = Attaching::new(Groups::find(args)?, say(args));
    let pids = attaching.look_at_all(args);
    if pids.is_empty() {
        if attaching.complete {
            super::warn_user("all processes that were meant have ended meanwhile");
        }
        return Ok(exit::BEFORE_START);
    }
    let Some(outputs) = Outputs::open(args)? else { return Ok(exit::FAILURE) };
    let costs = SyscallCosts::here();
    let stage = observers::stage(args)?;
    let ending = Ending::expect().context(NO_TIMER)?;
    if matches!(stage, Some(Stage::Screen(_))) {
        ending.keep_stops();
    }
    let session = session_for(args, pids[0])?;
    let counter = Counter::start(&args.counting(), &filter, None, say(args))?;
    session.allow_timing()?;
    let mut observer = counter.observer();
    let syscalls = observer.as_mut().map(|observer| observer as &mut dyn SyscallObserver);
    let mut observers =
        Observing::start(args, stage.as_ref(), &wanted(args), &pids, &counter, &filter, &session)?;
    let mut watchers = observers.watchers();
    // Attaching and letting go are served, too; a service inside another one is harmless.
    let service = Service::begin();
    let watcher = watchers.watcher();
    let mut arriving = Arriving { attaching: &mut attaching, counter: &counter };
    let counted = count(args, &pids, &mut arriving, &session, syscalls, watcher, &ending);
    let Some((started, follower, left)) = counted else { return Ok(exit::BEFORE_START) };
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
    attaching.fill(&detached, &ends, left);
    let outcome = Outcome {
        followed: Followed { end: None, ended, cpu: Duration::ZERO, left: true },
        started,
        processes,
        failure: None,
    };
    let source = summary::Source {
        command: &attaching.command(),
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
    attaching.fill_places(&mut report.processes_detail);
    report.declines.append(&mut attaching.declines);
    report.attached = std::mem::take(&mut attaching.rows);
    report.what_if = args.what_if.map(|question| what_if::answer(&report, question));
    drop((observer, counter));
    outputs.write(&mut report, args, &options);
    Ok(if attaching.complete { exit::OK } else { exit::INCOMPLETE })
}

/// The image and its memory, for this process and others.
fn session_for(args: &TraceArgs, pid: i32) -> anyhow::Result<Session> {
    // Where that is not allowed, attaching says so. One who cannot come back can still attach to this one.
    let _ = ipc_namespace::enter(pid, Way::There);
    let mut session = Session::new(launch::counting(args.count_by), Route::Kernel)?;
    if args.counting().via.has_sites() {
        session.count_sites(!args.counts_only);
    }
    Ok(session)
}

/// Timers count as queued signals.
const NO_TIMER: &str = "cannot start a timer; see `ulimit -i`";

/// What the live view names before anything is known of the processes.
fn wanted(args: &TraceArgs) -> Vec<OsString> {
    let named = |option: &str, names: &[String]| -> Vec<OsString> {
        names.iter().map(|name| format!("{option} {name}").into()).collect()
    };
    let pids = args.pids().into_iter().map(|pid| format!("-p {pid}").into());
    pids.chain(named("--unit", &args.unit))
        .chain(named("--container", &args.container))
        .chain(named("--cgroup", &args.cgroup))
        .collect()
}

/// What is known of the processes, before and while they are counted.
struct Attaching {
    groups: Groups,
    /// Told of each process that was attached to.
    say: &'static dyn Fn(&str),
    rows: Vec<AttachedRow>,
    declines: Vec<DeclineRow>,
    /// Whether all processes that were named are counted.
    complete: bool,
    /// Members of groups that could not be attached to: how often that was tried.
    refused: HashMap<i32, u32>,
    /// The same of those that are refused at the end, together if they are so for the same reason.
    said: BTreeMap<String, Vec<i32>>,
}

/// A process that has just come to a group is often not ready: so often is it tried.
const TRIALS: u32 = 4;

impl Attaching {
    fn new(groups: Groups, say: &'static dyn Fn(&str)) -> Self {
        Self {
            groups,
            say,
            rows: Vec::new(),
            declines: Vec::new(),
            complete: true,
            refused: HashMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// The processes that may be attached to, each once; of the others it is said why not. Nothing is measured
    /// before that.
    fn look_at_all(&mut self, args: &TraceArgs) -> Vec<i32> {
        let mut named = HashSet::new();
        let all = args.pids().into_iter().chain(self.groups.members());
        let mut pids: Vec<i32> = all.filter(|pid| named.insert(*pid)).collect();
        pids.retain(|pid| {
            let looked = attach::look(*pid).map_err(|refusal| self.refused_at_once(*pid, &refusal));
            looked.is_ok()
        });
        self.say_refused();
        pids
    }

    /// Not to be tried again. Those of a group that are not there any more are not missed.
    fn refused_at_once(&mut self, pid: i32, refusal: &Refusal) {
        self.refused.insert(pid, TRIALS);
        if !self.groups.is_empty() && is_nobody(refusal) {
            return;
        }
        self.complete = false;
        let reason = refusal.to_string();
        let row = DeclineRow { pid, command: command_name(pid), what: "vdso".to_owned(), reason };
        self.said.entry(row.reason.clone()).or_default().push(pid);
        self.declines.extend((!row.command.is_empty()).then_some(row));
    }

    /// Says why processes are not attached to: those with the same reason together.
    fn say_refused(&mut self) {
        for (reason, pids) in std::mem::take(&mut self.said) {
            let command = command_name(pids[0]);
            let who = if command.is_empty() {
                pids[0].to_string()
            } else {
                format!("{command} ({})", pids[0])
            };
            let more = match pids.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            super::warn_user(&format!("cannot attach to {who}{more}: {reason}"));
        }
    }

    fn attached(&mut self, attached: &Attached) {
        let (name, pid) = (&attached.command, attached.pid);
        let place = self.groups.place_of(pid);
        let inside = place.to_string();
        let inside = if inside.is_empty() { inside } else { format!(" in {inside}") };
        (self.say)(&format!("attached to {name} ({pid}){inside}; Ctrl-C ends it"));
        self.declines.extend(not_redirected(attached));
        self.rows.push(row(attached, place));
    }

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

    /// Says where processes belong: where those do that were attached to, and that they descend from.
    fn fill_places(&self, processes: &mut [ProcessDetail]) {
        let mut places: HashMap<i32, Place> =
            self.rows.iter().map(|row| (row.pid, row.place.clone())).collect();
        // Parents come before their children.
        for process in processes {
            let parents = || process.parent.and_then(|parent| places.get(&parent));
            if let Some(place) = places.get(&process.pid).or_else(parents).cloned() {
                process.place = place.clone();
                places.insert(process.pid, place);
            }
        }
    }
}

/// Whether there is no process to speak of, or no other one than this, or one that is followed already: a
/// child whose birth is told soon.
fn is_nobody(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Gone | Refusal::Ended | Refusal::Zombie | Refusal::Own | Refusal::Kernel => true,
        Refusal::Traced(_, by) => u32::try_from(*by) == Ok(std::process::id()),
        _ => false,
    }
}

/// Those who arrive while others are counted.
struct Arriving<'a> {
    attaching: &'a mut Attaching,
    /// Told of each process.
    counter: &'a Counter,
}

impl Arrivals for Arriving<'_> {
    fn look(&mut self, followed: &Processes) -> Vec<i32> {
        let members = self.attaching.groups.members_if_due();
        let is_new = |pid: &i32| {
            let trials = self.attaching.refused.get(pid).copied().unwrap_or(0);
            trials < TRIALS && followed.index_of(*pid).is_none()
        };
        members.into_iter().filter(is_new).collect()
    }

    fn traced(&mut self, pid: i32) {
        // If it has ended meanwhile, attaching says so.
        let _ = self.counter.follow(pid);
    }

    fn outcome(&mut self, pid: i32, outcome: Result<Attached, Refusal>) {
        match outcome {
            Ok(attached) => self.attaching.attached(&attached),
            Err(refusal) if is_nobody(&refusal) => {}
            Err(refusal) => {
                let trials = self.attaching.refused.entry(pid).or_default();
                *trials += 1;
                if *trials == TRIALS {
                    self.attaching.refused_at_once(pid, &refusal);
                    self.attaching.say_refused();
                }
            }
        }
    }

    fn patience(&self) -> Option<Duration> {
        (!self.attaching.groups.is_empty()).then_some(PATIENCE)
    }
}

/// Attaches to all and follows them, and how that ended: an error is told when they have been let go. `None`
/// if no process could be attached to, which has been said.
fn count<'a>(
    args: &TraceArgs,
    pids: &[i32],
    arriving: &mut Arriving<'_>,
    session: &'a Session,
    syscalls: Option<&'a mut dyn SyscallObserver>,
    watcher: Option<&'a mut dyn Watcher>,
    ending: &Ending,
) -> Option<(Instant, Follower<'a>, io::Result<Left>)> {
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
    follower.let_transfers_end(pids);
    for pid in pids {
        match follower.attach(*pid, &mut |pid| arriving.traced(pid)) {
            Ok(attached) => arriving.attaching.attached(&attached),
            Err(refusal) => arriving.attaching.refused_at_once(*pid, &refusal),
        }
    }
    arriving.attaching.say_refused();
    if arriving.attaching.rows.is_empty() {
        return None;
    }
    if let Some(limit) = args.duration {
        ending.after(limit);
    }
    let started = Instant::now();
    let left = follower.run_until(ending, ticker, arriving);
    Some((started, follower, left))
}

/// Says what a process keeps of us, and how it gets rid of that.
fn say_remains(detached: &Detached, processes: &Processes) {
    let Some(remains) = detached.remains else { return };
    let pid = detached.pid;
    let process = processes.all().iter().rev().find(|process| process.pid == pid);
    let name = process.map(|process| process.command.clone()).unwrap_or_default();
    let via = if matches!(remains, Remains::Counting(_)) { " --via sites" } else { "" };
    super::warn_user(&format!(
        "{name} ({pid}) is not as it was: {remains}; run `clockscope trace{via} -p {pid} --duration 0.1` \
         to put it back"
    ));
}

fn row(attached: &Attached, place: Place) -> AttachedRow {
    AttachedRow {
        pid: attached.pid,
        command: attached.command.clone(),
        title: attach::title(attached.pid),
        threads: attached.threads.len() as u64,
        pause_ns: nanos(attached.pause),
        place,
        ..AttachedRow::default()
    }
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
