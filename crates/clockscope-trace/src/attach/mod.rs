//! Attaching to processes that run already, and counting in them until the user asks for the end.

pub mod groups;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use anyhow::Context;

use self::groups::{Groups, PATIENCE};
use crate::clock_reads::ReadCosts;
use crate::counter::Counter;
use crate::nanos;
use crate::observers::{self, Observing};
use crate::plan::{Plan, Voice};
use crate::summary::{self, RunData};
use crate::throttling::Throttling;
use crate::top::Stage;
use clockscope_containers::choice::Wanted;
use clockscope_containers::place::Place;
use clockscope_model::trace::{Attached as AttachedRow, DeclineRow, Ended, Missing, TraceReport};
use clockscope_sys::ending::{Asked, Ending};
use clockscope_sys::real_time::Service;
use clockscope_sys::{access, ipc_namespace, proc_text};
use clockscope_tracee::attach::{
    self, Attached, Detached, Refusal, Remains, command_name, restore_all,
};
use clockscope_tracee::follow::{self, Arrivals, End, Followed, Follower, Left};
use clockscope_tracee::observers::{Observers, SyscallObserver, Watcher};
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;

/// Processes to attach to, and the duration of counting.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Processes by id.
    pub pids: Vec<i32>,
    /// All processes of these groups, including processes that start later.
    pub groups: Vec<Wanted>,
    /// Limit for counting; `None`: until the user ends it.
    pub duration: Option<Duration>,
}

/// Result of counting.
#[derive(Debug)]
pub struct Traced {
    /// The report.
    pub report: TraceReport,
    /// Whether all processes that were named were counted.
    pub is_complete: bool,
    /// Handles SIGINT, SIGTERM and SIGHUP until it is dropped. Keep it until the report is written: another Ctrl-C
    /// kills the process without it.
    pub ending: Ending,
}

/// Processes that passed the checks before attaching. clockscope has not changed them yet.
pub struct Prepared<'a> {
    plan: &'a Plan,
    targets: &'a Targets,
    attaching: Attaching,
    pids: Vec<i32>,
}

/// Checks the processes to attach to. `None` if none is left; the user has been told the reason.
///
/// # Errors
///
/// When a group cannot be found.
pub fn prepare<'a>(plan: &'a Plan, targets: &'a Targets) -> anyhow::Result<Option<Prepared<'a>>> {
    let mut attaching = Attaching::new(Groups::find(&targets.groups)?, plan.voice);
    let pids = attaching.look_at_all(targets);
    if pids.is_empty() {
        if attaching.complete {
            (plan.voice.warn)("all processes that were meant have ended meanwhile");
        }
        return Ok(None);
    }
    Ok(Some(Prepared { plan, targets, attaching, pids }))
}

/// Counts until the processes have ended or the user ends it. `None` if no process could be attached to; the
/// user has been told the reason.
///
/// # Errors
///
/// When there is no memory to count in, no timer, or no system calls can be counted as was asked.
pub fn trace(prepared: Prepared<'_>) -> anyhow::Result<Option<Traced>> {
    let Prepared { plan, targets, mut attaching, pids } = prepared;
    let stage = observers::stage(plan)?;
    let ending = Ending::expect().context(NO_TIMER)?;
    if matches!(stage, Some(Stage::Screen { .. })) {
        ending.keep_stops();
    }
    // If entering is not allowed, attaching fails and reports that. If this thread cannot return to its own
    // namespace, it can still attach to `pids[0]`.
    let _ = ipc_namespace::enter(pids[0], ipc_namespace::Way::There);
    let session = plan.session()?;
    let counter = Counter::start(plan, None)?;
    session.allow_timing()?;
    let mut observer = counter.observer();
    let syscalls = observer.as_mut().map(|observer| observer as &mut dyn SyscallObserver);
    let shown = targets.shown();
    let mut observing = Observing::start(plan, stage.as_ref(), &shown, &pids, &counter, &session)?;
    observing.search(plan, None, &pids);
    let mut watchers = observing.watchers();
    // The service covers attaching and detaching, too; services may nest.
    let service = Service::begin();
    let watcher = watchers.watcher();
    let mut arriving = Arriving { attaching: &mut attaching, counter: &counter };
    let limit = targets.duration;
    let throttling = Throttling::of(&pids);
    let counting = count(limit, &pids, &mut arriving, &session, syscalls, watcher, &ending);
    let Some((started, follower, left)) = counting else { return Ok(None) };
    let (mut processes, mut new_tasks, ends) = follower.into_parts();
    // Detaching causes calls in the processes from here on: they are left out of the counts.
    let counted = counter.counted();
    let ended = Instant::now();
    processes.stop_cpu();
    session.stop_timing();
    attaching.find_children(&processes);
    let detached = restore_all(&mut processes, &mut new_tasks);
    drop(service);
    let remains = detached.iter().filter_map(|detached| remains(detached, &processes));
    remains.for_each(|sentence| (plan.voice.warn)(&sentence));
    let (left, counted) = (left.context("cannot wait for the processes")?, counted?);
    follow::finish(&mut processes);
    let seen = observing.finish(&processes);
    drop(stage);
    drop((observer, counter));
    attaching.fill(&detached, &ends, left);
    let report = summary::report(RunData {
        plan,
        command: attaching.command(),
        session: &session,
        followed: Followed { end: None, ended, cpu: Duration::ZERO, left: true },
        started,
        processes: &processes,
        counted,
        costs: ReadCosts::by_syscall(),
        by_vdso: None,
        kept: None,
        throttling,
        seen,
        attached: attaching.rows,
        declines: attaching.declines,
    });
    Ok(Some(Traced { report, is_complete: attaching.complete, ending }))
}

