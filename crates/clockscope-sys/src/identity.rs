//! What the kernel and the CPU say of themselves.

use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::io;

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

/// The first CPUID leaf that hypervisors answer.
const HYPERVISOR: u32 = 0x4000_0000;

/// EAX, EBX, ECX and EDX of a CPUID leaf, with subleaf 0; `None` if the CPU or hypervisor does not
/// have it.
///
/// # References
///
/// - leaves 0, 0x4000_0000 and 0x8000_0000 state in EAX the last leaf of their range
pub fn cpuid(leaf: u32) -> Option<[u32; 4]> {
    let range = leaf & 0xffff_0000;
    // Without a hypervisor Intel's CPUs answer for these leaves with those of another.
    if range == HYPERVISOR && !has_hypervisor() {
        return None;
    }
    let last = __cpuid(range).eax;
    // Old KVM states 0, which means 0x4000_0001.
    let last = if range == HYPERVISOR && last == 0 { HYPERVISOR + 1 } else { last };
    if !(range..=range | 0xffff).contains(&last) || leaf > last {
        return None;
    }
    let found = __cpuid_count(leaf, 0);
    Some([found.eax, found.ebx, found.ecx, found.edx])
}

fn has_hypervisor() -> bool {
    __cpuid(1).ecx >> 31 != 0
}

/// The 12 bytes by which a hypervisor names itself to its guests; `None` without a hypervisor.
///
/// # References
///
/// - CPUID leaf 1, ECX bit 31, and leaf 0x4000_0000: Intel's and AMD's manuals leave them to
///   hypervisors, which agreed on this use
pub fn hypervisor() -> Option<String> {
    if !has_hypervisor() {
        return None;
    }
    let leaf = __cpuid(HYPERVISOR);
    let bytes: Vec<u8> =
        [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|r| r.to_le_bytes()).collect();
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// The rate of the TSC in hertz by CPUID, and the leaf that says it.
///
/// # References
///
/// - Intel's manual, CPUID leaf 0x15: crystal in ECX, times EBX / EAX
/// - leaf 0x4000_0010, EAX: kilohertz, as VMware's and KVM's guests read it
pub fn tsc_hz_by_cpuid() -> Option<(f64, &'static str)> {
    if let Some([denominator, numerator, crystal_hz, _]) = cpuid(0x15)
        && denominator != 0
        && numerator != 0
        && crystal_hz != 0
    {
        let hertz = f64::from(crystal_hz) * f64::from(numerator) / f64::from(denominator);
        return Some((hertz, "CPUID leaf 0x15"));
    }
    let [kilohertz, ..] = cpuid(0x4000_0010)?;
    (kilohertz != 0).then(|| (f64::from(kilohertz) * 1e3, "CPUID leaf 0x40000010"))
}

/// Actions of `syslog(2)`, include/linux/syslog.h (Linux 6.18).
const SYSLOG_ACTION_READ_ALL: libc::c_int = 3;
const SYSLOG_ACTION_SIZE_BUFFER: libc::c_int = 10;
/// No more than this of the log is read, in bytes.
const LOG_MAX: usize = 16 << 20;
/// How many times longer than the buffer a log can be with its stamps.
const LOG_WRITTEN_OUT: usize = 4;

/// The kernel's log as far as it is still there; `None` without the right to read it.
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

    #[test]
    fn leaves_are_there_up_to_the_last_of_their_range() {
        let last = cpuid(0).unwrap()[0];
        assert!(cpuid(last).is_some() && cpuid(last + 1).is_none());
        assert!(cpuid(0x8000_0001).unwrap()[3] >> 29 & 1 == 1, "long mode");
        assert_eq!(cpuid(HYPERVISOR).is_some(), hypervisor().is_some());
    }
}
