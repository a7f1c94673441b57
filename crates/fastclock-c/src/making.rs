//! Makes and frees clocks.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use fastclock::sys::AttachError;
use fastclock::{Clock, Decline};

use crate::clock::fastclock_t;
use crate::status::fastclock_status;

/// A clock, or NULL instead of a panic.
fn made(make: impl FnOnce() -> Clock) -> Option<Box<fastclock_t>> {
    catch_unwind(AssertUnwindSafe(|| Box::new(fastclock_t(make())))).ok()
}

/// A clock on a page, or NULL and the reason.
fn opened(
    reason: Option<&mut MaybeUninit<c_int>>,
    open: impl FnOnce() -> Result<Clock, AttachError>,
) -> Option<Box<fastclock_t>> {
    let unreadable = || Err(Decline::PageUnreadable.into());
    let opened = catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| unreadable());
    let (clock, number) = match opened {
        Ok(clock) => (made(|| clock), 0),
        Err(error) => (None, error.reason.as_raw().cast_signed()),
    };
    if let Some(reason) = reason {
        reason.write(number);
    }
    clock
}

/// Makes a clock on the page of this host's timekeeper (/run/clockscope/page) if that page is there
/// and good. Otherwise makes a clock that measures the counter's rate by itself.
///
/// NULL if neither is possible. Free the clock with fastclock_free(). Most programs make one clock
/// and keep it. Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_new() -> Option<Box<fastclock_t>> {
    made(Clock::new)
}

/// Makes a clock that measures the counter's rate by itself, without a timekeeper.
///
/// The kernel answers in the first 200 ms or so; fastclock_calibrate() waits for that time. NULL if
/// no clock can be made. Free the clock with fastclock_free(). Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_alone() -> Option<Box<fastclock_t>> {
    made(Clock::alone)
}

/// Makes a clock on the page at `path`, which a timekeeper writes; the file is opened for reading.
///
/// NULL if the file is not a good page or `path` is NULL. `reason`, which may be NULL, is then set
/// to the number of the reason (a fastclock_reason_t), and to 0 otherwise. Free the clock with
/// fastclock_free(). Not for signal handlers.
#[unsafe(no_mangle)]
#[allow(clippy::missing_safety_doc, reason = "the text is for C, where a string ends with a zero")]
pub unsafe extern "C" fn fastclock_open(
    path: *const c_char,
    reason: Option<&mut MaybeUninit<c_int>>,
) -> Option<Box<fastclock_t>> {
    opened(reason, || {
        if path.is_null() {
            return Err(Decline::PageUnreadable.into());
        }
        // SAFETY: the caller gives a string that ends with a zero.
        let path = unsafe { CStr::from_ptr(path) };
        Clock::from_path(Path::new(OsStr::from_bytes(path.to_bytes())))
    })
}

/// Makes a clock on the page behind the file descriptor `fd`, which is only read and may be closed
/// afterwards. Otherwise as fastclock_open().
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_open_fd(
    fd: c_int,
    reason: Option<&mut MaybeUninit<c_int>>,
) -> Option<Box<fastclock_t>> {
    opened(reason, || {
        if fd < 0 {
            return Err(Decline::PageUnreadable.into());
        }
        // SAFETY: the descriptor is borrowed for this call only; the kernel refuses a number that
        // is no open file.
        Clock::from_fd(unsafe { BorrowedFd::borrow_raw(fd) })
    })
}

/// Frees the clock and its memory. NULL is allowed. No other thread and no signal handler may use
/// the clock at this time or later. Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_free(clock: Option<Box<fastclock_t>>) {
    // The result tells whether dropping panicked; there is no way to handle that.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(clock)));
}

/// Waits until the clock answers by itself, or cannot, or `at_most_ns` nanoseconds are over;
/// usually 200 ms for a clock that keeps itself, and no time otherwise.
///
/// Returns the fastclock_status() at the end. Calling this is never necessary: until then the
/// kernel answers. Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_calibrate(clock: Option<&fastclock_t>, at_most_ns: u64) -> c_int {
    if let Some(fastclock_t(clock)) = clock {
        let calibrate = || clock.calibrate(Duration::from_nanos(at_most_ns));
        let _ = catch_unwind(AssertUnwindSafe(calibrate));
    }
    fastclock_status(clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_null() {
        assert!(made(|| panic!("while a clock is made")).is_none());
        let mut reason = MaybeUninit::new(-7);
        assert!(opened(Some(&mut reason), || panic!("while a page is opened")).is_none());
        // SAFETY: the variable was initialized above.
        assert_eq!(unsafe { reason.assume_init() }, Decline::PageUnreadable.as_raw().cast_signed());
    }

    #[test]
    fn a_reason_is_set_on_success_too() {
        let mut reason = MaybeUninit::new(-7);
        let clock = opened(Some(&mut reason), || Ok(Clock::declined(Decline::Warp)));
        // SAFETY: the variable was initialized above.
        assert_eq!(unsafe { reason.assume_init() }, 0);
        assert_eq!(fastclock_status(clock.as_deref()), Decline::Warp.as_raw().cast_signed());
        assert_eq!(
            fastclock_calibrate(clock.as_deref(), u64::MAX),
            fastclock_status(clock.as_deref())
        );
        fastclock_free(clock);
    }
}
