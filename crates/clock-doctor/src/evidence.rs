//! The source of a fact, and files that were not read.

use std::{fmt, io};

use clockscope_text::foreign::printable_lines;
use serde::{Deserialize, Serialize};

/// A place in a file and its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// The file, relative to the root (`var/log/dmesg`), or `measured` for a measurement.
    pub file: String,
    /// The line's number in that file, from 1; `None` if it is not needed.
    pub line: Option<u64>,
    /// The text of the line, without the logger's prefix, at most 300 characters.
    pub text: String,
}

impl Evidence {
    /// Evidence from `file`, which is short.
    pub fn of(file: &str, text: &str) -> Evidence {
        Evidence { file: file.to_owned(), line: None, text: text.to_owned() }
    }

    /// Evidence from a measurement.
    pub(crate) fn measured(text: impl AsRef<str>) -> Evidence {
        Evidence::of("measured", text.as_ref())
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// A fact and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<T> {
    /// The fact.
    pub value: T,
    /// The source of the fact.
    pub evidence: Evidence,
}

impl<T> Known<T> {
    /// A fact from a short file.
    pub fn new(value: T, file: &str, text: &str) -> Known<T> {
        Known { value, evidence: Evidence::of(file, text) }
    }
}

/// A file that exists but was not read, and the reason as a clause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The file, relative to the root.
    pub file: String,
    /// Such as `permission denied`, `a FIFO, not a file`, `leads out of the root`.
    pub why: String,
    /// Permission was denied, so root could read the file.
    #[serde(skip)]
    pub is_denied: bool,
}

impl Unread {
    /// A file that exists but was not read, with the reason as a clause.
    pub fn new(file: &str, why: impl Into<String>) -> Unread {
        Unread { file: file.to_owned(), why: why.into(), is_denied: false }
    }

    /// A file that could not be read because of this error.
    pub fn of(file: &str, error: &io::Error) -> Unread {
        let is_denied = error.raw_os_error() == Some(libc::EACCES);
        Unread { is_denied, ..Unread::new(file, clean(&in_words(error))) }
    }
}

/// An error in lower case, without its number.
pub(crate) fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_lowercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// The text without characters that act on a terminal or are invisible. Line ends and tabs stay; a zero byte becomes a
/// line end.
pub fn clean(text: &str) -> String {
    printable_lines(&text.replace('\0', "\n").replace('\r', " "))
}
