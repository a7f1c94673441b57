//! The loop over a program that was launched, and what it starts.

use std::io;
use std::time::{Duration, Instant};

use super::{End, Follower, Next, finish};
use crate::observers::Observers;
use crate::session::Session;
use clockscope_sys::ptrace;
use clockscope_sys::real_time::Service;
use clockscope_sys::ticker::Ticker;
use clockscope_sys::wait::Status;
use clockscope_text::foreign::Foreign;

/// What came of following the program.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    /// How the program ended; `None` if it was lost.
    pub end: Option<End>,
    /// When.
    pub ended: Instant,
    /// Processor time of the program and the children it waited for.
    pub cpu: Duration,
    /// True if a watcher wanted to leave while the program ran; it goes on uncounted.
    pub left: bool,
}

impl Followed {
    /// Nothing is known of the program's end; until now.
    fn lost() -> Self {
        Self { end: None, ended: Instant::now(), cpu: Duration::ZERO, left: false }
    }
}

/// How far the program is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// Not beyond its start: what it executes later has the kernel's image.
    Start,
    /// Until it has ended; processes of it that still run then go on uncounted.
    Program,
    /// Until the last process of the tree has ended.
    All,
}

impl<'a> Follower<'a> {
    /// Makes the loop for a program of this name that is seized and waits to execute.
    pub fn new(
        session: &'a Session,
        program: i32,
        name: Foreign,
        observers: Observers<'a>,
    ) -> Self {
        let mut follower = Self::of_running(session, observers);
        follower.program = program;
        follower.processes.add(program, name, None);
        if session.counts_sites() {
            follower.sites.look_ahead();
        }
        follower
    }

    /// Follows the program until it has ended, and what it starts, as far as `how` says; with the timer of
    /// [`Self::ticker`], which is there before the program starts, because a program must not be left alone.
    ///
    /// # Errors
    ///
    /// When the kernel does not let us wait.
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
                    // If it was killed meanwhile, its end comes next.
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
