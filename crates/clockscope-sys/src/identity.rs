//! What the kernel and the CPU say of themselves.

use std::ffi::CStr;
use std::io;

/// `uname(2)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, such as `6.1.0-18-amd64`.
    pub release: String,
    /// The architecture, such as `x86_64`.
    pub machine: String,
}

/// Asks the kernel for its release and architecture.
#[must_use]
pub fn kernel() -> Kernel {
    // SAFETY: all-zero is a value of this plain struct; the kernel fills it in with strings that
    // end in a zero byte.
    let names = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut names);
        names
    };
    let text = |field: &[libc::c_char]| {
        let bytes: Vec<u8> = field.iter().map(|byte| byte.cast_unsigned()).collect();
        CStr::from_bytes_until_nul(&bytes)
            .map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    Kernel { release: text(&names.release), machine: text(&names.machine) }
}

/// The 12 bytes by which a hypervisor names itself to its guests; `None` without a hypervisor.
///
/// # References
///
/// - CPUID leaf 1, ECX bit 31, and leaf 0x4000_0000: Intel's and AMD's manuals leave them to
///   hypervisors, which agreed on this use
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn hypervisor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes: Vec<u8> =
        [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|r| r.to_le_bytes()).collect();
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// The 12 bytes by which a hypervisor names itself to its guests; only x86-64 has them.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn hypervisor() -> Option<String> {
    None
}

/// The rate of the TSC in hertz by CPUID, and the leaf that says it.
///
/// # References
///
/// - Intel's manual, CPUID leaf 0x15: crystal in ECX, times EBX / EAX
/// - leaf 0x4000_0010, EAX: kilohertz, as VMware's and KVM's guests read it
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn tsc_hz_by_cpuid() -> Option<(f64, &'static str)> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0).eax >= 0x15 {
        let leaf = __cpuid(0x15);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            let hertz = f64::from(leaf.ecx) * f64::from(leaf.ebx) / f64::from(leaf.eax);
            return Some((hertz, "CPUID leaf 0x15"));
        }
    }
    if hypervisor().is_some() && __cpuid(0x4000_0000).eax >= 0x4000_0010 {
        let kilohertz = __cpuid(0x4000_0010).eax;
        if kilohertz != 0 {
            return Some((f64::from(kilohertz) * 1e3, "CPUID leaf 0x40000010"));
        }
    }
    None
}

/// The rate of the TSC in hertz by CPUID, and the leaf that says it; only x86-64 has a TSC.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn tsc_hz_by_cpuid() -> Option<(f64, &'static str)> {
    None
}

const SYSLOG_ACTION_READ_ALL: libc::c_int = 3;
const SYSLOG_ACTION_SIZE_BUFFER: libc::c_int = 10;
/// No more than this of the log is read, in bytes.
const LOG_MAX: usize = 16 << 20;
/// How many times longer than the buffer a log can be with its stamps.
const LOG_WRITTEN_OUT: usize = 4;

/// The kernel's log as far as it is still there; `None` without the right to read it.
#[must_use]
pub fn kernel_log() -> Option<String> {
    let bytes = read_kernel_log().ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The kernel's log as far as it is still there: lines `<6>[    0.000000] text`.
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
    // Written out with stamps a log is longer than in the buffer, and what does not fit is left
    // out at its beginning, where the boot is.
    let mut bytes = vec![0_u8; size.saturating_mul(LOG_WRITTEN_OUT).min(LOG_MAX)];
    let room = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: the pointer and the size are those of a local; the messages stay in the log.
    let read = unsafe {
        libc::syscall(libc::SYS_syslog, SYSLOG_ACTION_READ_ALL, bytes.as_mut_ptr(), room)
    };
    bytes.truncate(usize::try_from(read).map_err(|_| io::Error::last_os_error())?);
    Ok(bytes)
}

/// Seconds since 1970, UTC.
#[must_use]
pub fn unix_seconds() -> i64 {
    // SAFETY: a null pointer asks for the value only.
    unsafe { libc::time(std::ptr::null_mut()) }
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
    fn a_hypervisor_is_there_if_the_cpu_says_so() {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
        assert_eq!(hypervisor().is_some(), is_guest);
    }

    #[test]
    fn the_time_is_later_than_when_this_was_written() {
        assert!(unix_seconds() > 1_700_000_000);
    }

    #[test]
    fn the_log_is_text_or_forbidden() {
        if let Some(log) = kernel_log() {
            assert!(!log.contains('\0'));
        }
    }
}
