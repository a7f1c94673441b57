//! The comparison as JSON, as the model says.

use super::model::CompareReport;
use clockscope_text::foreign::json;

/// The report with a field on each line; ends with a line end.
///
/// # Errors
///
/// None that the model can cause; what `serde_json` says otherwise.
pub fn render(report: &CompareReport) -> serde_json::Result<String> {
    json(report, true).map(|text| text + "\n")
}
