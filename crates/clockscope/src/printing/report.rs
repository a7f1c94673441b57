//! Reports in the forms that `survey` and `wrongness` share.

use anyhow::{Context as _, Result};

use super::{colour, streams};
use crate::cli::measure::ReportFormat;
use clockscope_report::pages::{self, Page};
use clockscope_text::foreign::json_document;

/// The report in one form.
///
/// # Errors
///
/// None that a report can cause.
pub(crate) fn rendered<R: Page>(
    report: &R,
    format: ReportFormat,
    text: impl FnOnce(&R) -> String,
) -> Result<String> {
    match format {
        ReportFormat::Text => Ok(text(report)),
        ReportFormat::Json => json_document(report).context("cannot make JSON"),
        ReportFormat::Html => pages::of_report(report, None).context("cannot make the page"),
    }
}

/// Prints it to standard output, text in colour.
///
/// # Errors
///
/// Those of [`streams::print()`].
pub(crate) fn print(rendered: &str, format: ReportFormat) -> Result<()> {
    match format {
        ReportFormat::Text => colour::print_report(rendered),
        ReportFormat::Json | ReportFormat::Html => streams::print(rendered),
    }
}
