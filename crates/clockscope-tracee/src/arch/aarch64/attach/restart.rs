//! System calls that a stop interrupts.
//!
//! When the arm64 kernel lets a tracer see a thread, it has already decided how the thread's system call continues, and
//! shows the registers for that (`do_signal` in arch/arm64/kernel/signal.c, Linux 6.18). If the thread executes other
//! code meanwhile, that decision is lost, and the tracer must make it. For this the tracer needs the call and its first
//! argument. The kernel shows these only while the thread sleeps in the call (`/proc/PID/syscall`), so the tracer reads
//! them before each stop.
//!
//! A thread that makes its call again needs some microseconds to reach it. The kernel treats a signal that arrives in
//! that time as if it had come before the call. So the tracer traces the thread to the beginning of the call. If a
//! handled signal arrives before that, the tracer makes the call end as interrupted. From the beginning of the call on,
//! the kernel decides.
//!
//! A stop ends some calls with `EINTR`, although nothing has happened to the program: `epoll_wait` and a few more
//! (signal(7)). If such a call waits without a time limit, the thread makes it again. A call with a time limit would
//! wait for too long, so it is left alone.

use crate::attach::unlimited;
use clockscope_sys::ptrace::{self, Registers};
use clockscope_sys::{proc_text, signals};

const EINTR: u64 = (-4_i64).cast_unsigned();
const SYS_RESTART_SYSCALL: u64 = 128;
/// Bytes of `svc`, the instruction that enters the kernel.
const SVC: u64 = 4;

/// A system call that a thread slept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InCall {
    number: i64,
    arguments: [u64; 6],
    /// Address of the instruction behind the call.
    next: u64,
    /// Whether the thread has executed other code since.
    is_moved: bool,
}

/// The call in which a thread sleeps; `None` for a thread that runs or is runnable.
pub(crate) fn in_call(thread: i32) -> Option<InCall> {
    parse(&proc_text::read(format!("/proc/{thread}/syscall")).ok()?)
}

/// The call that a thread with these registers makes with its next instruction. `word` reads an instruction of the
/// thread's. The thread may also have been stopped in this call, and the kernel then decides the same.
pub(crate) fn next_call(
    registers: &Registers,
    word: &mut impl FnMut(u64) -> Option<u32>,
) -> Option<InCall> {
    const SVC_0: u32 = 0xd400_0001;
    (word(registers.pc()) == Some(SVC_0)).then(|| InCall {
        number: registers.call_number().cast_signed(),
        arguments: std::array::from_fn(|index| registers.argument(index)),
        next: registers.pc() + SVC,
        is_moved: false,
    })
}

/// Parses a line of `/proc/PID/syscall`: the number, six arguments, the stack pointer and the next instruction.
fn parse(line: &str) -> Option<InCall> {
    let (number, rest) = line.split_once(' ')?;
    let mut words =
        rest.split_whitespace().map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = words.next()??;
    }
    let number = number.parse().ok()?;
    Some(InCall { number, arguments, next: words.nth(1)??, is_moved: false })
}

/// Makes a stopped thread repeat its call if the stop has ended the call and `is_so` holds. Calls `is_so` only for such
/// calls.
pub(crate) fn go_on_if(thread: i32, before: Option<&InCall>, is_so: impl FnOnce() -> bool) {
    let Some(call) = before.filter(|call| call.waits_without_limit()) else { return };
    let Ok(mut registers) = ptrace::registers(thread) else { return };
    if call.has_ended_with_eintr(&registers) && is_so() && !signals::is_to_be_handled(thread) {
        registers.set_pc(call.next - SVC);
        registers.set_general(0, call.arguments[0]);
        // If the thread was killed meanwhile, nothing needs to be done.
        let _ = ptrace::set_registers(thread, &registers);
    }
}

