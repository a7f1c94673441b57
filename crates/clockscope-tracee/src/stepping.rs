//! Steps a thread that has stopped for a signal out of our code, instruction by instruction, before the signal is
//! delivered.

use std::time::{Duration, Instant};

use super::attach::threads::Threads;
use clockscope_sys::ptrace::{self, Registers, SignalInfo};
use clockscope_sys::signals;
use clockscope_sys::wait::Status;

/// More steps than any of our code needs.
const STEPS_MAX: u32 = 200;
/// How long to wait for a step before checking whether the thread still lives.
const STEPS_WITHIN: Duration = Duration::from_millis(100);
/// All signals but `SIGTRAP`, which reports the end of a step.
const WHILE_STEPPING: u64 = !(1 << (libc::SIGTRAP - 1));

/// Steps a thread as long as `is_to_go` holds for its registers. Calls `has_executed` with the address of each executed
/// instruction. The thread then stands at the same signal again.
///
/// Other signals wait meanwhile. If the process enters a group-stop, the thread leaves it and enters it again
/// afterwards, if the stop still holds: the kernel itself remembers it, and the effect of a `SIGCONT`.
///
/// A thread that blocks or ignores `SIGTRAP` is not stepped, because the kernel would then kill the process. A thread
/// whose instruction has faulted is not stepped either: its handler finds the thread in our code, and the instruction
/// is executed again when the handler returns.
pub(crate) fn leave(
    pid: i32,
    thread: i32,
    is_to_go: impl Fn(&Registers) -> bool,
    mut has_executed: impl FnMut(u64),
) {
    let place = || ptrace::registers(thread).ok().filter(&is_to_go);
    if place().is_none() || signals::is_ignored(thread, libc::SIGTRAP) {
        return;
    }
    let (Ok(info), Ok(mask)) = (SignalInfo::of(thread), ptrace::signal_mask(thread)) else {
        return;
    };
    if info.is_fault() || mask & !WHILE_STEPPING != 0 {
        return;
    }
    if ptrace::set_signal_mask(thread, WHILE_STEPPING).is_err() {
        return;
    }
    let mut was_halted = false;
    for _ in 0..STEPS_MAX {
        let Some(place) = place() else { break };
        let Some(halted) = step(pid, thread) else { break };
        was_halted |= halted;
        has_executed(place.pc());
    }
    let _ = ptrace::set_signal_mask(thread, mask);
    let _ = info.tell(thread);
    if was_halted {
        let _ = ptrace::interrupt(thread);
    }
}

/// Executes one instruction. Returns whether the process was in a group-stop meanwhile; `None` if the thread has ended
/// or has stopped for another reason.
fn step(pid: i32, thread: i32) -> Option<bool> {
    let mut was_halted = false;
    let mut signal = 0;
    loop {
        ptrace::single_step(thread, signal).ok()?;
        let mut threads = Threads::of(pid, [thread]);
        // `wait` sleeps in between, which lets the program run whatever its priority and ours.
        while !threads.wait(thread, Instant::now() + STEPS_WITHIN) {}
        signal = match threads.status(thread)? {
            Status::Signal(libc::SIGTRAP) => return Some(was_halted),
            // SIGSTOP cannot be blocked.
            Status::Signal(libc::SIGSTOP) => libc::SIGSTOP,
            Status::Event(libc::PTRACE_EVENT_STOP, _) => {
                was_halted = true;
                0
            }
            _ => return None,
        };
    }
}
