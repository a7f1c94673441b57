//! Notices when the shim is mapped in a process: between the launch code's first system call and the rest of the launch
//! code.
//!
//! Used only if a watcher wants to know, or if the tracer must write the image. It costs a few stops at each `execve`.

use std::collections::HashMap;

use vdso_image::layout::INSTALL_MARK;

use clockscope_sys::ptrace::{self, SyscallStop};

const SYS_MMAP: u64 = libc::SYS_mmap.unsigned_abs();
/// Maximum number of system-call stops before the image is mapped; normally there is one call.
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
    /// Waits for the image in a process that has the launch code. `thread` is its only thread.
    pub(crate) fn expect(&mut self, thread: i32) {
        self.waiting.insert(thread, Waiting::default());
    }

    /// A thread is gone, or has executed another program.
    pub(crate) fn forget(&mut self, thread: i32) {
        self.waiting.remove(&thread);
    }

    /// True if the thread must stop at its next system call.
    pub(crate) fn is_expected(&self, thread: i32) -> bool {
        self.waiting.contains_key(&thread)
    }

    /// Handles a thread that has stopped at a system call. Returns the image's address if it has just been mapped.
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
            // The first stop is the end of `execve`.
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
