//! System V shared memory: the only kind that another process can map with a single system call, without a file
//! descriptor, a path or a file system.
//!
//! Every segment is marked for removal as soon as it is attached here. The segment then lives until the last process
//! that has it attached ends, in whatever way. A helper process makes, attaches and marks it, so no segment remains if
//! this process is killed in between.

use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{check, ipc_namespace, real_time, wait};

/// A segment attached for reading and writing, seen as a `T`.
///
/// `T` must be valid for every content, because other processes write to it: a struct of integers
/// and atomics. Only the types of `vdso_image::layout` and the clock page are used.
#[derive(Debug)]
pub struct Segment<T> {
    id: i32,
    size: usize,
    at: NonNull<T>,
    owner: Option<(u32, u32)>,
    /// How often the thread that made the segment had changed its namespace; the id is valid in that namespace only.
    moves: u64,
    content: PhantomData<T>,
}

/// Types that may be laid over shared memory.
///
/// # Safety
///
/// Every bit pattern is a valid value, and everything that another process changes is an atomic.
pub unsafe trait SharedContent {}

// SAFETY: integers and atomics only; the plain integers are constants or reserved.
unsafe impl SharedContent for vdso_image::layout::Shared {}
// SAFETY: atomics only.
unsafe impl SharedContent for vdso_image::layout::Live {}
// SAFETY: atomics only.
unsafe impl SharedContent for fastclock::page::Page {}

impl<T: SharedContent> Segment<T> {
    /// Makes a segment of `size` bytes, zeroed, with these permissions (as of a file).
    ///
    /// # Errors
    ///
    /// `ENOSPC` or `ENOMEM` at the limits of `ipcs -l`; `ENOSYS` on a kernel without System V IPC.
    ///
    /// # Panics
    ///
    /// When `size` is too small for a `T`: a mistake in this program.
    pub fn new(size: usize, mode: i32) -> io::Result<Self> {
        Self::make(size, mode, 0)
    }

    /// [`Segment::new`], attached over the memory that starts at the exposed address `place`.
    ///
    /// # Safety
    ///
    /// The memory is mapped, it is not used any more, and the segment need not be dropped before it.
    pub(crate) unsafe fn new_at(place: usize, size: usize, mode: i32) -> io::Result<Self> {
        Self::make(size, mode, place)
    }

    fn make(size: usize, mode: i32, place: usize) -> io::Result<Self> {
        assert!(size >= size_of::<T>());
        let (id, at) = Making { size, mode, place, id: 0, at: 0, error: 0 }.make()?;
        let at = std::ptr::with_exposed_provenance_mut::<T>(at);
        let at = NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?;
        let moves = ipc_namespace::moves();
        Ok(Self { id, size, at, owner: None, moves, content: PhantomData })
    }

    /// Touches the pages of the first bytes. They then count as memory of this process and its control group, whichever
    /// process uses them later. If the kernel cannot do so (before Linux 5.14), pages count for the process that first
    /// writes them.
    pub fn touch(&self, bytes: usize) {
        let size = bytes.min(self.size);
        // SAFETY: the range is in the segment, which is attached here; its content stays.
        unsafe { libc::madvise(self.at.as_ptr().cast(), size, libc::MADV_POPULATE_WRITE) };
    }

    /// The id by which another process of its IPC namespace attaches the segment.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The content, which other processes change meanwhile.
    pub fn get(&self) -> &T {
        // SAFETY: attached until `self` is dropped, at least `size_of::<T>()` bytes, page-aligned;
        // `SharedContent` says that any content is valid.
        unsafe { self.at.as_ref() }
    }

    /// Gives the segment to a user; only this user may attach it then.
    ///
    /// # Errors
    ///
    /// `EPERM` without the privilege.
    pub fn give_to(&mut self, uid: u32, gid: u32, mode: i32) -> io::Result<()> {
        // SAFETY: all-zero is a value of this plain struct; the kernel reads three of its fields.
        let mut data: libc::shmid_ds = unsafe { std::mem::zeroed() };
        data.shm_perm.uid = uid;
        data.shm_perm.gid = gid;
        data.shm_perm.mode = mode.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the pointer is to a local of the right type.
        check(unsafe { libc::shmctl(self.id, libc::IPC_SET, &raw mut data) })?;
        self.owner = Some((uid, gid));
        Ok(())
    }

    /// User and group that the segment was given to, if it was.
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.owner
    }

    /// True if this thread has stayed in the IPC namespace where it made the segment. In another namespace the id is
    /// invalid, or that of another segment.
    pub fn is_here(&self) -> bool {
        self.moves == ipc_namespace::moves()
    }

    /// True if no other process has the segment attached. A process that may attach it can do so right after this.
    pub fn is_alone(&self) -> bool {
        if !self.is_here() {
            return false;
        }
        // SAFETY: all-zero is a value of this plain struct.
        let mut data: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a local of the right type.
        let asked = check(unsafe { libc::shmctl(self.id, libc::IPC_STAT, &raw mut data) });
        asked.is_ok() && data.shm_nattch == 1
    }

    /// Zeroes the segment: gives all its pages back, wherever they are. False if the kernel does not do so.
    pub fn clear(&mut self) -> bool {
        // SAFETY: the range is the whole segment, which is not borrowed; any content is valid.
        unsafe { libc::madvise(self.at.as_ptr().cast(), self.size, libc::MADV_REMOVE) == 0 }
    }
}

