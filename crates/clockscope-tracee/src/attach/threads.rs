//! The threads of a running process: traces, stops and resumes them.

use clockscope_stats::order;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use super::transfers::{INTERVAL, SHORT_PATIENCE, Transfers, ran};
use super::unlimited::waits_without_limit;
use crate::arch::attach::restart::{
    InCall, end_on_the_way, go_on_if, in_call, is_let_go_on_its_way, is_on_its_way,
};
use crate::proc_stat::ProcStat;
use clockscope_sys::access::threads_of;
use clockscope_sys::ptrace::{self, Resume, SyscallStop};
use clockscope_sys::signals;
use clockscope_sys::wait::{self, Status};

/// Options for seizing: report `execve`, and mark stops at system calls.
pub const SEIZED: i32 = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;

/// Longest time to wait for a thread to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(500);

/// Longest pause between two checks of a thread that has not stopped yet.
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// Longest time to wait for a thread in uninterruptible sleep.
const SLEEPS_AT_MOST: Duration = Duration::from_millis(10);

/// How long a thread that was traced to the beginning of a call may take to sleep in it, if it gets a processor.
const FALLS_ASLEEP_WITHIN: Duration = Duration::from_millis(200);
/// The same in processor time.
const ENTERS_WITHIN: Duration = Duration::from_millis(5);

/// Time between two checks of running threads for signals.
const BETWEEN_SIGNALS: Duration = Duration::from_micros(50);

/// How long to spin for a stop before sleeping in between.
const SPIN: Duration = Duration::from_micros(20);

/// State of a thread as a letter, as `ps` shows it: `D` for uninterruptible, `Z` for ended.
pub fn state(pid: i32, thread: i32) -> Option<char> {
    ProcStat::of(format_args!("{pid}/task/{thread}"))?.state()
}

/// State of a thread that was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The thread has not stopped.
    Runs,
    /// The thread has stopped.
    Stands,
    /// The thread has ended.
    Ended,
}

/// Threads that this process traces, with the stop of each.
#[derive(Debug, Default)]
pub struct Threads {
    pid: i32,
    /// The stop of each thread; `None` while the thread runs.
    all: BTreeMap<i32, Option<Status>>,
    /// The calls in which threads slept when they were asked to stop.
    in_calls: BTreeMap<i32, InCall>,
    /// Threads that were resumed at the beginning of a call, and will usually sleep in it.
    in_front_of_calls: BTreeSet<i32>,
    /// Whether a thread has executed a program.
    executed: bool,
    /// Since when threads have been stopped.
    pub(super) since: Option<Instant>,
    /// Longest time between asking all threads to stop and the resumption of the last.
    pub(super) longest: Duration,
    /// How long the first stop waits for threads in transfers; later stops wait [`SHORT_PATIENCE`].
    pub(crate) patience: Duration,
}

impl Threads {
    /// Becomes the tracer of all threads of a process, without stopping them. New threads are not traced automatically;
    /// [`Self::stop_all`] finds them.
    ///
    /// # Errors
    ///
    /// The error of the first thread: `EPERM` if it may not be traced, `ESRCH` if it is gone.
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

    /// Threads that this process traces already.
    pub fn of(pid: i32, threads: impl IntoIterator<Item = i32>) -> Self {
        let mut all = Self { pid, patience: SHORT_PATIENCE, ..Self::default() };
        all.add(threads);
        all
    }

    /// Adds threads that this process traces already.
    pub fn add(&mut self, threads: impl IntoIterator<Item = i32>) {
        for thread in threads {
            self.all.entry(thread).or_insert(None);
        }
    }

