//! Putting the kernel's functions back while all threads stand still. Our code stays mapped: a thread may be in it, or
//! a context that is suspended anywhere. What it shares with the tracer is replaced by private pages.

use std::time::{Duration, Instant};

use super::attaching::work_in_image;
use super::inject::run;
use super::patch::Patch;
use super::process::{is_ending, mappings, sharers_of};
use super::stack_scan::sleeps_at;
use crate::attach::threads::{Look, SEIZED, Threads, tells_of_a_child};
use crate::attach::{Detached, Refusal, Remains, listed};
use crate::install::has_image;
use crate::new_tasks::NewTasks;
use crate::processes::Processes;
use crate::sites::InProcess;
use clockscope_sys::precedence::Precedence;
use clockscope_sys::ptrace::{self, Resume};
use clockscope_sys::wait::Status;
use clockscope_sys::{memory, wait};
use vdso_image::layout::{ATTACH_LEAVE, LIVE_OFFSET};

/// How long it is tried to put the bytes of all processes back while a thread is in the way. After that
/// each of those that are left is tried once.
const RESTORES_WITHIN: Duration = Duration::from_secs(5);
/// How long a thread is looked for that replaces the pages.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);
/// Between two attempts at that.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);
/// How long is waited for threads in vfork, when everything is as it was.
const WAKES_WITHIN: Duration = Duration::from_millis(100);
/// The longest time between two attempts.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Between two looks at threads that have been asked to stop.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

