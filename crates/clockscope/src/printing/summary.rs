//! Formats the summary of `trace` and `run`, and writes it to standard error or a file.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::replace_file::Prepared;
use super::{colour, streams};
use crate::cli::trace::TraceFormat;
use clockscope_measure::host;
use clockscope_model::trace::TraceReport;
use clockscope_report::callers::{folded, pprof};
use clockscope_report::options::TextOptions;
use clockscope_report::{pages, text};
use clockscope_text::foreign::{json_document, printable_lines};

/// The report's form, and its place: standard error, or a file checked to be writable before the program starts.
pub(crate) struct Output {
    file: Option<Prepared>,
    format: TraceFormat,
    options: TextOptions,
}

impl Output {
    /// Prepares the file, if one is named.
    ///
    /// # Errors
    ///
    /// When the file cannot be written to.
    pub(crate) fn open(
        path: Option<&Path>,
        format: TraceFormat,
        options: TextOptions,
    ) -> anyhow::Result<Self> {
        Ok(Self { file: Prepared::of_option(path)?, format, options })
    }

    /// Whether the output is a terminal, on which binary output is useless.
    pub(crate) fn is_terminal(&self) -> bool {
        self.file.as_ref().map_or_else(|| io::stderr().is_terminal(), Prepared::is_terminal)
    }

    /// Whether the format has no place for anything but stacks.
    pub(crate) fn has_stacks_alone(&self) -> bool {
        matches!(self.format, TraceFormat::Folded | TraceFormat::Pprof)
    }

    /// Writes the report, or says why not and prints it as text to standard error. Returns whether it was written.
    pub(crate) fn write(self, report: &TraceReport) -> bool {
        let Self { file, format, options } = self;
        let to_stderr = file.is_none();
        let written = rendered(report, format, &options, to_stderr).and_then(|bytes| match file {
            None => match streams::warn_bytes(&bytes) {
                // A reader that goes away early has read what it wanted.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => Ok(written?),
            },
            Some(file) => Ok(file.write(&bytes)?),
        });
        let Err(error) = written else { return true };
        let instead = if to_stderr { "try -o FILE" } else { "it follows; try -o FILE elsewhere" };
        crate::printing::warn_user(&format!("cannot write the report: {error:#}; {instead}"));
        if !to_stderr && let Ok(text) = rendered(report, TraceFormat::Text, &options, true) {
            // Nothing is left to be done if standard error is closed, too.
            let _ = streams::warn_bytes(&text);
        }
        false
    }
}

fn rendered(
    report: &TraceReport,
    format: TraceFormat,
    options: &TextOptions,
    to_stderr: bool,
) -> anyhow::Result<Vec<u8>> {
    Ok(match format {
        TraceFormat::Text if to_stderr => {
            let options = TextOptions { coloured: colour::on_stderr(), ..options.clone() };
            colour::for_stderr(&text::render(report, &options)).into_bytes()
        }
        TraceFormat::Text => printable_lines(&text::render(report, options)).into_bytes(),
        TraceFormat::Json => json_document(report).context("JSON")?.into_bytes(),
        TraceFormat::Folded => folded::render(report).into_bytes(),
        TraceFormat::Pprof => pprof::render(report, unix_ns()).context("pprof")?,
        TraceFormat::Html => pages::of_report(report, Some(&host::collect()))?.into_bytes(),
    })
}

/// Nanoseconds since 1970 UTC; 0 for a clock before that.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
