//! arm64.

pub(crate) mod attach;
pub(crate) mod counter_read;
pub mod lacks;
pub(crate) mod tasks;

use clockscope_sites::Thread;
use clockscope_sys::ptrace::Registers;

/// The architecture of system calls, as seccomp filters see it.
pub use clockscope_containers::filter::ARCH_AARCH64 as AUDIT_ARCH;

/// Always `None`: on arm64 no code in the program counts system calls, so there are no jumps to it.
pub(crate) fn near_jump(_: &[u8]) -> Option<i32> {
    None
}

/// The registers that stubs change; there are none.
pub(crate) fn stub_thread(registers: &Registers) -> Thread {
    Thread { pc: registers.pc(), sp: registers.sp(), ..Thread::default() }
}

/// As [`stub_thread`].
pub(crate) fn set_stub_thread(_: &mut Registers, _: &Thread) {}
