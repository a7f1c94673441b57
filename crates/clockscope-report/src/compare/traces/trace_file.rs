//! What `clockscope trace --format json` saved, as `compare` reads it.

use anyhow::{Context as _, Result, anyhow};

use clockscope_model::trace::TraceReport;
use clockscope_page::{Document, Kind};
use clockscope_text::foreign::printable;

/// The report in these bytes; `None` if they hold something else than a report of `trace`.
///
/// # Errors
///
/// When it is a report of `trace` of which a field is missing or of the wrong kind.
pub fn parse(bytes: &[u8]) -> Option<Result<TraceReport>> {
    let document = Document::parse(bytes).ok().filter(|found| found.kind() == Kind::Trace)?;
    let report = serde_json::from_slice(document.json().as_bytes());
    Some(
        report
            .map_err(|error| anyhow!(printable(&error.to_string())))
            .context("not as clockscope trace prints it"),
    )
}
