//! The loop over a launched program and the processes that it starts.

use std::io;
use std::time::{Duration, Instant};

use super::{End, Follower, Next, finish};
use crate::observers::Observers;
use crate::session::Session;
use crate::sites::Ahead;
use clockscope_sys::ptrace;
use clockscope_sys::real_time::Service;
use clockscope_sys::ticker::Ticker;
use clockscope_sys::wait::Status;
use clockscope_text::foreign::Foreign;

/// Result of following the program.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    /// How the program ended; `None` if that is unknown.
    pub end: Option<End>,
    /// When the program ended.
    pub ended: Instant,
    /// Processor time of the program and the children that it waited for.
    pub cpu: Duration,
    /// True if a watcher ended the loop while the program ran. The program continues uncounted.
    pub left: bool,
}

impl Followed {
    /// The result without information about the program's end, as of now.
    fn lost() -> Self {
        Self { end: None, ended: Instant::now(), cpu: Duration::ZERO, left: false }
    }
}

/// How long to follow the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// Until it has started. Programs that it executes later have the kernel's image.
    Start,
    /// Until it has ended. Processes that it has started then continue uncounted.
    Program,
    /// Until the last process of the tree has ended.
    All,
}

impl<'a> Follower<'a> {
    /// Makes the loop for a program of this name that is seized and waits to execute. `ahead` is a search for system calls that
    /// goes on already.
    pub fn new(
        session: &'a Session,
        program: i32,
        name: Foreign,
        observers: Observers<'a>,
        ahead: Option<Ahead>,
    ) -> Self {
        let mut follower = Self::of_running(session, observers);
        follower.program = program;
        follower.processes.add(program, name, None);
        follower.processes.queue_from_now(program);
        follower.sites.ahead = ahead;
        follower
    }

    /// Follows the program until its end, and the processes that it starts, as far as `how` says. The timer is made by
    /// [`Self::ticker`] before the program starts, because a failure after that would leave the program without its
    /// tracer.
    ///
    /// # Errors
    ///
    /// If the kernel does not let this process wait.
    pub fn run(&mut self, how: Following, mut ticker: Option<Ticker>) -> io::Result<Followed> {
        let mut followed = Followed::lost();
        self.service = Some(Service::begin());
        loop {
            match self.next(ticker.as_mut())? {
                Next::Nothing => {}
                Next::Wished => {
                    followed = Followed { left: true, ..Followed::lost() };
                    break;
                }
                Next::Nobody => break,
                Next::Stopped(thread, Status::Event(libc::PTRACE_EVENT_EXEC, _))
                    if how == Following::Start =>
                {
                    self.executed(thread);
                    // If the program was killed meanwhile, the next wait reports its end.
                    let _ = ptrace::detach_with(thread, 0);
                }
                Next::Stopped(thread, stop) => self.stopped(thread, stop),
                Next::Ended { task, end, cpu } if task == self.program => {
                    followed = Followed { end: Some(end), cpu, ..Followed::lost() };
                    if how != Following::All {
                        break;
                    }
                }
                Next::Ended { .. } => {}
            }
        }
        drop(ticker);
        self.service = None;
        finish(&mut self.processes);
        Ok(followed)
    }
}
