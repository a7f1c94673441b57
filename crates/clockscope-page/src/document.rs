//! Reports of clockscope as JSON: the command that made a report, and whether it can be shown.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Limit for the length of a report, in bytes.
pub const MAX_BYTES: usize = 256 << 20;

/// Commands whose reports have a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Calls of a program, from `trace` and `run --stats`.
    Trace,
    /// Costs of clock reads and system calls.
    Bench,
    /// Errors of each clock.
    Wrongness,
    /// Clock reads of a host's processes.
    Survey,
}

impl Kind {
    /// The command's name, which selects the page in the viewer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Bench => "bench",
            Self::Wrongness => "wrongness",
            Self::Survey => "survey",
        }
    }

    /// The schema of the command's reports that this version understands.
    pub fn schema(self) -> u64 {
        match self {
            Self::Bench | Self::Survey | Self::Wrongness => 2,
            Self::Trace => 1,
        }
    }
}

/// A report that can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The command that made the report.
    pub kind: Kind,
    /// The text of `--format json`, of any length.
    pub json: String,
}

/// The reason why a file is not a report that can be shown, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is longer than [`MAX_BYTES`].
    #[error("it is longer than {} MiB", MAX_BYTES >> 20)]
    TooLong,
    /// The file has nothing but blanks.
    #[error("it is empty; save a report with --format json -o FILE")]
    Empty,
    /// The file is not UTF-8; the first wrong byte, from 0.
    #[error("it is not text: byte {0} is not UTF-8; save a report with --format json -o FILE")]
    NotText(usize),
    /// The JSON ends in the middle, at this line and column.
    #[error(
        "the JSON ends in the middle, at line {0} column {1}; the file may be cut off: save \
         it again"
    )]
    CutOff(usize, usize),
    /// Not JSON: line, column and the parser's message.
    #[error("not JSON at line {0} column {1}: {2}; save a report with --format json -o FILE")]
    NotJson(usize, usize, String),
    /// JSON without the fields of a report.
    #[error(
        "it is no report of clockscope trace, bench, wrongness or survey; save one with \
         --format json -o FILE"
    )]
    Unknown,
    /// Another schema, as JSON, and the schema that this version understands.
    #[error(
        "it has schema {0:.40}, and this clockscope understands schema {1} only; update \
         clockscope, or measure again with this one"
    )]
    Schema(String, u64),
}

/// The fields that distinguish the reports.
#[derive(Deserialize)]
struct Head {
    schema: Option<serde_json::Value>,
    clock_reads: Option<IgnoredAny>,
    paths: Option<IgnoredAny>,
    clocks: Option<IgnoredAny>,
    warps: Option<IgnoredAny>,
    visible_from_per_second: Option<IgnoredAny>,
}

impl Head {
    fn kind(&self) -> Option<Kind> {
        match self {
            Self { clock_reads: Some(_), .. } => Some(Kind::Trace),
            Self { clocks: Some(_), warps: Some(_), .. } => Some(Kind::Wrongness),
            Self { paths: Some(_), .. } => Some(Kind::Bench),
            Self { visible_from_per_second: Some(_), .. } => Some(Kind::Survey),
            _ => None,
        }
    }
}

impl Document {
    /// Parses the text of `--format json`; a byte order mark may precede it.
    ///
    /// # Errors
    ///
    /// When the bytes are no JSON document, no report of clockscope, or of another schema.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > MAX_BYTES {
            return Err(ReadError::TooLong);
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text =
            std::str::from_utf8(bytes).map_err(|error| ReadError::NotText(error.valid_up_to()))?;
        if text.trim().is_empty() {
            return Err(ReadError::Empty);
        }
        // serde accepts a list for the fields of a struct.
        if text.trim_start().starts_with('[') {
            return Err(ReadError::Unknown);
        }
        let head: Head =
            serde_json::from_slice(text.as_bytes()).map_err(|error| Self::error(&error))?;
        let kind = head.kind().ok_or(ReadError::Unknown)?;
        match head.schema {
            None => Err(ReadError::Unknown),
            Some(schema) if schema.as_u64() == Some(kind.schema()) => {
                Ok(Self { kind, json: text.trim().to_owned() })
            }
            Some(schema) => Err(ReadError::Schema(schema.to_string(), kind.schema())),
        }
    }

    fn error(error: &serde_json::Error) -> ReadError {
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        match error.classify() {
            serde_json::error::Category::Eof => ReadError::CutOff(error.line(), error.column()),
            serde_json::error::Category::Data => ReadError::Unknown,
            _ => ReadError::NotJson(error.line(), error.column(), what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Kind, ReadError> {
        Document::parse(text.as_bytes()).map(|document| document.kind)
    }

    #[test]
    fn each_kind_is_known_by_its_fields() {
        for (fields, kind) in [
            ("\"clock_reads\": {}", Kind::Trace),
            ("\"paths\": [], \"host\": {}", Kind::Bench),
            ("\"clocks\": [], \"warps\": []", Kind::Wrongness),
            ("\"visible_from_per_second\": 1.5, \"processes\": []", Kind::Survey),
        ] {
            let known = kind.schema();
            assert_eq!(read(&format!("\u{feff} {{\"schema\": {known}, {fields}}}\n")), Ok(kind));
            let newer = read(&format!("{{\"schema\": 9, {fields}}}"));
            assert_eq!(newer, Err(ReadError::Schema("9".to_owned(), known)));
            assert_eq!(read(&format!("{{{fields}}}")), Err(ReadError::Unknown));
        }
    }

    #[test]
    fn what_is_no_report_is_refused_with_a_reason() {
        let deep = "[".repeat(1_000_000);
        for (text, start) in [
            ("", "it is empty"),
            ("  \n", "it is empty"),
            ("12", "it is no report"),
            ("[]", "it is no report"),
            ("{\"schema\": 1, \"findings\": []}", "it is no report"),
            ("{\"schema\": 1, \"paths\": [", "the JSON ends in the middle, at line 1 column 24"),
            ("{\"schema\": 1,\n nonsense", "not JSON at line 2 column 2: key must be a string"),
            (deep.as_str(), "it is no report"),
        ] {
            let error = read(text).expect_err("no report").to_string();
            assert!(error.starts_with(start) && !error.contains('\n'), "{text:.60}: {error}");
        }
        let error = Document::parse(b"{\"schema\": 1, \"\xff\"}").expect_err("not UTF-8");
        assert_eq!(error, ReadError::NotText(15));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = Document::parse(&bytes) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
