//! System calls that a stop would end with `EINTR`, though nothing has happened to the program.
//!
//! A stop is what a tracer asks for, and also what a signal leads to that the program ignores: without a tracer
//! the kernel drops it. The kernel restarts most calls that a tracer's stop has interrupted, but not `epoll_wait` and a few
//! more (signal(7)): a program sees `EINTR` from them under `strace -p` and every debugger. Where such a
//! call waits without limit, the kernel is told to do with it as with `pause`: to end it if a signal
//! handler runs now, and otherwise to make it again. With a limit, it would wait for longer than it was
//! to, and is left alone.

use crate::attach::unlimited;
use clockscope_sys::ptrace::{self, Registers};

const EINTR: u64 = (-4_i64).cast_unsigned();
/// "Make it again if no handler runs": include/linux/errno.h (Linux 6.18).
const ERESTARTNOHAND: u64 = (-514_i64).cast_unsigned();

/// What is asked of a thread before it is stopped: nothing, because its registers tell afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InCall {}

/// Nothing.
pub(crate) fn in_call(_thread: i32) -> Option<InCall> {
    None
}

/// Nothing either.
pub(crate) fn next_call(
    _registers: &Registers,
    _word: &mut impl FnMut(u64) -> Option<u32>,
) -> Option<InCall> {
    None
}

/// Changes the registers of a thread that executes something else before it goes on with these: the kernel finds all that
/// it needs in them.
pub(crate) fn keep_time(_registers: &mut Registers, _before: Option<&InCall>) {}

/// Changes the registers with which a thread goes on that a signal's handler interrupts now: the kernel does that.
pub(crate) fn end(_registers: &mut Registers, _before: Option<&InCall>) {}

impl InCall {
    /// The same of a thread that has executed something else.
    pub(crate) fn moved(self) -> Self {
        self
    }
}

/// Whether a thread has to be seen to the beginning of the call that it makes again: the kernel knows how the call ends.
pub(crate) fn is_on_its_way(_thread: i32, _before: &InCall) -> bool {
    false
}

/// The same of a thread that is let go then.
pub(crate) fn is_let_go_on_its_way(_thread: i32, _before: &InCall) -> bool {
    false
}

/// A handler runs before a thread makes its call again: the kernel has ended the call.
pub(crate) fn end_on_the_way(_thread: i32, _before: &InCall) {}

/// If a thread that stands still was stopped in such a call, and this is so: it goes on with it. Whether it is so is
/// asked only where it matters.
pub(crate) fn go_on_if(thread: i32, _before: Option<&InCall>, is_so: impl FnOnce() -> bool) {
    let Ok(mut registers) = ptrace::registers(thread) else { return };
    if registers.rax == EINTR && waits_without_limit(&registers) && is_so() {
        registers.rax = ERESTARTNOHAND;
        // If it was killed meanwhile, it needs nothing.
        let _ = ptrace::set_registers(thread, &registers);
    }
}

/// Whether the thread is in a call that waits until something happens. Pure.
fn waits_without_limit(registers: &Registers) -> bool {
    let arguments = std::array::from_fn(|index| registers.argument(index));
    unlimited::waits_without_limit(registers.orig_rax.cast_signed(), &arguments)
}

/// The call that every architecture has in place of one that not every one has, with the same first four arguments.
pub(crate) fn general(number: i64) -> i64 {
    if number == libc::SYS_epoll_wait { libc::SYS_epoll_pwait } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_a_limit_is_left_alone() {
        let in_call = |number: u64, r10: u64| {
            let mut registers = Registers::zero();
            (registers.orig_rax, registers.r10) = (number, r10);
            waits_without_limit(&registers)
        };
        assert!(in_call(232, 0xffff_ffff) && in_call(281, u64::MAX) && in_call(441, 0));
        assert!(!in_call(232, 100) && !in_call(281, 0) && !in_call(441, 0x7ffd_0000_1000));
        assert!(in_call(426, 1) && !in_call(426, 1 | 1 << 3) && !in_call(426, 1 | 1 << 6));
        assert!(!in_call(u64::MAX, u64::MAX) && !in_call(0, 0));
    }
}
