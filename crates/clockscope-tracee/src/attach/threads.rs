//! The threads of a running process: becoming their tracer, stopping them, letting them go on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use super::listed;
use super::transfers::{INTERVAL, SHORT_PATIENCE, Transfers};
use super::unlimited::waits_without_limit;
use crate::arch::attach::restart::{
    InCall, end_on_the_way, go_on_if, in_call, is_let_go_on_its_way, is_on_its_way,
};
use clockscope_sys::ptrace::{self, Resume, SyscallStop};
use clockscope_sys::signals;
use clockscope_sys::wait::{self, Status};

/// A program that is executed is told of.
pub const SEIZED: i32 = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;

/// How long a thread may take to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(500);

/// The longest time between two looks at a thread that has not stopped yet.
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// How long a thread in uninterruptible sleep is waited for.
const SLEEPS_AT_MOST: Duration = Duration::from_millis(10);

/// How long a thread that has been seen to the beginning of a call may take to sleep in it, if it gets a processor.
const FALLS_ASLEEP_WITHIN: Duration = Duration::from_millis(200);
/// And how much of the processor's time.
const ENTERS_WITHIN: Duration = Duration::from_millis(5);

/// How often running threads are looked at for signals.
const BETWEEN_SIGNALS: Duration = Duration::from_micros(50);

/// How long to look for a stop before sleeping in between.
const SPIN: Duration = Duration::from_micros(20);

