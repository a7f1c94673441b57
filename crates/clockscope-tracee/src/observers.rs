//! Who looks on while programs are followed.

use std::sync::Arc;
use std::time::Duration;

use super::processes::Processes;

/// Somebody who wants to see every system call (by ptrace, which costs about 20 us each).
pub trait SyscallObserver {
    /// A thread has stopped before or after a system call.
    fn stopped(&mut self, process: i32, thread: i32);
    /// A thread is gone.
    fn gone(&mut self, thread: i32);
}

/// Somebody who wants to know which signals the program is given.
pub trait SignalObserver {
    /// The program's first thread is about to be given this signal.
    fn delivered(&self, signal: i32, sender: i32);
}

impl<T: SignalObserver> SignalObserver for Arc<T> {
    fn delivered(&self, signal: i32, sender: i32) {
        T::delivered(self, signal, sender);
    }
}

/// Somebody who looks on while the programs run.
pub trait Watcher {
    /// Whether [`Self::mapped`] matters to it; each program that is executed stops a few times more
    /// for it.
    fn wants_images(&self) -> bool {
        false
    }
    /// The shim lies at this address of the process, and nothing of the program has run with it.
    fn mapped(&mut self, process: i32, image: u64);
    /// A thread of this process passes no hardware breakpoint any more ([`clockscope_sys::ptrace::is_at_breakpoint`]).
    fn loses_breakpoints(&mut self, _process: i32) {}
    /// A process has ended, or executed another program.
    fn gone(&mut self, process: i32);
    /// Called about every [`Self::interval`]; says whether to go on.
    fn tick(&mut self, processes: &Processes) -> Wish;
    /// How often to call [`Self::tick`].
    fn interval(&self) -> Duration;
    /// This process is about to stop, as the program was stopped from the terminal.
    fn stopping(&mut self) {}
    /// The program goes on, and this process with it.
    fn continued(&mut self) {}
}

/// What a [`Watcher`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    GoOn,
    /// Stop counting and leave the programs alone.
    Leave,
}

/// Who listens.
pub struct Observers<'a> {
    /// To system calls.
    pub syscalls: Option<&'a mut dyn SyscallObserver>,
    /// To signals.
    pub signals: Box<dyn SignalObserver>,
    /// To everything, from time to time.
    pub watcher: Option<&'a mut dyn Watcher>,
}
