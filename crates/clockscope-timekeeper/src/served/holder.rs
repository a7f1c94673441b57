//! The process that serves a page: it holds the page's lock. `--stop` ends it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use clockscope_sys::page_file;
use clockscope_sys::pidfd::Process;

/// Time that a timekeeper may take to end: longer than the longest `--period`.
const PATIENCE: Duration = Duration::from_secs(30);

/// The holder of a page's lock.
#[derive(Debug)]
pub enum Holder {
    /// A process visible here that holds the lock.
    Process {
        /// Process id in this PID namespace.
        pid: i32,
        /// Handle for ending the process; never refers to a later process with the same id.
        process: Process,
    },
    /// A process that is not visible here, with the number that it wrote into the lock.
    Unseen(String),
    /// The lock is free.
    Nobody,
}

/// The name of a page's lock.
pub fn lock_of(page: &Path) -> PathBuf {
    let mut name = OsString::from(page);
    name.push(".lock");
    PathBuf::from(name)
}

/// When the page's last timekeeper started, in seconds since 1970; `None` if there never was one. The lock is written
/// at the start only.
pub fn since(page: &Path) -> Option<i64> {
    fs::symlink_metadata(lock_of(page)).ok().map(|lock| lock.mtime())
}

/// The present holder of the page's lock.
///
/// # Errors
///
/// When the lock cannot be opened: only its owner may.
pub fn of(page: &Path) -> io::Result<Holder> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(lock_of(page));
    let lock = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Holder::Nobody),
        opened => opened?,
    };
    // If we get the lock, it was free. It is released at once; a timekeeper that starts now tries again.
    if page_file::lock(&lock)? {
        return Ok(Holder::Nobody);
    }
    let mut written = String::new();
    (&lock).take(20).read_to_string(&mut written)?;
    let written = written.trim();
    let Ok(pid) = written.parse::<i32>() else { return Ok(Holder::Unseen(written.to_owned())) };
    // Opens the pidfd before the check. So the check is about the pidfd's process, unless that has ended since; then
    // `ask_to_end` fails.
    let process = Process::open(pid);
    Ok(match process {
        Ok(process) if holds(pid, &lock)? => Holder::Process { pid, process },
        _ => Holder::Unseen(written.to_owned()),
    })
}

/// Whether the process belongs to the file's owner and has locked the file, according to its descriptors in `/proc`.
///
/// # References
///
/// - `proc_pid_fdinfo(5)`: `lock:` lines are of locks that are held by this open file
fn holds(pid: i32, lock: &File) -> io::Result<bool> {
    let wanted = lock.metadata()?;
    // Descriptors can be passed to a process of another user.
    if fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() != wanted.uid()) {
        return Ok(false);
    }
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Ok(false) };
    for descriptor in descriptors.flatten() {
        let is_it = fs::metadata(descriptor.path())
            .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()));
        let number = descriptor.file_name();
        let info = Path::new("/proc").join(pid.to_string()).join("fdinfo").join(number);
        if is_it && fs::read_to_string(info).is_ok_and(|text| text.contains("\nlock:")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the timekeeper of the page and waits for its end; gives its process id, if there was one.
///
/// # Errors
///
/// When the process is not visible, may not be signalled, or does not end.
pub fn stop(page: &Path) -> Result<Option<i32>> {
    let lock = lock_of(page);
    let found = of(page).with_context(|| {
        format!("cannot open the lock {}; try as its owner or as root", lock.display())
    })?;
    let (pid, process) = match found {
        Holder::Process { pid, process } => (pid, process),
        Holder::Nobody => return Ok(None),
        Holder::Unseen(written) => bail!(
            "process {written} of the lock {} is not seen to hold it, so nothing is signalled; try where \
             serve was started, as root",
            lock.display()
        ),
    };
    process.ask_to_end().with_context(|| format!("cannot end process {pid}; try as root"))?;
    if !process.wait(PATIENCE)? {
        bail!("process {pid} was asked to end and has not; see what it does, and try again");
    }
    Ok(Some(pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// A page's lock file with this content.
    fn locked(written: &str) -> (tempfile::TempDir, PathBuf, File) {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page");
        fs::write(lock_of(&page), written).unwrap();
        let lock = File::open(lock_of(&page)).unwrap();
        assert!(page_file::lock(&lock).unwrap());
        (folder, page, lock)
    }

    #[test]
    fn the_process_with_the_lock_is_known_by_it() {
        let own = std::process::id();
        let (_folder, page, lock) = locked(&format!("{own}\n"));
        let found = of(&page).unwrap();
        let Holder::Process { pid, .. } = found else { panic!("{found:?}") };
        assert_eq!(u32::try_from(pid).unwrap(), own);
        drop(lock);
        assert!(matches!(of(&page).unwrap(), Holder::Nobody), "its number is still in there");
    }

    #[test]
    fn a_number_that_has_come_to_mean_another_process_is_not_believed() {
        let mut sleep = std::process::Command::new("sleep");
        let mut child =
            sleep.arg("60").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for written in [&child.id().to_string(), "0", "-1", "999999999999", "x", ""] {
            let (_folder, page, _lock) = locked(written);
            let found = of(&page).unwrap();
            assert!(matches!(&found, Holder::Unseen(number) if number == written), "{found:?}");
            assert!(stop(&page).unwrap_err().to_string().contains("nothing is signalled"));
        }
        assert!(child.try_wait().unwrap().is_none(), "it was left alone");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_only_opened_the_lock_does_not_hold_it() {
        let (_folder, page, lock) = locked("1");
        let other = File::open(lock_of(&page)).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(holds(own, &other).unwrap());
        drop(lock);
        assert!(!holds(own, &other).unwrap());
    }
}
