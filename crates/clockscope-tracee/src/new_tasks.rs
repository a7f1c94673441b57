//! Recognises new threads and processes, and keeps their counts apart.
//!
//! A thread finds its slot by its FS base. Two cases need the tracer's help. A forked child has pages of its own,
//! zeroed by the kernel, and the tracer writes the child's number into them. A thread that is made with its parent's
//! memory *and* FS base would count in its parent's slot without a lock. Every thread of that process then counts in
//! the slot of its CPU, with a lock, until the new thread has an FS base of its own (Go's threads ask for one at once)
//! or has ended.

use std::collections::HashMap;
use std::time::Duration;

use vdso_image::layout::{
    ONLY_THREAD, POISON, THREAD_ENTRIES, THREADS_OFFSET, ThreadEntry, Threads,
};

use super::arch::tasks;
use super::attach::command_name;
use super::attach::process::status_of;
use super::attach::transfers::ran;
use super::processes::Processes;
use clockscope_sys::ptrace::{self, Registers, SyscallStop};
use clockscope_sys::{access, memory, proc_text, signals, wait};

/// System calls that a new thread may make before it asks for an FS base of its own. A thread that has not asked by
/// then never will.
const SYSCALLS_MAX: u32 = 8;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;

/// Resources that a new thread or process shares with its maker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NewTask {
    is_thread: bool,
    shares_memory: bool,
    shares_fs_base: bool,
    /// The new process uses the memory of its maker, which runs meanwhile.
    runs_beside: bool,
}

/// A thread with the FS base of another thread.
#[derive(Clone, Copy, Debug)]
struct SharesTls {
    /// Index of the process whose threads count with a lock because of this thread.
    process: usize,
    /// Number of the thread's system calls so far; `None` if the thread is not watched.
    syscalls: Option<u32>,
    /// Whether the thread is in a system call that sets its FS base.
    asking: bool,
}

/// A new thread or process that has stopped before a thread has reported it.
#[derive(Debug)]
struct Early {
    /// The process that the new task belongs to, or that made it.
    maker: i32,
    /// The threads that may still report the new task, with their processor time when they were first checked; `None`
    /// before the first check.
    tellers: Option<HashMap<i32, Duration>>,
}

/// Threads and processes that were made and have not both stopped and been reported yet.
#[derive(Debug, Default)]
pub struct NewTasks {
    /// Stopped before their maker's event has reported them.
    early: HashMap<i32, Early>,
    /// Reported by their maker's event, but not stopped yet.
    expected: HashMap<i32, NewTask>,
    sharing_tls: HashMap<i32, SharesTls>,
}

impl NewTasks {
    /// Handles the report of a new thread or process by its stopped parent. True if the child has stopped already and
    /// waits for [`Self::begin`]. The caller must resume the parent first.
    pub fn announced(&mut self, processes: &mut Processes, parent: i32, child: i32) -> bool {
        let Some(index) = processes.index_of(parent) else { return false };
        let birth = birth(processes.get(index).pid, parent, child);
        if birth.runs_beside {
            processes.get_mut(index).sites.take_part(parent);
            look_for_slots(processes, index, parent);
        }
        if processes.index_of(child).is_some() {
            // [`Self::untold`] has given this child up and resumed it.
            return false;
        }
        if birth.is_thread {
            processes.add_thread(child, parent);
        } else {
            processes.add_child(child, index);
        }
        if birth.shares_memory && birth.shares_fs_base {
            let syscalls = birth.is_thread.then_some(0);
            self.sharing_tls.insert(child, SharesTls { process: index, syscalls, asking: false });
            set_keys(processes, index, parent, POISON);
        }
        self.expected.insert(child, birth);
        self.early.remove(&child).is_some()
    }

    /// Returns the children that a process was making when it ended or executed a program. The threads that were making
    /// them were killed before the kernel reported the children, so these wait for [`Self::begin`].
    pub(crate) fn orphaned(&mut self, processes: &mut Processes, parent: i32) -> Vec<i32> {
        let Some(index) = processes.index_of(parent) else { return Vec::new() };
        let is_orphan = |child: &i32, early: &mut Early| {
            early.maker == parent && !signals::is_thread_of(parent, *child)
        };
        let children: Vec<i32> = self.early.extract_if(is_orphan).map(|(child, _)| child).collect();
        for child in &children {
            processes.add_child(*child, index);
            // It is not known which memory the child shares.
            let alone = NewTask { runs_beside: true, ..NewTask::default() };
            self.expected.insert(*child, alone);
        }
        children
    }

    /// Returns the early tasks that no thread can report any more; the caller must resume them. Called from time to
    /// time. Either the maker lives, but the thread that made the task was killed and the task's first stop was seen
    /// after `Self::orphaned` ran; or the maker was killed, and another process (`PR_SET_CHILD_SUBREAPER`) is the
    /// task's parent now.
    ///
    /// The tracer cannot see that a thread will report a child, only that it will not: see `tells_later`.
    pub fn untold(&mut self, processes: &mut Processes) -> Vec<i32> {
        let is_untold = |child: &i32, early: &mut Early| !early.may_be_told(*child);
        let untold: Vec<i32> = self.early.extract_if(is_untold).map(|(child, _)| child).collect();
        for child in &untold {
            processes.adopt(*child, command_name(*child));
        }
        untold
    }

