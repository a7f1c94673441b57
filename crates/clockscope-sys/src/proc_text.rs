//! Text of the kernel's in which names of programs and files stand, which need not be UTF-8.

use std::io;
use std::path::Path;

/// A file below `/proc`; bytes that are no UTF-8 become U+FFFD.
///
/// # Errors
///
/// Those of reading it.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// First address, end and name of each mapping, from the text of `/proc/PID/maps`.
pub(super) fn mappings(maps: &str) -> impl Iterator<Item = (u64, u64, &str)> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) =
            (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        Some((start, end, words.nth(4).unwrap_or_default()))
    })
}

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
