//! Kernel release, architecture and kernel log; CPUID.

use std::io;

pub use super::arch::machine::{HAS_CPUID, VDSO_PREFIX, counter_hz, cpuid, hypervisor};

/// The kernel as `uname(2)` names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uname {
    /// Its release, such as `6.1.0-18-amd64`.
    pub release: String,
    /// The architecture, such as `x86_64`.
    pub machine: String,
}

/// Asks the kernel for its release and architecture.
pub fn kernel() -> Uname {
    let names = rustix::system::uname();
    let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
    Uname { release: text(names.release()), machine: text(names.machine()) }
}

/// Actions of `syslog(2)`, include/linux/syslog.h (Linux 6.18).
const SYSLOG_ACTION_READ_ALL: libc::c_int = 3;
const SYSLOG_ACTION_SIZE_BUFFER: libc::c_int = 10;
/// Limit on the size of the log that is read, in bytes.
const LOG_MAX: usize = 16 << 20;
/// Upper limit of the ratio between a log with its stamps and the kernel's buffer.
const LOG_WRITTEN_OUT: usize = 4;

/// The rest of the kernel's log in the buffer: lines `<6>[    0.000000] text`.
///
/// # Errors
///
/// `EPERM` with `kernel.dmesg_restrict` set, in most containers and under a filter.
///
/// # References
///
/// - `syslog(2)`
pub fn read_kernel_log() -> io::Result<Vec<u8>> {
    // SAFETY: asks for a size only.
    let size = unsafe {
        libc::syscall(libc::SYS_syslog, SYSLOG_ACTION_SIZE_BUFFER, std::ptr::null_mut::<u8>(), 0)
    };
    let size = usize::try_from(size).map_err(|_| io::Error::last_os_error())?;
    // With its stamps a log is longer than in the buffer. If it does not fit, the kernel leaves out its beginning,
    // where the boot is.
    let mut bytes = vec![0_u8; size.saturating_mul(LOG_WRITTEN_OUT).min(LOG_MAX)];
    // SAFETY: the pointer and the size are those of a local; the messages stay in the log.
    let read = unsafe {
        libc::syscall(libc::SYS_syslog, SYSLOG_ACTION_READ_ALL, bytes.as_mut_ptr(), bytes.len())
    };
    bytes.truncate(usize::try_from(read).map_err(|_| io::Error::last_os_error())?);
    Ok(bytes)
}

/// Seconds since 1970, UTC.
pub fn unix_seconds() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_proc_says() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let kernel = kernel();
        assert_eq!(kernel.release, release.trim());
        assert_eq!(kernel.machine, std::env::consts::ARCH);
    }

    #[test]
    fn the_time_is_later_than_when_this_was_written() {
        assert!(unix_seconds() > 1_700_000_000);
    }

    #[test]
    fn the_log_is_text_or_forbidden() {
        if let Ok(log) = read_kernel_log() {
            assert!(!log.contains(&0));
        }
    }
}
