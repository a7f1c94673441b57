//! Handles the tracees' stops in two loops: for a launched program (`launched.rs`), and for attached processes
//! (`attached.rs`).
//!
//! A single thread handles one stop after the other: it examines a stopped tracee and resumes it before it waits for
//! the next. State is kept in `processes.rs`, `new_tasks.rs`, `image_mapped.rs` and in the set of halted threads.

mod attached;
mod launched;

use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use vdso_image::layout::InstallStep;

pub use attached::{Arrivals, Left};
pub use launched::{Followed, Following};

use super::attach::command_name;
use super::attach::threads::{is_group_stop, tells_of_a_child};
use super::attach::transfers::SHORT_PATIENCE;
use super::decline::Decline;
use super::forbidden_counter;
use super::image_mapped::AwaitedImages;
use super::install::{Installed, execute_again, install, not_installed, write_image};
use super::new_tasks::NewTasks;
use super::observers::{Observers, Watcher, Wish};
use super::proc_stat::ProcStat;
use super::processes::Processes;
use super::session::Session;
use super::sites::{self, Sites};
use crate::arch::attach::restart::go_on_if;
use clockscope_sys::ptrace::{self, Resume, SignalInfo};
use clockscope_sys::real_time::Service;
use clockscope_sys::shm::Segment;
use clockscope_sys::ticker::Ticker;
use clockscope_sys::wait::{self, Status};
use clockscope_sys::{access, halt, signals};

const SYS_EXECVE: u64 = libc::SYS_execve.unsigned_abs();
/// Time between two checks for unreported new processes, and whether a priority is still needed.
const LOOK: Duration = Duration::from_millis(100);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By exiting, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// State of the loop.
pub struct Follower<'a> {
    /// The processes of the tree.
    pub processes: Processes,
    session: &'a Session,
    program: i32,
    new_tasks: NewTasks,
    awaited_images: AwaitedImages,
    sites: Sites,
    observers: Observers<'a>,
    /// The attached processes, and how each has ended.
    targets: HashMap<i32, Option<End>>,
    /// How long to wait for transfers of the next process that is attached to.
    patience: Duration,
    /// Whether processes are followed only until their transfers end; watchers are not called any more.
    is_leaving: bool,
    /// Raises the priority of this thread while processes are followed.
    service: Option<Service>,
    /// Threads that a signal has stopped and that have not been seen running since.
    halted: HashSet<i32>,
    /// Whether the program sent itself the last SIGSTOP that it received.
    stops_itself: bool,
    /// Whether the program has been executed.
    has_begun: bool,
}

/// Result of a wait.
enum Next {
    Nothing,
    /// A watcher wants to end the loop.
    Wished,
    /// No tracee is left to wait for.
    Nobody,
    /// A thread has stopped.
    Stopped(i32, Status),
    /// A thread or process has ended. `cpu`: processor time of a process and the children that it waited for.
    Ended {
        task: i32,
        end: End,
        cpu: Duration,
    },
}

impl<'a> Follower<'a> {
    /// Makes the loop for running processes; see [`Self::attach`].
    pub fn of_running(session: &'a Session, observers: Observers<'a>) -> Self {
        Self {
            processes: Processes::default(),
            session,
            program: 0,
            new_tasks: NewTasks::default(),
            awaited_images: AwaitedImages::default(),
            sites: Sites::new(session.times_sites, session.wanted_sites),
            observers,
            targets: HashMap::new(),
            patience: SHORT_PATIENCE,
            is_leaving: false,
            service: None,
            halted: HashSet::new(),
            stops_itself: false,
            has_begun: false,
        }
    }

