//! Rows of the report, for tests.

use clockscope_model::trace::VdsoRow;

/// Calls of a vDSO function with a clock.
pub(crate) fn row(function: &str, clock: Option<&str>, calls: u64) -> VdsoRow {
    let clock = clock.map(str::to_owned);
    VdsoRow { function: function.to_owned(), clock, calls, ..VdsoRow::default() }
}
