//! Descriptors that system calls without a wrapper give.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// The descriptor that `libc::syscall` has returned.
///
/// # Errors
///
/// That of the call, if it has failed; to be asked at once.
///
/// # Safety
///
/// A result that is not negative is a new descriptor, which nobody else owns.
pub(super) unsafe fn of_call(result: libc::c_long) -> io::Result<OwnedFd> {
    let number = i32::try_from(result).map_err(|_| io::ErrorKind::InvalidData)?;
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's, as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
