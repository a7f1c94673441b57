//! Starting the program: a child that waits for a word before it executes.

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
    /// `None` once the word is given.
    go: Option<PipeWriter>,
    failure: Option<PipeReader>,
}

/// The word that lets the child execute the program.
const GO: u8 = 1;
/// The word that ends the child instead.
const GIVE_UP: u8 = 2;

/// Forks a child that will execute `path` with `arguments` (the program's name first).
///
/// Standard input, output and error and the environment are the child's as they are ours.
///
/// # Errors
///
/// `InvalidInput` for a zero byte in an argument; `EAGAIN` when no more processes are allowed.
pub fn fork(path: &Path, arguments: &[OsString], mask: &Mask) -> io::Result<Waiting> {
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
            drop((go, failure));
            execute(&path, &argv, &envp, mask, &ready, &failed)
        }
        pid => Ok(Waiting { pid, go: Some(go), failure: Some(failure) }),
    }
}

/// In the child: waits for the word (or for the end of the tracer: then the program starts without
/// one), executes, and reports the error number if that fails. The pipes close by themselves in
/// the program.
fn execute(
    path: &CString,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    mask: &Mask,
    ready: &PipeReader,
    failed: &PipeWriter,
) -> ! {
    signals::restore_in_child(mask);
    let mut word = 0_u8;
    // SAFETY: async-signal-safe calls; the pointers are to a local and to null-terminated arrays
    // of null-terminated strings made before the fork.
    unsafe {
        libc::read(ready.as_raw_fd(), (&raw mut word).cast(), 1);
        if word == GIVE_UP {
            libc::_exit(0);
        }
        libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
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

    /// Lets the child execute the program. The pipe in the answer tells why it could not: it is at
    /// its end when the program has started.
    ///
    /// # Errors
    ///
    /// When the child has died.
    pub fn go(mut self) -> io::Result<Failure> {
        match (self.go.take(), self.failure.take()) {
            (Some(mut go), Some(failure)) => {
                go.write_all(&[GO])?;
                Ok(Failure(failure))
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Without the word the program must not start; only a tracer that is killed cannot say so, and
/// then it does.
impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mut go) = self.go.take() {
            // A child that is gone needs no word.
            let _ = go.write_all(&[GIVE_UP]);
        }
    }
}

/// Why the program could not be executed.
#[derive(Debug)]
pub struct Failure(PipeReader);

impl Failure {
    /// The error of `execve`, or `None` when the program has started. Waits for the child to do
    /// one or the other.
    pub fn wait(mut self) -> Option<io::Error> {
        let mut number = [0; 4];
        self.0
            .read_exact(&mut number)
            .ok()
            .map(|()| io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
    }
}
