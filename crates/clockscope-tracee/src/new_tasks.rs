//! New threads and processes: telling them apart, and keeping their counts apart.
//!
//! A thread counts in a slot that it finds by its FS base. Two cases need help from here: a forked
//! child has pages of its own, zeroed by the kernel, and is told its number; and a thread that is
//! made with its parent's memory *and* FS base would count in its parent's slot without a lock.
//! There, every thread of the process counts in the slot of its CPU, with a lock, until the new
//! one has an FS base of its own (Go's threads ask for one at once) or has ended.

use std::collections::HashMap;
use std::time::Duration;

use vdso_image::layout::{POISON, THREAD_ENTRIES, THREADS_OFFSET, ThreadEntry, Threads};

use super::arch::tasks;
use super::attach::process::status_of;
use super::attach::threads::ran;
use super::attach::{command_name, listed};
use super::install::image_of;
use super::processes::Processes;
use clockscope_sys::ptrace::{self, Registers, SyscallStop};
use clockscope_sys::{memory, proc_text, signals, wait};

/// System calls that a new thread may make before it asks for an FS base of its own; a thread
/// that has not done so by then never will.
const SYSCALLS_MAX: u32 = 8;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;

/// What a new thread or process shares with the one that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NewTask {
    is_thread: bool,
    shares_memory: bool,
    shares_fs_base: bool,
    /// It uses the memory of the one that made it, which does not stand still meanwhile.
    runs_beside: bool,
}

/// A thread with the FS base of another one.
#[derive(Clone, Copy, Debug)]
struct SharesTls {
    /// Index of the process whose threads count with a lock because of it.
    process: usize,
    /// System calls since it was made; `None` if it is not watched.
    syscalls: Option<u32>,
    /// It is asking for an FS base of its own.
    asking: bool,
}

/// A new thread or process that waits until somebody tells of it.
#[derive(Debug)]
struct Early {
    /// The process that it belongs to, or that made it.
    maker: i32,
    /// The threads of that which may still tell of it, and the time that each had run when they were
    /// looked at first; `None` before that.
    tellers: Option<HashMap<i32, Duration>>,
}

/// Threads and processes that were made but have not yet reported their first stop.
#[derive(Debug, Default)]
pub struct NewTasks {
    /// Stopped before their parent's event told of them.
    early: HashMap<i32, Early>,
    /// Told of by their parent's event, but not stopped yet.
    expected: HashMap<i32, NewTask>,
    sharing_tls: HashMap<i32, SharesTls>,
}

