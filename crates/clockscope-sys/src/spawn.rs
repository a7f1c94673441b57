//! Starts the program: a forked child waits for a command before it executes the program.

use std::ffi::{CString, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::signals::{self, Mask};

/// A child that has not executed the program yet.
#[derive(Debug)]
pub struct Waiting {
    pid: i32,
    /// `None` once the command is given.
    go: Option<PipeWriter>,
    is_ready: bool,
    failure: Option<PipeReader>,
}

/// The command to execute the program.
const GO: u8 = 1;
/// The command to exit instead.
const GIVE_UP: u8 = 2;
/// The child's report that it will make no other calls than to read the command and to execute.
const READY: u8 = 3;

/// Forks a child that will execute `path` with `arguments` (the program's name first).
///
/// The child has our standard input, output and error, and our environment. The system call in which it waits has
/// `mark` as its sixth argument.
///
/// # Errors
///
/// `InvalidInput` for a zero byte in an argument; `EAGAIN` when no more processes are allowed.
pub fn fork(path: &Path, arguments: &[OsString], mask: &Mask, mark: u64) -> io::Result<Waiting> {
    let path = c_string(path.as_os_str().as_bytes())?;
    let arguments =
        arguments.iter().map(|a| c_string(a.as_bytes())).collect::<io::Result<Vec<_>>>()?;
    let environment = std::env::vars_os()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c_string(&name.into_vec())
        })
        .collect::<io::Result<Vec<_>>>()?;
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    let (ready, go) = io::pipe()?;
    let (failure, failed) = io::pipe()?;
    // SAFETY: the child calls only async-signal-safe functions before it executes or exits.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // Both ends of the other pipe stay open, so that writing to a parent that has died raises no SIGPIPE.
            drop(go);
            execute(&path, &argv, &envp, mask, mark, &ready, &failed)
        }
        pid => Ok(Waiting { pid, go: Some(go), is_ready: false, failure: Some(failure) }),
    }
}

/// In the child: waits for the command, executes, and reports the error number if that fails. If the tracer dies, the
/// program starts without a command. `execve` closes the pipes.
fn execute(
    path: &CString,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    mask: &Mask,
    mark: u64,
    ready: &PipeReader,
    failed: &PipeWriter,
) -> ! {
    signals::restore_in_child(mask);
    let mut word = 0_u8;
    // SAFETY: async-signal-safe calls; the pointers are to a local and to null-terminated arrays
    // of null-terminated strings made before the fork.
    unsafe {
        libc::write(failed.as_raw_fd(), std::ptr::from_ref(&READY).cast(), 1);
        let into = (&raw mut word).cast::<libc::c_void>();
        libc::syscall(libc::SYS_read, ready.as_raw_fd(), into, 1_usize, 0_usize, 0_usize, mark);
        if word == GIVE_UP {
            libc::_exit(0);
        }
        // The sixth argument is set too: otherwise its register would still hold the mark of the call before.
        let (path, argv, envp) = (path.as_ptr(), argv.as_ptr(), envp.as_ptr());
        libc::syscall(libc::SYS_execve, path, argv, envp, 0_usize, 0_usize, 0_usize);
        let error = (*libc::__errno_location()).to_ne_bytes();
        libc::write(failed.as_raw_fd(), error.as_ptr().cast(), error.len());
        libc::_exit(127)
    }
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "an argument has a zero byte in it")
    })
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

impl Waiting {
    /// The child's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the child makes no system calls but the one with the mark and `execve`. A counter of its calls that
    /// starts then counts only those of the program.
    ///
    /// # Errors
    ///
    /// When the child has died.
    pub fn until_ready(&mut self) -> io::Result<()> {
        if !self.is_ready {
            let failure = self.failure.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            failure.read_exact(&mut [0])?;
            self.is_ready = true;
        }
        Ok(())
    }

    /// Lets the child execute the program. The pipe in the result reports the error of `execve`; it is at its end when
    /// the program has started.
    ///
    /// # Errors
    ///
    /// When the child has died.
    pub fn go(mut self) -> io::Result<Failure> {
        self.until_ready()?;
        let (Some(mut go), Some(failure)) = (self.go.take(), self.failure.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        go.write_all(&[GO])?;
        Ok(Failure(failure))
    }
}

/// Without the command the program must not start. A tracer that is killed cannot send `GIVE_UP`: then the program
/// starts.
impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mut go) = self.go.take() {
            // If the child has died, the write fails; that does not matter.
            let _ = go.write_all(&[GIVE_UP]);
        }
    }
}

/// The pipe that reports why the program could not be executed.
#[derive(Debug)]
pub struct Failure(PipeReader);

impl Failure {
    /// The error of `execve`, or `None` when the program has started. Waits until the child has done either.
    pub fn wait(mut self) -> Option<io::Error> {
        let mut number = [0; 4];
        self.0.read_exact(&mut number).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a counter of system calls would attribute those of a late child to the program.
    #[test]
    fn a_child_that_is_ready_makes_one_call_with_the_mark_before_it_executes() {
        const MARK: u64 = 0x6d61_726b;
        let mask = signals::block().expect("block signals");
        let mut waiting =
            fork(Path::new("/bin/true"), &["true".into()], &mask, MARK).expect("fork");
        waiting.until_ready().expect("a child");
        let path = format!("/proc/{}/syscall", waiting.pid());
        let call = loop {
            let call = std::fs::read_to_string(&path).expect("read the call");
            if call != "running\n" {
                break call;
            }
        };
        let words: Vec<&str> = call.split(' ').collect();
        let wanted = (libc::SYS_read.to_string(), format!("{MARK:#x}"));
        assert_eq!((words[0], words[6]), (wanted.0.as_str(), wanted.1.as_str()), "{call}");
    }
}
