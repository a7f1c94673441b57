//! The single step that the kernel makes by itself at a hardware breakpoint.
//!
//! When a thread reaches a hardware breakpoint of perf, the kernel disables all breakpoints of the thread, has the
//! thread execute the instruction as a single step, and enables them again. The kernel reports none of this to the
//! tracer. If the thread stops for its tracer in between, because a signal has come, then `PTRACE_CONT` and
//! `PTRACE_SYSCALL` cancel the step: the breakpoints stay disabled for the thread's life. `PTRACE_SINGLESTEP` lets the
//! kernel make its step; the thread does not stop after it.
//!
//! # References
//!
//! `breakpoint_handler` and `reinstall_suspended_bps` in arch/arm64/kernel/hw_breakpoint.c, `user_enable_single_step` in
//! arch/arm64/kernel/debug-monitors.c, `ptrace_resume` in kernel/ptrace.c, `signal_delivered` in kernel/signal.c (Linux 6.12)

use crate::ptrace::{registers, signal_sender};

/// `si_code` of the SIGTRAP that reports the entry of a signal handler to a thread in single-step mode: the signal's
/// own number. No other SIGTRAP has this code on arm64.
const AT_HANDLER: i32 = libc::SIGTRAP;
/// `TRAP_TRACE`: a step that a tracer requested is complete.
const STEPPED: i32 = 2;

/// The signal to resume a stopped tracee with so that the kernel can make its step; `None` if no step is pending.
/// `signal` is the signal that the tracee has stopped for.
pub(crate) fn own_step(pid: i32, signal: i32) -> Option<i32> {
    let code = || signal_sender(pid).ok().map(|(_, code)| code);
    let code = (signal == libc::SIGTRAP).then(code).flatten();
    let is_to_step = || registers(pid).is_ok_and(|registers| registers.is_to_step());
    goes_on_with(signal, code, is_to_step)
}

/// [`own_step`] from the `si_code` of a `SIGTRAP` and from whether the next instruction is executed as a single step.
fn goes_on_with(signal: i32, code: Option<i32>, is_to_step: impl FnOnce() -> bool) -> Option<i32> {
    match code {
        // The kernel made this signal; the program must not get it.
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
            // Signals of the program itself: by kill(2), and by an instruction.
            (libc::SIGTRAP, Some(libc::SI_USER), false, None),
            (libc::SIGTRAP, Some(1), true, Some(libc::SIGTRAP)),
        ];
        for (signal, code, is_to_step, wanted) in cases {
            let found = goes_on_with(signal, code, || is_to_step);
            assert_eq!(found, wanted, "{signal} {code:?} {is_to_step}");
        }
    }
}
