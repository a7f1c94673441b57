//! A program stopped at the first instruction of the vDSO's `clock_gettime`, in the state of a
//! sample: the return address at the stack pointer, callee-saved registers as the caller left them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clockscope_callers::frames::{FrameAddress, Unwound};
use clockscope_callers::modules::mappings_of;
use clockscope_callers::sample::{Called, FP, MemoryEvent, Registers, SP, Sample};
use clockscope_callers::symbols::Symbols;
use clockscope_callers::unwind::Unwinder;
use clockscope_model::callers::FrameRow;
use clockscope_sys::access::threads_of;
use clockscope_sys::ptrace::{self, Resume};
use clockscope_sys::wait::{self, Status};
use clockscope_sys::{memory, own_vdso};
use clockscope_text::foreign::Foreign;
use vdso_reader::image::Image;

/// Bytes of the stack that the kernel would copy.
pub(crate) const COPIED: usize = 32 << 10;
const BREAKPOINT: [u8; 1] = [0xcc];

/// A wait for tracees waits for all children of the process, so one test runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// While the guard is held, no other test of this process has children.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stopped program; killed when dropped.
pub(crate) struct Stopped {
    child: Child,
    pub(crate) sample: Sample,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The child may be dead already.
        let _ = self.child.kill();
        // The process ends when its tracer has seen the ends of all of its threads.
        while let Ok(Some(waited)) = wait::next_or_tick() {
            let has_ended = matches!(waited.status, Status::Exited(_) | Status::Killed(_));
            if has_ended && waited.pid == self.sample.pid {
                break;
            }
        }
    }
}

/// Starts a program of `tests/tracees/stacks` and stops it in the next call after its `SIGSTOP`.
pub(crate) fn stopped(program: &Path, words: &[&str], copied: usize) -> Stopped {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("start the program");
    let pid = i32::try_from(child.id()).expect("a process id");
    let mut stdin = child.stdin.take().expect("is piped");
    while !is_waiting_for_word(pid) {
        let ended = child.try_wait().expect("look after the program");
        assert!(ended.is_none(), "the program has ended: {ended:?}");
        std::thread::yield_now();
    }
    // A seized thread may stop for the birth of another thread; the waiting thread does not.
    let mut seized = Vec::new();
    loop {
        let fresh: Vec<i32> = threads_of(pid).into_iter().filter(|t| !seized.contains(t)).collect();
        if fresh.is_empty() {
            break;
        }
        for thread in fresh {
            // A thread created by a seized thread is seized already.
            let _ = ptrace::seize(thread, libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL);
            seized.push(thread);
        }
    }
    stdin.write_all(b"!").expect("tell the program to go on");
    let thread = until_breakpoint(pid);
    let sample = sample_of(pid, thread, copied);
    Stopped { child, sample }
}

/// Whether a thread is in `read(0, …)`.
fn is_waiting_for_word(pid: i32) -> bool {
    threads_of(pid).into_iter().any(|thread| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall"))
            .is_ok_and(|call| call.starts_with("0 0x0 "))
    })
}

/// Lets the program run to the `SIGSTOP` of a thread and on to that thread's next `clock_gettime`.
fn until_breakpoint(pid: i32) -> i32 {
    let mut armed_for = None;
    loop {
        let waited = wait::next_or_tick().expect("wait for the program").expect("no timer runs");
        match waited.status {
            Status::Signal(libc::SIGSTOP) if armed_for.is_none() => {
                arm(pid);
                armed_for = Some(waited.pid);
                ptrace::resume(waited.pid, Resume::Run, 0).expect("go on");
            }
            Status::Signal(libc::SIGTRAP) if armed_for == Some(waited.pid) => {
                wait::take_stop(waited.pid);
                return waited.pid;
            }
            // Another thread reads the clock: it stays stopped.
            Status::Signal(libc::SIGTRAP) => wait::take_stop(waited.pid),
            Status::Signal(signal) => {
                ptrace::resume(waited.pid, Resume::Run, signal).expect("pass the signal on");
            }
            Status::Event(..) | Status::Syscall => {
                ptrace::resume(waited.pid, Resume::Run, 0).expect("go on");
            }
            ended => assert!(waited.pid != pid, "the program has ended: {ended:?}"),
        }
    }
}

/// Puts a breakpoint on the kernel's `clock_gettime`.
fn arm(pid: i32) {
    let vdso = own_vdso::read().expect("a vDSO");
    let image = Image::parse(&vdso.bytes).expect("the kernel's own image");
    let function = image.function("__vdso_clock_gettime").expect("has clock_gettime");
    let mapping = mappings_of(pid)
        .expect("read its maps")
        .into_iter()
        .find(|mapping| mapping.name == Path::new("[vdso]"))
        .expect("it has a vDSO");
    memory::write_text(pid, mapping.start + function.offset, &BREAKPOINT).expect("write into it");
}

fn sample_of(pid: i32, thread: i32, copied: usize) -> Sample {
    let found = ptrace::registers(thread).expect("its registers");
    let mut stack = vec![0; copied];
    let length = memory::read(pid, found.rsp, &mut stack).expect("read its stack");
    stack.truncate(length);
    let mut registers = Registers { ip: found.rip - 1, ..Registers::default() };
    let preserved = [found.rbx, found.rbp, found.rsp, found.r12, found.r13, found.r14, found.r15];
    for (number, value) in [3, FP, SP, 12, 13, 14, 15].into_iter().zip(preserved) {
        registers.general[number] = Some(value);
    }
    Sample {
        called: Called::Vdso(0),
        pid,
        tid: thread,
        time_ns: 1,
        weight: 1,
        after_ticks: None,
        registers,
        stack,
        frame_pointers: chain(pid, found.rbp),
    }
}

/// The kernel's chain, found by following frame pointers.
fn chain(pid: i32, mut frame: u64) -> Vec<u64> {
    let mut found = Vec::new();
    while let (Ok(next), Ok(address)) =
        (memory::read_u64(pid, frame), memory::read_u64(pid, frame.wrapping_add(8)))
    {
        found.push(address);
        frame = next;
        if found.len() == 127 {
            break;
        }
    }
    found
}

/// Unwinds a sample of a living process, and names all of its functions.
pub(crate) fn unwound(stopped: &Stopped) -> (Unwound, Vec<FrameRow>) {
    let mut unwinder = Unwinder::new(Vec::new());
    let pid = stopped.sample.pid;
    let mappings = mappings_of(pid).expect("read its maps");
    unwinder.event(&MemoryEvent::Begun { pid, mappings });
    let unwound = unwinder.stack_with(&stopped.sample, None);
    let mut symbols = Symbols::default();
    let names = |frame: &FrameAddress| symbols.names(&mut unwinder, *frame);
    let names = unwound.frames.iter().flat_map(names).collect();
    (unwound, names)
}

/// The names of functions, or `?`.
pub(crate) fn functions(names: &[FrameRow]) -> Vec<&str> {
    names.iter().map(|name| name.function.as_ref().map_or("?", Foreign::verbatim)).collect()
}
