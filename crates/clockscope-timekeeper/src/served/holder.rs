//! Who serves a page: the process that holds its lock. `--stop` ends it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use clockscope_sys::page_file;
use clockscope_sys::pidfd::Process;

/// So long a timekeeper that was asked to end may take: longer than the longest `--period`.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who holds the lock of a page.
#[derive(Debug)]
pub enum Holder {
    /// A process that is seen to hold it.
    Process {
        /// Process id in this PID namespace.
        pid: i32,
        /// Handle by which it is ended; never that of a later process with the same id.
        process: Process,
    },
    /// A process that is not seen from here, with the number that it wrote into the lock.
    Unseen(String),
    /// None.
    Nobody,
}

/// The name of a page's lock.
pub fn lock_of(page: &Path) -> PathBuf {
    let mut name = OsString::from(page);
    name.push(".lock");
    PathBuf::from(name)
}

/// When the page's last timekeeper began, in seconds since 1970; `None` if there never was one. The lock is written
/// then and never later.
pub fn since(page: &Path) -> Option<i64> {
    fs::symlink_metadata(lock_of(page)).ok().map(|lock| lock.mtime())
}

/// Who serves the page now.
///
/// # Errors
///
/// When the lock cannot be opened: it is its owner's alone.
pub fn of(page: &Path) -> io::Result<Holder> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(lock_of(page));
    let lock = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Holder::Nobody),
        opened => opened?,
    };
    // While we have it, nobody else does. It is let go at once; a timekeeper that starts now tries again.
    if page_file::lock(&lock)? {
        return Ok(Holder::Nobody);
    }
    let mut written = String::new();
    (&lock).take(20).read_to_string(&mut written)?;
    let written = written.trim();
    let Ok(pid) = written.parse::<i32>() else { return Ok(Holder::Unseen(written.to_owned())) };
    // First the descriptor, then the look: what is seen is of the process that the descriptor holds, unless that
    // has ended since, which `ask_to_end` will say.
    let process = Process::open(pid);
    Ok(match process {
        Ok(process) if holds(pid, &lock)? => Holder::Process { pid, process },
        _ => Holder::Unseen(written.to_owned()),
    })
}

/// Whether the process is of the file's owner and has locked it: by what the kernel says of its descriptors.
///
/// # References
///
/// - `proc_pid_fdinfo(5)`: `lock:` lines are of locks that are held by this open file
fn holds(pid: i32, lock: &File) -> io::Result<bool> {
    let wanted = lock.metadata()?;
    // Descriptors can be handed to a process of somebody else.
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

/// Ends the timekeeper of the page and waits until it is gone; gives its number, if there was one.
///
/// # Errors
///
/// When it is not seen, may not be signalled, or does not end.
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

    /// A page's lock with something written into it.
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
