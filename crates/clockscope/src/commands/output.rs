//! Where the summary goes, and what other commands print.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;

use crate::cli::Format;
use crate::report::json;
use crate::report::model::TraceReport;
use crate::report::text::{self, TextOptions};

/// Standard error, or a file that is opened before the program starts.
pub enum Output {
    /// Standard error.
    Stderr,
    /// A file.
    File(File),
}

impl Output {
    /// Opens the file, if one is named.
    ///
    /// # Errors
    ///
    /// When it cannot be written to.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        match path {
            None => Ok(Self::Stderr),
            Some(path) => File::create(path)
                .map(Self::File)
                .with_context(|| format!("cannot write to {}", path.display())),
        }
    }

    /// Writes the report; what fails now is only said, because the program has ended well.
    pub fn write(self, report: &TraceReport, format: Format, options: &TextOptions) {
        let text = match format {
            Format::Text => text::render(report, options),
            Format::Json => match json::render(report, true) {
                Ok(text) => text,
                Err(error) => return super::complain(&format!("cannot make JSON: {error}")),
            },
        };
        let written = match self {
            Self::Stderr => std::io::stderr().lock().write_all(text.as_bytes()),
            Self::File(mut file) => file.write_all(text.as_bytes()),
        };
        if let Err(error) = written {
            super::complain(&format!("cannot write the summary: {error}; try -o FILE elsewhere"));
        }
    }
}

/// Writes to standard output; a reader that has seen enough is no error.
///
/// # Errors
///
/// When it cannot be written to for another reason.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
