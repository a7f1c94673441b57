//! The terminal: its width, reading single keys from it, and keeping other output off it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

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

/// The controlling terminal, whatever the standard streams are.
///
/// # Errors
///
/// `ENXIO` where there is none.
pub fn controlling() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// Waits until there is a key to read, or for as long as this.
///
/// # Errors
///
/// `EIO` when the terminal is gone: its window was closed, or the connection has ended. Those of
/// `poll(2)`.
pub fn wait_for_key(terminal: &File, at_most: Duration) -> io::Result<()> {
    let mut polled = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the pointer is to a local, and the number says that there is one.
    if unsafe { libc::poll(&raw mut polled, 1, millis) } == -1 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
    }
    if polled.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
        return Err(io::Error::from_raw_os_error(libc::EIO));
    }
    Ok(())
}

/// Whether this process may use its terminal now: it is not in the background.
#[must_use]
pub fn is_ours(terminal: &File) -> bool {
    // SAFETY: both take numbers.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}

/// A terminal that gives each key at once and shows none, until this is dropped. Ctrl-C and the
/// like stay signals.
pub struct Keys {
    terminal: OwnedFd,
    before: libc::termios,
}

impl Keys {
    /// Changes the terminal. Not to be called in the background.
    ///
    /// # Errors
    ///
    /// `ENOTTY` if it is no terminal.
    pub fn single(terminal: &File) -> io::Result<Self> {
        let terminal = OwnedFd::from(terminal.try_clone()?);
        let mut before = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: the pointer is to a local of the right type.
        if unsafe { libc::tcgetattr(terminal.as_raw_fd(), before.as_mut_ptr()) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: filled by the call before.
        let before = unsafe { before.assume_init() };
        let mut single = before;
        single.c_lflag &= !(libc::ICANON | libc::ECHO);
        single.c_cc[libc::VMIN] = 1;
        single.c_cc[libc::VTIME] = 0;
        // SAFETY: the pointer is to a local of the right type.
        if unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &raw const single) } == -1
        {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { terminal, before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let terminal = self.terminal.as_raw_fd();
        // SAFETY: the pointer is to a value of the right type. Keys that nobody read are forgotten.
        unsafe {
            libc::tcflush(terminal, libc::TCIFLUSH);
            libc::tcsetattr(terminal, libc::TCSANOW, &raw const self.before);
        }
    }
}

/// The standard streams that are terminals, taken away from them: input reads nothing, and what
/// is written is kept in a file without a name and written to the terminal when this is dropped.
pub struct SetAside {
    written: File,
    /// Number of the stream, and what it was.
    streams: Vec<(RawFd, OwnedFd)>,
}

impl SetAside {
    /// Takes the streams away, for this process and those that it starts from now on.
    ///
    /// # Errors
    ///
    /// When there is no room for a temporary file.
    pub fn streams() -> io::Result<Self> {
        let written = tempfile::tempfile()?;
        // Several descriptions of one file would write over one another.
        let appending =
            File::options().append(true).open(format!("/proc/self/fd/{}", written.as_raw_fd()))?;
        let null = File::open("/dev/null")?;
        let mut aside = Self { written, streams: Vec::new() };
        for stream in 0..3 {
            // SAFETY: takes a number.
            if unsafe { libc::isatty(stream) } == 0 {
                continue;
            }
            let put = if stream == libc::STDIN_FILENO { &null } else { &appending };
            // SAFETY: takes numbers; the new descriptor belongs to nobody else.
            let before = unsafe { libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3) };
            if before == -1 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: made above.
            aside.streams.push((stream, unsafe { OwnedFd::from_raw_fd(before) }));
            // SAFETY: numbers of open descriptors; the standard streams are borrowed by nobody for
            // longer than a call.
            if unsafe { libc::dup2(put.as_raw_fd(), stream) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(aside)
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        let mut terminal = None;
        for (stream, before) in self.streams.drain(..) {
            // SAFETY: numbers of open descriptors.
            unsafe { libc::dup2(before.as_raw_fd(), stream) };
            if stream != libc::STDIN_FILENO {
                terminal = Some(File::from(before));
            }
        }
        // Nothing can be done about a terminal that is gone.
        let Some(mut terminal) = terminal else { return };
        if self.written.rewind().is_ok() {
            let mut bytes = [0; 1 << 16];
            while let Ok(length @ 1..) = self.written.read(&mut bytes) {
                if terminal.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
        }
    }
}
