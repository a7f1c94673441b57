//! Registers of a thread that executes our code, and how it continues afterwards. Pure.

use vdso_image::layout::InjectedSlots;

use clockscope_sys::ptrace::Registers;

const SYS_RESTART_SYSCALL: u64 = 219;

/// Values in `rax` of an interrupted system call: include/linux/errno.h (Linux 6.18).
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// `TF`: a debugger sets this flag for a single step; it does not belong to the program.
const TRAP_FLAG: u64 = 0x100;

/// Length of one wait for the tracer: microseconds of a `struct timeval`.
pub(crate) const PAUSE: u64 = 1000;

/// The system call by which the code waits for the tracer, with the arguments up to the last relevant one.
pub(crate) fn waiting(at: u64) -> (&'static str, i64, [u64; 5]) {
    ("select", libc::SYS_select, [0, 0, 0, 0, at])
}

/// Whether a thread with these registers can execute our code and continue without the tracer: always on x86-64.
pub(crate) fn can_go_on(_registers: &Registers, _word: &mut dyn FnMut(u64) -> Option<u32>) -> bool {
    true
}

/// Sends a thread to our code. The thread is then in no system call.
pub(crate) fn send_to(registers: &mut Registers, at: u64) {
    (registers.rip, registers.orig_rax) = (at, u64::MAX);
}

/// Registers that may hold the address of the installer's parameters.
pub(crate) fn of_installer(registers: &Registers) -> [u64; 2] {
    [registers.rbx, registers.rdi]
}

/// The slots that restore a thread's registers, and the signals that it blocks.
pub(crate) fn slots(registers: &Registers, mask: u64) -> InjectedSlots {
    let r = registers;
    let (rax, resume) = resumed(r);
    InjectedSlots {
        all_signals: u64::MAX,
        mask,
        flags: r.eflags & !TRAP_FLAG,
        resume,
        pause: [0, PAUSE],
        general: [
            rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
            r.r13, r.r14, r.r15,
        ],
    }
}

/// `rax` and `rip` of a thread that continues after an interrupted system call, if the kernel finds no signal for it:
/// `arch_do_signal_or_restart` in arch/x86/kernel/signal.c (Linux 6.18).
fn resumed(registers: &Registers) -> (u64, u64) {
    let in_call = registers.orig_rax.cast_signed() >= 0;
    match registers.rax.cast_signed() {
        ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND if in_call => {
            (registers.orig_rax, registers.rip - 2)
        }
        ERESTART_RESTARTBLOCK if in_call => (SYS_RESTART_SYSCALL, registers.rip - 2),
        _ => (registers.rax, registers.rip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(rax: i64, orig_rax: i64) -> Registers {
        let mut registers = Registers::zero();
        registers.rax = rax.cast_unsigned();
        registers.orig_rax = orig_rax.cast_unsigned();
        registers.rip = 0x40_1002;
        registers
    }

    #[test]
    fn an_interrupted_call_goes_on_as_the_kernel_would_have_it() {
        for (rax, expected) in [
            (-512, (232, 0x40_1000)),
            (-513, (232, 0x40_1000)),
            (-514, (232, 0x40_1000)),
            (-516, (219, 0x40_1000)),
            (-4, (-4_i64.cast_unsigned().cast_signed(), 0x40_1002)),
            (7, (7, 0x40_1002)),
        ] {
            let (got, rip) = resumed(&registers(rax, 232));
            assert_eq!((got.cast_signed(), rip), expected, "{rax}");
        }
        // Outside of a system call, the number in `rax` is the program's own.
        assert_eq!(resumed(&registers(-512, -1)), ((-512_i64).cast_unsigned(), 0x40_1002));
    }
}
