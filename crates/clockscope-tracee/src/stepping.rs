//! Moving a thread that has stopped for a signal on to where the signal may find it, instruction by instruction.

use std::time::{Duration, Instant};

use super::attach::threads::Threads;
use clockscope_sys::ptrace::{self, Registers, SignalInfo};
use clockscope_sys::signals;
use clockscope_sys::wait::Status;

/// More than there are instructions to be left.
const STEPS_MAX: u32 = 200;
/// How long a step is waited for before it is looked whether the thread still lives.
const STEPS_WITHIN: Duration = Duration::from_millis(100);
/// All but `SIGTRAP`, by which a step ends.
const WHILE_STEPPING: u64 = !(1 << (libc::SIGTRAP - 1));

/// Lets a thread execute as long as it stands where it should not, by its registers; each place that it has executed
/// is told of. It stands at the same signal again then.
///
/// Other signals wait meanwhile. A stop of the whole process is entered and left, and comes once more, if it still
/// holds, when the thread goes on: the kernel itself remembers that, and what `SIGCONT` has made of it.
///
/// One that blocks or ignores `SIGTRAP` is not moved: the kernel would make it deadly. Nor is one that is at fault
/// there: its handler finds it in the code of ours, and the instruction is executed again when that returns.
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

/// One instruction. Gives whether the process was stopped meanwhile; `None` if the thread has ended or something
/// else has happened to it.
fn step(pid: i32, thread: i32) -> Option<bool> {
    let mut was_halted = false;
    let mut signal = 0;
    loop {
        ptrace::single_step(thread, signal).ok()?;
        let mut threads = Threads::of(pid, [thread]);
        // This one lets the program run, whatever priority it has and this process.
        while !threads.wait(thread, Instant::now() + STEPS_WITHIN) {}
        signal = match threads.status(thread)? {
            Status::Signal(libc::SIGTRAP) => return Some(was_halted),
            // It cannot be blocked.
            Status::Signal(libc::SIGSTOP) => libc::SIGSTOP,
            Status::Event(libc::PTRACE_EVENT_STOP, _) => {
                was_halted = true;
                0
            }
            _ => return None,
        };
    }
}
