//! Putting everything back: the kernel's functions first, while all threads stand still, then the
//! mapping, once no thread can be in it.
//!
//! From the moment that the bytes are the kernel's, nobody comes into the shim any more, so a thread
//! that has once been seen outside is so for good, and is let go. Most are at once, and stop only
//! this one time. The others are looked at again until they are, and then the last one unmaps.

use std::time::{Duration, Instant};

use super::patch::Patch;
use super::process::is_ending;
use super::stack_scan::{self, Looking, Place};
use super::unmap::{somebody_takes_out, take_out};
use crate::arch::attach::frames::place;
use crate::attach::threads::{Look, SEIZED, Threads};
use crate::attach::{Detached, Refusal, Remains, listed};
use crate::new_tasks::NewTasks;
use crate::processes::Processes;
use crate::sites::InProcess;
use clockscope_sys::precedence::Precedence;
use clockscope_sys::ptrace::{self, Resume};
use clockscope_sys::wait::Status;
use clockscope_sys::{memory, wait};

/// How long it is tried to put the bytes of all processes back while a thread is in the way. After that
/// each of those that are left is tried once.
const RESTORES_WITHIN: Duration = Duration::from_secs(5);
/// The same for one mapping, and for how much longer for all of them.
const UNMAPS_WITHIN: Duration = Duration::from_secs(2);
/// How long is waited for threads in vfork, when everything is as it was.
const WAKES_WITHIN: Duration = Duration::from_millis(100);
/// The longest time between two attempts.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Between two looks at threads that have been asked to stop. A thread that has stopped for a signal goes
/// on at once: one that is kept until its timer's next signal has come executes nothing but its handler.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);
/// How long the stacks of threads are searched while all stand still; the rest are looked at later.
const LOOKS_WITHIN: Duration = Duration::from_millis(4);

/// Restores every process that was attached to, and the children that it forked; they are not traced
/// any more then.
pub fn restore_all(processes: &mut Processes, new_tasks: &mut NewTasks) -> Vec<Detached> {
    new_tasks.followed_no_more();
    let deadline = Instant::now() + RESTORES_WITHIN;
    let mut all = Vec::new();
    // Children are found on the way, and are at the end then.
    let mut index = 0;
    while index < processes.all().len() {
        if processes.get(index).alive
            && let Some(patch) = processes.get(index).patch.clone()
        {
            let mut leaving = Leaving { processes, new_tasks, index, patch: &patch, deadline };
            all.extend(leaving.restore());
            processes.get_mut(index).patch = None;
        }
        index += 1;
    }
    all
}

/// A process that is being let go.
struct Leaving<'a> {
    processes: &'a mut Processes,
    new_tasks: &'a mut NewTasks,
    index: usize,
    patch: &'a Patch,
    /// Until when the bytes are put back, here and in all other processes.
    deadline: Instant,
}

/// What a stop has found.
enum Stopped {
    /// All stand still but these, which have been asked to.
    But(Vec<i32>),
    /// There are others.
    NotAll,
    /// It has ended, or executed a program: the kernel's image is new and whole.
    Whole,
}