/// Whether the tracer must trace a stopped thread to the beginning of the call that it makes again, because the kernel
/// does not know that the thread was waiting.
pub(crate) fn is_on_its_way(thread: i32, before: &InCall) -> bool {
    (before.is_moved || before.waits_without_limit())
        && ptrace::registers(thread).is_ok_and(|registers| before.is_made_again_by(&registers))
}

/// The same before detaching from the thread. If the tracer detaches at the beginning of a call, the kernel lets the
/// thread continue as if a signal had arrived (`__ptrace_unlink` in kernel/ptrace.c, Linux 6.18), and looks for that
/// signal only when the call ends. Most calls are then restarted, but calls that a stop ends would return `EINTR`. The
/// tracer detaches in front of such a call instead.
pub(crate) fn is_let_go_on_its_way(thread: i32, before: &InCall) -> bool {
    !before.waits_without_limit() && is_on_its_way(thread, before)
}

/// Handles a signal handler that runs before a stopped thread has made its call again: ends the call if handlers always
/// end it.
pub(crate) fn end_on_the_way(thread: i32, before: &InCall) {
    if let Ok(mut registers) = ptrace::registers(thread) {
        end(&mut registers, Some(before));
        // If the thread was killed meanwhile, nothing needs to be done.
        let _ = ptrace::set_registers(thread, &registers);
    }
}

/// Changes the registers with which a thread continues after other code: a sleep with a relative time continues with
/// the remaining time.
pub(crate) fn keep_time(registers: &mut Registers, before: Option<&InCall>) {
    if before.is_some_and(|call| call.is_made_again_by(registers) && call.has_time_left()) {
        registers.set_general(8, SYS_RESTART_SYSCALL);
    }
}

/// Changes the registers of a thread that is about to run a signal handler: a call that is never restarted after a
/// handler ends with `EINTR`.
pub(crate) fn end(registers: &mut Registers, before: Option<&InCall>) {
    let Some(call) = before.filter(|call| call.is_made_again_by(registers)) else { return };
    if call.ends_by_handler() {
        registers.set_pc(call.next);
        registers.set_general(0, EINTR);
        registers.set_general(8, call.number.cast_unsigned());
    }
}

/// Returns `number`: every call is general on arm64.
pub(crate) fn general(number: i64) -> i64 {
    number
}

impl InCall {
    /// The call of a thread that has executed other code since.
    pub(crate) fn moved(self) -> Self {
        Self { is_moved: true, ..self }
    }

    /// Whether the thread continues by making the call again, with all arguments or with the remaining time.
    fn is_made_again_by(&self, registers: &Registers) -> bool {
        let number = registers.call_number();
        registers.pc() == self.next - SVC
            && self.has_arguments(registers)
            && (number == self.number.cast_unsigned() || number == SYS_RESTART_SYSCALL)
    }

    fn has_ended_with_eintr(&self, registers: &Registers) -> bool {
        registers.pc() == self.next
            && registers.result() == EINTR
            && self.has_arguments(registers)
            && registers.call_number() == self.number.cast_unsigned()
    }

    /// Whether the registers hold the call's arguments: the thread may have made another call since. The first one is
    /// not compared, because the result may have replaced it.
    fn has_arguments(&self, registers: &Registers) -> bool {
        (1..6).all(|index| registers.argument(index) == self.arguments[index])
    }

    /// Whether the kernel keeps the remaining time of the call in a `restart_block`.
    fn has_time_left(&self) -> bool {
        const TIMER_ABSTIME: u64 = 1;
        const FUTEX_COMMAND: u64 = 0x7f;
        match self.number {
            libc::SYS_nanosleep => true,
            libc::SYS_clock_nanosleep => self.arguments[1] & TIMER_ABSTIME == 0,
            // `FUTEX_WAIT`; the other commands take an absolute time.
            libc::SYS_futex => self.arguments[1] & FUTEX_COMMAND == 0 && self.arguments[3] != 0,
            _ => false,
        }
    }

