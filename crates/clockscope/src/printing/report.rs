//! Reports in the forms that `bench`, `survey` and `wrongness` share.

use anyhow::{Context as _, Result};

use super::replace_file::Prepared;
use super::{colour, streams};
use crate::cli::measure::ReportFormat;
use clockscope_report::pages::{self, Page};
use clockscope_text::foreign::json_document;

/// Prints the report, text in colour, or writes it to the file of `-o`. A report that cannot be written is printed.
///
/// # Errors
///
/// When the file or standard output cannot be written.
pub(crate) fn write<R: Page>(
    report: &R,
    format: ReportFormat,
    file: Option<Prepared>,
    text: impl FnOnce(&R) -> String,
) -> Result<()> {
    let rendered = match format {
        ReportFormat::Text => text(report),
        ReportFormat::Json => json_document(report).context("cannot make JSON")?,
        ReportFormat::Html => pages::of_report(report, None).context("cannot make the page")?,
    };
    let written = file.map(|file| file.write_text(&rendered));
    if !matches!(written, Some(Ok(()))) {
        match format {
            ReportFormat::Text => colour::print_report(&rendered)?,
            ReportFormat::Json | ReportFormat::Html => streams::print(&rendered)?,
        }
    }
    written.unwrap_or(Ok(()))
}