/// Restores every process that was attached to, and the children that it forked; they are not traced
/// any more then.
pub fn restore_all(processes: &mut Processes, new_tasks: &mut NewTasks) -> Vec<Detached> {
    new_tasks.followed_no_more();
    let deadline = Instant::now() + RESTORES_WITHIN;
    let mut all = Vec::new();
    // Children are found on the way, and are at the end then.
    let mut index = 0;
    while index < processes.all().len() {
        let process = processes.get(index);
        if process.alive && (process.patch.is_some() || process.sites.has_jumps()) {
            let patch = process.patch.clone();
            let patch = patch.as_deref();
            let mut leaving = Leaving { processes, new_tasks, index, patch, deadline };
            all.extend(leaving.restore());
            processes.get_mut(index).forget_jumps();
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
    /// `None` of a program that was executed since: the kernel's functions are whole, and it keeps the shim.
    patch: Option<&'a Patch>,
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

    /// Puts the bytes back as soon as all threads stand still, and replaces the pages. `None`: there was nothing to
    /// put back (any more).
    fn restore(&mut self) -> Option<Detached> {
        let pid = self.pid();
        let _first = Precedence::ask();
        let mut threads = Threads::of(pid, self.processes.threads_of(self.index));
        let mut wait = Duration::from_millis(1);
        let mut pause = Duration::ZERO;
        loop {
            let stopped = self.stop(&mut threads);
            let started = threads.since.unwrap_or_else(Instant::now);
            let tried = match stopped {
                Stopped::Whole => {
                    threads.release();
                    return None;
                }
                Stopped::NotAll => Err(pid),
                Stopped::But(late) => self.put_back(&threads, &late).map(|()| late),
            };
            match tried {
                Ok(late) => {
                    let left = self.leave(threads, &late, started, &mut pause);
                    let remains = (!left && !is_ending(pid)).then_some(Remains::Shared);
                    return Some(Detached { pid, pause, remains });
                }
                Err(thread) => {
                    threads.resume_all(Resume::Run);
                    pause = pause.max(started.elapsed());
                    if Instant::now() >= self.deadline {
                        threads.release();
                        let remains = match self.patch {
                            Some(_) => Remains::Redirected(thread),
                            None => Remains::Counting(thread),
                        };
                        let remains = (!is_ending(pid)).then_some(remains);
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
        // One that runs may execute these bytes just now. One that sleeps stops before it executes anything.
        let in_the_way =
            |thread: &&i32| threads.status(**thread).is_some() || sleeps_at(**thread).is_none();
        if let Some(thread) = late.iter().find(in_the_way) {
            return Err(*thread);
        }
        let through = threads.stopped().next().or(late.first().copied()).ok_or(self.pid())?;
        if let Some(patch) = self.patch {
            patch.put_back(through).map_err(|_| through)?;
        }
        let sites = &self.processes.get(self.index).sites;
        sites.put_back(through).map_err(|_| through)?;
        if !sites.is_empty() {
            threads.stopped().for_each(|thread| leave_stub(thread, sites));
        }
        // These may execute a program as soon as they go on, where nothing may be put back any more.
        for other in self.sharers() {
            self.processes.get_mut(other).forget_jumps();
        }
        Ok(())
    }

    /// Lets all threads go, and has one of them replace the pages that are shared with the tracer. All but the late ones
    /// stand still, since `started`. `false`: the pages stay.
    ///
    /// A thread waits in vfork for longer than anybody can wait for it. Its child, which has the same memory, can do
    /// it as well as the process itself.
    fn leave(
        &mut self,
        mut threads: Threads,
        late: &[i32],
        started: Instant,
        pause: &mut Duration,
    ) -> bool {
        let mut asleep = threads.split_off(late);
        let own = listed(self.pid());
        let stopped: Vec<i32> = threads.stopped().collect();
        let is_own = |thread: &i32| own.contains(thread);
        let worker = stopped.iter().copied().find(is_own).or(stopped.first().copied());
        for thread in stopped.into_iter().filter(|thread| Some(*thread) != worker) {
            threads.detach(thread);
        }
        if let Some(worker) = worker {
            // From here on its children are nobody's business.
            let _ = ptrace::set_options(worker, SEIZED);
        }
        let done = worker.map(|worker| self.replace_pages(&mut threads, worker));
        *pause = started.elapsed().max(*pause);
        threads.release();
        let may_try = done.is_none_or(|done| may_try_again(&done));
        let deadline = Instant::now() + LEAVES_WITHIN;
        while may_try && self.shares_pages() && Instant::now() < deadline {
            if !self.somebody_replaces_pages(&mut asleep) {
                break;
            }
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
        self.let_wake(asleep);
        !self.shares_pages()
    }

    /// Makes a thread replace the pages.
    fn replace_pages(&self, threads: &mut Threads, thread: i32) -> Result<(), Refusal> {
        let Some(patch) = self.patch else { return Ok(()) };
        // What a program has that was executed since is no image of ours.
        if !threads.settle(thread) || !has_image(thread, patch.base) {
            return Err(Refusal::Gone);
        }
        let work = work_in_image(patch.base, ATTACH_LEAVE, 0, 0)?;
        run(threads, thread, &patch.room, &work)
    }

    /// Where the thread that was to replace the pages cannot, or there is none: tries it with all others once.
    /// `false`: there is no use in trying again.
    fn somebody_replaces_pages(&mut self, asleep: &mut Threads) -> bool {
        for thread in asleep.all() {
            asleep.ask(thread);
            if asleep.look(thread) != Look::Stands {
                continue;
            }
            if asleep.status(thread).is_some_and(tells_of_a_child) {
                self.announce(thread);
            }
            let done = self.replace_pages(asleep, thread);
            if done.is_ok() || !may_try_again(&done) {
                return false;
            }
        }
        let pid = self.pid();
        for thread in listed(pid).into_iter().chain(sharers_of(pid)) {
            if asleep.is_known(thread) || ptrace::seize(thread, SEIZED).is_err() {
                continue;
            }
            let mut one = Threads::of(thread, [thread]);
            let done = self.replace_pages(&mut one, thread);
            one.release();
            if done.is_ok() || !may_try_again(&done) {
                return false;
            }
        }
        true
    }

    /// Whether the process still has the pages that are shared with the tracer, and should not.
    fn shares_pages(&self) -> bool {
        let Some(patch) = self.patch else { return false };
        // A first thread that has ended shows no memory.
        let all = listed(self.pid()).into_iter();
        let maps = all.filter_map(|thread| mappings(thread).ok()).find(|maps| !maps.is_empty());
        let at = patch.base + LIVE_OFFSET as u64;
        maps.is_some_and(|maps| maps.iter().any(|map| map.start == at && map.perms.ends_with('s')))
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
}

/// Whether another thread, or a later moment, may do better: this one is gone, or was not to be moved.
fn may_try_again(done: &Result<(), Refusal>) -> bool {
    matches!(done, Err(Refusal::Gone | Refusal::Failed(..)))
}

/// A thread in a system call that was displaced goes on at the same in its old place.
fn leave_stub(thread: i32, sites: &InProcess) {
    let Ok(mut registers) = ptrace::registers(thread) else { return };
    if let Some(at) = sites.to_program(registers.pc()) {
        registers.set_pc(at);
        let _ = ptrace::set_registers(thread, &registers);
    }
}
