//! The state of the kernel's clock discipline. Read only.

use std::io;

/// The fields of `struct timex` that clockscope uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timex {
    /// Frequency correction in parts per million, times 65,536.
    pub freq: i64,
    /// Length of a tick of `USER_HZ` in microseconds; 10,000 unless it was tuned.
    pub tick: i64,
    /// Phase that is still to be slewed away.
    pub offset: i64,
    /// Maximum error in microseconds.
    pub maxerror: i64,
    /// Estimated error in microseconds.
    pub esterror: i64,
    /// The state of the discipline: `STA_*` bits.
    pub status: i32,
    /// TAI minus UTC in seconds; 0 if it was never set.
    /// Those of `adjtimex(2)`, if a filter forbids even reading.
    pub tai: i32,
}

/// Reads the discipline; never changes it (`modes` is 0).
///
/// # Errors
///
/// Those of `adjtimex(2)`, where a filter forbids even reading.
pub fn read() -> io::Result<Timex> {
    // SAFETY: all-zero is a value of this plain struct, and `modes` 0 asks only for reading; the
    // kernel fills it in.
    let timex = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        super::check(libc::adjtimex(&raw mut timex))?;
        timex
    };
    let libc::timex { freq, tick, offset, maxerror, esterror, status, tai, .. } = timex;
    Ok(Timex { freq, tick, offset, maxerror, esterror, status, tai })
}

impl Timex {
    /// `STA_UNSYNC` is not set.
    pub fn is_synchronised(&self) -> bool {
        self.status & libc::STA_UNSYNC == 0
    }

    /// Rate of `CLOCK_MONOTONIC` minus that of `CLOCK_MONOTONIC_RAW`, in parts per million.
    pub fn frequency_ppm(&self) -> f64 {
        self.freq as f64 / 65_536.0 + (self.tick - 10_000) as f64 * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_discipline_can_be_read() {
        let timex = read().unwrap();
        assert!(timex.tick > 0 && timex.maxerror >= 0, "{timex:?}");
        assert!(timex.frequency_ppm().abs() < 200_000.0);
    }

    #[test]
    fn frequency_and_tick_add_up() {
        let timex = Timex { freq: -65_536 * 3, tick: 10_001, ..Timex::default() };
        assert_eq!(timex.frequency_ppm(), 97.0);
    }
}
