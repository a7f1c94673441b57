//! Launching a program and tracing it, from the fork to the report.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;

use crate::clock_reads::ReadCosts;
use crate::counter::Counter;
use crate::observers::{self, Observing};
use crate::plan::Plan;
use crate::summary::{self, RunData};
use crate::throttling::Throttling;
use crate::{clock_page, signals};
use clockscope_model::trace::TraceReport;
use clockscope_sys::{access, ptrace, spawn};
use clockscope_timekeeper::Timekeeper;
use clockscope_tracee::decline::Decline;
use clockscope_tracee::follow::{End, Follower, Following};
use clockscope_tracee::observers::{Observers, SyscallObserver};
use clockscope_tracee::processes::Process;
use vdso_image::layout::INSTALL_MARK;

/// Result of running a program.
pub struct Launched {
    /// The report.
    pub report: TraceReport,
    /// Notes for the user, a sentence each.
    pub notes: Vec<String>,
    /// The program's end; `None` if unknown.
    pub end: Option<End>,
    /// The user left the live view: the program keeps running, uncounted.
    pub left: bool,
}

/// Runs a program according to the plan. The inner error is the reason why the kernel did not execute it.
///
/// # Errors
///
/// When no child process or no memory for the counts can be had, system calls cannot be counted in the way
/// asked for, or waiting for the program fails.
pub fn trace(
    plan: &Plan,
    path: &Path,
    command: &[OsString],
) -> anyhow::Result<Result<Launched, io::Error>> {
    let costs = plan.count_by.map(|_| ReadCosts::by_syscall()).unwrap_or_default();
    let by_vdso = plan.verdict.then(ReadCosts::by_libc);
    let stage = observers::stage(plan)?;
    let mask = clockscope_sys::signals::block()?;
    let mut waiting =
        spawn::fork(path, command, &mask, INSTALL_MARK).context("cannot start a process")?;
    let program = waiting.pid();
    // From here on the program starts even if this process dies.
    let decline = seize(path, program);
    let ahead = plan.look_ahead();
    let session = plan.session()?;
    waiting.until_ready().context(GONE)?;
    let counter = Counter::start(plan, program)?;
    // A verdict needs times, even if the tracer detaches at the start.
    if plan.verdict || plan.following != Following::Start {
        session.allow_timing()?;
    }
    let keeper = clock_page::keep(&session, plan.force)?;
    let mut observer = counter.observer();
    let mut observing = Observing::start(plan, stage.as_ref(), command, &[], &counter, &session)?;
    observing.search(plan, Some(path), &[program]);

    let mut watchers = observing.watchers();
    let forwarded = signals::forward(program);
    let name = path.file_name().unwrap_or_default().into();
    let observers = Observers {
        syscalls: observer.as_mut().map(|observer| observer as &mut dyn SyscallObserver),
        signals: &|signal, sender| forwarded.delivered(signal, sender),
        watcher: watchers.watcher(),
    };
    let mut follower = Follower::new(&session, program, name, observers, ahead);
    let ticker = follower.ticker().context("cannot start a timer; see `ulimit -i`")?;
    let throttling = Throttling::of(&[program]);
    let started = Instant::now();
    let failure = waiting.go().context(GONE)?;
    let followed = follower.run(plan.following, ticker).context("cannot wait for the program")?;
    forwarded.program_has_ended();
    let mut processes = follower.into_processes();
    if let Some(decline) = decline {
        let process = processes.get_mut(0);
        process.declines.push((process.command.clone(), decline));
    }

    session.stop_timing();
    let kept = keeper.map(Timekeeper::stop);
    let seen = observing.finish(&processes);
    drop(stage);
    if let Some(error) = failure.wait() {
        return Ok(Err(error));
    }
    let counted = counter.counted()?;
    drop((observer, counter));
    let mut notes: Vec<String> = processes.with_code().map(keeps_code).collect();
    let goes_on = || format!("process {program} goes on, and is counted no more");
    notes.extend(followed.left.then(goes_on));
    notes.extend(kept.as_ref().and_then(clock_page::gave_way));
    let (end, left) = (followed.end, followed.left);
    let report = summary::report(RunData {
        plan,
        command: command.to_vec(),
        session: &session,
        followed,
        started,
        processes: &processes,
        counted,
        costs,
        by_vdso,
        kept,
        throttling,
        seen,
        attached: Vec::new(),
        declines: Vec::new(),
    });
    Ok(Ok(Launched { report, notes, end, left }))
}

const GONE: &str = "the program's process is gone before its start";

/// Becomes the tracer of a child that waits before its `execve`, if that is possible and harmless; otherwise
/// returns the reason.
fn seize(path: &Path, child: i32) -> Option<Decline> {
    if access::gives_privileges(path) && access::effective_uid() != 0 {
        return Some(Decline::Privileged);
    }
    ptrace::seize(child, ptrace::FOLLOW).err().map(|_| Decline::NotTraceable)
}

/// The sentence about a process that keeps running with clockscope's code, with the command that removes the code.
fn keeps_code(process: &Process) -> String {
    let (name, pid) = (&process.command, process.pid);
    format!(
        "{name} ({pid}) goes on with clockscope's code, which counts no more and does no harm; `clockscope \
         trace --via sites -p {pid} --duration 0.1` takes it out"
    )
}