/// The letter by which `ps` shows the state of a thread: `D` for uninterruptible, `Z` for ended.
pub fn state(pid: i32, thread: i32) -> Option<char> {
    let stat = clockscope_sys::proc_text::read(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The processor's time that a thread has had, as far as the kernel has counted it: of one that runs, up to the last tick.
/// The thread is a place below `/proc`. `None` if it is gone, and on a kernel without `CONFIG_SCHED_INFO`.
pub(crate) fn ran(thread: impl fmt::Display) -> Option<Duration> {
    // Documentation/scheduler/sched-stats.rst (Linux 6.18): nanoseconds on the processor, and two more numbers.
    let text = clockscope_sys::proc_text::read(format!("/proc/{thread}/schedstat")).ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It has not stopped.
    Runs,
    /// It stands still.
    Stands,
    /// It has ended.
    Ended,
}

/// Threads that this process traces, and those of them that stand still.
#[derive(Debug, Default)]
pub struct Threads {
    pid: i32,
    /// How each has stopped; `None` while it runs.
    all: BTreeMap<i32, Option<Status>>,
    /// The calls in which they slept when they were asked to stop.
    in_calls: BTreeMap<i32, InCall>,
    /// Those that were at the beginning of a call when they went on, and will sleep in it as a rule.
    in_front_of_calls: BTreeSet<i32>,
    /// Whether one of them has executed a program.
    executed: bool,
    /// Since when a thread stands still.
    pub(super) since: Option<Instant>,
    /// How long a thread stood still at most, from when all were asked to stop until all went on.
    pub(super) longest: Duration,
    /// How long threads that wait in a transfer are left alone before the first stop; [`SHORT_PATIENCE`] before the others.
    pub(crate) patience: Duration,
}

impl Threads {
    /// Becomes the tracer of all threads of a process; none is stopped by this. New ones are not
    /// followed yet, but found by [`Self::stop_all`].
    ///
    /// # Errors
    ///
    /// That of the first thread: `EPERM` when it may not be traced, `ESRCH` when it is gone.
    pub fn seize(pid: i32) -> io::Result<Self> {
        let mut threads = Self::of(pid, []);
        if let Err(error) = threads.seize_new() {
            threads.release();
            return Err(error);
        }
        if threads.all.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(threads)
    }

    /// Threads that are traced already.
    pub fn of(pid: i32, threads: impl IntoIterator<Item = i32>) -> Self {
        let all = threads.into_iter().map(|thread| (thread, None)).collect();
        Self { pid, all, patience: SHORT_PATIENCE, ..Self::default() }
    }

    /// Adds threads that are traced already.
    pub fn add(&mut self, threads: impl IntoIterator<Item = i32>) {
        for thread in threads {
            self.all.entry(thread).or_insert(None);
        }
    }

    /// Whether the process has executed a program since it is traced.
    pub fn has_executed(&mut self) -> bool {
        for thread in self.all() {
            self.look(thread);
        }
        self.executed
    }

    /// False once a thread has ended or was let go.
    pub fn is_known(&self, thread: i32) -> bool {
        self.all.contains_key(&thread)
    }

    fn seize_new(&mut self) -> io::Result<bool> {
        let mut found = false;
        loop {
            let before = self.all.len();
            for thread in listed(self.pid) {
                if self.all.contains_key(&thread) {
                    continue;
                }
                match ptrace::seize(thread, SEIZED) {
                    Ok(()) => drop(self.all.insert(thread, None)),
                    // A thread that is ending cannot be traced any more, and need not be.
                    Err(_) if matches!(state(self.pid, thread), None | Some('Z' | 'X')) => {}
                    // One that was made by a thread that is followed is traced from its birth.
                    Err(_) if wait::look(thread).is_ok() => drop(self.all.insert(thread, None)),
                    Err(error) => return Err(error),
                }
            }
            if self.all.len() == before {
                return Ok(found);
            }
            found = true;
        }
    }

    /// All threads, the first one of the process before the others.
    pub fn all(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self.all.keys().copied().collect();
        all.sort_by_key(|thread| *thread != self.pid);
        all
    }

    /// Those that stand still.
    pub fn stopped(&self) -> impl Iterator<Item = i32> + '_ {
        self.all.iter().filter(|(_, status)| status.is_some()).map(|(thread, _)| *thread)
    }

    /// How a thread has stopped.
    pub fn status(&self, thread: i32) -> Option<Status> {
        self.all.get(&thread).copied().flatten()
    }

    /// Asks a thread to stop and waits for that, or for whatever else stops it. `false`: it does not
    /// stop in time; it will as soon as it can.
    pub fn stop(&mut self, thread: i32) -> bool {
        if self.status(thread).is_some() {
            return true;
        }
        self.ask(thread);
        self.wait(thread, Instant::now() + STOPS_WITHIN)
    }

    /// What a thread does that was asked to stop, without waiting for it.
    pub fn look(&mut self, thread: i32) -> Look {
        if self.status(thread).is_some() {
            return Look::Stands;
        }
        match wait::look(thread) {
            Ok(None) if self.is_known(thread) => Look::Runs,
            Ok(Some(Status::Exited(_) | Status::Killed(_)) | None) | Err(_) => {
                self.all.remove(&thread);
                Look::Ended
            }
            Ok(Some(stop)) => {
                self.executed |= matches!(stop, Status::Event(libc::PTRACE_EVENT_EXEC, _));
                self.all.insert(thread, Some(stop));
                Look::Stands
            }
        }
    }

    /// Asks a thread to stop, unless it has: it would stop a second time, where it has not moved.
    pub fn ask(&mut self, thread: i32) {
        if matches!(wait::look(thread), Ok(None)) {
            // One that was asked before does not sleep any more.
            if let Some(call) = self.call_of(thread) {
                self.remember(thread, Some(call));
            }
            // One that has ended meanwhile says so when it is waited for.
            let _ = ptrace::interrupt(thread);
        }
    }

    /// The call in which a thread sleeps. If it was stopped before it sleeps in the call that it makes again, nobody
    /// would know of that call.
    fn call_of(&mut self, thread: i32) -> Option<InCall> {
        let begun = Instant::now();
        let ran_before = if self.in_front_of_calls.remove(&thread) { ran(thread) } else { None };
        loop {
            let call = in_call(thread);
            let enters = |before: Duration| {
                ran(thread).is_some_and(|now| now.saturating_sub(before) < ENTERS_WITHIN)
            };
            let is_over = begun.elapsed() >= FALLS_ASLEEP_WITHIN;
            if call.is_some() || is_over || !ran_before.is_some_and(enters) {
                return call;
            }
            std::thread::sleep(BETWEEN_SIGNALS);
        }
    }

    /// The call in which a thread slept when it was asked to stop.
    pub(crate) fn in_call(&self, thread: i32) -> Option<InCall> {
        self.in_calls.get(&thread).copied()
    }

    /// Says in which call a thread goes on, after somebody else has moved it.
    pub(crate) fn remember(&mut self, thread: i32, call: Option<InCall>) {
        match call {
            Some(call) => drop(self.in_calls.insert(thread, call)),
            None => drop(self.in_calls.remove(&thread)),
        }
    }

    /// Lets transfers come to their end, which a stop would cut short, unless somebody stands still.
    pub(crate) fn let_transfers_end(&mut self) {
        let mut transfers = Transfers::again(std::mem::replace(&mut self.patience, SHORT_PATIENCE));
        while self.stopped().next().is_none() && transfers.go_on(|| self.all()) {
            self.let_run(INTERVAL);
        }
    }

    /// Stops all threads, those that are made meanwhile too, and gives those that do not stop.
    ///
    /// # Errors
    ///
    /// When a new thread cannot be traced.
    pub fn stop_all(&mut self) -> io::Result<Vec<i32>> {
        self.let_transfers_end();
        let now = Instant::now();
        self.since.get_or_insert(now);
        let deadline = now + STOPS_WITHIN;
        loop {
            let running: Vec<i32> =
                self.all.iter().filter(|(_, s)| s.is_none()).map(|(t, _)| *t).collect();
            running.iter().for_each(|thread| self.ask(*thread));
            let late: Vec<i32> =
                running.into_iter().filter(|thread| !self.wait(*thread, deadline)).collect();
            if !late.is_empty() || !self.seize_new()? {
                return Ok(late);
            }
        }
    }

    /// Waits until a thread has stopped or ended.
    pub fn wait(&mut self, thread: i32, deadline: Instant) -> bool {
        let mut pause = Duration::from_micros(5);
        let begun = Instant::now();
        loop {
            if self.look(thread) != Look::Runs {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            // Most stop sooner than a sleep is over; a thread that never sleeps is kept waiting for
            // longer than one that does, on a machine with more to do than processors.
            if begun.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_NAP);
            }
            if pause < LONGEST_NAP {
                continue;
            }
            match state(self.pid, thread) {
                // The first thread of a process stays when it has ended, until all others have.
                Some('Z' | 'X') => {
                    self.all.remove(&thread);
                    return true;
                }
                // Nobody knows for how long, and the others stand still.
                Some('D') if begun.elapsed() > SLEEPS_AT_MOST => return false,
                _ => {}
            }
        }
    }

    /// Waits for a stop of the kind that leaves the thread where it was: signals that come before are
    /// given to it. `false` if there is none in time, or it has ended.
    pub fn settle(&mut self, thread: i32) -> bool {
        let deadline = Instant::now() + STOPS_WITHIN;
        while self.stop(thread) && Instant::now() < deadline {
            match self.status(thread) {
                Some(Status::Event(libc::PTRACE_EVENT_STOP, _)) => return true,
                Some(_) => self.resume(thread, Resume::Run),
                None => return false,
            }
        }
        false
    }

    /// Lets a thread go on from whatever it has stopped for: a signal is given to it, and one that
    /// was stopped by a signal stays so.
    pub fn resume(&mut self, thread: i32, how: Resume) {
        self.prepare(thread, is_on_its_way);
        let Some(status) = self.status(thread) else { return };
        self.all.insert(thread, None);
        // It may have been killed since; then its end comes next.
        let _ = match status {
            Status::Event(libc::PTRACE_EVENT_STOP, signal) if is_group_stop(signal) => {
                ptrace::listen(thread)
            }
            Status::Signal(signal) => ptrace::resume(thread, how, signal),
            // Who wants to see its system calls sees this one.
            Status::Syscall if matches!(how, Resume::ToSyscall) => Ok(()),
            _ => ptrace::resume(thread, how, 0),
        };
    }

    /// Has a thread that stands still go on with the call that it has stopped in, and sees it to the beginning of that call if
    /// this is so.
    fn prepare(&mut self, thread: i32, is_seen: fn(i32, &InCall) -> bool) {
        let call = self.in_calls.remove(&thread);
        match self.status(thread) {
            Some(Status::Signal(signal)) => {
                go_on_if(thread, call.as_ref(), || signals::is_ignored(thread, signal));
            }
            Some(Status::Event(libc::PTRACE_EVENT_STOP, signal)) if !is_group_stop(signal) => {
                go_on_if(thread, call.as_ref(), || true);
                if let Some(call) = call.filter(|call| is_seen(thread, call)) {
                    self.see_to_call(thread, &call);
                }
            }
            _ => {}
        }
    }

    /// Sees a thread to the beginning of a call that it makes again, unless it stops before, for example for a signal.
    fn see_to_call(&mut self, thread: i32, call: &InCall) {
        let deadline = Instant::now() + STOPS_WITHIN;
        let mut signal = 0;
        loop {
            self.all.insert(thread, None);
            let goes_on = ptrace::resume(thread, Resume::ToSyscall, signal).is_ok();
            if !goes_on || !self.wait(thread, deadline) || Instant::now() >= deadline {
                return;
            }
            signal = match self.status(thread) {
                Some(Status::Event(libc::PTRACE_EVENT_STOP, stop)) if !is_group_stop(stop) => 0,
                Some(Status::Signal(ignored)) if signals::is_ignored(thread, ignored) => ignored,
                Some(Status::Signal(signal)) if signals::is_handled(thread, signal) => {
                    return end_on_the_way(thread, call);
                }
                Some(Status::Syscall) => {
                    self.in_front_of_calls.insert(thread);
                    return;
                }
                _ => return,
            }
        }
    }

    /// Lets all threads go on.
    pub fn resume_all(&mut self, how: Resume) {
        for thread in self.stopped().collect::<Vec<_>>() {
            self.resume(thread, how);
        }
        if let Some(since) = self.since.take() {
            self.longest = self.longest.max(since.elapsed());
        }
    }

    /// Lets this time pass while the threads run. Signals are given to them at once: a thread that is kept
    /// in a stop until its timer's next signal has come executes nothing but its handler.
    pub fn let_run(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            for thread in self.all() {
                let stands = self.look(thread) == Look::Stands;
                // Who tells of a child or a program is looked at first.
                let goes_on = matches!(
                    self.status(thread),
                    Some(
                        Status::Signal(_)
                            | Status::Syscall
                            | Status::Event(libc::PTRACE_EVENT_STOP, _)
                    )
                );
                if stands && goes_on {
                    self.resume(thread, Resume::Run);
                }
            }
            std::thread::sleep(BETWEEN_SIGNALS);
        }
    }

    /// Lets a thread that stands still go for good.
    pub fn detach(&mut self, thread: i32) {
        // One whose system calls are seen stops behind the call that this has ended before it stops elsewhere, or in front of
        // one: there the kernel would let it go as if a signal had come.
        if self.status(thread) == Some(Status::Syscall) {
            match ptrace::syscall_info(thread) {
                Ok(SyscallStop::Entry { number, arguments, .. })
                    if waits_without_limit(number.cast_signed(), &arguments) =>
                {
                    self.settle(thread);
                }
                _ => go_on_if(thread, self.in_calls.get(&thread), || true),
            }
        }
        self.prepare(thread, is_let_go_on_its_way);
        let Some(status) = self.status(thread) else { return };
        self.all.remove(&thread);
        let signal = if let Status::Signal(signal) = status { signal } else { 0 };
        let _ = ptrace::detach_with(thread, signal);
    }

    /// Lets all threads go for good, each as soon as it stops. Those that do not in the time that one may
    /// take, however many, are let go by the kernel when this process ends.
    pub fn release(mut self) {
        self.let_transfers_end();
        let begun = Instant::now();
        let mut left = self.all();
        for thread in &left {
            if self.status(*thread).is_none() {
                self.ask(*thread);
            }
        }
        loop {
            left.retain(|thread| match self.look(*thread) {
                Look::Stands => {
                    self.detach(*thread);
                    false
                }
                Look::Runs => true,
                Look::Ended => false,
            });
            if begun.elapsed() > SLEEPS_AT_MOST {
                left.retain(|thread| !matches!(state(self.pid, *thread), Some('D' | 'Z' | 'X')));
            }
            if left.is_empty() || begun.elapsed() >= STOPS_WITHIN {
                return;
            }
            std::thread::sleep(BETWEEN_SIGNALS);
        }
    }

    /// Takes some threads out of these.
    pub fn split_off(&mut self, threads: &[i32]) -> Self {
        let taken = threads.iter().filter_map(|thread| self.all.remove_entry(thread)).collect();
        let in_calls =
            threads.iter().filter_map(|thread| self.in_calls.remove_entry(thread)).collect();
        Self { all: taken, in_calls, ..Self::of(self.pid, []) }
    }

    /// Says how a thread stands after somebody else has moved it on.
    pub fn set(&mut self, thread: i32, status: Option<Status>) {
        self.all.insert(thread, status);
    }
}

/// Whether a thread has stopped because it has made a child or another thread.
pub(crate) fn tells_of_a_child(status: Status) -> bool {
    const TELLING: [i32; 3] =
        [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE];
    matches!(status, Status::Event(event, _) if TELLING.contains(&event))
}

/// Whether a stop with this signal is that of a whole process, until `SIGCONT`.
pub(crate) fn is_group_stop(signal: i32) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}
