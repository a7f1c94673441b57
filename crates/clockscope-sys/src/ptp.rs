//! A PTP clock (`/dev/ptpN`) compared with `CLOCK_REALTIME`. Read only.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use libc::{Ioctl, ptp_clock_time, ptp_sys_offset, ptp_sys_offset_extended};

/// Readings of a clock that cannot be read together with the system's; the one in the shortest window counts.
const SAMPLES: u32 = 7;
/// Error of a reading together with the system's clock, in nanoseconds: both are computed from one value of the
/// counter, and rounded.
const TOGETHER_NS: i64 = 1_000;

/// The difference between two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The device's time minus `CLOCK_REALTIME`, in nanoseconds: positive if the system's clock is behind.
    pub behind_ns: i64,
    /// Greatest error of reading the two, in nanoseconds; the device's own error is not in it.
    pub error_ns: i64,
}

/// Compares a device with the system's clock, in the most exact way that its driver has.
///
/// # Errors
///
/// Those of `open(2)` (`EACCES`: most systems let only root), or of the last `ioctl(2)`.
///
/// # References
///
/// - `include/uapi/linux/ptp_clock.h`, `drivers/ptp/ptp_chardev.c` (Linux 6.12)
pub fn compare(path: &Path) -> io::Result<Compared> {
    let device = File::open(path)?;
    together(&device).or_else(|_| between(&device)).or_else(|_| in_turns(&device))
}

/// # Safety
///
/// The request writes a `T`, and any bytes are a valid `T`.
unsafe fn ask<T>(device: &File, request: Ioctl, mut value: T) -> io::Result<T> {
    // SAFETY: the kernel reads and writes only the `T`, as the caller guarantees.
    super::check(unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut value) })?;
    Ok(value)
}

fn together(device: &File) -> io::Result<Compared> {
    // SAFETY: all-zero is a value of this plain struct, and the request writes such a struct.
    let both: libc::ptp_sys_offset_precise =
        unsafe { ask(device, libc::PTP_SYS_OFFSET_PRECISE, std::mem::zeroed())? };
    let behind_ns = nanos(&both.device).saturating_sub(nanos(&both.sys_realtime));
    Ok(Compared { behind_ns, error_ns: TOGETHER_NS })
}

fn between(device: &File) -> io::Result<Compared> {
    // SAFETY: as in `together`.
    let all = unsafe {
        let wanted = ptp_sys_offset_extended { n_samples: SAMPLES, ..std::mem::zeroed() };
        ask(device, libc::PTP_SYS_OFFSET_EXTENDED, wanted)?
    };
    narrowest(all.ts.iter().take(SAMPLES as usize).map(|times| times.each_ref().map(nanos)))
}

fn in_turns(device: &File) -> io::Result<Compared> {
    // SAFETY: as in `together`; the request is declared as one that only reads, and writes the struct as well.
    let all = unsafe {
        let wanted = ptp_sys_offset { n_samples: SAMPLES, ..std::mem::zeroed() };
        ask(device, libc::PTP_SYS_OFFSET, wanted)?
    };
    let times = &all.ts[..2 * SAMPLES as usize + 1];
    narrowest(times.windows(3).step_by(2).map(|three| [&three[0], &three[1], &three[2]].map(nanos)))
}

/// The comparison by the shortest of the windows `[before, device, after]`, in nanoseconds.
fn narrowest(windows: impl Iterator<Item = [i64; 3]>) -> io::Result<Compared> {
    let whole = windows.filter(|[before, _, after]| before <= after);
    let [before, at, after] = whole
        .min_by_key(|[before, _, after]| after - before)
        .ok_or_else(|| io::Error::other("the system's clock was stepped meanwhile"))?;
    let half = (after - before) / 2;
    Ok(Compared { behind_ns: at.saturating_sub(before + half), error_ns: half + 1 })
}

fn nanos(time: &ptp_clock_time) -> i64 {
    time.sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_window_counts() {
        let windows = [[0, 70, 100], [200, 260, 210], [300, 1_302, 304]];
        let expected = Compared { behind_ns: 1_000, error_ns: 3 };
        assert_eq!(narrowest(windows.into_iter()).unwrap(), expected);
        assert!(narrowest([[9, 9, 8]].into_iter()).is_err(), "the clock went back");
    }

    #[test]
    fn what_is_no_ptp_clock_is_refused() {
        assert!(compare(Path::new("/dev/null")).is_err());
        let missing = compare(Path::new("/dev/does-not-exist")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
