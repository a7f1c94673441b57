//! One line a second, for pipes: the time, and the calls of each row since the previous line. The numbers of
//! a row add up, over all lines, to its number in the summary.

use clockscope_stats::order;
use clockscope_text::foreign::printable;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::reading::{Reading, Row};
use clockscope_model::callers::Called;
use clockscope_text::{date, units};

/// The counts printed so far.
#[derive(Clone, Debug, Default)]
pub struct PlainLines {
    at: Duration,
    said: HashMap<Called, u64>,
}

impl PlainLines {
    /// The line for a reading, with its end: `TIME +INTERVAL vdso CALLS syscalls CALLS NAME CALLS ...`.
    /// `unix_seconds` is the time of day, since 1970, UTC.
    pub fn next(&mut self, reading: &Reading, unix_seconds: i64) -> String {
        let mut new: Vec<(&Row, u64)> = Vec::new();
        for row in &reading.rows {
            let said = self.said.insert(row.key, row.calls).unwrap_or(0);
            if row.calls > said {
                new.push((row, row.calls - said));
            }
        }
        order::by(&mut new, |(a, more), (b, less)| less.cmp(more).then(a.key.cmp(&b.key)));
        let sum = |vdso: bool| -> u64 {
            let rows = new.iter().filter(|(row, _)| matches!(row.key, Called::Vdso(_)) == vdso);
            rows.map(|(_, calls)| calls).sum()
        };
        let elapsed = reading.at.saturating_sub(self.at).as_nanos();
        self.at = reading.at;
        let mut out = format!(
            "{} +{} vdso {} syscalls {}",
            date::rfc3339(unix_seconds),
            units::nanos(u64::try_from(elapsed).unwrap_or(u64::MAX)).replace(' ', ""),
            sum(true),
            sum(false)
        );
        for (row, calls) in &new {
            let via = if matches!(row.key, Called::Vdso(_)) { "" } else { "sys_" };
            let name = printable(&row.name).replace(char::is_whitespace, "_");
            // Writing to a string does not fail.
            let _ = write!(out, " {via}{name} {calls}");
        }
        out + "\n"
    }
}