/// A timer uses up one queued signal of the limit.
const NO_TIMER: &str = "cannot start a timer; see `ulimit -i`";

impl Targets {
    /// The live view's first line, before the names of the processes are known.
    fn shown(&self) -> Vec<OsString> {
        let pids = self.pids.iter().map(|pid| format!("-p {pid}"));
        let groups = self.groups.iter().map(|group| match group {
            Wanted::Unit(name) => format!("--unit {name}"),
            Wanted::Container(name) => format!("--container {name}"),
            Wanted::Cgroup(path) => format!("--cgroup {path}"),
        });
        pids.chain(groups).map(OsString::from).collect()
    }
}

/// State of the processes, before and while they are counted.
struct Attaching {
    groups: Groups,
    voice: Voice,
    rows: Vec<AttachedRow>,
    declines: Vec<DeclineRow>,
    /// Whether all processes that were named are counted.
    complete: bool,
    /// Failed attempts by process id, for members of groups.
    refused: HashMap<i32, u32>,
    /// Processes that are finally refused, by reason: one message for each reason.
    said: BTreeMap<String, Vec<i32>>,
}

/// Attempts to attach to a new member of a group, which is often not ready at first.
const TRIALS: u32 = 4;

impl Attaching {
    fn new(groups: Groups, voice: Voice) -> Self {
        Self {
            groups,
            voice,
            rows: Vec::new(),
            declines: Vec::new(),
            complete: true,
            refused: HashMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// The processes that can be attached to, each once. Warns about all others, before any measurement starts.
    fn look_at_all(&mut self, targets: &Targets) -> Vec<i32> {
        let mut named = HashSet::new();
        let all = targets.pids.iter().copied().chain(self.groups.members());
        let mut pids: Vec<i32> = all.filter(|pid| named.insert(*pid)).collect();
        pids.retain(|pid| {
            let looked = attach::look(*pid).map_err(|refusal| self.refused_at_once(*pid, &refusal));
            looked.is_ok()
        });
        self.say_refused();
        pids
    }

    /// Records a final refusal. Members of groups that are gone count as complete.
    fn refused_at_once(&mut self, pid: i32, refusal: &Refusal) {
        self.refused.insert(pid, TRIALS);
        if !self.groups.is_empty() && is_nobody(refusal) {
            return;
        }
        self.complete = false;
        let reason = refusal.to_string();
        let row = DeclineRow { pid, command: command_name(pid), what: Missing::Vdso, reason };
        self.said.entry(row.reason.clone()).or_default().push(pid);
        self.declines.extend((!row.command.is_empty()).then_some(row));
    }

    /// Warns about refused processes, one message for each reason.
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
            (self.voice.warn)(&format!("cannot attach to {who}{more}: {reason}"));
        }
    }

    fn attached(&mut self, attached: &Attached) {
        let (name, pid) = (&attached.command, attached.pid);
        let place = self.groups.place_of(pid);
        let inside = place.to_string();
        let inside = if inside.is_empty() { inside } else { format!(" in {inside}") };
        (self.voice.note)(&format!("attached to {name} ({pid}){inside}; Ctrl-C ends it"));
        self.declines.extend(not_redirected(attached));
        self.rows.push(row(attached, place));
    }

