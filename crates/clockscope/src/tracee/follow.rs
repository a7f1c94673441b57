//! The loop over everything that the kernel tells of the tracees.
//!
//! One thread does all of it. A tracee that has stopped is looked at and resumed before the next
//! is waited for, so nothing is remembered of a stop but what `processes.rs` and `births.rs` keep.

use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use fastclock::ClockId;
use fastclock::page::Trust;
use vdso_image::layout::{IMAGE_SIZE, InstallStep, PAGE, TRUST_OFFSET};

use super::births::Births;
use super::decline::Decline;
use super::install::{execute_again, install};
use super::processes::Processes;
use super::session::Session;
use crate::sys::ptrace::{self, Resume};
use crate::sys::wait::{self, Status};
use crate::sys::{access, memory, signals, tsc};

/// Somebody who wants to see every system call (by ptrace, which costs about 20 us each).
pub trait SyscallObserver {
    /// A thread has stopped before or after a system call.
    fn stopped(&mut self, process: i32, thread: i32);
    /// A thread is gone.
    fn gone(&mut self, thread: i32);
}

/// Somebody who wants to know which signals the program is given.
pub trait SignalObserver {
    /// The program's first thread is about to be given this signal.
    fn delivered(&self, signal: i32, sender: i32);
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Killed(i32),
}

/// What came of following the program.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    /// How the program ended; `None` if it was lost.
    pub end: Option<End>,
    /// When.
    pub ended: Instant,
    /// Processor time of the program and the children it waited for.
    pub cpu: Duration,
}

/// How far the program is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// Not beyond its start: what it executes later has the kernel's image.
    Start,
    /// Until it has ended; processes of it that still run then go on uncounted.
    Program,
    /// Until the last process of the tree has ended.
    All,
}

/// Who listens.
pub struct Observers<'a> {
    /// To system calls.
    pub syscalls: Option<&'a mut dyn SyscallObserver>,
    /// To signals.
    pub signals: Box<dyn SignalObserver>,
}

/// State of the loop.
pub struct Follower<'a> {
    /// The processes of the tree.
    pub processes: Processes,
    session: &'a Session,
    program: i32,
    births: Births,
    observers: Observers<'a>,
}

impl<'a> Follower<'a> {
    /// Makes the loop for a program that is seized and waits to execute.
    #[must_use]
    pub fn new(session: &'a Session, program: i32, observers: Observers<'a>) -> Self {
        let mut processes = Processes::default();
        processes.add(program, String::new(), None);
        Self { processes, session, program, births: Births::default(), observers }
    }

    /// Follows the program until it has ended, and what it starts, as far as `how` says.
    ///
    /// # Errors
    ///
    /// When the kernel does not let us wait.
    pub fn run(&mut self, how: Following) -> io::Result<Followed> {
        let mut followed = Followed { end: None, ended: Instant::now(), cpu: Duration::ZERO };
        loop {
            let waited = match wait::next() {
                Ok(waited) => waited,
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                Err(error) => return Err(error),
            };
            let end = match waited.status {
                Status::Exited(code) => End::Exited(code),
                Status::Killed(signal) => End::Killed(signal),
                Status::Event(libc::PTRACE_EVENT_EXEC, _) if how == Following::Start => {
                    self.executed(waited.pid);
                    // If it was killed meanwhile, its end comes next.
                    let _ = ptrace::detach(waited.pid);
                    continue;
                }
                stop => {
                    self.stopped(waited.pid, stop);
                    continue;
                }
            };
            self.gone(waited.pid);
            if waited.pid == self.program {
                followed = Followed { end: Some(end), ended: Instant::now(), cpu: waited.cpu };
                if how != Following::All {
                    break;
                }
            }
        }
        for index in 0..self.processes.all().len() {
            self.note_installation(index);
        }
        self.processes.close();
        Ok(followed)
    }

    fn gone(&mut self, thread: i32) {
        if let Some(index) = self.processes.index_of(thread)
            && self.processes.get(index).pid == thread
        {
            self.note_installation(index);
        }
        self.births.forget(&self.processes, thread);
        self.processes.remove(thread);
        if let Some(observer) = &mut self.observers.syscalls {
            observer.gone(thread);
        }
    }

