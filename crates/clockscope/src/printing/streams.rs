//! The only place that writes to standard output and standard error (kept by `tests/tidy.rs`).
//!
//! All text that passes here is made printable once more. Reports do that for foreign text in their layout;
//! this also covers text outside of reports, such as the path in an error message.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::{Context as _, Result};

use clockscope_text::foreign::{is_hidden, printable, printable_lines};

/// Prints an error or a warning, in one line on standard error.
pub(crate) fn warn_user(what: &(impl Display + ?Sized)) {
    warn(&format!("clockscope: {}\n", clause(what)));
}

/// An error as a clause, for output by other means.
pub(crate) fn clause(what: &(impl Display + ?Sized)) -> String {
    printable(&without_numbers(&format!("{what:#}")))
}

/// The text without Rust's error numbers, and with the C library's words in lower case.
fn without_numbers(text: &str) -> String {
    let Some((before, after)) = text.split_once(" (os error ") else { return text.to_owned() };
    let Some((_, after)) = after.split_once(')') else { return text.to_owned() };
    let at = before.rfind(": ").map_or(0, |at| at + 2);
    let (start, words) = before.split_at(at);
    let first: String = words.chars().take(1).flat_map(char::to_lowercase).collect();
    let rest: String = words.chars().skip(1).collect();
    format!("{start}{first}{rest}{}", without_numbers(after))
}

/// Prints lines of text to standard error.
pub(crate) fn warn(text: &str) {
    // A closed standard error cannot be reported.
    let _ = io::stderr().lock().write_all(printable_lines(text).as_bytes());
}

/// Replaces the line of the cursor on the terminal of standard error.
pub(crate) fn replace_line(text: &str) {
    let _ = write!(io::stderr().lock(), "\r\x1b[K{}", printable(text));
}

/// Prints text to standard output; a reader that closes the pipe early is no error.
///
/// # Errors
///
/// When standard output cannot be written to for another reason.
pub(crate) fn print(text: &str) -> Result<()> {
    print_bytes(printable_lines(text).as_bytes())
}

/// Prints text with colours of our own: sequences that choose a colour are kept.
///
/// # Errors
///
/// Those of [`print()`].
pub(crate) fn print_coloured(text: &str) -> Result<()> {
    print_bytes(coloured(text, |_| true).as_bytes())
}

/// Prints binary data, such as an archive.
///
/// # Errors
///
/// Those of [`print()`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    match write(&mut io::stdout().lock(), bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints binary data; a reader that closes the pipe early is an error, because half an archive is useless.
///
/// # Errors
///
/// When standard output cannot be written to.
pub(crate) fn print_all(bytes: &[u8]) -> Result<()> {
    write(&mut io::stdout().lock(), bytes).context("cannot write to standard output")
}

/// Prints one line of several.
///
/// # Errors
///
/// When the line cannot be written, or the reader has closed the pipe.
pub(crate) fn print_line(line: &str) -> io::Result<()> {
    write(&mut io::stdout().lock(), printable_lines(line).as_bytes())
}

/// Writes the report of `trace` and `run` to standard error; it may be a binary profile.
///
/// # Errors
///
/// When standard error cannot be written to.
pub(crate) fn warn_bytes(bytes: &[u8]) -> io::Result<()> {
    write(&mut io::stderr().lock(), bytes)
}

fn write(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes).and_then(|()| out.flush())
}

/// `text` without hidden characters, except in sequences `ESC [ 1 ; 2 m` (ECMA-48, 8.3.117) accepted by `ours`.
pub(crate) fn coloured(text: &str, ours: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, from) = rest.split_at(at);
        out += &printable_lines(before);
        let parameters = from[2..].bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b';'));
        let end = 2 + parameters.count();
        let is_ours = from[end..].starts_with('m') && ours(&from[..=end]);
        let length = if is_ours { end + 1 } else { 1 };
        let (sequence, after) = from.split_at(length);
        out += if length == 1 { "?" } else { sequence };
        rest = after;
    }
    out += &printable_lines(rest);
    debug_assert!(!out.replace('\x1b', "").contains(|c| is_hidden(c) && c != '\n' && c != '\t'));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_the_system_are_words() {
        for (text, said) in [
            (
                "cannot read a: No such file or directory (os error 2)",
                "cannot read a: no such file or directory",
            ),
            (
                "a: No data (os error 61); b: Is a directory (os error 21), c",
                "a: no data; b: is a directory, c",
            ),
            ("Permission denied (os error 13)", "permission denied"),
            ("cannot read (os error", "cannot read (os error"),
            ("É (os error 1) (os error x", "é (os error x"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(text), said);
        }
    }

    #[test]
    fn colours_stay_and_nothing_else_does() {
        let text = "\x1b[1;31mred\x1b[0m\x1b]0;x\x07\x1b[2J\u{9b}\n\tend\x1b[";
        assert_eq!(coloured(text, |_| true), "\x1b[1;31mred\x1b[0m?]0;x??[2J?\n\tend?[");
    }
}
