//! Text from outside of clockscope: names of programs and functions, paths, logs, files of other hosts.
//!
//! Such text can hold escape sequences that act on a terminal, line ends that forge lines of a report, and invisible or
//! direction marks that make one name look like another. Only [`printable`] decides which characters are shown.
//! [`Foreign`] is the type of foreign text in data; its `Display` always uses [`printable`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether a character acts on a terminal, is invisible, or changes the order of the text.
///
/// These are control characters (C0, DEL, C1), line and paragraph separators, interlinear annotations, and the
/// characters that Unicode lists as bidirectional controls or default ignorable. Variation selectors U+FE00 to U+FE0F
/// and U+180B to U+180F are excepted, because they only choose between two forms of a visible character (PropList.txt
/// and DerivedCoreProperties.txt, Unicode 16).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// The character that replaces a hidden character.
pub const REPLACEMENT: char = '?';

/// The text on one line, with [`REPLACEMENT`] for every hidden character.
pub fn printable(text: &str) -> String {
    replaced(text, is_hidden)
}

/// [`printable`] for a text of several lines: line ends and tabs stay.
pub fn printable_lines(text: &str) -> String {
    replaced(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

fn replaced(text: &str, is_bad: impl Fn(char) -> bool) -> String {
    text.chars().map(|c| if is_bad(c) { REPLACEMENT } else { c }).collect()
}

/// JSON on one line, or indented, that is safe on a terminal. Hidden characters are written as `\u` escapes, so a JSON
/// parser still gets the exact text.
///
/// # Errors
///
/// Those of `serde_json`.
pub fn json(value: &(impl Serialize + ?Sized), pretty: bool) -> serde_json::Result<String> {
    let text =
        if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }?;
    // Outside of strings, JSON is ASCII and its only hidden characters are the line ends.
    let is_bad = |c: char| is_hidden(c) && c != '\n';
    if !text.contains(is_bad) {
        return Ok(text);
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    text.chars().for_each(|c| push_json(&mut escaped, c, is_bad(c)));
    Ok(escaped)
}

/// Appends a character of a JSON string, as `\u` escapes if it `is_bad`.
pub fn push_json(text: &mut String, c: char, is_bad: bool) {
    if is_bad {
        text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
    } else {
        text.push(c);
    }
}

/// An indented JSON document for a terminal or a file, made by [`json`], with a line end.
///
/// # Errors
///
/// Those of `serde_json`.
pub fn json_document(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    Ok(json(value, true)? + "\n")
}

/// Text from outside of clockscope.
///
/// `Display` shows it as [`printable`] makes it; JSON keeps it as it is. Code that needs the exact text, for lookups or
/// comparisons, calls [`Foreign::verbatim`].
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Foreign(String);

impl Foreign {
    /// The exact text: for lookups and comparisons, never to be shown.
    pub fn verbatim(&self) -> &str {
        &self.0
    }

    /// The text in printable form, on one line.
    pub fn printable(&self) -> String {
        printable(&self.0)
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Texts in printable form, with a separator between each two.
pub fn joined(texts: &[Foreign], separator: &str) -> String {
    texts.iter().map(Foreign::printable).collect::<Vec<_>>().join(separator)
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.printable())
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.printable().as_str(), f)
    }
}

impl From<String> for Foreign {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Foreign {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Bytes that are not UTF-8 become U+FFFD.
impl From<&[u8]> for Foreign {
    fn from(bytes: &[u8]) -> Self {
        Self(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Parts that are not UTF-8 become U+FFFD.
impl From<&std::ffi::OsStr> for Foreign {
    fn from(text: &std::ffi::OsStr) -> Self {
        Self(text.to_string_lossy().into_owned())
    }
}

impl From<&std::path::Path> for Foreign {
    fn from(path: &std::path::Path) -> Self {
        path.as_os_str().into()
    }
}

impl PartialEq<str> for Foreign {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Foreign {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A possible name of a hostile process.
    const HOSTILE: &str = "\x1b]0;x\x07\x1b[31ma\nb\u{9b}c\x7f\u{202e}\u{e0041}é";

    #[test]
    fn what_acts_or_hides_is_replaced_and_the_rest_stays() {
        assert_eq!(printable("größe 時計 👩\u{fe0f}"), "größe 時計 👩\u{fe0f}");
        assert_eq!(printable(HOSTILE), "?]0;x??[31ma?b?c???é");
        assert_eq!(printable_lines("a\tb\n\rc\x1b"), "a\tb\n?c?");
    }

    #[test]
    fn foreign_text_prints_harmlessly_in_every_way_and_json_keeps_it() {
        let foreign = Foreign::from(HOSTILE);
        for shown in [format!("{foreign}"), format!("{foreign:?}"), format!("{foreign:>40.12}")] {
            assert!(!shown.contains(is_hidden), "{shown:?}");
        }
        assert_eq!(format!("{:>5}|", Foreign::from("\x07b")), "   ?b|");
        let json = json(&foreign, false).unwrap();
        assert!(!json.contains(is_hidden), "{json:?}");
        assert_eq!(serde_json::from_str::<Foreign>(&json).unwrap(), foreign);
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text: String) {
            prop_assert!(!printable(&text).contains(is_hidden));
            prop_assert_eq!(printable(&text).chars().count(), text.chars().count());
            prop_assert_eq!(printable(&printable(&text)), printable(&text));
            let hidden = |c: char| is_hidden(c) && c != '\n' && c != '\t';
            prop_assert!(!printable_lines(&text).contains(hidden));
        }

        #[test]
        fn json_says_the_same_and_hides_nothing(text: String, pretty: bool) {
            let value = vec![text];
            let json = json(&value, pretty).unwrap();
            prop_assert!(!json.contains(|c| is_hidden(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), value);
        }
    }
}
