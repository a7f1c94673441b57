//! A step that the kernel makes by itself.
//!
//! When a thread comes to a hardware breakpoint of perf's, the kernel switches all breakpoints of the thread off, has it execute
//! the instruction as a single step, switches them on again, and tells nobody. If the thread stops for its tracer in
//! between, because a signal has come, then `PTRACE_CONT` and `PTRACE_SYSCALL` take the step back: the breakpoints stay off for
//! the thread's life. `PTRACE_SINGLESTEP` lets the kernel make its step; the thread does not stop behind it.
//!
//! # References
//!
//! `breakpoint_handler` and `reinstall_suspended_bps` in arch/arm64/kernel/hw_breakpoint.c, `user_enable_single_step` in
//! arch/arm64/kernel/debug-monitors.c, `ptrace_resume` in kernel/ptrace.c, `signal_delivered` in kernel/signal.c (Linux 6.12)

use crate::ptrace::{Registers, signal_sender};

/// `si_code` by which the kernel says that a thread which is to step stands at the beginning of a signal handler: the signal's own
/// number. Nothing else has it on arm64.
const AT_HANDLER: i32 = libc::SIGTRAP;
/// `TRAP_TRACE`: a step that a tracer has asked for is made.
const STEPPED: i32 = 2;

/// The signal that a stopped tracee is to go on with for such a step; `signal` is what it has stopped for.
pub(crate) fn own_step(pid: i32, signal: i32) -> Option<i32> {
    let code = || signal_sender(pid).ok().map(|(_, code)| code);
    let code = (signal == libc::SIGTRAP).then(code).flatten();
    let is_to_step = || Registers::of(pid).is_ok_and(|registers| registers.is_to_step());
    goes_on_with(signal, code, is_to_step)
}

/// The same by the code of a `SIGTRAP`, and by whether the next instruction is executed as a single step.
fn goes_on_with(signal: i32, code: Option<i32>, is_to_step: impl FnOnce() -> bool) -> Option<i32> {
    match code {
        // The program knows nothing of it.
        Some(AT_HANDLER) => Some(0),
        Some(STEPPED) => None,
        _ => is_to_step().then_some(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_step_is_made_and_a_tracers_is_over() {
        let cases = [
            (libc::SIGURG, None, true, Some(libc::SIGURG)),
            (libc::SIGURG, None, false, None),
            (0, None, true, Some(0)),
            (libc::SIGTRAP, Some(AT_HANDLER), false, Some(0)),
            (libc::SIGTRAP, Some(STEPPED), true, None),
            // The program's own, by kill(2) and by an instruction.
            (libc::SIGTRAP, Some(libc::SI_USER), false, None),
            (libc::SIGTRAP, Some(1), true, Some(libc::SIGTRAP)),
        ];
        for (signal, code, is_to_step, wanted) in cases {
            let found = goes_on_with(signal, code, || is_to_step);
            assert_eq!(found, wanted, "{signal} {code:?} {is_to_step}");
        }
    }
}
