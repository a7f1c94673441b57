//! Texts of the kernel that contain names of programs and files, which need not be UTF-8.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A file below `/proc`; bytes that are no UTF-8 become U+FFFD.
///
/// # Errors
///
/// Those of reading it.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    // The kernel reports a size of 0, so a read by that size would take many small pieces.
    let mut bytes = Vec::with_capacity(4096);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// The value of a line that begins with `name`, as in `/proc/PID/status`.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Whether `/proc` shows processes.
pub fn is_mounted() -> bool {
    Path::new("/proc/self").exists()
}

/// The error message if `/proc` is not mounted.
pub const NOT_MOUNTED: &str = "/proc is not mounted; try: mount -t proc proc /proc";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_utf_8_is_read_with_the_rest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"7 (a\xffb) S").unwrap();
        assert_eq!(read(file.path()).unwrap(), "7 (a\u{fffd}b) S");
    }
}