    /// Whether a signal handler always ends the call, even with `SA_RESTART`: signal(7).
    fn ends_by_handler(&self) -> bool {
        self.has_time_left()
            || self.waits_without_limit()
            || matches!(
                self.number,
                libc::SYS_clock_nanosleep
                    | libc::SYS_ppoll
                    | libc::SYS_pselect6
                    | libc::SYS_rt_sigsuspend
                    | libc::SYS_restart_syscall
            )
    }

    /// Whether the call waits for an event without a time limit, and a stop ends it.
    fn waits_without_limit(&self) -> bool {
        unlimited::waits_without_limit(self.number, &self.arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "115 0x1 0x0 0xffffc000 0x0 0x0 0x0 0xffffdf000010 0xffff90001004\n";

    fn stopped(number: u64, pc: u64, result: u64) -> Registers {
        let mut registers = Registers::zero();
        registers.set_general(2, 0xffff_c000);
        registers.set_pc(pc);
        registers.set_general(0, result);
        registers.set_general(8, number);
        registers
    }

    #[test]
    fn what_the_kernel_says_of_a_thread_is_read() {
        let call = parse(LINE).expect("a call");
        assert_eq!((call.number, call.next), (115, 0xffff_9000_1004));
        assert_eq!(call.arguments, [1, 0, 0xffff_c000, 0, 0, 0]);
        assert_eq!(parse("running\n"), None);
        assert_eq!(parse("-1 0xffffdf000010 0xffff90001004\n"), None);
    }

    #[test]
    fn a_sleep_goes_on_with_the_rest_of_its_time() {
        let call = parse(LINE);
        let mut registers = stopped(115, 0xffff_9000_1000, 1);
        keep_time(&mut registers, call.as_ref());
        assert_eq!(registers.call_number(), SYS_RESTART_SYSCALL);
        // A handler ends the sleep.
        end(&mut registers, call.as_ref());
        assert_eq!(
            (registers.pc(), registers.result(), registers.call_number()),
            (0xffff_9000_1004, EINTR, 115)
        );
        // A sleep until an absolute time, or a thread at another address, is left unchanged.
        let until = parse(&LINE.replacen("0x0", "0x1", 1));
        for (call, pc, flags) in [(until, 0xffff_9000_1000, 1), (call, 0xffff_9000_1004, 0)] {
            let mut registers = stopped(115, pc, 1);
            registers.set_general(1, flags);
            keep_time(&mut registers, call.as_ref());
            assert_eq!(registers.call_number(), 115);
        }
    }

    #[test]
    fn a_thread_that_begins_a_call_is_as_one_that_makes_it_again() {
        let registers = stopped(115, 0xffff_9000_1000, 1);
        let call = next_call(&registers, &mut |_| Some(0xd400_0001)).expect("a call");
        assert!(call.is_made_again_by(&registers) && call.ends_by_handler());
        assert_eq!(next_call(&registers, &mut |_| Some(0xd503_201f)), None);
    }

    #[test]
    fn a_call_that_another_has_followed_is_not_ended() {
        let call = parse(LINE);
        let mut registers = stopped(115, 0xffff_9000_1000, 1);
        registers.set_general(2, 0xffff_d000);
        keep_time(&mut registers, call.as_ref());
        end(&mut registers, call.as_ref());
        assert_eq!((registers.pc(), registers.call_number()), (0xffff_9000_1000, 115));
    }

    #[test]
    fn a_call_with_a_limit_is_left_alone() {
        let call = |number, index: usize, value| {
            let mut arguments = [0; 6];
            arguments[index] = value;
            InCall { number, arguments, next: 4, is_moved: false }.waits_without_limit()
        };
        assert!(call(22, 3, 0xffff_ffff) && call(441, 3, 0) && call(193, 0, 0));
        assert!(!call(22, 3, 100) && !call(441, 3, 0x7ffd_0000_1000) && !call(63, 0, 0));
        assert!(call(426, 3, 1) && !call(426, 3, 1 | 1 << 3) && !call(426, 3, 1 | 1 << 6));
    }
}
