//! Files of tracefs, even if it is not mounted.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen};

/// Reads a file of tracefs, by its path below the mount point. If tracefs is not mounted, this call makes a detached
/// mount, which other processes cannot see.
///
/// # Errors
///
/// `EACCES` and `EPERM` for all but root; `ENOENT` if there is no such file; `ENODEV` if the kernel
/// has no tracefs.
///
/// # References
///
/// - `fsopen(2)`, `fsmount(2)`: Linux 5.2 and later
pub fn read(path: &str) -> io::Result<String> {
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    if let Some(root) = roots.iter().find(|root| Path::new(root).join("events").exists()) {
        return std::fs::read_to_string(Path::new(root).join(path));
    }
    let file_system = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&file_system)?;
    let mount = fsmount(&file_system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let file = openat(&mount, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

/// The number by which perf events refer to a tracepoint; `folder` is that of its group.
///
/// # Errors
///
/// Those of [`read`].
pub fn tracepoint(folder: &str, name: &str) -> io::Result<u64> {
    read(&format!("events/{folder}/{name}/id"))?.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_has_a_number_for_those_who_may_read_it() {
        match tracepoint("raw_syscalls", "sys_enter") {
            Ok(id) => assert!(id > 0, "{id}"),
            Err(error) => assert_ne!(error.raw_os_error(), Some(libc::EFAULT), "{error}"),
        }
        assert!(tracepoint("there_is", "no_such").is_err());
    }
}
