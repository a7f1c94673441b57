//! Putting everything back: the kernel's functions first, while all threads stand still, then the
//! mapping, once no thread can be in it.
//!
//! From the moment that the bytes are the kernel's, nobody comes into the shim any more, so a thread
//! that has once been seen outside is so for good, and is let go. Most are at once, and stop only
//! this one time. The others are looked at again until they are, and then the last one unmaps.

use std::fmt;
use std::time::{Duration, Instant};

use vdso_image::layout::TOTAL_SIZE;

use super::inject::run;
use super::injected::Work;
use super::patch::Patch;
use super::refusal::Refusal;
use super::stack_scan::{self, Looking};
use super::threads::{Look, Threads, listed};
use crate::new_tasks::NewTasks;
use crate::processes::Processes;
use clockscope_sys::precedence::Precedence;
use clockscope_sys::ptrace::{self, Resume};
use clockscope_sys::wait::Status;
use clockscope_sys::{memory, wait};

/// How long it is tried to put the bytes of all processes back while a thread is in the way. After that
/// each of those that are left is tried once.
const RESTORES_WITHIN: Duration = Duration::from_secs(5);
/// The same for one mapping, and for how much longer for all of them.
const UNMAPS_WITHIN: Duration = Duration::from_secs(2);
/// The longest time between two attempts.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Between two looks at threads that have been asked to stop. A thread that has stopped for a signal goes
/// on at once: one that is kept until its timer's next signal has come executes nothing but its handler.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);
/// How long the stacks of threads are searched while all stand still; the rest are looked at later.
const LOOKS_WITHIN: Duration = Duration::from_millis(4);
/// Images that one piece of code unmaps: there is room for so many.
const IMAGES_AT_ONCE: usize = 12;

/// How a process was let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Its number.
    pub pid: i32,
    /// How long a thread stood still at most.
    pub pause: Duration,
    /// What is not as it was.
    pub remains: Option<Remains>,
}

/// What could not be put back while a process lives; a clause that says what it means and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remains {
    /// The functions still go to the shim, because this thread does not stop.
    Redirected(i32),
    /// The shim is mapped, and nobody uses it.
    Mapped,
}