    /// Waits for the next event.
    fn next(&mut self, ticker: Option<&mut Ticker>) -> io::Result<Next> {
        if let Some(service) = &mut self.service
            && service.is_due()
        {
            service.review(self.processes.living());
        }
        let waited = match wait::next_or_tick() {
            Ok(Some(waited)) => waited,
            Ok(None) if self.tick(ticker) == Wish::GoOn => return Ok(Next::Nothing),
            Ok(None) => return Ok(Next::Wished),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Next::Nobody),
            Err(error) => return Err(error),
        };
        let end = match waited.status {
            Status::Exited(code) => End::Exited(code),
            Status::Killed(signal) => End::Killed(signal),
            stop => return Ok(Next::Stopped(waited.pid, stop)),
        };
        self.processes.ended(&waited);
        if let Some(index) = self.processes.index_of(waited.pid) {
            self.sites.ended(self.processes.get(index), waited.pid);
        }
        self.gone(waited.pid);
        Ok(Next::Ended { task: waited.pid, end, cpu: waited.cpu })
    }

    /// Starts the timer for the watcher, or for checks for unreported processes. The error `EAGAIN`, with a watcher
    /// only: the user may not queue more signals.
    pub fn ticker(&self) -> io::Result<Option<Ticker>> {
        match &self.observers.watcher {
            Some(watcher) => Ticker::start(watcher.interval()).map(Some),
            None => Ok(Ticker::start(LOOK).ok()),
        }
    }

    /// Handles new processes whose creation is never reported. Calls the watcher, and follows changes of its interval.
    fn tick(&mut self, ticker: Option<&mut Ticker>) -> Wish {
        for child in self.new_tasks.untold(&mut self.processes) {
            self.resume(child, 0);
        }
        if self.processes.has_sites {
            self.processes.alive_mut().for_each(|process| self.sites.look_again(process));
            self.sites.look_at_jumps(self.processes.alive_mut());
        }
        let Some(watcher) = self.observers.watcher.as_mut().filter(|_| !self.is_leaving) else {
            return Wish::GoOn;
        };
        let wish = watcher.tick(&self.processes);
        if let Some(ticker) = ticker {
            // If the new interval is refused, the old one stays.
            let _ = ticker.set(watcher.interval());
        }
        wish
    }

    fn gone(&mut self, thread: i32) {
        if let Some(index) = self.processes.index_of(thread)
            && self.processes.get(index).pid == thread
        {
            note_installation(&mut self.processes, index);
            self.tell(|watcher| watcher.gone(thread));
            self.let_orphans_go(thread);
        }
        self.halted.remove(&thread);
        self.awaited_images.forget(thread);
        self.sites.forget(thread);
        self.new_tasks.forget(&self.processes, thread);
        self.processes.remove(thread);
        if let Some(observer) = &mut self.observers.syscalls {
            observer.gone(thread);
        }
    }

    /// Resumes children whose creation this process can no longer report.
    fn let_orphans_go(&mut self, parent: i32) {
        for child in self.new_tasks.orphaned(&mut self.processes, parent) {
            self.new_tasks.begin(&mut self.processes, child);
            self.resume(child, 0);
        }
    }

    /// Calls the watcher, if there is one.
    fn tell(&mut self, what: impl FnOnce(&mut dyn Watcher)) {
        if let Some(watcher) = &mut self.observers.watcher {
            what(&mut **watcher);
        }
    }

    /// Examines a stopped tracee and resumes it. A tracee that dies meanwhile is not an error: the next wait reports
    /// its end.
    fn stopped(&mut self, thread: i32, status: Status) {
        if let Some(service) = &mut self.service {
            service.serve(thread);
        }
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
            Status::Event(libc::PTRACE_EVENT_EXIT, _) => {
                if let Some(index) = self.processes.index_of(thread)
                    && self.sites.ends(self.processes.get_mut(index), thread)
                {
                    self.processes.count_end();
                }
                0
            }
            status if tells_of_a_child(status) => return self.forked(thread),
            Status::Syscall => {
                self.at_syscall(thread);
                0
            }
            Status::Signal(signal) => self.given(thread, signal),
            _ => 0,
        };
        self.resume(thread, signal);
    }

    fn resume(&mut self, thread: i32, signal: i32) {
        let all = self.observers.syscalls.is_some();
        let watched = self.new_tasks.is_watched(thread)
            || self.awaited_images.is_expected(thread)
            || self.sites.is_awaited(thread)
            || self.halted.contains(&thread);
        let how = if all || watched { Resume::ToSyscall } else { Resume::Run };
        if let Some(watcher) = &mut self.observers.watcher
            && signal != 0
            && how == Resume::ToSyscall
            && ptrace::is_at_breakpoint(thread)
        {
            let index = self.processes.index_of(thread);
            watcher.loses_breakpoints(index.map_or(thread, |index| self.processes.get(index).pid));
        }
        // If the thread was killed since it stopped, the next wait reports its end.
        let _ = ptrace::resume(thread, how, signal);
    }

    /// Handles the end of `execve`: installs the shim in the new program.
    fn executed(&mut self, pid: i32) {
        let Some(index) = self.processes.index_of(pid) else { return };
        note_installation(&mut self.processes, index);
        self.let_orphans_go(pid);
        self.tell(|watcher| watcher.gone(pid));
        self.new_tasks.forget(&self.processes, pid);
        self.awaited_images.forget(pid);
        self.sites.forget(pid);
        self.processes.executed(index);
        let number = Processes::number(index);
        let stat = ProcStat::of(pid);
        let spare = &mut self.processes.spare;
        let result = install(self.session, pid, number, stat.as_ref(), spare);
        let begins = pid == self.program && !std::mem::replace(&mut self.has_begun, true);
        let process = self.processes.get_mut(index);
        process.command = stat.and_then(|stat| stat.name()).unwrap_or_default();
        match result {
            Ok(Installed { pages, slot, wants_image, areas, tells }) => {
                process.pages = pages.map(Rc::new);
                process.image_slot = Some(slot);
                process.may_have_only_slot = true;
                if self.session.counts_sites {
                    self.sites.begin(process, areas, tells);
                    self.processes.has_sites = true;
                }
                let watched = self.observers.watcher.as_ref().is_some_and(|w| w.wants_images());
                if watched || wants_image {
                    self.awaited_images.expect(pid);
                }
            }
            Err(decline) => {
                process.declines.push((process.command.clone(), decline));
                if self.session.counts_sites {
                    self.sites.lose(sites::NO_SHIM);
                }
            }
        }
        // Clockscope's process before this call is not counted, but this `execve` is the program's.
        if begins
            && self.session.counts_sites
            && let Some(pages) = &self.processes.get(index).pages
        {
            // The call has succeeded.
            sites::count(pages.get(), SYS_EXECVE, clockscope_sites::SEEN);
            // If the process is gone, its end is reported.
            let _ = ptrace::set_options(pid, ptrace::FOLLOW_TO_END);
        }
    }

    /// The processes, with clauses about the system calls that code in them has not counted.
    pub fn into_processes(mut self) -> Processes {
        for process in self.processes.alive_mut() {
            self.sites.look_for_unseen(process, process.pid);
        }
        self.processes.lost_counters = self.sites.lost_counters();
        let words = self.processes.site_words();
        self.processes.lost_sites = self.sites.losses(&words);
        self.processes.counted_reads = self.sites.counted_places.reads(&words);
        self.processes
    }

    /// If the program would have more privileges untraced, makes it execute again and detaches from it.
    fn lets_go(&mut self, pid: i32) -> bool {
        if access::effective_uid() == 0 || !access::lacks_privileges(pid) {
            return false;
        }
        let Some(index) = self.processes.index_of(pid) else { return false };
        // The process may have ended by the time of detaching, so read its name first.
        let command = command_name(pid);
        if execute_again(self.session, pid).is_err() || ptrace::detach_with(pid, 0).is_err() {
            return false;
        }
        note_installation(&mut self.processes, index);
        self.let_orphans_go(pid);
        self.tell(|watcher| watcher.gone(pid));
        self.processes.executed(index);
        let process = self.processes.get_mut(index);
        process.declines.push((command.clone(), Decline::Privileged));
        process.command = command;
        true
    }

    /// Resumes the parent first, as without a tracer: a child with the same real-time priority waits for its parent,
    /// and a child that raises its own priority may keep the CPU forever.
    fn forked(&mut self, parent: i32) {
        let child = ptrace::event_message(parent);
        let has_stopped =
            |child: &i32| self.new_tasks.announced(&mut self.processes, parent, *child);
        let child = child.ok().filter(has_stopped);
        self.resume(parent, 0);
        if let Some(child) = child {
            self.new_tasks.begin(&mut self.processes, child);
            self.resume(child, 0);
        }
    }

    fn at_syscall(&mut self, thread: i32) {
        self.halted.remove(&thread);
        if let Some(image) = self.awaited_images.at_syscall(thread) {
            // If the image cannot be written, the process starts without it.
            let written =
                self.session.copies_itself || write_image(self.session, thread, image, 0).is_ok();
            if written {
                self.tell(|watcher| watcher.mapped(thread, image));
            }
        }
        if self.new_tasks.is_watched(thread) {
            self.new_tasks.at_syscall(&mut self.processes, thread);
        }
        if self.sites.is_awaited(thread)
            && let Some(index) = self.processes.index_of(thread)
        {
            self.sites.at_syscall(self.processes.get_mut(index), thread);
        }
        if let Some(observer) = &mut self.observers.syscalls
            && let Some(index) = self.processes.index_of(thread)
        {
            observer.stopped(self.processes.get(index).pid, thread);
        }
    }

    /// Handles a stop without a signal: of a new tracee, or the start or end of a group-stop.
    fn trapped(&mut self, thread: i32, signal: i32) {
        if !is_group_stop(signal) {
            if self.new_tasks.stopped(&mut self.processes, thread) {
                self.resume(thread, 0);
            }
            return;
        }
        let _ = ptrace::listen(thread);
        self.halted.insert(thread);
        // The terminal's stop signals go to the whole process group, clockscope included. A SIGSTOP by another process
        // is for the program alone; by the program itself, clockscope stops as well.
        let is_for_us = signal != libc::SIGSTOP || self.stops_itself;
        if thread == self.program && is_for_us {
            // The shell waits for clockscope to stop.
            self.tell(|watcher| watcher.stopping());
            halt::stop_with(self.program);
            self.tell(|watcher| watcher.continued());
            let _ = signals::send(self.program, libc::SIGCONT);
        }
    }

    /// Handles a signal for a tracee. Returns the signal to deliver.
    fn given(&mut self, thread: i32, signal: i32) -> i32 {
        if self.session.counts_sites
            && let Some(index) = self.processes.index_of(thread)
        {
            let process = self.processes.get_mut(index);
            if self.sites.takes(process, thread, signal) {
                return 0;
            }
            self.sites.leave_stub(process, thread);
            self.sites.is_interrupted(process, thread);
        }
        if signal == libc::SIGTRAP && self.is_of_sample_probe(thread) {
            return 0;
        }
        if signal == libc::SIGSEGV
            && let Some(index) = self.processes.index_of(thread)
            && let process = self.processes.get(index)
            && let pages = process.pages.as_deref()
            && (self.sites.steps_over_counter(process, thread)
                || forbidden_counter::step_over(self.session, thread, pages.map(Segment::get)))
        {
            return 0;
        }
        if thread == self.program
            && signals::FORWARDED.contains(&signal)
            && let Ok((sender, _)) = ptrace::signal_sender(thread)
        {
            (self.observers.signals)(signal, sender);
        }
        if signal == libc::SIGSTOP {
            self.halted.insert(thread);
            self.stops_itself =
                ptrace::signal_sender(thread).is_ok_and(|(sender, _)| sender == self.program);
        }
        // A call that a group-stop has interrupted would be interrupted without a tracer, too.
        if !self.halted.contains(&thread) {
            go_on_if(thread, None, || signals::is_ignored(thread, signal));
        }
        signal
    }

    /// Whether a thread has stopped for a trap of the breakpoint on the sample probe, which the kernel takes for the
    /// program's own if the debug register does not say where it comes from. On KVM hosts before Linux 6.14 a guest may
    /// read an older value of that register ("Load DR6 with guest value only before entering .vcpu_run() loop",
    /// arch/x86/kvm/x86.c). Nothing of a program breaks at the probe.
    fn is_of_sample_probe(&self, thread: i32) -> bool {
        let samples = self.observers.watcher.as_ref().is_some_and(|it| it.wants_images());
        let index = self.processes.index_of(thread).filter(|_| samples);
        let image = index.and_then(|index| self.processes.get(index).image(thread));
        let probe = image.map(|base| base + u64::from(self.session.ready.sample_probe_offset));
        let pc = ptrace::registers(thread).ok().map(|registers| registers.pc());
        probe.is_some() && pc == probe && SignalInfo::of(thread).is_ok_and(|info| info.is_fault())
    }
}

/// Collects the counts of all processes, including those that still run.
pub fn finish(processes: &mut Processes) {
    for index in 0..processes.all().len() {
        note_installation(processes, index);
    }
    processes.close();
}

/// Notes the reason if an image was not installed, before the pages are released.
fn note_installation(processes: &mut Processes, index: usize) {
    const ATTACHING: [InstallStep; 3] =
        [InstallStep::AttachShared, InstallStep::AttachClock, InstallStep::AttachLive];
    let process = processes.get_mut(index);
    let pages = process.pages.as_ref();
    if let Some(decline) = pages.and_then(|pages| not_installed(pages, &ATTACHING)) {
        process.declines.push((process.command.clone(), decline));
    }
}
