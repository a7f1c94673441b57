//! Registers of a thread that executes our code, and how it continues afterwards. Pure.

use vdso_image::layout::InjectedSlots;

use super::spare_register::is_spare;
use clockscope_sys::ptrace::Registers;

/// Length of one wait for the tracer: nanoseconds of a `struct timespec`.
pub(crate) const PAUSE: u64 = 1_000_000;

/// The system call by which the code waits for the tracer, with its relevant arguments.
pub(crate) fn waiting(at: u64) -> (&'static str, i64, [u64; 5]) {
    ("ppoll", libc::SYS_ppoll, [0, 0, at, 0, 0])
}

/// Whether a thread with these registers can execute our code and continue without the tracer, which destroys `x16`.
/// `word` reads the program's instructions.
pub(crate) fn can_go_on(registers: &Registers, word: &mut dyn FnMut(u64) -> Option<u32>) -> bool {
    is_spare(registers.pc(), word)
}

/// Sends a thread to our code.
pub(crate) fn send_to(registers: &mut Registers, at: u64) {
    registers.set_pc(at);
    registers.forget_branch();
}

/// Registers that may hold the address of the installer's parameters.
pub(crate) fn of_installer(registers: &Registers) -> [u64; 2] {
    [registers.argument(19), registers.argument(0)]
}

/// The slots that restore a thread's registers, and the signals that it blocks.
pub(crate) fn slots(registers: &Registers, mask: u64) -> InjectedSlots {
    InjectedSlots {
        all_signals: u64::MAX,
        mask,
        flags: registers.flags(),
        resume: registers.pc(),
        pause: [0, PAUSE],
        sp: registers.sp(),
        general: std::array::from_fn(|index| registers.argument(index)),
    }
}
