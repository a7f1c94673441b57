//! Where the summary goes, and what other commands print.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::host_state;
use crate::cli::trace::TraceFormat;
use crate::report::callers::{flamegraph, folded, pprof};
use crate::report::json;
use crate::report::model::TraceReport;
use crate::report::text::{self, TextOptions};
use crate::report::trace_page;

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

    /// Whether it is a terminal, where binary output helps nobody.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Stderr => io::stderr().is_terminal(),
            Self::File(file) => file.is_terminal(),
        }
    }

    /// Writes the report; what fails now is only said, because the program has ended well.
    pub fn write(self, report: &TraceReport, format: TraceFormat, options: &TextOptions) {
        let bytes = match rendered(report, format, options) {
            Ok(bytes) => bytes,
            Err(error) => return super::complain(&format!("cannot make the summary: {error:#}")),
        };
        let written = match self {
            Self::Stderr => io::stderr().lock().write_all(&bytes),
            Self::File(mut file) => file.write_all(&bytes),
        };
        if let Err(error) = written {
            super::complain(&format!("cannot write the summary: {error}; try -o FILE elsewhere"));
        }
    }
}

fn rendered(
    report: &TraceReport,
    format: TraceFormat,
    options: &TextOptions,
) -> anyhow::Result<Vec<u8>> {
    Ok(match format {
        TraceFormat::Text => text::render(report, options).into_bytes(),
        TraceFormat::Json => json::render(report, true).context("JSON")?.into_bytes(),
        TraceFormat::Folded => folded::render(report).into_bytes(),
        TraceFormat::Pprof => pprof::render(report).context("pprof")?,
        TraceFormat::Html => trace_page::render(report, &host_state::collect()).into_bytes(),
    })
}

/// The file of a flame graph, opened before the program starts.
pub struct Picture {
    file: File,
    path: PathBuf,
}

impl Picture {
    /// Opens the file, if one is named.
    ///
    /// # Errors
    ///
    /// When it cannot be written to.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let file = File::create(path).with_context(|| {
            format!("cannot write to {}; try --flamegraph elsewhere", path.display())
        })?;
        Ok(Some(Self { file, path: path.to_owned() }))
    }

    /// Draws the flame graph; what fails now is only said, because the program has ended well.
    pub fn draw(mut self, report: &TraceReport) {
        let drawn = flamegraph::render(report).and_then(|svg| self.file.write_all(&svg));
        if let Err(error) = drawn {
            super::complain(&format!(
                "cannot draw the flame graph {}: {error}; try --flamegraph elsewhere",
                self.path.display()
            ));
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