    /// Looks at a stopped tracee and resumes it. A tracee that dies meanwhile is not an error: its
    /// end is reported by itself.
    fn stopped(&mut self, thread: i32, status: Status) {
        let signal = match status {
            Status::Event(libc::PTRACE_EVENT_STOP, signal) => {
                return self.trapped(thread, signal);
            }
            Status::Event(libc::PTRACE_EVENT_EXEC, _) => {
                if self.lets_go(thread) {
                    return;
                }
                self.executed(thread);
                0
            }
            Status::Event(
                libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
                _,
            ) => {
                self.forked(thread);
                0
            }
            Status::Syscall => {
                self.at_syscall(thread);
                0
            }
            Status::Signal(signal) => self.given(thread, signal),
            _ => 0,
        };
        self.resume(thread, signal);
    }

    fn resume(&self, thread: i32, signal: i32) {
        let all = self.observers.syscalls.is_some();
        let how =
            if all || self.births.is_watched(thread) { Resume::ToSyscall } else { Resume::Run };
        // It may have been killed since it stopped; then its end comes next.
        let _ = ptrace::resume(thread, how, signal);
    }

    /// At the end of `execve`: a new program, which gets our image.
    fn executed(&mut self, pid: i32) {
        let Some(index) = self.processes.index_of(pid) else { return };
        self.note_installation(index);
        self.births.forget(&self.processes, pid);
        self.processes.executed(index);
        let result = install(self.session, pid, Processes::number(index));
        let process = self.processes.get_mut(index);
        process.command = command_name(pid);
        match result {
            Ok(pages) => process.pages = pages.map(Rc::new),
            Err(decline) => process.declines.push((process.command.clone(), decline)),
        }
    }

    /// If the program would have more privileges untraced: makes it execute again, and lets it go.
    fn lets_go(&mut self, pid: i32) -> bool {
        if access::effective_uid() == 0 || !access::lacks_privileges(pid) {
            return false;
        }
        let Some(index) = self.processes.index_of(pid) else { return false };
        if execute_again(self.session, pid).is_err() || ptrace::detach(pid).is_err() {
            return false;
        }
        self.note_installation(index);
        self.processes.executed(index);
        let process = self.processes.get_mut(index);
        process.command = command_name(pid);
        process.declines.push((process.command.clone(), Decline::Privileged));
        true
    }

    /// Notes why an image was not installed, before the pages are given up.
    fn note_installation(&mut self, index: usize) {
        let process = self.processes.get_mut(index);
        let Some(pages) = &process.pages else { return };
        let header = &pages.get().header;
        if header.base.load(Acquire) != 0 {
            return;
        }
        let failed = header.failed.load(Acquire);
        let attaching = [InstallStep::AttachShared, InstallStep::AttachClock]
            .iter()
            .any(|step| failed >> 32 == *step as u64);
        let decline = match i32::try_from(failed & 0xffff_ffff) {
            Ok(errno) if failed != 0 && !attaching => Decline::Install(errno),
            _ => Decline::NotAttached,
        };
        process.declines.push((process.command.clone(), decline));
    }

    fn forked(&mut self, parent: i32) {
        let Ok(child) = ptrace::event_message(parent) else { return };
        if self.births.announced(&mut self.processes, parent, child) {
            self.resume(child, 0);
        }
    }

    fn at_syscall(&mut self, thread: i32) {
        if self.births.is_watched(thread) {
            self.births.at_syscall(&mut self.processes, thread);
        }
        if let Some(observer) = &mut self.observers.syscalls
            && let Some(index) = self.processes.index_of(thread)
        {
            observer.stopped(self.processes.get(index).pid, thread);
        }
    }

    /// A stop that is not for a signal: a new tracee, a group-stop, or the end of one.
    fn trapped(&mut self, thread: i32, signal: i32) {
        let group_stop =
            matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        if !group_stop {
            if self.births.stopped(&mut self.processes, thread) {
                self.resume(thread, 0);
            }
            return;
        }
        let _ = ptrace::listen(thread);
        if thread == self.program {
            // Whoever stopped the program waits for us to be stopped: the shell.
            signals::stop_self();
            let _ = signals::send(self.program, libc::SIGCONT);
        }
    }

