//! The terminal on standard output.

/// Columns of the terminal on standard output; `None` if it is none, or does not say.
///
/// # References
///
/// `TIOCGWINSZ(2const)`.
#[must_use]
pub fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one `winsize`, to which the pointer is valid and exclusive.
    let done = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0).then(|| usize::from(size.ws_col))
}
