//! Reading and writing the memory of another process.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt;

use vdso_image::layout;

/// Page size of this kernel in bytes.
pub fn page_size() -> usize {
    // SAFETY: takes a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("every kernel has a size of pages")
}

/// Types whose bytes another program reads.
///
/// # Safety
///
/// The type has no padding.
pub unsafe trait Plain {}

// SAFETY: words, and pairs of halves of words.
unsafe impl Plain for layout::Constants {}
// SAFETY: words, and a pair of halves of words.
unsafe impl Plain for layout::LaunchSlots {}
// SAFETY: words only.
unsafe impl Plain for layout::ExecveSlots {}
// SAFETY: words only.
unsafe impl Plain for layout::InjectedSlots {}
// SAFETY: words only.
unsafe impl Plain for layout::AttachSlots {}

/// The bytes of a value.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a value without padding is made of initialised bytes, which stay borrowed.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Reads up to `into.len()` bytes at `address` and gives the number that could be read.
///
/// # Errors
///
/// `ESRCH` when the process is gone, `EPERM` when it may not be read, `EFAULT` when nothing is
/// mapped there.
///
/// # References
///
/// `process_vm_readv(2)`
pub fn read(pid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = remote(address, into.len())?;
    // SAFETY: `local` describes `into`, which lives until the call returns; the remote range is
    // checked by the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Fills all parts; each consists of its address and a buffer.
///
/// # Errors
///
/// As [`read`]; `EFAULT` if a part cannot be read completely.
pub fn read_parts(pid: i32, parts: &mut [(u64, Vec<u8>)]) -> io::Result<()> {
    const BATCH: usize = 512;
    for batch in parts.chunks_mut(BATCH) {
        let wanted: usize = batch.iter().map(|(_, bytes)| bytes.len()).sum();
        let remote = batch.iter().map(|(at, bytes)| remote(*at, bytes.len()));
        let remote = remote.collect::<io::Result<Vec<_>>>()?;
        let local = batch.iter_mut().map(|(_, bytes)| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        });
        let local: Vec<libc::iovec> = local.collect();
        let count = remote.len() as libc::c_ulong;
        // SAFETY: each local range is a part, which lives until the call returns; the kernel checks the remote ranges.
        let read = unsafe {
            libc::process_vm_readv(pid, local.as_ptr(), count, remote.as_ptr(), count, 0)
        };
        all_of(read, wanted)?;
    }
    Ok(())
}

/// Writes all of `bytes` at `address`, which must be writable in that process.
///
/// # Errors
///
/// As [`read`]; a short write is `EFAULT`.
///
/// # References
///
/// `process_vm_writev(2)`
pub fn write(pid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = remote(address, bytes.len())?;
    // SAFETY: `local` describes `bytes`, which is only read; the remote range is checked by the
    // kernel.
    let wrote =
        unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    all_of(wrote, bytes.len())
}

/// Writes the same word at `count` addresses, `stride` bytes apart.
///
/// # Errors
///
/// As [`write()`].
pub fn write_words(pid: i32, first: u64, stride: u64, count: usize, word: u64) -> io::Result<()> {
    const BATCH: usize = 512;
    let word = word.to_ne_bytes();
    let local = libc::iovec { iov_base: word.as_ptr().cast_mut().cast(), iov_len: word.len() };
    let addresses: Vec<u64> = (0..count as u64).map(|index| first + index * stride).collect();
    for batch in addresses.chunks(BATCH) {
        let remote =
            batch.iter().map(|at| remote(*at, word.len())).collect::<io::Result<Vec<_>>>()?;
        let local = vec![local; remote.len()];
        let count = remote.len() as libc::c_ulong;
        // SAFETY: every local range is `word`, which is only read; the kernel checks the remote ranges.
        let wrote = unsafe {
            libc::process_vm_writev(pid, local.as_ptr(), count, remote.as_ptr(), count, 0)
        };
        all_of(wrote, batch.len() * word.len())?;
    }
    Ok(())
}

/// True if two processes have the same memory (`vfork`, `CLONE_VM`), not only the same content. False if the kernel
/// does not tell.
///
/// # References
///
/// `kcmp(2)` (`KCMP_VM`)
pub fn is_shared_with(pid: i32, other: i32) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: takes numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, other, KCMP_VM, 0, 0) == 0 }
}

/// Writes `bytes` at `address` of a stopped tracee even where it is not writable, as a debugger
/// does; the process gets a private copy of the page.
///
/// # Errors
///
/// `EIO` where nothing is mapped, `EACCES` when not allowed.
///
/// # References
///
/// `proc_pid_mem(5)`
pub fn write_text(pid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).open(format!("/proc/{pid}/mem"))?.write_all_at(bytes, address)
}

/// Fills all of `into` from `address` on.
///
/// # Errors
///
/// As [`read`]; `EFAULT` if a part cannot be read.
pub fn read_exact(pid: i32, address: u64, into: &mut [u8]) -> io::Result<()> {
    if read(pid, address, into)? == into.len() {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(libc::EFAULT))
}

/// Whether a process has these bytes at an address.
pub fn holds(pid: i32, address: u64, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    read_exact(pid, address, &mut found).is_ok() && found == bytes
}

/// Reads one 64-bit word.
///
/// # Errors
///
/// As [`read`].
pub fn read_u64(pid: i32, address: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    read_exact(pid, address, &mut word)?;
    Ok(u64::from_ne_bytes(word))
}

/// Reads from an address of this process that may be unreadable, without the risk of a signal.
///
/// Special mappings of the kernel, such as the vDSO's data, refuse [`read`]. Touching one of their pages that is not
/// there raises `SIGBUS`. In a `write(2)` from such a page the kernel gives an error instead.
///
/// # Errors
///
/// `EFAULT` when nothing can be read there.
///
/// # References
///
/// - `vvar_fault` in `arch/x86/entry/vdso/vma.c` (Linux 6.12)
pub fn read_own(address: u64, into: &mut [u8; 64]) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let from = std::ptr::without_provenance::<libc::c_void>(remote_address(address)?);
    // SAFETY: the kernel checks the range, which is only read; 64 bytes fit into an empty pipe.
    let wrote = unsafe { libc::write(writer.as_raw_fd(), from, into.len()) };
    all_of(wrote, into.len())?;
    reader.read_exact(into)
}

/// Whether a call has transferred all bytes; must be called right after it.
fn all_of(transferred: isize, wanted: usize) -> io::Result<()> {
    match usize::try_from(transferred) {
        Ok(transferred) if transferred == wanted => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn remote_address(address: u64) -> io::Result<usize> {
    usize::try_from(address).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))
}

fn remote(address: u64, length: usize) -> io::Result<libc::iovec> {
    let address = remote_address(address)?;
    Ok(libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_and_writes_itself() {
        let me = i32::try_from(std::process::id()).unwrap();
        let word = Box::new(std::sync::atomic::AtomicU64::new(41));
        let address = word.as_ptr() as u64;
        assert_eq!(read_u64(me, address).unwrap(), 41);
        write(me, address, &43_u64.to_ne_bytes()).unwrap();
        assert_eq!(word.load(std::sync::atomic::Ordering::Relaxed), 43);
    }

    #[test]
    fn own_memory_is_read_or_refused() {
        let bytes = Box::new([7_u8; 64]);
        let mut into = [0; 64];
        read_own(bytes.as_ptr() as u64, &mut into).unwrap();
        assert_eq!(into, [7; 64]);
        assert_eq!(read_own(8, &mut into).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn nothing_mapped_is_an_error() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert_eq!(read_u64(me, 8).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