/// A segment that is being made, attached and marked for removal.
struct Making {
    size: usize,
    mode: i32,
    /// Address to attach it at; 0 lets the kernel choose.
    place: usize,
    id: i32,
    at: usize,
    error: i32,
}

impl Making {
    /// Makes the segment in a helper process that shares this process's memory. So the three steps are all done even if
    /// this process is killed (SIGKILL) between them. The helper is in its own process group and blocks signals; only a
    /// SIGKILL to its own process id can leave a segment behind.
    ///
    /// A real-time thread takes the steps itself. Its helper would be an ordinary process (`SCHED_RESET_ON_FORK`),
    /// which other real-time threads may keep from running while they wait for this one. If this process is killed in
    /// these few microseconds, a segment remains.
    fn make(mut self) -> io::Result<(i32, usize)> {
        // The clone fails if no more processes are allowed (ulimit -u); then the steps are taken here, too.
        if real_time::is_first() || !self.let_helper_make() {
            self.steps();
        }
        match self.error {
            0 => Ok((self.id, self.at)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// False if no helper could be started, and nothing was done.
    fn let_helper_make(&mut self) -> bool {
        let mut stack = [0_u128; 512];
        // SAFETY: all-zero is a value of this plain set.
        let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointers are to locals. The child uses the upper part of `stack` and `self`
        // while this thread waits (CLONE_VFORK), and calls only functions that make a system call.
        let child = unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask);
            let top = stack.as_mut_ptr_range().end.cast();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK;
            libc::clone(in_helper, top, flags, std::ptr::from_mut(self).cast())
        };
        if child != -1 {
            // The helper has ended. If another thread has waited for it, nothing is left to do.
            let _ = wait::child(child);
        }
        // SAFETY: the mask is that from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
        child != -1
    }

    fn steps(&mut self) {
        let flags = if self.place == 0 { 0 } else { libc::SHM_REMAP };
        // SAFETY: takes numbers; attaches at an address of the kernel's choice, or over memory that is not used.
        unsafe {
            self.id = libc::shmget(libc::IPC_PRIVATE, self.size, libc::IPC_CREAT | self.mode);
            if self.id == -1 {
                self.error = *libc::__errno_location();
                return;
            }
            let place = std::ptr::with_exposed_provenance(self.place);
            self.at = libc::shmat(self.id, place, flags).expose_provenance();
            if self.at == usize::MAX {
                self.error = *libc::__errno_location();
            }
            libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}

/// The helper: first leaves the process group, to which a SIGKILL may be sent.
extern "C" fn in_helper(making: *mut c_void) -> libc::c_int {
    // SAFETY: the address of a `Making` whose owner waits until this has ended.
    unsafe {
        libc::setpgid(0, 0);
        (*making.cast::<Making>()).steps();
    }
    0
}

impl<T> Drop for Segment<T> {
    fn drop(&mut self) {
        // SAFETY: `at` came from `shmat` and nothing borrows from `self` any more.
        unsafe { libc::shmdt(self.at.as_ptr().cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[derive(Debug)]
    struct Word(AtomicU64);
    // SAFETY: one atomic.
    unsafe impl SharedContent for Word {}

    #[test]
    fn a_segment_starts_zeroed_and_it_is_known_whether_another_process_has_it() {
        let mut segment = Segment::<Word>::new(4096, 0o600).unwrap();
        assert_eq!(segment.get().0.load(Relaxed), 0);
        // Another test may fork meanwhile, and its child has the segment attached until `execve`.
        let is_alone = |segment: &Segment<Word>| {
            (0..100_000).any(|_| {
                segment.is_alone() || {
                    std::thread::yield_now();
                    false
                }
            })
        };
        assert!(is_alone(&segment));
        // SAFETY: attached at an address of the kernel's choice, and detached again.
        unsafe {
            let again = libc::shmat(segment.id(), std::ptr::null(), 0);
            assert!(!segment.is_alone());
            libc::shmdt(again);
        }
        segment.get().0.store(7, Relaxed);
        assert_eq!(segment.get().0.load(Relaxed), 7);
        assert!(segment.clear());
        assert!(is_alone(&segment) && segment.get().0.load(Relaxed) == 0);
    }

    #[test]
    fn a_size_that_the_kernel_refuses_is_its_error() {
        let refused = Segment::<Word>::new(usize::MAX / 2, 0o600).unwrap_err();
        assert!(
            matches!(refused.raw_os_error(), Some(libc::EINVAL | libc::ENOSPC | libc::ENOMEM)),
            "{refused}"
        );
    }
}
