//! Running a program traced, from the fork to its end; what `trace` and `run` have in common.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;

use crate::options::CountBy;
use crate::signals;
use clockscope_sys::signals::Mask;
use clockscope_sys::spawn::{self, Waiting};
use clockscope_sys::{access, ptrace, tsc};
use clockscope_text::foreign::Foreign;
use clockscope_tracee::decline::Decline;
use clockscope_tracee::follow::{Followed, Follower, Following};
use clockscope_tracee::image::Counting;
use clockscope_tracee::observers::{Observers, SyscallObserver, Watcher};
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;
use vdso_image::layout::INSTALL_MARK;

/// A program that waits to be executed.
pub struct Prepared {
    waiting: Waiting,
    /// The program's name.
    name: Foreign,
    /// Why it is not traced, if it is not.
    pub decline: Option<Decline>,
}

/// What came of it.
pub struct Outcome {
    /// How and when it ended.
    pub followed: Followed,
    /// When it started.
    pub started: Instant,
    /// Its processes.
    pub processes: Processes,
    /// Why it could not be executed, if it could not.
    pub failure: Option<std::io::Error>,
}

impl Prepared {
    /// Forks the child that will execute the program, and becomes its tracer if that is possible
    /// and harmless. From here on the program starts, whatever happens to this process.
    ///
    /// # Errors
    ///
    /// When no child can be had.
    pub fn fork(path: &Path, command: &[OsString], mask: &Mask) -> anyhow::Result<Self> {
        let waiting =
            spawn::fork(path, command, mask, INSTALL_MARK).context("cannot start a process")?;
        let privileged = access::gives_privileges(path) && access::effective_uid() != 0;
        let decline = if privileged {
            Some(Decline::Privileged)
        } else {
            ptrace::seize(waiting.pid(), ptrace::FOLLOW).err().map(|_| Decline::NotTraceable)
        };
        let name = path.file_name().unwrap_or_default().into();
        Ok(Self { waiting, name, decline })
    }

    /// Waits until the child makes no calls of its own any more, so that from then on those of the program can be
    /// counted.
    ///
    /// # Errors
    ///
    /// When the child has died.
    pub fn until_ready(&mut self) -> anyhow::Result<()> {
        self.waiting.until_ready().context("the program's process is gone before its start")
    }

    /// Process id of the child.
    pub fn pid(&self) -> i32 {
        self.waiting.pid()
    }

    /// Lets the child execute the program and follows it to its end.
    ///
    /// # Errors
    ///
    /// When the child has died or cannot be waited for.
    pub fn follow<'a>(
        self,
        session: &'a Session,
        syscalls: Option<&'a mut dyn SyscallObserver>,
        watcher: Option<&'a mut dyn Watcher>,
        how: Following,
    ) -> anyhow::Result<Outcome> {
        let program = self.waiting.pid();
        let seen = signals::forward(program);
        let mut follower = Follower::new(
            session,
            program,
            self.name,
            Observers { syscalls, signals: Box::new(Arc::clone(&seen)), watcher },
        );
        let ticker = follower.ticker().context("cannot start a timer; see `ulimit -i`")?;
        let started = Instant::now();
        let failure =
            self.waiting.go().context("the program's process is gone before its start")?;
        let followed = follower.run(how, ticker).context("cannot wait for the program")?;
        seen.program_has_ended();
        let mut processes = follower.into_processes();
        if let Some(decline) = self.decline {
            let process = processes.get_mut(0);
            process.declines.push((process.command.clone(), decline));
        }
        Ok(Outcome { followed, started, processes, failure: failure.wait() })
    }
}

/// How vDSO calls can be counted on this CPU and kernel.
pub fn counting(by: CountBy) -> Counting {
    match by {
        CountBy::Thread if tsc::has_thread_pointer() => Counting::ByThread,
        CountBy::Thread | CountBy::Cpu => Counting::ByCpu,
    }
}