    /// The programs' names and numbers.
    fn command(&self) -> Vec<OsString> {
        self.rows.iter().map(|row| format!("{} ({})", row.command, row.pid).into()).collect()
    }

    /// Adds the children that run and were not traced: those that ran before clockscope attached.
    fn find_children(&mut self, traced: &Processes) {
        // Those that have ended and whose parent has not waited are among the traced ones, too.
        let traced: HashSet<i32> = traced.all().iter().map(|process| process.pid).collect();
        for row in &mut self.rows {
            row.children = children(row.pid);
            row.children.retain(|child| !traced.contains(child));
        }
    }

    /// Adds the pause for detaching and the kind of end to each row.
    fn fill(&mut self, detached: &[Detached], ends: &HashMap<i32, Option<End>>, left: Left) {
        for row in &mut self.rows {
            let own = detached.iter().find(|detached| detached.pid == row.pid);
            row.detach_pause_ns = own.map_or(0, |detached| nanos(detached.pause));
            row.ended = match (ends.get(&row.pid).copied().flatten(), left) {
                (Some(End::Exited(_)), _) => Ended::Exited,
                (Some(End::Killed(_)), _) => Ended::Killed,
                (None, Left::Asked(Asked::Time)) => Ended::Duration,
                (None, _) => Ended::Interrupted,
            };
        }
    }
}

/// Whether the refusal is no loss: the process is gone, a kernel thread, clockscope itself, or a child
/// already followed whose fork event is still to come.
fn is_nobody(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Gone | Refusal::Ended | Refusal::Zombie | Refusal::Own | Refusal::Kernel => true,
        Refusal::Traced(_, by) => u32::try_from(*by) == Ok(std::process::id()),
        _ => false,
    }
}

/// Processes to attach to that start after counting has begun.
struct Arriving<'a> {
    attaching: &'a mut Attaching,
    /// Counts the system calls of each process from its attachment on.
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
        // If the process has ended meanwhile, attaching reports that.
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

/// Attaches to all processes and follows them to the end of counting. The caller reports an error after
/// detaching. `None` if no process could be attached to; the user has been told.
fn count<'a>(
    limit: Option<Duration>,
    pids: &[i32],
    arriving: &mut Arriving<'_>,
    session: &'a Session,
    syscalls: Option<&'a mut dyn SyscallObserver>,
    watcher: Option<&'a mut dyn Watcher>,
    ending: &Ending,
) -> Option<(Instant, Follower<'a>, io::Result<Left>)> {
    // An attached program receives its signals from the kernel; clockscope need not forward any.
    let observers = Observers { syscalls, signals: &|_, _| (), watcher };
    let mut follower = Follower::of_running(session, observers);
    // The ticker comes first: without it, an attached process could not be followed.
    let ticker = match follower.ticker() {
        Ok(ticker) => ticker,
        Err(error) => {
            (arriving.attaching.voice.warn)(&format!("{NO_TIMER}: {error}"));
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
    if let Some(limit) = limit {
        ending.after(limit);
    }
    let started = Instant::now();
    let left = follower.run_until(ending, ticker, arriving);
    Some((started, follower, left))
}

/// The sentence about leftovers of clockscope in a process, with the command that removes them.
fn remains(detached: &Detached, processes: &Processes) -> Option<String> {
    let (remains, pid) = (detached.remains?, detached.pid);
    let process = processes.all().iter().rev().find(|process| process.pid == pid);
    let name = process.map(|process| process.command.clone()).unwrap_or_default();
    let via = if matches!(remains, Remains::Counting(_)) { " --via sites" } else { "" };
    Some(format!(
        "{name} ({pid}) is not as it was: {remains}; run `clockscope trace{via} -p {pid} --duration 0.1` \
         to put it back"
    ))
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

/// The children of a process that run; none on a kernel without `CONFIG_PROC_CHILDREN` (proc_pid_children(5)).
fn children(pid: i32) -> Vec<i32> {
    let of_thread = |thread: i32| {
        let list = proc_text::read(format!("/proc/{pid}/task/{thread}/children"));
        list.unwrap_or_default().split_whitespace().flat_map(str::parse).collect::<Vec<i32>>()
    };
    access::threads_of(pid).into_iter().flat_map(of_thread).collect()
}

fn not_redirected(attached: &Attached) -> Vec<DeclineRow> {
    let row = |(name, why): &(&str, String)| DeclineRow {
        pid: attached.pid,
        command: attached.command.clone(),
        what: Missing::Vdso,
        reason: format!("calls of {name} are not counted: {why}"),
    };
    attached.patch.left.iter().map(row).collect()
}
