//! IPC namespaces: each has its own System V segments, which processes in other namespaces cannot attach.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// An IPC namespace, identified by the device and inode of its file. Once its last process has left and no open file
/// holds it, the kernel may give these numbers to a new namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcNamespace {
    device: u64,
    inode: u64,
}

thread_local! {
    /// The namespace of this thread, once it has been read: only [`enter`] changes it.
    static OWN: Cell<Option<IpcNamespace>> = const { Cell::new(None) };
    /// How often this thread has changed its namespace.
    static MOVES: Cell<u64> = const { Cell::new(0) };
}

const OWN_FILE: &str = "/proc/thread-self/ns/ipc";

impl IpcNamespace {
    /// The namespace of a process; `None` if the process is gone or may not be inspected, or if the kernel has no IPC
    /// namespaces.
    pub fn of(pid: i32) -> Option<Self> {
        Self::read(&file_of(pid))
    }

    /// The namespace of the calling thread; `None` if the kernel has no IPC namespaces, or `/proc` is not mounted.
    pub fn own() -> Option<Self> {
        let own = OWN.get().or_else(|| Self::read(OWN_FILE));
        OWN.set(own);
        own
    }

    fn read(path: &str) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self { device: file.dev(), inode: file.ino() })
    }
}

/// Keeps the namespace of the calling thread, and its numbers, until the file is dropped; `None` as for
/// [`IpcNamespace::own`], or without a free descriptor.
pub fn hold() -> Option<File> {
    File::open(OWN_FILE).ok()
}

/// How often the calling thread has moved to another namespace. Segments that it made since its last move are in its
/// present namespace.
pub(crate) fn moves() -> u64 {
    MOVES.get()
}

fn file_of(pid: i32) -> String {
    format!("/proc/{pid}/ns/ipc")
}

/// Whether a thread must be able to return from the namespace that it enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The thread need not return.
    There,
    /// The thread moves only if it can return.
    ThereAndBack,
}

/// Moves the calling thread to the IPC namespace of a process, unless both are in the same one. Shared memory that this
/// thread makes from now on can be attached there.
///
/// # Errors
///
/// `EPERM` without the privilege (`CAP_SYS_ADMIN` in both, and for the way back in the present one); `ENOENT` when the
/// process is gone.
///
/// # References
///
/// `setns(2)`, `ipc_namespaces(7)`
pub fn enter(pid: i32, way: Way) -> io::Result<()> {
    let ipc = Some(LinkNameSpaceType::InterProcessCommunication);
    let (theirs, own) = (IpcNamespace::of(pid), IpcNamespace::own());
    if theirs == own || theirs.is_none() {
        return Ok(());
    }
    let there = File::open(file_of(pid))?;
    if way == Way::ThereAndBack {
        // Moving to the present namespace changes nothing, and needs the same privilege as returning to it.
        move_into_link_name_space(File::open(OWN_FILE)?.as_fd(), ipc)?;
    }
    move_into_link_name_space(there.as_fd(), ipc)?;
    OWN.set(None);
    MOVES.set(MOVES.get() + 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A process in its own namespace, which waits for its standard input to end.
    fn process_elsewhere() -> Child {
        let mut child = Command::new("unshare")
            .args(["--ipc", "sh", "-c", "echo; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        child
    }

    #[test]
    fn a_namespace_that_is_held_keeps_its_numbers() {
        if crate::access::effective_uid() != 0 {
            return skips::skip("only root enters other namespaces");
        }
        std::thread::spawn(|| {
            let own = IpcNamespace::own();
            let mut first = process_elsewhere();
            enter(first.id().cast_signed(), Way::ThereAndBack).unwrap();
            let (there, held) = (IpcNamespace::own(), hold());
            assert!(held.is_some() && there != own && moves() == 1);
            enter(std::process::id().cast_signed(), Way::There).unwrap();
            assert_eq!((IpcNamespace::own(), moves()), (own, 2));
            first.kill().and_then(|()| first.wait()).unwrap();
            // Without the file, one of the next few namespaces would get the same numbers.
            for _ in 0..20 {
                let mut next = process_elsewhere();
                assert_ne!(IpcNamespace::of(next.id().cast_signed()), there);
                next.kill().and_then(|()| next.wait()).unwrap();
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_is_in_the_namespace_of_its_process_and_entering_that_is_nothing() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(IpcNamespace::own().is_some());
        assert_eq!(IpcNamespace::of(me), IpcNamespace::own());
        for way in [Way::There, Way::ThereAndBack] {
            enter(me, way).unwrap();
        }
        assert_eq!(IpcNamespace::of(i32::MAX), None);
        assert!(hold().is_some() && moves() == 0);
    }
}
