//! System calls that a stop would end with `EINTR`, although nothing has happened to the program.
//!
//! A tracer may ask for a stop. A signal that the program ignores causes a stop as well; without a tracer the kernel
//! would drop it. The kernel restarts most calls that a stop has interrupted, but not `epoll_wait` and a few more
//! (signal(7)): a program sees `EINTR` from them under `strace -p` and every debugger. If such a call waits without a
//! time limit, the tracer makes the kernel treat it like `pause`: the call ends if a signal handler runs now, and is
//! restarted otherwise. A restarted call with a time limit would wait for too long, so it is left alone.

use crate::attach::unlimited;
use clockscope_sys::ptrace::{self, Registers};

const EINTR: u64 = (-4_i64).cast_unsigned();
/// "Restart if no handler runs": include/linux/errno.h (Linux 6.18).
const ERESTARTNOHAND: u64 = (-514_i64).cast_unsigned();

/// A thread's call as recorded before a stop. Not needed here, because the registers after the stop are sufficient.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InCall {}

/// Always `None`: x86-64 records no call.
pub(crate) fn in_call(_thread: i32) -> Option<InCall> {
    None
}

/// Always `None`, as for [`in_call`].
pub(crate) fn next_call(
    _registers: &Registers,
    _word: &mut impl FnMut(u64) -> Option<u32>,
) -> Option<InCall> {
    None
}

/// Changes nothing: the registers contain everything that the kernel needs to continue the call after the thread has
/// executed other code.
pub(crate) fn keep_time(_registers: &mut Registers, _before: Option<&InCall>) {}

/// Changes nothing: the kernel itself ends a call that a signal handler interrupts.
pub(crate) fn end(_registers: &mut Registers, _before: Option<&InCall>) {}

impl InCall {
    /// The call of a thread that has executed other code since.
    pub(crate) fn moved(self) -> Self {
        self
    }
}

/// Whether the tracer must trace a thread to the beginning of the call that it makes again: never, because the kernel
/// knows how the call ends.
pub(crate) fn is_on_its_way(_thread: i32, _before: &InCall) -> bool {
    false
}

/// The same before detaching from the thread.
pub(crate) fn is_let_go_on_its_way(_thread: i32, _before: &InCall) -> bool {
    false
}

/// Changes nothing: the kernel has ended the call before the handler runs.
pub(crate) fn end_on_the_way(_thread: i32, _before: &InCall) {}

/// Makes a stopped thread continue with its call if the stop has ended the call and `is_so` holds. Calls `is_so` only
/// for such calls.
pub(crate) fn go_on_if(thread: i32, _before: Option<&InCall>, is_so: impl FnOnce() -> bool) {
    let Ok(mut registers) = ptrace::registers(thread) else { return };
    if registers.rax == EINTR && waits_without_limit(&registers) && is_so() {
        registers.rax = ERESTARTNOHAND;
        // If the thread was killed meanwhile, nothing needs to be done.
        let _ = ptrace::set_registers(thread, &registers);
    }
}

/// Whether the thread is in a call that waits for an event without a time limit. Pure.
fn waits_without_limit(registers: &Registers) -> bool {
    let arguments = std::array::from_fn(|index| registers.argument(index));
    unlimited::waits_without_limit(registers.orig_rax.cast_signed(), &arguments)
}

/// Maps a call that not every architecture has to the general one with the same first four arguments.
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
