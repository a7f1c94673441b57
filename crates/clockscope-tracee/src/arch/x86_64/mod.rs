//! x86-64.

pub(crate) mod attach;
pub(crate) mod counter_read;
pub mod lacks;
pub(crate) mod tasks;

use clockscope_sites::Thread;
use clockscope_sys::ptrace::Registers;

/// The architecture of system calls, as seccomp filters see it.
pub use clockscope_containers::filter::ARCH_X86_64 as AUDIT_ARCH;

/// The distance of the near jump at the start of these bytes, from its end; `None` if there is no such jump.
pub(crate) fn near_jump(bytes: &[u8]) -> Option<i32> {
    let (0xe8 | 0xe9, rest) = bytes.split_first().map(|(first, rest)| (*first, rest))? else {
        return None;
    };
    rest.first_chunk().map(|distance| i32::from_le_bytes(*distance))
}

/// The registers that stubs change.
pub(crate) fn stub_thread(registers: &Registers) -> Thread {
    Thread {
        pc: registers.rip,
        sp: registers.rsp,
        rax: registers.rax,
        rcx: registers.rcx,
        rdx: registers.rdx,
        r10: registers.r10,
        r11: registers.r11,
        flags: registers.eflags,
    }
}

/// Sets the registers that stubs change.
pub(crate) fn set_stub_thread(registers: &mut Registers, thread: &Thread) {
    registers.rip = thread.pc;
    registers.rsp = thread.sp;
    registers.rax = thread.rax;
    registers.rdx = thread.rdx;
    registers.eflags = thread.flags;
}

#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod injected_tests;
#[cfg(test)]
mod launch_code_tests;
#[cfg(test)]
mod readers_tests;
