//! Makes log text safe for a terminal: logs contain names chosen by devices, users and attackers.

use std::borrow::Cow;

use anstream::adapter::strip_str;
use clockscope_text::foreign::is_hidden;

/// A line's bytes as text, without terminal escape sequences and hidden characters. Bytes that are not UTF-8 become
/// U+FFFD.
///
/// `clean(clean(x)) == clean(x)`.
pub(crate) fn clean(line: &[u8]) -> Cow<'_, str> {
    // Most lines are plain ASCII. A loop without an early exit is compiled to vector instructions.
    let is_plain = line.iter().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~'));
    if let Some(text) = std::str::from_utf8(line).ok().filter(|_| is_plain) {
        return Cow::Borrowed(text);
    }
    let text = String::from_utf8_lossy(line);
    let stripped = strip_str(&text).to_string();
    Cow::Owned(stripped.replace('\t', " ").replace(is_hidden, ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_taken_out_and_text_stays() {
        for (bytes, want) in [
            (
                &b"\x1b[32m[    0.000000] \x1b[0m\x1b[33mtsc: \x1b[0mDetected"[..],
                "[    0.000000] tsc: Detected",
            ),
            (b"\x1b[01;31m\x1b[Ktsc\x1b[m\x1b[K: Marking", "tsc: Marking"),
            (b"a\x1b]0;title\x07b", "ab"),
            (b"\ttab\rreturn\x08\x7f", " tabreturn"),
            (b"bad \xff\xfe", "bad \u{fffd}\u{fffd}"),
            ("a\u{202e}b\u{feff}\u{85}".as_bytes(), "ab"),
            (b"end\x1b", "end"),
            (b"end\x1b[1;2", "end"),
        ] {
            assert_eq!(clean(bytes), want, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_left_to_clean(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let once = clean(&bytes).into_owned();
            prop_assert!(!once.contains(is_hidden));
            prop_assert_eq!(clean(once.as_bytes()), once.as_str());
        }

        #[test]
        fn nothing_is_left_to_clean_of_escapes(text in "[\x1b\u{9b}\\[\\]0-9;mK a\x07\\\\é]{0,40}") {
            let once = clean(text.as_bytes()).into_owned();
            prop_assert!(!once.contains(is_hidden));
        }
    }
}
