//! Traits for code that observes programs while they are followed.

use std::time::Duration;

use super::processes::Processes;

/// Observes every system call (by ptrace, which costs about 20 us each).
pub trait SyscallObserver {
    /// A thread has stopped before or after a system call.
    fn stopped(&mut self, process: i32, thread: i32);
    /// A thread is gone.
    fn gone(&mut self, thread: i32);
}

/// Observes the programs while they run.
pub trait Watcher {
    /// Whether [`Self::mapped`] is needed. Each program that is executed stops a few times more for it.
    fn wants_images(&self) -> bool {
        false
    }
    /// The shim is mapped at this address of the process, and no code of the program has run with it.
    fn mapped(&mut self, _process: i32, _image: u64) {}
    /// A thread of this process no longer stops at hardware breakpoints ([`clockscope_sys::ptrace::is_at_breakpoint`]).
    fn loses_breakpoints(&mut self, _process: i32) {}
    /// A process has ended, or executed another program.
    fn gone(&mut self, _process: i32) {}
    /// Called about every [`Self::interval`]. Returns whether to go on.
    fn tick(&mut self, processes: &Processes) -> Wish;
    /// Time between two calls of [`Self::tick`].
    fn interval(&self) -> Duration;
    /// This process will stop now, because the program was stopped from the terminal.
    fn stopping(&mut self) {}
    /// The program continues, and so does this process.
    fn continued(&mut self) {}
}

/// The decision of a [`Watcher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    GoOn,
    /// Stop counting and leave the programs alone.
    Leave,
}

/// All observers.
pub struct Observers<'a> {
    /// Observes system calls.
    pub syscalls: Option<&'a mut dyn SyscallObserver>,
    /// Called with a signal and its sender when the program's first thread will receive the signal.
    pub signals: &'a dyn Fn(i32, i32),
    /// Observes the programs at intervals.
    pub watcher: Option<&'a mut dyn Watcher>,
}