    /// Following has ended. Makes the tasks that wait for [`Self::announced`] stop once more, before they execute an
    /// instruction: their first stop has been consumed, and no later wait would return it.
    pub(crate) fn followed_no_more(&self) {
        for child in self.early.keys() {
            // If the task was killed meanwhile, the next wait reports that.
            if ptrace::listen(*child).is_ok() {
                let _ = ptrace::interrupt(*child);
            }
        }
    }

    /// Prepares a stopped and reported task for its first resumption.
    pub fn begin(&mut self, processes: &mut Processes, child: i32) {
        if let Some(birth) = self.expected.remove(&child) {
            begin(processes, child, birth);
        }
    }

    /// Makes the threads of an attached process that share an FS base count with a lock, for good.
    pub(crate) fn attached_to_tasks_that_share_tls(processes: &Processes, index: usize) {
        set_keys(processes, index, processes.get(index).pid, POISON);
    }

    /// Handles a stop that may be a tracee's first. True if the caller must resume the tracee now, false if the tracee
    /// must wait for its maker's report.
    pub fn stopped(&mut self, processes: &mut Processes, child: i32) -> bool {
        self.begin(processes, child);
        if processes.index_of(child).is_some() {
            return true;
        }
        wait::take_stop(child);
        let maker = maker(child).filter(|maker| processes.index_of(*maker).is_some());
        let Some(maker) = maker else {
            // The maker is gone, and so is all information about it.
            processes.adopt(child, command_name(child));
            return true;
        };
        self.early.insert(child, Early { maker, tellers: None });
        false
    }

    /// True if the thread must stop at its next system call.
    pub(crate) fn is_watched(&self, thread: i32) -> bool {
        self.sharing_tls.get(&thread).is_some_and(|task| task.syscalls.is_some())
    }

    /// Handles a watched thread that has stopped at a system call.
    pub(crate) fn at_syscall(&mut self, processes: &mut Processes, thread: i32) {
        let Some(task) = self.sharing_tls.get_mut(&thread) else { return };
        match ptrace::syscall_info(thread) {
            Ok(SyscallStop::Entry { number, arguments, .. }) => {
                task.asking = tasks::sets_thread_pointer(number.cast_signed(), &arguments);
                task.syscalls = task.syscalls.map(|n| n + 1).filter(|n| *n <= SYSCALLS_MAX);
            }
            Ok(SyscallStop::Exit { is_error: false }) if task.asking => {
                let process = task.process;
                let own = ptrace::thread_pointer(thread).ok();
                match own.filter(|key| *key != 0 && processes.is_free(process, *key)) {
                    Some(key) => {
                        self.forget(processes, thread);
                        processes.name_key(thread, key);
                    }
                    None => task.syscalls = None,
                }
            }
            _ => {}
        }
    }

    /// A thread has ended, has executed a program, or has an FS base of its own.
    pub(crate) fn forget(&mut self, processes: &Processes, thread: i32) {
        self.early.remove(&thread);
        self.expected.remove(&thread);
        if let Some(task) = self.sharing_tls.remove(&thread) {
            let others = self.sharing_tls.values().any(|other| other.process == task.process);
            if !others {
                set_keys(processes, task.process, processes.get(task.process).pid, 0);
            }
        }
    }
}

impl Early {
    /// Whether a thread may still report this task.
    fn may_be_told(&mut self, child: i32) -> bool {
        let maker = self.maker;
        // The threads of a process end together, and a new thread of it ends with them.
        if signals::is_thread_of(maker, child) {
            return true;
        }
        let tellers = self.tellers.get_or_insert_with(|| {
            // Without the kernel's statistics, assume that the threads had run for long.
            let place = |thread| format!("{maker}/task/{thread}");
            let time = |thread| (thread, ran(place(thread)).unwrap_or(Duration::MAX));
            access::threads_of(maker).into_iter().map(time).collect()
        });
        tellers.retain(|thread, before| tells_later(maker, *thread, *before));
        !tellers.is_empty()
    }
}

/// Whether a thread, which had run for `before` when it was first checked, may still be in the system call that made
/// the child. The thread reports the child before it leaves that call. So the thread cannot report it any more if it is
/// seen in another call, or is gone. For a thread that runs or waits for a CPU, the kernel does not show the call. But
/// the rest of the call takes microseconds of processor time, however long the thread waits for a CPU.
fn tells_later(process: i32, thread: i32, before: Duration) -> bool {
    const ENOUGH: Duration = Duration::from_millis(20);
    let call = match proc_text::read(format!("/proc/{process}/task/{thread}/syscall")) {
        Ok(call) => call,
        // The thread is gone, or the kernel does not show the call.
        Err(error) => return !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)),
    };
    let may_be_in_it = match call.split_whitespace().next() {
        Some("running") | None => true,
        Some(number) => number.parse().is_ok_and(|number| tasks::MAKING.contains(&number)),
    };
    let time = ran(format!("{process}/task/{thread}"));
    may_be_in_it && time.is_none_or(|time| time.saturating_sub(before) < ENOUGH)
}