    /// Whether the process has executed a program since tracing began.
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
            for thread in threads_of(self.pid) {
                if self.all.contains_key(&thread) {
                    continue;
                }
                match ptrace::seize(thread, SEIZED) {
                    Ok(()) => drop(self.all.insert(thread, None)),
                    // A thread that is ending cannot be traced, and need not be.
                    Err(_) if matches!(state(self.pid, thread), None | Some('Z' | 'X')) => {}
                    // A new thread of a thread that is followed is traced from its birth.
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

    /// All threads, the process's first thread before the others.
    pub fn all(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self.all.keys().copied().collect();
        order::by_key(&mut all, |thread| *thread != self.pid);
        all
    }

    /// The threads that have stopped.
    pub fn stopped(&self) -> impl Iterator<Item = i32> + '_ {
        self.all.iter().filter(|(_, status)| status.is_some()).map(|(thread, _)| *thread)
    }

    /// The stop of a thread.
    pub fn status(&self, thread: i32) -> Option<Status> {
        self.all.get(&thread).copied().flatten()
    }

    /// Asks a thread to stop, and waits until it stops for this or another reason. `false`: the thread does not stop in
    /// time, but will as soon as it can.
    pub fn stop(&mut self, thread: i32) -> bool {
        if self.status(thread).is_some() {
            return true;
        }
        self.ask(thread);
        self.wait(thread, Instant::now() + STOPS_WITHIN)
    }

    /// State of a thread that was asked to stop, without waiting for it.
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

    /// Asks a thread to stop, unless it has stopped: a second request would stop it again at the same instruction.
    pub fn ask(&mut self, thread: i32) {
        if matches!(wait::look(thread), Ok(None)) {
            // A thread that was asked before sleeps no longer.
            if let Some(call) = self.call_of(thread) {
                self.remember(thread, Some(call));
            }
            // If the thread has ended meanwhile, the next wait reports that.
            let _ = ptrace::interrupt(thread);
        }
    }

    /// The call in which a thread sleeps. Waits until a resumed thread sleeps in its call again, because a stop before
    /// that would lose the information about the call.
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

    /// Notes the call in which a thread continues, after other code has moved the thread.
    pub(crate) fn remember(&mut self, thread: i32, call: Option<InCall>) {
        match call {
            Some(call) => drop(self.in_calls.insert(thread, call)),
            None => drop(self.in_calls.remove(&thread)),
        }
    }

    /// Waits until transfers end, which a stop would cut short, unless a thread has stopped already.
    pub(crate) fn let_transfers_end(&mut self) {
        let mut transfers = Transfers::again(std::mem::replace(&mut self.patience, SHORT_PATIENCE));
        while self.stopped().next().is_none() && transfers.go_on(|| self.all()) {
            self.let_run(INTERVAL);
        }
    }

    /// Stops all threads, including new ones. Returns the threads that do not stop in time.
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

    /// Waits until a thread has stopped or ended; `false` if the deadline comes first.
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
            // Most threads stop before a sleep would be over. On a machine with more runnable threads than processors,
            // a thread that never sleeps waits longer for a processor than one that sleeps.
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
                // The first thread of a process stays as a zombie until all other threads have ended.
                Some('Z' | 'X') => {
                    self.all.remove(&thread);
                    return true;
                }
                // The sleep may last any time, and the other threads have stopped.
                Some('D') if begun.elapsed() > SLEEPS_AT_MOST => return false,
                _ => {}
            }
        }
    }

    /// Waits for a stop that leaves the thread where it was. Signals that arrive before are delivered. `false` if there
    /// is no such stop in time, or the thread has ended.
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

    /// Resumes a thread after any stop: a signal is delivered, and a group-stop continues.
    pub fn resume(&mut self, thread: i32, how: Resume) {
        self.prepare(thread, is_on_its_way);
        let Some(status) = self.status(thread) else { return };
        self.all.insert(thread, None);
        // If the thread was killed since, the next wait reports its end.
        let _ = match status {
            Status::Event(libc::PTRACE_EVENT_STOP, signal) if is_group_stop(signal) => {
                ptrace::listen(thread)
            }
            Status::Signal(signal) => ptrace::resume(thread, how, signal),
            // The caller wants system-call stops, and this is one.
            Status::Syscall if matches!(how, Resume::ToSyscall) => Ok(()),
            _ => ptrace::resume(thread, how, 0),
        };
    }

    /// Makes a stopped thread continue with its interrupted call. If `is_seen` says so, traces the thread to the
    /// beginning of that call.
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

    /// Traces a thread to the beginning of the call that it makes again, unless another stop, for example for a signal,
    /// comes first.
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

    /// Resumes all threads.
    pub fn resume_all(&mut self, how: Resume) {
        for thread in self.stopped().collect::<Vec<_>>() {
            self.resume(thread, how);
        }
        if let Some(since) = self.since.take() {
            self.longest = self.longest.max(since.elapsed());
        }
    }

    /// Lets the threads run for this time. Signals are delivered at once: a thread that waits in a stop until its
    /// timer's next signal arrives would execute only its handler.
    pub fn let_run(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            for thread in self.all() {
                let stands = self.look(thread) == Look::Stands;
                // A thread that reports a child or a program is handled before it is resumed.
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

    /// Detaches from a stopped thread.
    pub fn detach(&mut self, thread: i32) {
        // A thread in a system-call stop may stand behind a call that our stop has ended, or in front of a call.
        // Detaching in front of a call would let the thread continue as if a signal had arrived, so a call without a
        // time limit is settled first.
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

    /// Detaches from all threads, each as soon as it stops. Waits no longer in total than for a single thread. The
    /// kernel detaches from the remaining threads when this process ends.
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

    /// Moves some threads to a set of their own.
    pub fn split_off(&mut self, threads: &[i32]) -> Self {
        let taken = threads.iter().filter_map(|thread| self.all.remove_entry(thread)).collect();
        let in_calls =
            threads.iter().filter_map(|thread| self.in_calls.remove_entry(thread)).collect();
        Self { all: taken, in_calls, ..Self::of(self.pid, []) }
    }

    /// Notes a thread's stop after other code has resumed the thread.
    pub fn set(&mut self, thread: i32, status: Option<Status>) {
        self.all.insert(thread, status);
    }
}

/// Whether a thread has stopped because it has made a process or a thread.
pub(crate) fn tells_of_a_child(status: Status) -> bool {
    const TELLING: [i32; 3] =
        [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE];
    matches!(status, Status::Event(event, _) if TELLING.contains(&event))
}

/// Whether a stop with this signal is a group-stop, which lasts until `SIGCONT`.
pub(crate) fn is_group_stop(signal: i32) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}
