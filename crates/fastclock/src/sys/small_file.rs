//! Reading the beginning of a small file into memory on the stack: usable in a signal handler.

use core::ffi::CStr;

/// The beginning of a file, as much as `buffer` holds; empty if the file cannot be read.
pub(crate) fn beginning<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    // SAFETY: the path ends with a zero.
    let fd = unsafe { libc::open(path.as_ptr(), flags) };
    if fd < 0 {
        return &[];
    }
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the kernel writes at most as many bytes as `rest` has.
        let got = unsafe { libc::read(fd, rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(got) {
            Ok(got) if got > 0 => filled += got,
            _ => break,
        }
    }
    // SAFETY: opened above; no other code has this file descriptor.
    unsafe { libc::close(fd) };
    &buffer[..filled]
}

/// This boot's id as two numbers, as in a page; `None` where `/proc` does not give it.
///
/// # References
///
/// - `random(4)`, `/proc/sys/kernel/random/boot_id`
pub fn boot_id() -> Option<[u64; 2]> {
    let mut buffer = [0; 64];
    parse_uuid(beginning(c"/proc/sys/kernel/random/boot_id", &mut buffer))
}

fn parse_uuid(text: &[u8]) -> Option<[u64; 2]> {
    let mut digits = text.trim_ascii().iter().filter(|byte| **byte != b'-');
    let mut half = || {
        (0..16).try_fold(0, |number, _| {
            let digit = char::from(*digits.next()?).to_digit(16)?;
            Some(number << 4 | u64::from(digit))
        })
    };
    let id = [half()?, half()?];
    digits.next().is_none().then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_thirty_two_digits() {
        let id = parse_uuid(b"01234567-89ab-cdef-fedc-ba9876543210\n");
        assert_eq!(id, Some([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]));
        assert_eq!(parse_uuid(b"01234567"), None);
        assert_eq!(parse_uuid(b""), None);
        assert_eq!(parse_uuid(b"g1234567-89ab-cdef-fedc-ba9876543210"), None);
    }

    #[test]
    fn a_boot_has_one_id() {
        assert_eq!(boot_id(), boot_id());
        assert_ne!(boot_id(), Some([0; 2]));
    }

    #[test]
    fn what_cannot_be_read_is_empty() {
        let mut buffer = [0; 8];
        assert_eq!(beginning(c"/does/not/exist", &mut buffer), b"");
        assert_eq!(beginning(c"/proc", &mut buffer), b"");
        assert_eq!(beginning(c"/proc/self/comm", &mut buffer).len().min(2), 2);
    }
}
