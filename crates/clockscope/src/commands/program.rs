//! The program to run: finds it, and ends clockscope in the way that the program ended.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::exit::{self, Failed};
use clockscope_sys::{access, signals};
use clockscope_tracee::follow::End;

/// Finds a program as `execvp(3)` does: a name with a slash is a path, any other is looked up in `path` (`$PATH`).
///
/// # Errors
///
/// The reason why there is none, with the exit code that a shell would give.
pub fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Failed> {
    if name.is_empty() {
        let empty = "the program's name is empty; is a variable empty?";
        return Err(Failed::new(exit::NOT_FOUND, empty));
    }
    if name.as_bytes().contains(&b'/') {
        return check(Path::new(name)).map(|()| PathBuf::from(name));
    }
    let directories = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut refused = None;
    for directory in std::env::split_paths(directories) {
        let folder = if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
        let candidate = folder.join(name);
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            // As in a shell, a directory that may not be entered counts as empty.
            Err(why) if why.code == exit::NOT_EXECUTABLE && candidate.metadata().is_ok() => {
                refused.get_or_insert(why);
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| {
        let why = format!("{}: command not found; is it in PATH?", name.display());
        Failed::new(exit::NOT_FOUND, why)
    }))
}

/// The reason why `execve` refused a program.
pub(crate) fn refused(path: &Path, error: &std::io::Error) -> Failed {
    let (code, hint) = match error.raw_os_error() {
        Some(libc::ENOENT) => {
            (exit::NOT_FOUND, "; does its interpreter (first line, or ELF interpreter) exist?")
        }
        Some(libc::ENOEXEC) => {
            (exit::NOT_EXECUTABLE, "; a script needs a first line like #!/bin/sh")
        }
        _ => (exit::NOT_EXECUTABLE, ""),
    };
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or(&reason).to_lowercase();
    Failed::new(code, format!("cannot execute {}: {reason}{hint}", path.display()))
}

fn check(path: &Path) -> Result<(), Failed> {
    let refuse = |code, why: &str| Err(Failed::new(code, format!("{}: {why}", path.display())));
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            refuse(exit::NOT_FOUND, "no such file")
        }
        Err(error) => {
            let words = error.to_string();
            refuse(exit::NOT_EXECUTABLE, words.split(" (os error").next().unwrap_or(&words))
        }
        Ok(file) if file.is_dir() => refuse(exit::NOT_EXECUTABLE, "is a directory"),
        Ok(_) if !access::is_executable(path) => {
            refuse(exit::NOT_EXECUTABLE, "permission denied; is it executable (chmod +x)?")
        }
        Ok(_) => Ok(()),
    }
}

/// The exit code of this process for the program's end. If a signal killed the program, this process dies by
/// the same signal if it can, and a shell then reports the signal.
pub(crate) fn end_as(end: Option<End>) -> i32 {
    match end {
        Some(End::Exited(code)) => code,
        Some(End::Killed(signal)) => {
            signals::die_by(signal);
            exit::SIGNAL_BASE + signal
        }
        None => exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_a_path_is_not() {
        assert!(find(OsStr::new("sh"), Some(OsStr::new("/nonexistent:/bin"))).is_ok());
        assert_eq!(find(OsStr::new("./sh"), Some(OsStr::new("/bin"))).unwrap_err().code, 127);
        assert_eq!(find(OsStr::new(""), None).unwrap_err().code, 127);
        assert_eq!(find(OsStr::new("/"), None).unwrap_err().code, 126);
        assert_eq!(find(OsStr::new("/etc/passwd"), None).unwrap_err().code, 126);
        assert_eq!(find(OsStr::new("passwd"), Some(OsStr::new("/etc"))).unwrap_err().code, 126);
    }
}
