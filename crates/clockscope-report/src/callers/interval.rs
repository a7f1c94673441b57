//! Intervals of the number of reads of a place, from its samples.

use std::collections::BTreeMap;

use clockscope_model::callers::{CalledRow, Callers};
use clockscope_model::reads;
use clockscope_stats::proportion::wilson;

/// The ends of the 95 % interval of a place's reads. `rows` has the reads by row of `called`. The ends of
/// several rows are added, which makes the interval wider than necessary.
pub(super) fn of_reads(rows: &BTreeMap<usize, f64>, callers: &Callers) -> (f64, f64) {
    let ends = rows.iter().map(|(row, reads)| of_row(*reads, &callers.called[*row]));
    ends.fold((0.0, 0.0), |sum, ends| (sum.0 + ends.0, sum.1 + ends.1))
}

/// The more of the calls were sampled, the less is left to chance.
fn of_row(reads: f64, row: &CalledRow) -> (f64, f64) {
    let calls = (row.calls as f64).max(reads);
    let left = 1.0 - row.samples as f64 / calls;
    if left <= 0.0 {
        return (reads, reads);
    }
    let (low, high) = wilson(reads / calls, row.samples_effective / left);
    (low * calls, high * calls)
}

/// The most reads that a place without a sampled stack can have, at 95 % confidence.
pub fn unseen(callers: &Callers) -> f64 {
    let is_read = |row: &&CalledRow| reads::source(&row.name, row.clock.as_deref()).is_some();
    callers.called.iter().filter(is_read).map(|row| of_row(0.0, row).1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, calls: u64, samples_effective: f64) -> CalledRow {
        let clock = Some("CLOCK_TAI".to_owned());
        CalledRow { name: name.to_owned(), clock, calls, samples_effective, ..CalledRow::default() }
    }

    #[test]
    fn the_interval_contains_what_was_found_and_shrinks_with_samples() {
        let callers = |samples| Callers {
            called: vec![row("clock_gettime", 1_000, samples)],
            ..Callers::default()
        };
        let rows = BTreeMap::from([(0, 250.0)]);
        let few = of_reads(&rows, &callers(16.0));
        let many = of_reads(&rows, &callers(1_600.0));
        assert!(few.0 < many.0 && many.0 < 250.0 && 250.0 < many.1 && many.1 < few.1);
        assert_eq!(of_reads(&rows, &callers(0.0)), (0.0, 1_000.0), "no sample says anything");
    }

    #[test]
    fn shares_of_calls_that_were_all_sampled_are_exact() {
        let of = |samples| {
            let row = CalledRow { samples, ..row("clock_gettime", 10, 8.0) };
            let callers = Callers { called: vec![row], ..Callers::default() };
            of_reads(&BTreeMap::from([(0, 4.0)]), &callers)
        };
        assert_eq!(of(10), (4.0, 4.0));
        assert!(of(0).0 < of(8).0 && of(8).0 < 4.0 && of(8).1 < of(0).1);
    }

    #[test]
    fn what_was_never_sampled_is_rare() {
        let called = vec![row("clock_gettime", 1_000, 996.16), row("getcpu", 9_999, 1.0)];
        let callers = Callers { called, ..Callers::default() };
        assert!((unseen(&callers) - 3.84).abs() < 0.01, "{}", unseen(&callers));
    }
}