    /// A tracee is about to be given a signal; gives the signal that it really gets.
    fn given(&mut self, thread: i32, signal: i32) -> i32 {
        if signal == libc::SIGSEGV && self.emulate_counter(thread) {
            return 0;
        }
        if thread == self.program
            && signals::FORWARDED.contains(&signal)
            && let Ok((sender, _)) = ptrace::signal_sender(thread)
        {
            self.observers.signals.delivered(signal, sender);
        }
        signal
    }

    /// If the fault is one of our own reads of the time-stamp counter, which the program has
    /// forbidden to itself (`PR_SET_TSC`, strict seccomp): goes on behind the read, times no more,
    /// and lets the kernel answer this process from now on. Where the kernel's functions read the
    /// counter too, they raise the same signal, and that one is the program's.
    fn emulate_counter(&mut self, thread: i32) -> bool {
        if !ptrace::signal_sender(thread).is_ok_and(|(_, code)| code == SI_KERNEL) {
            return false;
        }
        let Some(index) = self.processes.index_of(thread) else { return false };
        let pages = self.processes.get(index).pages.as_ref();
        let has_clock = self.session.clock_page().is_some();
        let Ok(mut registers) = ptrace::registers(thread) else { return false };
        let image = &self.session.ready().bytes;
        let base = match pages {
            Some(pages) => pages.get().header.base.load(Acquire),
            None if has_clock => image_base(thread, registers.rip, image),
            None => return false,
        };
        let offset = registers.rip.wrapping_sub(base);
        let Some(code) = usize::try_from(offset)
            .ok()
            .filter(|at| *at < IMAGE_SIZE)
            .and_then(|at| image.get(at..))
        else {
            return false;
        };
        let length = match code {
            [0x0f, 0x31, ..] => 2,       // rdtsc
            [0x0f, 0x01, 0xf9, ..] => 3, // rdtscp
            _ => return false,
        };
        if let Some(pages) = pages {
            pages.get().header.no_timing.store(1, Relaxed);
        }
        if has_clock && forbid_page(thread, base).is_err() {
            return false;
        }
        registers.rip += length;
        registers.rax = 0; // long before the page's line: the image looks again, and finds out
        registers.rdx = 0;
        if length == 3 {
            registers.rcx = 0;
        }
        ptrace::set_registers(thread, &registers).is_ok()
    }
}

/// `si_code` of signals that an instruction raised without an address: asm-generic/siginfo.h.
const SI_KERNEL: i32 = 0x80;
/// The page is at most this far ahead of the kernel's clock, ns: what a process compares it with
/// before it trusts the page.
const AHEAD: i64 = 20_000;

/// Where our image begins in a process that executes an instruction of it; 0 if it does not.
fn image_base(thread: i32, at: u64, image: &[u8]) -> u64 {
    let page = PAGE as u64;
    let mut header = [0; 64];
    let begins = |base: &u64| {
        memory::read(thread, *base, &mut header).is_ok_and(|read| read == header.len())
            && image.get(..header.len()) == Some(&header[..])
    };
    let pages = (IMAGE_SIZE as u64).div_ceil(page);
    (0..pages).map(|n| (at & !(page - 1)).saturating_sub(n * page)).find(begins).unwrap_or(0)
}

/// Lets the kernel answer in a process for good, never before what the page may have said.
fn forbid_page(thread: i32, base: u64) -> io::Result<()> {
    let floor = tsc::now(ClockId::Monotonic).0.saturating_add(AHEAD);
    let trust = base + TRUST_OFFSET as u64;
    memory::write(thread, trust + Trust::FORBIDDEN_OFFSET as u64, &floor.to_ne_bytes())?;
    memory::write(thread, trust + Trust::CHECKED_OFFSET as u64, &0_u64.to_ne_bytes())
}

/// The name of the program that a process runs, as `ps` shows it.
fn command_name(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .map(|name| name.trim_end().to_owned())
        .unwrap_or_default()
}
