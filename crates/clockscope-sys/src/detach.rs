//! Going to the background: the parent waits until the forked child reports that it is ready.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// The two sides of the fork.
#[derive(Debug)]
pub enum Side {
    /// The child, which goes on in the background.
    Child(Word),
    /// The parent, which the user has started.
    Parent(Waiting),
}

/// The pipe by which the child reports that it is ready.
#[derive(Debug)]
pub struct Word(PipeWriter);

/// The parent's end of the pipe, and the child to wait for if no report comes.
#[derive(Debug)]
pub struct Waiting {
    pid: i32,
    word: PipeReader,
}

/// Forks. The process must have one thread only.
///
/// # Errors
///
/// Those of `fork(2)` and `pipe(2)`; `Other` if there are more threads.
pub fn fork() -> io::Result<Side> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::other("this process has several threads"));
    }
    let (word, speaker) = io::pipe()?;
    // SAFETY: there is one thread, so no lock is held in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child(Word(speaker))),
        pid => Ok(Side::Parent(Waiting { pid, word })),
    }
}

impl Word {
    /// Leaves the terminal and the directory, and reports to the parent, which then ends.
    ///
    /// # Errors
    ///
    /// When `/dev/null` cannot be opened.
    pub fn give(mut self) -> io::Result<()> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        // A process that leads a group already stays in its session.
        let _ = rustix::process::setsid();
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        std::env::set_current_dir("/")?;
        // If the parent has died, no report is needed.
        let _ = self.0.write_all(b".");
        Ok(())
    }
}

impl Waiting {
    /// Waits for the report and gives 0; if none comes, gives the child's exit status.
    ///
    /// # Errors
    ///
    /// Those of `waitpid(2)`.
    pub fn wait(mut self) -> io::Result<i32> {
        if matches!(self.word.read(&mut [0]), Ok(1)) {
            return Ok(0);
        }
        let status = super::wait::child(self.pid)?;
        let was_killed = libc::WIFSIGNALED(status);
        Ok(if was_killed { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) })
    }
}