impl NewTasks {
    /// A stopped parent has told of a new thread or process. True if that had stopped already and
    /// waits for [`Self::begin`]; its parent is to be resumed before it.
    pub fn announced(&mut self, processes: &mut Processes, parent: i32, child: i32) -> bool {
        let Some(index) = processes.index_of(parent) else { return false };
        let birth = birth(processes.get(index).pid, parent, child);
        if birth.runs_beside {
            processes.get_mut(index).sites.take_part(parent);
        }
        if processes.index_of(child).is_some() {
            // It was given up: `Self::untold`.
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

    /// A process is about to be forgotten, or has executed a program and has one thread left, which does
    /// not make anybody. Its threads that were making these children were killed before the kernel told of
    /// them: nobody will, and they wait for [`Self::begin`].
    pub(crate) fn orphaned(&mut self, processes: &mut Processes, parent: i32) -> Vec<i32> {
        let Some(index) = processes.index_of(parent) else { return Vec::new() };
        let is_orphan = |child: &i32, early: &mut Early| {
            early.maker == parent && !signals::is_thread_of(parent, *child)
        };
        let children: Vec<i32> = self.early.extract_if(is_orphan).map(|(child, _)| child).collect();
        for child in &children {
            processes.add_child(*child, index);
            // With whom they share memory is not known.
            let alone = NewTask { runs_beside: true, ..NewTask::default() };
            self.expected.insert(*child, alone);
        }
        children
    }

    /// Some time has passed: those of whom nobody can tell any more, who are to be resumed. Their maker
    /// lives, but the thread that made them was killed, and their first stop was seen only after what
    /// `Self::orphaned` goes by; or their maker was killed, and another process (`PR_SET_CHILD_SUBREAPER`) is
    /// their parent now.
    ///
    /// That a thread will tell of a child cannot be seen, but that it will not: see `tells_later`.
    pub fn untold(&mut self, processes: &mut Processes) -> Vec<i32> {
        let is_untold = |child: &i32, early: &mut Early| !early.may_be_told(*child);
        let untold: Vec<i32> = self.early.extract_if(is_untold).map(|(child, _)| child).collect();
        for child in &untold {
            processes.adopt(*child, command_name(*child));
        }
        untold
    }

    /// Nobody is followed any more. Those that wait for [`Self::announced`] stop once more, without having
    /// executed an instruction: their first stop has been waited for, and nobody would hear of it again.
    pub(crate) fn followed_no_more(&self) {
        for child in self.early.keys() {
            // One that was killed meanwhile says so itself.
            if ptrace::listen(*child).is_ok() {
                let _ = ptrace::interrupt(*child);
            }
        }
    }

    /// A new thread or process that has stopped and was told of is about to be resumed for the first
    /// time.
    pub fn begin(&mut self, processes: &mut Processes, child: i32) {
        if let Some(birth) = self.expected.remove(&child) {
            begin(processes, child, birth);
        }
    }

    /// Threads of a process that is attached to share an FS base: they count with a lock, for good.
    pub(crate) fn attached_to_tasks_that_share_tls(processes: &Processes, index: usize) {
        set_keys(processes, index, processes.get(index).pid, POISON);
    }

    /// A tracee has stopped for the first time, perhaps. True if it is to be resumed now, false if
    /// when its parent has told of it.
    pub fn stopped(&mut self, processes: &mut Processes, child: i32) -> bool {
        self.begin(processes, child);
        if processes.index_of(child).is_some() {
            return true;
        }
        wait::take_stop(child);
        let maker = maker(child).filter(|maker| processes.index_of(*maker).is_some());
        let Some(maker) = maker else {
            // Its parent is gone, and so is what was known of it.
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

    /// A watched thread has stopped at a system call.
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

    /// A thread has ended, has executed, or has got an FS base of its own.
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
    /// Whether a thread may still tell of this child.
    fn may_be_told(&mut self, child: i32) -> bool {
        let maker = self.maker;
        // The threads of a process end together, and then it is gone with them.
        if signals::is_thread_of(maker, child) {
            return true;
        }
        let tellers = self.tellers.get_or_insert_with(|| {
            // Where the kernel does not say, none of them has ever run for long.
            let place = |thread| format!("{maker}/task/{thread}");
            let time = |thread| (thread, ran(place(thread)).unwrap_or(Duration::MAX));
            listed(maker).into_iter().map(time).collect()
        });
        tellers.retain(|thread, before| tells_later(maker, *thread, *before));
        !tellers.is_empty()
    }
}

/// Whether a thread, which had run for `before` after the child had stopped, may be in the system call that
/// made the child. It does not leave it before it has told of the child. So it is not, if it is seen in
/// another one, or is gone. Of a thread that runs or waits for a CPU the kernel does not say where it is. But
/// what remains to be done in that call takes microseconds of its own time, however long it waits for a CPU.
fn tells_later(process: i32, thread: i32, before: Duration) -> bool {
    const ENOUGH: Duration = Duration::from_millis(20);
    let call = match proc_text::read(format!("/proc/{process}/task/{thread}/syscall")) {
        Ok(call) => call,
        // It is gone, or the kernel tells nothing.
        Err(error) => return !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)),
    };
    let may_be_in_it = match call.split_whitespace().next() {
        Some("running") | None => true,
        Some(number) => number.parse().is_ok_and(|number| tasks::MAKING.contains(&number)),
    };
    let time = ran(format!("{process}/task/{thread}"));
    may_be_in_it && time.is_none_or(|time| time.saturating_sub(before) < ENOUGH)
}

/// The process that a new thread belongs to, or that made a new process; 0 and others' if that is gone.
fn maker(child: i32) -> Option<i32> {
    let known = status_of(child)?;
    Some(if known.pid == child { known.parent } else { known.pid })
}

/// What the parent's system call says about the child.
fn birth(process: i32, parent: i32, child: i32) -> NewTask {
    match ptrace::registers(parent).ok().and_then(|registers| clone_flags(parent, &registers)) {
        Some(flags) => NewTask {
            is_thread: flags & CLONE_THREAD != 0,
            shares_memory: flags & CLONE_VM != 0,
            // The parent of a vfork stands still until its child is done with the memory.
            shares_fs_base: tasks::SHARED_POINTER_NEEDS_LOCK
                && flags & (CLONE_SETTLS | CLONE_VFORK) == 0,
            runs_beside: flags & (CLONE_VM | CLONE_VFORK) == CLONE_VM,
        },
        // A 32-bit program: not counted, so only the book-keeping matters.
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

/// The child has stopped before its first instruction, and it is known what it is.
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
    if let Some(threads) = threads_of(processes, index, child) {
        let at = threads + std::mem::offset_of!(Threads, process) as u64;
        // If it cannot be written, the image takes a number of its own: counted, but for nobody.
        let _ = memory::write(child, at, &Processes::number(index).to_ne_bytes());
    }
}

/// Address of the page with the threads' slots in a process, seen through one of its threads; `None`
/// if it has none.
fn threads_of(processes: &Processes, index: usize, through: i32) -> Option<u64> {
    let process = processes.get(index);
    process.pages.as_ref()?;
    image_of(process, through).map(|base| base + THREADS_OFFSET as u64)
}

/// Writes one key into all entries: [`POISON`] sends all threads to the slots of their CPUs, zero
/// lets them take slots of their own (again).
fn set_keys(processes: &Processes, index: usize, through: i32, key: u64) {
    let Some(threads) = threads_of(processes, index, through) else { return };
    let first = threads + std::mem::offset_of!(Threads, entries) as u64;
    let stride = size_of::<ThreadEntry>() as u64;
    // A process that has ended meanwhile needs no keys.
    let _ = memory::write_words(through, first, stride, THREAD_ENTRIES, key);
}
