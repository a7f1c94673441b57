//! Restores the kernel's functions while all threads have stopped. The image stays mapped, because a thread or a
//! suspended context may be in it. Private pages replace the pages that are shared with the tracer.

use std::time::{Duration, Instant};

use super::attaching::work_in_image;
use super::inject::run;
use super::patch::Patch;
use super::process::{is_ending, mappings, sharers_of};
use super::stack_scan::sleeps_at;
use crate::attach::Refusal;
use crate::attach::threads::{Look, SEIZED, Threads, tells_of_a_child};
use crate::install::has_image;
use crate::new_tasks::NewTasks;
use crate::processes::Processes;
use crate::sites::count_end;
use clockscope_sys::access::threads_of;
use clockscope_sys::precedence::Precedence;
use clockscope_sys::ptrace::{self, Resume};
use clockscope_sys::wait::Status;
use clockscope_sys::{memory, wait};
use vdso_image::layout::{ATTACH_LEAVE, LIVE_OFFSET};

/// Result of detaching from a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Process id.
    pub pid: i32,
    /// Longest time that a thread was stopped.
    pub pause: Duration,
    /// The part of the process that could not be restored.
    pub remains: Option<Remains>,
}

/// A part of a living process that could not be restored. The message is a clause with the consequence and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Remains {
    /// The functions still go to the shim, because this thread does not stop.
    #[error(
        "its clock reads still go through clockscope's code, which answers them as before, because \
             thread {0} does not stop"
    )]
    Redirected(i32),
    /// System calls still go to the code that counts them, because this thread does not stop.
    #[error(
        "its system calls still go through clockscope's code, which makes them as before, because thread \
             {0} does not stop"
    )]
    Counting(i32),
    /// The pages of the counters are still shared with the tracer, which ends.
    #[error(
        "the memory that held its counts stays attached until it ends, which does no harm: no thread of \
             it could be made to let go of that"
    )]
    Shared,
}

/// How long the tracer tries to restore all processes while threads are in the way. After that it tries each remaining
/// process once.
const RESTORES_WITHIN: Duration = Duration::from_secs(5);
/// How long the tracer looks for a thread that can replace the pages.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);
/// Time between two attempts to replace the pages.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);
/// How long the tracer waits for threads in vfork after everything is restored.
const WAKES_WITHIN: Duration = Duration::from_millis(100);
/// Longest time between two attempts to restore a process.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Time between two checks of threads that were asked to stop.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

/// Restores every attached process, and the children that it has forked. They are not traced any more afterwards.
pub fn restore_all(processes: &mut Processes, new_tasks: &mut NewTasks) -> Vec<Detached> {
    new_tasks.followed_no_more();
    let deadline = Instant::now() + RESTORES_WITHIN;
    let mut all = Vec::new();
    // Children that are found on the way are appended to the list.
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

/// A process that clockscope detaches from.
struct Leaving<'a> {
    processes: &'a mut Processes,
    new_tasks: &'a mut NewTasks,
    index: usize,
    /// `None` if the process has executed a program since: the kernel's functions are unchanged, and the process keeps
    /// the shim.
    patch: Option<&'a Patch>,
    /// Deadline for restoring the bytes, the same for all processes.
    deadline: Instant,
}

/// Result of stopping the threads.
enum Stopped {
    /// All have stopped but these, which were asked to.
    But(Vec<i32>),
    /// Further threads may exist.
    NotAll,
    /// The process has ended, or has executed a program, whose kernel image is new and unchanged.
    Whole,
}

