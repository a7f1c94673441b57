//! Makes log text safe for a terminal: logs contain names chosen by devices, users and attackers.

use std::borrow::Cow;

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
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(one) = rest.next() {
        match one {
            '\x1b' => skip_escape(&mut rest),
            '\u{9b}' => skip_sequence(&mut rest),
            '\t' => cleaned.push(' '),
            _ if is_hidden(one) => {}
            _ => cleaned.push(one),
        }
    }
    Cow::Owned(cleaned)
}

/// Skips the rest of an escape sequence after ESC: `[...m` and the like, `]...BEL` (titles, links), or one character.
fn skip_escape(rest: &mut std::str::Chars) {
    let mut after = rest.clone();
    match after.next() {
        Some('[') => {
            *rest = after;
            skip_sequence(rest);
        }
        Some(']' | 'P' | '^' | '_') => {
            // Without a terminator it is no string, and the rest is text.
            let text = after.as_str();
            let Some(end) = text.find(['\x07', '\x1b', '\u{9c}']) else {
                *rest = after;
                return;
            };
            let closed = &text[end..];
            let closing = if closed.starts_with("\x1b\\") { 2 } else { 0 };
            let one = closed.chars().next().filter(|c| *c != '\x1b').map_or(0, char::len_utf8);
            *rest = closed[closing.max(one)..].chars();
        }
        Some('(' | ')' | '#' | '%') => {
            after.next();
            *rest = after;
        }
        Some('\x1b') | None => {}
        Some(_) => *rest = after,
    }
}

/// Skips parameters and the final character of a control sequence (ECMA-48, 5.4).
fn skip_sequence(rest: &mut std::str::Chars) {
    let text = rest.as_str();
    let end = text.find(|c: char| !matches!(c, ' '..='?')).unwrap_or(text.len());
    let is_final = text[end..].starts_with(|c| matches!(c, '@'..='~'));
    *rest = text[end + usize::from(is_final)..].chars();
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
            (b"a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"),
            (b"a\x1b]no end", "ano end"),
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
