//! Histograms of call times side by side: a column for each power of ten.

use super::entries::Entry;
use super::table::{self, Head};
use clockscope_model::trace::Latency;

/// Ends of the columns in nanoseconds, not included, and their heads; what is longer comes last.
const COLUMNS: [(u64, &str); 8] = [
    (100, "<100ns"),
    (1_000, "<1us"),
    (10_000, "<10us"),
    (100_000, "<100us"),
    (1_000_000, "<1ms"),
    (10_000_000, "<10ms"),
    (100_000_000, "<100ms"),
    (u64::MAX, "longer"),
];

/// A row for each entry with a histogram: shares of its timed calls in percent, nothing where no
/// call was; empty if no entry has one.
pub(super) fn render(entries: &[Entry]) -> String {
    let rows: Vec<Vec<String>> = entries
        .iter()
        .filter_map(|entry| {
            let mut cells = shares(entry.latency?)?;
            cells.push(entry.name.clone());
            Some(cells)
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut heads =
        COLUMNS.map(|(_, text)| Head { text, least: text.len().max(5), is_left: false }).to_vec();
    heads.push(Head::NAME);
    table::draw(&heads, rows, false, table::NAME_MIN_DEFAULT)
}

/// The cells of a histogram; `None` if nothing is in it.
fn shares(latency: &Latency) -> Option<Vec<String>> {
    let mut counts = [0_u128; COLUMNS.len()];
    for (lower, calls) in &latency.buckets {
        let column = COLUMNS.iter().position(|(end, _)| lower < end).unwrap_or(COLUMNS.len() - 1);
        counts[column] += u128::from(*calls);
    }
    let total: u128 = counts.iter().sum();
    (total > 0).then(|| counts.iter().map(|count| percent(*count, total)).collect())
}

fn percent(count: u128, total: u128) -> String {
    // Rounded to tenths; what is there but would round to nothing is said to be there.
    match (count * 1_000 + total / 2) / total {
        _ if count == 0 => String::new(),
        0 => "<0.1".to_owned(),
        tenths => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(buckets: &[(u64, u64)]) -> Option<Vec<String>> {
        shares(&Latency { buckets: buckets.to_vec(), ..Latency::default() })
    }

    #[test]
    fn calls_fall_into_the_column_of_their_bucket() {
        let cells = cells(&[(0, 1), (99, 1), (100, 1), (999, 5), (100_000_000, 1), (u64::MAX, 1)]);
        assert_eq!(cells.unwrap(), ["20.0", "60.0", "", "", "", "", "", "20.0"]);
    }

    #[test]
    fn a_rare_call_is_not_rounded_away() {
        let cells = cells(&[(10, 1_000_000), (50_000_000, 1)]).unwrap();
        assert_eq!(cells, ["100.0", "", "", "", "", "", "<0.1", ""]);
    }

    #[test]
    fn a_histogram_without_calls_has_no_row() {
        assert_eq!(cells(&[]), None);
        assert_eq!(cells(&[(10, 0)]), None);
    }
}