/// The process that a new thread belongs to, or the parent of a new process: 0 or a reaper if the maker is gone.
fn maker(child: i32) -> Option<i32> {
    let known = status_of(child)?;
    Some(if known.pid == child { known.parent } else { known.pid })
}

/// Reads the flags of the parent's system call, which say which resources the child shares.
fn birth(process: i32, parent: i32, child: i32) -> NewTask {
    match ptrace::registers(parent).ok().and_then(|registers| clone_flags(parent, &registers)) {
        Some(flags) => NewTask {
            is_thread: flags & CLONE_THREAD != 0,
            shares_memory: flags & CLONE_VM != 0,
            // The parent of a vfork child stands still until the child is done with the memory.
            shares_fs_base: tasks::SHARED_POINTER_NEEDS_LOCK
                && flags & (CLONE_SETTLS | CLONE_VFORK) == 0,
            runs_beside: flags & (CLONE_VM | CLONE_VFORK) == CLONE_VM,
        },
        // The calls of a 32-bit program are not counted, so only its place in the list matters.
        None => NewTask {
            is_thread: signals::is_thread_of(process, child),
            runs_beside: true,
            ..NewTask::default()
        },
    }
}

fn clone_flags(parent: i32, registers: &Registers) -> Option<u64> {
    if !registers.is_64_bit() {
        return None;
    }
    let number = registers.call_number().cast_signed();
    match number {
        libc::SYS_clone => Some(registers.argument(0)),
        libc::SYS_clone3 => memory::read_u64(parent, registers.argument(0)).ok(),
        _ => tasks::implied_flags(number),
    }
}

/// Handles a reported child that has stopped before its first instruction.
fn begin(processes: &mut Processes, child: i32, birth: NewTask) {
    let Some(index) = processes.index_of(child) else { return };
    if birth.is_thread {
        if !birth.shares_fs_base
            && processes.get(index).pages.is_some()
            && let Ok(key) = ptrace::thread_pointer(child)
        {
            processes.name_key(child, key);
        }
        return;
    }
    if birth.shares_memory {
        return;
    }
    let process = processes.get_mut(index);
    match process.pages.clone().filter(|_| !birth.runs_beside) {
        Some(pages) => process.sites.give_part(child, &pages),
        None => process.sites.take_part(child),
    }
    process.may_have_only_slot = !birth.runs_beside;
    if let Some(threads) = threads_of(processes, index, child) {
        let number = Processes::number(index);
        if !birth.runs_beside {
            tell_only_thread(child, threads, number);
        }
        let at = threads + std::mem::offset_of!(Threads, process) as u64;
        // If the number cannot be written, the image takes a number of its own: the calls are counted, but belong to no
        // process.
        let _ = memory::write(child, at, &number.to_ne_bytes());
    }
}

/// Lets the only thread of a process with this number, which has stopped, count without looking for its slot.
pub(crate) fn tell_only_thread(thread: i32, threads: u64, number: u64) {
    write_only_slot(thread, threads, ONLY_THREAD | number);
}

fn write_only_slot(thread: i32, threads: u64, value: u64) {
    let at = threads + std::mem::offset_of!(Threads, only_slot) as u64;
    // The thread has stopped, so the word can be written unless the process has been killed.
    let _ = memory::write(thread, at, &value.to_ne_bytes());
}

/// Another task will run with the memory of this process, whose only thread has stopped: all look for their slots from
/// now on.
fn look_for_slots(processes: &mut Processes, index: usize, thread: i32) {
    if std::mem::take(&mut processes.get_mut(index).may_have_only_slot)
        && let Some(threads) = threads_of(processes, index, thread)
    {
        write_only_slot(thread, threads, 0);
    }
}

/// Address of the page with the thread entries in a process, seen through one of its threads; `None` if there is none.
fn threads_of(processes: &Processes, index: usize, through: i32) -> Option<u64> {
    let process = processes.get(index);
    process.pages.as_ref()?;
    process.image(through).map(|base| base + THREADS_OFFSET as u64)
}

/// Writes one key into all thread entries: [`POISON`] sends all threads to the slots of their CPUs, zero lets them take
/// slots of their own (again).
fn set_keys(processes: &Processes, index: usize, through: i32, key: u64) {
    let Some(threads) = threads_of(processes, index, through) else { return };
    let first = threads + std::mem::offset_of!(Threads, entries) as u64;
    let stride = size_of::<ThreadEntry>() as u64;
    // If the process has ended meanwhile, it needs no keys.
    let _ = memory::write_words(through, first, stride, THREAD_ENTRIES, key);
}