impl fmt::Display for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redirected(thread) => write!(
                f,
                "its clock reads still go through clockscope's code, which answers them as before, \
                 because thread {thread} does not stop"
            ),
            Self::Mapped => f.write_str(
                "clockscope's code is still mapped, though nobody calls it, because a thread may be \
                 in it",
            ),
        }
    }
}

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
    /// All stand still but these.
    But(Vec<i32>),
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
                Stopped::But(late) => match self.put_back(&threads, &late) {
                    Ok(()) => Ok(late),
                    Err(thread) => Err(Remains::Redirected(thread)),
                },
            };
            match tried {
                Ok(late) => {
                    let unmapped = self.unmap(threads, late, started, &mut pause);
                    let remains = (!unmapped && !super::is_ending(pid)).then_some(Remains::Mapped);
                    return Some(Detached { pid, pause, remains });
                }
                Err(remains) => {
                    threads.resume_all(Resume::Run);
                    pause = pause.max(started.elapsed());
                    if Instant::now() >= self.deadline {
                        threads.release();
                        let remains = (!super::is_ending(pid)).then_some(remains);
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
            // A new thread that cannot be traced is in the way, whatever it does.
            let late = threads.stop_all().unwrap_or_else(|_| vec![self.pid()]);
            let mut born = false;
            for thread in threads.stopped().collect::<Vec<_>>() {
                match threads.status(thread) {
                    Some(Status::Event(
                        libc::PTRACE_EVENT_FORK
                        | libc::PTRACE_EVENT_VFORK
                        | libc::PTRACE_EVENT_CLONE,
                        _,
                    )) => born |= self.announce(thread),
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
            if !born {
                return Stopped::But(late);
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

    /// Puts the kernel's bytes back; otherwise the thread that is in the way.
    fn put_back(&self, threads: &Threads, late: &[i32]) -> Result<(), i32> {
        if let Some(thread) =
            late.iter().find(|t| threads.status(**t).is_some() || is_inside(**t, self.patch))
        {
            return Err(*thread);
        }
        let through = threads.stopped().next().or(late.first().copied()).ok_or(self.pid())?;
        self.patch.write(through, false).map_err(|_| through)?;
        threads.stopped().for_each(|thread| leave_trampoline(thread, self.patch));
        Ok(())
    }

    /// Lets all threads go, each when it cannot come back to our images. When none can, the last one
    /// unmaps them. All but the late ones stand still, since `started`. `false`: they stay mapped.
    fn unmap(
        &self,
        mut threads: Threads,
        late: Vec<i32>,
        mut started: Instant,
        pause: &mut Duration,
    ) -> bool {
        let mut looking = Looking::new();
        let mut inside = late;
        let mut outside = Vec::new();
        let looks_until = Instant::now() + LOOKS_WITHIN;
        for thread in threads.stopped().collect::<Vec<_>>() {
            // From here on its children are nobody's business.
            let _ = ptrace::set_options(thread, libc::PTRACE_O_TRACESYSGOOD);
            let stays = Instant::now() >= looks_until || self.may_come_back(&mut looking, thread);
            if stays { inside.push(thread) } else { outside.push(thread) }
        }
        let mut worker = None;
        if inside.is_empty() {
            worker = outside.pop();
        }
        outside.iter().for_each(|thread| threads.detach(*thread));
        let deadline = self.deadline.min(Instant::now()) + UNMAPS_WITHIN;
        let mut wait = Duration::from_millis(1);
        loop {
            if inside.is_empty() && self.sharers().is_empty() {
                let done = worker.map(|worker| take_out(&mut threads, worker, self.patch));
                *pause = started.elapsed().max(*pause);
                threads.release();
                return match done {
                    Some(Ok(())) => true,
                    // It is in our code still, which nobody else may change.
                    Some(Err(Refusal::Stuck)) => false,
                    _ => self.another_takes_out(deadline),
                };
            }
            threads.resume_all(Resume::Run);
            *pause = started.elapsed().max(*pause);
            if Instant::now() >= deadline {
                threads.release();
                return false;
            }
            let until = Instant::now() + wait;
            wait = (wait * 2).min(LONGEST_WAIT);
            if inside.is_empty() {
                threads.let_run(until - Instant::now());
                worker = worker.filter(|worker| threads.stop(*worker));
                started = Instant::now();
            } else if let Some(last) = self.let_out(&mut threads, &mut looking, &mut inside, until)
            {
                worker = Some(last);
                started = Instant::now();
            }
        }
    }

    /// Lets go of those threads that stand outside, each as soon as it does, until a moment; the last one
    /// is kept.
    fn let_out(
        &self,
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
                    Look::Stands if self.may_come_back(looking, thread) => {
                        threads.resume(thread, Resume::Run);
                        inside.push(thread);
                    }
                    Look::Stands if threads.all().len() == 1 => return Some(thread),
                    Look::Stands => threads.detach(thread),
                }
            }
            if inside.is_empty() {
                return None;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        None
    }

    fn may_come_back(&self, looking: &mut Looking, thread: i32) -> bool {
        looking.may_come_back(thread, &|address| self.patch.is_ours(address), &self.patch.vdso)
    }

    /// Where the thread that was to unmap cannot, or not in time: any other one does, as all are
    /// outside.
    fn another_takes_out(&self, deadline: Instant) -> bool {
        let pid = self.pid();
        let takes_out = |thread: i32| {
            ptrace::seize(thread, libc::PTRACE_O_TRACESYSGOOD).ok()?;
            let mut one = Threads::of(pid, [thread]);
            let done = match take_out(&mut one, thread, self.patch) {
                Ok(()) => Some(true),
                Err(Refusal::Stuck) => Some(false),
                Err(_) => None,
            };
            one.release();
            done
        };
        while !super::is_ending(pid) {
            if let Some(done) = listed(pid).into_iter().find_map(takes_out) {
                return done;
            }
            if Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(LONGEST_WAIT);
        }
        false
    }
}

/// Whether a thread that does not stop would go on in the bytes that change. It is in the kernel, and
/// stops before it comes out; of one that runs the kernel does not say where.
fn is_inside(thread: i32, patch: &Patch) -> bool {
    stack_scan::sleeps_at(thread)
        .is_none_or(|at| patch.functions.iter().any(|function| function.covers(at)))
}

/// A thread at a displaced instruction goes on at the same in its old place.
fn leave_trampoline(thread: i32, patch: &Patch) {
    let Ok(mut registers) = ptrace::registers(thread) else { return };
    if let Some(at) = patch.functions.iter().find_map(|f| f.to_function(registers.rip)) {
        registers.rip = at;
        let _ = ptrace::set_registers(thread, &registers);
    }
}

/// Makes a thread unmap our images, where nobody is any more.
///
/// # Errors
///
/// Those of [`run`]; `Gone` where the thread does not stand still.
fn take_out(threads: &mut Threads, thread: i32, patch: &Patch) -> Result<(), Refusal> {
    let images: Vec<u64> = patch.images().collect();
    for some in images.chunks(IMAGES_AT_ONCE) {
        let work = Work::Unmap(some.iter().map(|base| (*base, TOTAL_SIZE as u64)).collect());
        if !threads.settle(thread) {
            return Err(Refusal::Gone);
        }
        run(threads, thread, &patch.room, &work)?;
    }
    Ok(())
}
