//! The terminal: its width, its single keys, and protection of the screen from other output.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, isatty, tcflush,
    tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};

use super::poll;

/// Columns of the terminal on standard output; `None` if it is no terminal, or does not report its size.
///
/// # References
///
/// `TIOCGWINSZ(2const)`.
pub fn columns() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Whether the locale of this process uses UTF-8: by the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set
/// (`locale(7)`).
pub fn has_utf_8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    is_utf_8(&locale.unwrap_or_default())
}

fn is_utf_8(locale: &str) -> bool {
    let codeset = locale.split_once('.').map_or("", |(_, codeset)| codeset);
    let codeset = codeset.split('@').next().unwrap_or_default().to_ascii_lowercase();
    matches!(codeset.as_str(), "utf-8" | "utf8")
}

/// The controlling terminal, which may differ from the standard streams.
///
/// # Errors
///
/// `ENXIO` where there is none.
pub fn controlling() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// Columns and rows; 80 and 24 if the terminal does not report them.
///
/// # References
///
/// `TIOCGWINSZ(2const)`.
pub fn size(terminal: &File) -> (usize, usize) {
    match tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// The keys that were pressed; waits up to `at_most` for one.
///
/// # Errors
///
/// `EIO` when the terminal is gone: its window was closed, or the connection has ended. Those of
/// `poll(2)` and `read(2)`.
pub fn keys(mut terminal: &File, at_most: Duration) -> io::Result<Vec<u8>> {
    let seen = poll::events(&[terminal.as_fd()], at_most)?;
    if seen[0].intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::from_raw_os_error(libc::EIO));
    }
    let mut keys = vec![0; 64];
    let read = if seen[0].is_empty() { 0 } else { terminal.read(&mut keys)? };
    keys.truncate(read);
    Ok(keys)
}

/// Whether this process is in the terminal's foreground group, so that it may use the terminal.
pub fn is_ours(terminal: &File) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// A terminal in single-key mode without echo, until this is dropped. Ctrl-C and the like stay signals.
pub struct Keys {
    terminal: File,
    before: Termios,
}

impl Keys {
    /// Switches the terminal to single-key mode. Must not be called in the background.
    ///
    /// # Errors
    ///
    /// `ENOTTY` if it is no terminal.
    pub fn single(terminal: &File) -> io::Result<Self> {
        let terminal = terminal.try_clone()?;
        let before = tcgetattr(&terminal)?;
        let mut single = before.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        single.special_codes[SpecialCodeIndex::VMIN] = 1;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Now, &single)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // Unread keys are discarded. If the terminal is gone, both calls fail, and that does not matter.
        let _ = tcflush(&self.terminal, QueueSelector::IFlush);
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Replaces a standard stream by a file.
type Put = fn(&OwnedFd) -> rustix::io::Result<()>;

/// Redirects the standard streams that are terminals. Input reads nothing. Output is kept in a temporary file and
/// written to the terminal when this is dropped.
pub struct SetAside {
    written: File,
    /// The original streams, and the function that restores each.
    input: Option<OwnedFd>,
    outputs: Vec<(Put, OwnedFd)>,
}

impl SetAside {
    /// Redirects the streams, for this process and those that it starts from now on.
    ///
    /// # Errors
    ///
    /// When there is no room for a temporary file.
    pub fn streams() -> io::Result<Self> {
        let written = tempfile::tempfile()?;
        // Without `O_APPEND` the open file descriptions would overwrite one another's output.
        let appending =
            File::options().append(true).open(format!("/proc/self/fd/{}", written.as_raw_fd()))?;
        let appending = OwnedFd::from(appending);
        let null = File::open("/dev/null")?;
        let mut aside = Self { written, input: None, outputs: Vec::new() };
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        if isatty(&input) {
            aside.input = Some(input.as_fd().try_clone_to_owned()?);
            dup2_stdin(&null)?;
        }
        let outputs: [(BorrowedFd, Put); 2] =
            [(output.as_fd(), |file| dup2_stdout(file)), (error.as_fd(), |file| dup2_stderr(file))];
        for (stream, put) in outputs {
            if isatty(stream) {
                aside.outputs.push((put, stream.try_clone_to_owned()?));
                put(&appending)?;
            }
        }
        Ok(aside)
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        if let Some(input) = &self.input {
            let _ = dup2_stdin(input);
        }
        for (put, before) in &self.outputs {
            let _ = put(before);
        }
        let terminal = self.outputs.pop().map(|(_, before)| File::from(before));
        // If the terminal is gone, the output is lost.
        let Some(mut terminal) = terminal else { return };
        if self.written.rewind().is_ok() {
            let _ = io::copy(&mut self.written, &mut terminal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_says_its_codeset_behind_a_dot() {
        for locale in ["en_US.UTF-8", "C.utf8", "de_DE.UTF-8@euro"] {
            assert!(is_utf_8(locale), "{locale}");
        }
        for locale in ["", "C", "POSIX", "de_DE@euro", "de_DE.ISO-8859-15", "UTF-8"] {
            assert!(!is_utf_8(locale), "{locale}");
        }
    }
}
