//! `bpf(2)`: maps, programs, and the tracepoints that programs of other processes are attached to.

pub mod kernel_types;
pub mod maps;
pub mod programs;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use aya_obj::generated::bpf_attr;
use aya_obj::generated::bpf_cmd::{self, BPF_TASK_FD_QUERY};
use aya_obj::generated::bpf_task_fd_type::{BPF_FD_TYPE_RAW_TRACEPOINT, BPF_FD_TYPE_TRACEPOINT};

use super::descriptor;

/// Arguments of `bpf(2)`, all zero.
fn attributes() -> bpf_attr {
    // SAFETY: all-zero is a value of this union of plain structs.
    unsafe { std::mem::zeroed() }
}

/// Makes the system call; gives its result, which is not negative.
fn call(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<libc::c_long> {
    let (attributes, size) = (std::ptr::from_mut(attributes), size_of::<bpf_attr>());
    // SAFETY: the kernel reads and writes at most `size` bytes of the attributes. Beyond them it accesses only the
    // memory that their addresses point to, which each caller answers for.
    super::check(unsafe { libc::syscall(libc::SYS_bpf, command as u32, attributes, size) })
}

/// Makes a system call that returns a file descriptor.
fn open(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<OwnedFd> {
    let number = call(command, attributes)?;
    // SAFETY: the commands used with this return a new descriptor that is not owned elsewhere.
    unsafe { descriptor(number) }
}

fn raw_fd(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// An address in the form that `bpf_attr` takes.
fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// Gives a map or program its name, cut to the 15 bytes and the characters that the kernel allows: letters, digits, `_`
/// and `.`.
fn put_name(name: &str, into: &mut [libc::c_char; 16]) {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    for (to, byte) in into.iter_mut().take(15).zip(name.bytes().filter(allowed)) {
        *to = libc::c_char::from_ne_bytes([byte]);
    }
}

/// The tracepoint that a BPF program is attached to by descriptor `fd` of process `pid`; `None` for other probes.
///
/// # Errors
///
/// `ENOENT` if `fd` is a perf event without a program; `EPERM` without `CAP_SYS_ADMIN`; other errors if it is neither a
/// perf event nor a raw tracepoint, or is closed.
///
/// # References
///
/// - `BPF_TASK_FD_QUERY` in include/uapi/linux/bpf.h (Linux 6.18)
pub fn tracepoint_of(pid: u32, fd: u32) -> io::Result<Option<String>> {
    let mut name = [0_u8; 128];
    let mut wanted = attributes();
    wanted.task_fd_query.pid = pid;
    wanted.task_fd_query.fd = fd;
    wanted.task_fd_query.buf_len = 128;
    wanted.task_fd_query.buf = address(name.as_mut_ptr());
    // The kernel writes at most `buf_len` bytes to `name`.
    call(BPF_TASK_FD_QUERY, &mut wanted)?;
    // SAFETY: a number, which the kernel has filled in.
    let kind = unsafe { wanted.task_fd_query.fd_type };
    let kinds = [BPF_FD_TYPE_RAW_TRACEPOINT as u32, BPF_FD_TYPE_TRACEPOINT as u32];
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok(kinds.contains(&kind).then(|| name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_file_is_no_probe() {
        assert!(tracepoint_of(std::process::id(), 0).is_err());
    }
}