impl Leaving<'_> {
    fn pid(&self) -> i32 {
        self.processes.get(self.index).pid
    }

    /// Restores the bytes as soon as all threads have stopped, and replaces the pages. `None`: there was nothing to
    /// restore (any more).
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

    /// Stops all threads that share this memory, those of a vfork child too, and notes the children that they report.
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
                        // The thread's process has new memory, which contains nothing of ours.
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
                // A new thread that cannot be traced may stand anywhere.
                Err(_) => return Stopped::NotAll,
            }
        }
    }

    /// Handles a thread's report of a child. Returns whether the child is new.
    fn announce(&mut self, thread: i32) -> bool {
        let Ok(child) = ptrace::event_message(thread) else { return false };
        let is_new = self.processes.index_of(child).is_none();
        if is_new && self.new_tasks.announced(self.processes, thread, child) {
            self.new_tasks.begin(self.processes, child);
        }
        is_new
    }

    /// Indexes of other traced processes that share this process's memory.
    fn sharers(&self) -> Vec<usize> {
        let all = self.processes.all().iter().enumerate();
        let others = all.filter(|(other, process)| *other != self.index && process.alive);
        let pid = self.pid();
        others.filter(|(_, p)| memory::is_shared_with(pid, p.pid)).map(|(other, _)| other).collect()
    }

    /// Restores the kernel's bytes for all processes that share this memory. The error is the thread that is in the
    /// way.
    fn put_back(&mut self, threads: &Threads, late: &[i32]) -> Result<(), i32> {
        let process = self.processes.get(self.index);
        let is_at_its_end = |thread: &i32| {
            matches!(threads.status(*thread), Some(Status::Event(libc::PTRACE_EVENT_EXIT, _)))
        };
        threads.stopped().filter(is_at_its_end).for_each(|thread| {
            count_end(process, thread);
        });
        // A running thread may execute these bytes right now. A sleeping thread stops before it executes anything.
        let in_the_way =
            |thread: &&i32| threads.status(**thread).is_some() || sleeps_at(**thread).is_none();
        if let Some(thread) = late.iter().find(in_the_way) {
            return Err(*thread);
        }
        let through = threads.stopped().next().or(late.first().copied()).ok_or(self.pid())?;
        if let Some(patch) = self.patch {
            patch.put_back(through).map_err(|_| through)?;
        }
        self.processes.get(self.index).sites.put_back(through).map_err(|_| through)?;
        // The other processes may execute a program as soon as they continue, and that program must not be changed.
        for other in self.sharers() {
            self.processes.get_mut(other).forget_jumps();
        }
        Ok(())
    }

    /// Lets all threads go, and has one of them replace the pages that are shared with the tracer. All threads but
    /// those in `late` have been stopped since `started`. Returns `false` if the shared pages stay.
    ///
    /// A thread may wait in vfork for longer than the tracer can. Its child shares the memory, so a thread of the child
    /// can replace the pages as well.
    fn leave(
        &mut self,
        mut threads: Threads,
        late: &[i32],
        started: Instant,
        pause: &mut Duration,
    ) -> bool {
        let mut asleep = threads.split_off(late);
        let own = threads_of(self.pid());
        let stopped: Vec<i32> = threads.stopped().collect();
        let is_own = |thread: &i32| own.contains(thread);
        let worker = stopped.iter().copied().find(is_own).or(stopped.first().copied());
        for thread in stopped.into_iter().filter(|thread| Some(*thread) != worker) {
            threads.detach(thread);
        }
        if let Some(worker) = worker {
            // The worker's new children are not traced from here on.
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

    /// Makes a thread replace the shared pages.
    fn replace_pages(&self, threads: &mut Threads, thread: i32) -> Result<(), Refusal> {
        let Some(patch) = self.patch else { return Ok(()) };
        // A program that was executed since does not have this image.
        if !threads.settle(thread) || !has_image(thread, patch.base) {
            return Err(Refusal::Gone);
        }
        let work = work_in_image(patch.base, ATTACH_LEAVE, 0, 0)?;
        run(threads, thread, &patch.room, &work)
    }

    /// Has any other thread replace the pages, trying each once, if the worker could not or there was none. Returns
    /// `false` if trying again is useless.
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
        for thread in threads_of(pid).into_iter().chain(sharers_of(pid)) {
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

    /// Whether the process still has the shared pages, and should not.
    fn shares_pages(&self) -> bool {
        let Some(patch) = self.patch else { return false };
        // A first thread that has ended shows no mappings.
        let all = threads_of(self.pid()).into_iter();
        let maps = all.filter_map(|thread| mappings(thread).ok()).find(|maps| !maps.is_empty());
        let at = patch.base + LIVE_OFFSET as u64;
        maps.is_some_and(|maps| maps.iter().any(|map| map.start == at && map.perms.ends_with('s')))
    }

    /// Detaches from sleeping threads as they wake. The kernel detaches from those that sleep on when this process
    /// ends.
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

/// Whether another thread or a later attempt may succeed: this thread is gone or could not be moved.
fn may_try_again(done: &Result<(), Refusal>) -> bool {
    matches!(done, Err(Refusal::Gone | Refusal::Failed(..)))
}
