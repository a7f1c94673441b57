//! Going to the background: a child that goes on, and a parent that waits for its word.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Which of the two this process is after the fork.
#[derive(Debug)]
pub enum Side {
    /// The one that goes on.
    Child(Word),
    /// The one that was started by the user.
    Parent(Waiting),
}

/// The child's word that all is well.
#[derive(Debug)]
pub struct Word(PipeWriter);

/// The parent, with the child's exit status if there is no word.
#[derive(Debug)]
pub struct Waiting {
    pid: i32,
    word: PipeReader,
}

/// Forks. To be called while there is one thread.
///
/// # Errors
///
/// Those of `fork(2)` and `pipe(2)`; `Other` if there are more threads.
pub fn fork() -> io::Result<Side> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::other("this process has several threads"));
    }
    let (word, speaker) = io::pipe()?;
    // SAFETY: there is one thread, so that the child finds everything as it was.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child(Word(speaker))),
        pid => Ok(Side::Parent(Waiting { pid, word })),
    }
}

impl Word {
    /// Leaves the terminal and the directory, and lets the parent end.
    ///
    /// # Errors
    ///
    /// Where `/dev/null` cannot be opened.
    pub fn give(mut self) -> io::Result<()> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        // A process that leads a group already stays in its session.
        let _ = rustix::process::setsid();
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        std::env::set_current_dir("/")?;
        // A parent that is gone needs no word.
        let _ = self.0.write_all(b".");
        Ok(())
    }
}

impl Waiting {
    /// Waits for the word; without one gives the child's exit status.
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
