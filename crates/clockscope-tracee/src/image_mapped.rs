//! When the shim has come to lie in a process: between the launch code's first system call and
//! the rest of it.
//!
//! Only where somebody wants to know, or the tracer has to write the image; it costs a few stops at
//! each `execve`.

use std::collections::HashMap;

use vdso_image::layout::INSTALL_MARK;

use clockscope_sys::ptrace::{self, SyscallStop};

const SYS_MMAP: u64 = libc::SYS_mmap.unsigned_abs();
/// System calls of the launch code before which the image is mapped, at most; there is one.
const SYSCALLS_MAX: u32 = 4;
/// Results from here on are error numbers.
const ERRORS_FROM: u64 = u64::MAX - 4095;

/// Threads whose launch code has not mapped the image yet.
#[derive(Debug, Default)]
pub(crate) struct AwaitedImages {
    waiting: HashMap<i32, Waiting>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    stops: u32,
    mapping: bool,
}

impl AwaitedImages {
    /// The launch code has been put into a process whose only thread is this one.
    pub(crate) fn expect(&mut self, thread: i32) {
        self.waiting.insert(thread, Waiting::default());
    }

    /// A thread is gone, or executed another program.
    pub(crate) fn forget(&mut self, thread: i32) {
        self.waiting.remove(&thread);
    }

    /// True if the thread must stop at its next system call.
    pub(crate) fn is_expected(&self, thread: i32) -> bool {
        self.waiting.contains_key(&thread)
    }

    /// A thread has stopped at a system call. Gives the image's address if that has just been
    /// mapped.
    pub(crate) fn at_syscall(&mut self, thread: i32) -> Option<u64> {
        let waiting = self.waiting.get_mut(&thread)?;
        waiting.stops += 1;
        let registers = ptrace::registers(thread).ok();
        match (ptrace::syscall_info(thread), registers) {
            (Ok(SyscallStop::Entry { number, .. }), Some(registers))
                if number == SYS_MMAP && registers.argument(5) == INSTALL_MARK =>
            {
                waiting.mapping = true;
                None
            }
            // The end of `execve` comes first.
            (Ok(SyscallStop::Exit { .. }), Some(_))
                if !waiting.mapping && waiting.stops < SYSCALLS_MAX =>
            {
                None
            }
            (Ok(SyscallStop::Exit { .. }), Some(registers)) if waiting.mapping => {
                self.waiting.remove(&thread);
                Some(registers.result()).filter(|base| *base < ERRORS_FROM)
            }
            _ => {
                self.waiting.remove(&thread);
                None
            }
        }
    }
}