impl Leaving<'_> {
    fn pid(&self) -> i32 {
        self.processes.get(self.index).pid
    }

    /// Puts the bytes back as soon as nobody is in the way, and unmaps. `None`: there was nothing to
    /// put back (any more).
    fn restore(&mut self) -> Option<Detached> {
        let pid = self.pid();
        let _first = Precedence::ask();
        let mut threads = Threads::of(pid, self.processes.threads_of(self.index));
        let mut wait = Duration::from_millis(1);
        let mut pause = Duration::ZERO;
        loop {
            let started = Instant::now();
            let tried = match self.stop(&mut threads) {
                Stopped::Whole => {
                    threads.release();
                    return None;
                }
                Stopped::NotAll => Err(pid),
                Stopped::But(late) => self.put_back(&threads, &late).map(|()| late),
            };
            match tried {
                Ok(late) => {
                    let unmapped = self.unmap(threads, late, started, &mut pause);
                    let remains = (!unmapped && !is_ending(pid)).then_some(Remains::Mapped);
                    return Some(Detached { pid, pause, remains });
                }
                Err(thread) => {
                    threads.resume_all(Resume::Run);
                    pause = pause.max(started.elapsed());
                    if Instant::now() >= self.deadline {
                        threads.release();
                        let remains = (!is_ending(pid)).then_some(Remains::Redirected(thread));
                        return Some(Detached { pid, pause, remains });
                    }
                    threads.let_run(wait);
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    /// Stops all threads that have this memory, those of a vfork child too, and takes note of the
    /// children that they tell of.
    fn stop(&mut self, threads: &mut Threads) -> Stopped {
        loop {
            for other in self.sharers() {
                threads.add(self.processes.threads_of(other));
            }
            let late = threads.stop_all();
            let mut born = false;
            for thread in threads.stopped().collect::<Vec<_>>() {
                match threads.status(thread) {
                    Some(status) if tells_of_a_child(status) => born |= self.announce(thread),
                    Some(Status::Event(libc::PTRACE_EVENT_EXEC, _)) => {
                        wait::take_stop(thread);
                        let of = self.processes.index_of(thread).unwrap_or(self.index);
                        self.processes.executed(of);
                        if of == self.index {
                            return Stopped::Whole;
                        }
                        // Its memory is another one now, in which nothing of ours is.
                        threads.detach(thread);
                    }
                    _ => {}
                }
            }
            if threads.all().is_empty() {
                return Stopped::Whole;
            }
            match late {
                _ if born => {}
                Ok(late) => return Stopped::But(late),
                // A new thread that cannot be traced may be anywhere.
                Err(_) => return Stopped::NotAll,
            }
        }
    }

    /// A thread tells of a child; whether that is new.
    fn announce(&mut self, thread: i32) -> bool {
        let Ok(child) = ptrace::event_message(thread) else { return false };
        let is_new = self.processes.index_of(child).is_none();
        if is_new && self.new_tasks.announced(self.processes, thread, child) {
            self.new_tasks.begin(self.processes, child);
        }
        is_new
    }

    /// Other processes with the same memory.
    fn sharers(&self) -> Vec<usize> {
        let all = self.processes.all().iter().enumerate();
        let others = all.filter(|(other, process)| *other != self.index && process.alive);
        let pid = self.pid();
        others.filter(|(_, p)| memory::is_shared_with(pid, p.pid)).map(|(other, _)| other).collect()
    }

    /// Puts the kernel's bytes back, for all processes that have this memory; otherwise the thread that is
    /// in the way.
    fn put_back(&mut self, threads: &Threads, late: &[i32]) -> Result<(), i32> {
        let in_the_way =
            |thread: &&i32| threads.status(**thread).is_some() || is_inside(**thread, self.patch);
        if let Some(thread) = late.iter().find(in_the_way) {
            return Err(*thread);
        }
        let through = threads.stopped().next().or(late.first().copied()).ok_or(self.pid())?;
        self.patch.put_back(through).map_err(|_| through)?;
        let sites = &self.processes.get(self.index).sites;
        sites.put_back(through).map_err(|_| through)?;
        threads.stopped().for_each(|thread| leave_trampoline(thread, self.patch, sites));
        // These may execute a program as soon as they go on, where nothing may be put back any more.
        for other in self.sharers() {
            self.processes.get_mut(other).patch = None;
        }
        Ok(())
    }

    /// Lets all threads go, each when it cannot come back to our images. When none can, one of them
    /// unmaps them. All but the late ones stand still, since `started`. `false`: they stay mapped.
    ///
    /// A thread waits in vfork for longer than anybody can wait for it. It has been asked to stop, and does
    /// so before it executes anything: where it stands in the meantime is certain. Its child, which has the
    /// same memory, can unmap the images as well as the process itself.
    fn unmap(
        &mut self,
        mut threads: Threads,
        late: Vec<i32>,
        mut started: Instant,
        pause: &mut Duration,
    ) -> bool {
        let mut looking = Looking::new();
        let looks_until = Instant::now() + LOOKS_WITHIN;
        let mut outside = Vec::new();
        let mut inside = Vec::new();
        for thread in threads.stopped().collect::<Vec<_>>() {
            // From here on its children are nobody's business.
            let _ = ptrace::set_options(thread, SEIZED);
            let stays = Instant::now() >= looks_until || self.may_come_back(&mut looking, thread);
            if stays { inside.push(thread) } else { outside.push(thread) }
        }
        let is_asleep = |thread: &i32| {
            stack_scan::sleeps_at(*thread)
                .is_some_and(|at| !self.leads_back(&mut looking, *thread, at))
        };
        let (asleep, awake) = late.into_iter().partition::<Vec<_>, _>(is_asleep);
        inside.extend(awake);
        let mut asleep = threads.split_off(&asleep);
        let mut worker = None;
        if inside.is_empty() {
            let own = listed(self.pid());
            let index = outside.iter().position(|thread| own.contains(thread)).unwrap_or(0);
            worker = (index < outside.len()).then(|| outside.swap_remove(index));
        }
        outside.iter().for_each(|thread| threads.detach(*thread));
        let deadline = self.deadline.min(Instant::now()) + UNMAPS_WITHIN;
        let mut wait = Duration::from_millis(1);
        while !inside.is_empty() {
            threads.resume_all(Resume::Run);
            *pause = started.elapsed().max(*pause);
            if Instant::now() >= deadline {
                threads.release();
                asleep.release();
                return false;
            }
            let until = Instant::now() + wait;
            wait = (wait * 2).min(LONGEST_WAIT);
            worker = self.let_out(&mut threads, &mut looking, &mut inside, until);
            started = Instant::now();
        }
        let images: Vec<(u64, u64)> = self.patch.mapped().collect();
        let room = &self.patch.room;
        // Code that nobody knows of may lead to the areas of an orphan.
        let is_whole = self.processes.get(self.index).sites.is_whole();
        let worker = worker.filter(|_| is_whole);
        let done = worker.map(|worker| take_out(&mut threads, worker, self.pid(), room, &images));
        *pause = started.elapsed().max(*pause);
        threads.release();
        let unmapped = match done {
            _ if !is_whole => false,
            Some(Ok(())) => true,
            // It is in our code still, which nobody else may change.
            Some(Err(Refusal::Stuck)) => false,
            _ => somebody_takes_out(self.pid(), &mut asleep, room, &images, deadline),
        };
        self.let_wake(asleep);
        unmapped
    }

    /// Lets go of those that were asleep, each when it wakes. Those that sleep on are let go by the kernel when
    /// this process ends.
    fn let_wake(&mut self, mut asleep: Threads) {
        let deadline = Instant::now() + WAKES_WITHIN;
        while !asleep.all().is_empty() && Instant::now() < deadline {
            for thread in asleep.all() {
                if asleep.look(thread) == Look::Stands {
                    if asleep.status(thread).is_some_and(tells_of_a_child) {
                        self.announce(thread);
                    }
                    asleep.detach(thread);
                }
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        asleep.release();
    }

    /// Lets go of those threads that stand outside, each as soon as it does, until a moment; the last one
    /// is kept.
    fn let_out(
        &mut self,
        threads: &mut Threads,
        looking: &mut Looking,
        inside: &mut Vec<i32>,
        until: Instant,
    ) -> Option<i32> {
        inside.iter().for_each(|thread| threads.ask(*thread));
        while Instant::now() < until {
            for thread in std::mem::take(inside) {
                match threads.look(thread) {
                    Look::Runs => inside.push(thread),
                    Look::Ended => {}
                    Look::Stands => {
                        inside.extend(self.children_told_of(threads, thread));
                        let _ = ptrace::set_options(thread, SEIZED);
                        if self.may_come_back(looking, thread) {
                            threads.resume(thread, Resume::Run);
                            inside.push(thread);
                        } else if threads.all().len() == 1 {
                            return Some(thread);
                        } else {
                            threads.detach(thread);
                        }
                    }
                }
            }
            if inside.is_empty() {
                return None;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        None
    }

    /// The threads of a child on this memory that a thread tells of which was late: they stop, and have to be
    /// looked at. A child on memory of its own is restored in its turn.
    fn children_told_of(&mut self, threads: &mut Threads, thread: i32) -> Vec<i32> {
        if !threads.status(thread).is_some_and(tells_of_a_child) || !self.announce(thread) {
            return Vec::new();
        }
        let sharers = self.sharers().into_iter().chain([self.index]);
        let all = sharers.flat_map(|of| self.processes.threads_of(of));
        let new: Vec<i32> = all.filter(|thread| !threads.is_known(*thread)).collect();
        threads.add(new.iter().copied());
        new
    }

    /// Whether a thread that stands still may come back to our images. One that has been killed since goes
    /// nowhere, and what executes a program is not in them any more.
    fn may_come_back(&self, looking: &mut Looking, thread: i32) -> bool {
        ptrace::registers(thread)
            .is_ok_and(|registers| self.leads_back(looking, thread, place(&registers)))
    }

    /// The same of a thread that goes on at this place.
    fn leads_back(&self, looking: &mut Looking, thread: i32, at: Place) -> bool {
        looking.may_come_back(thread, at, &|address| self.patch.is_ours(address), &self.patch.vdso)
    }
}

/// Whether a thread has stopped because it has made a child or another thread.
fn tells_of_a_child(status: Status) -> bool {
    matches!(
        status,
        Status::Event(
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
            _
        )
    )
}

/// Whether a thread that does not stop would go on in the bytes that change. It is in the kernel, and
/// stops before it comes out; of one that runs the kernel does not say where.
fn is_inside(thread: i32, patch: &Patch) -> bool {
    stack_scan::sleeps_at(thread)
        .is_none_or(|at| patch.functions.iter().any(|function| function.covers(at.pc)))
}

/// A thread at a displaced instruction, or in a system call that was displaced, goes on at the same in its old place.
fn leave_trampoline(thread: i32, patch: &Patch, sites: &InProcess) {
    let Ok(mut registers) = ptrace::registers(thread) else { return };
    let mut functions = patch.functions.iter();
    let at = functions.find_map(|function| function.to_function(registers.pc()));
    if let Some(at) = at.or_else(|| sites.to_program(registers.pc())) {
        registers.set_pc(at);
        let _ = ptrace::set_registers(thread, &registers);
    }
}
