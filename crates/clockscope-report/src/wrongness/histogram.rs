//! A distribution drawn in the terminal.

use super::sentences::short;
use clockscope_model::wrongness::{ClockRow, Distribution, Staleness};
use clockscope_text::units;

/// Bars are at most this long.
const BAR: usize = 44;
/// Lines of one distribution.
const LINES: u64 = 16;

/// The distributions of how old a clock's answers are, busy and idle.
pub(super) fn render(clock: &ClockRow, staleness: &Staleness) -> String {
    let getres = clock.resolution.as_ref().and_then(|resolution| resolution.getres_ns);
    let picture = |(word, distribution): (&str, &Distribution)| {
        ages(&format!("staleness of {}, {word}", short(&clock.clock)), distribution, getres)
    };
    [("busy", &staleness.busy), ("idle", &staleness.idle)].map(picture).concat()
}

struct Row {
    label: String,
    count: u64,
    mark: &'static str,
}

/// Even bins from zero to the 99.9th value or so, the rest in one, with a mark where `clock_getres` lies.
fn ages(title: &str, ages: &Distribution, getres: Option<u64>) -> String {
    if ages.count == 0 {
        return format!("\n{title}: no samples\n");
    }
    let top = ages.p99_ns.max(getres.unwrap_or(0)).saturating_add(1);
    let bin = nice(top.div_ceil(LINES - 1));
    let bins = top.div_ceil(bin);
    let mut rows: Vec<Row> =
        (0..=bins).map(|at| Row { label: units::nanos(at * bin), count: 0, mark: "" }).collect();
    for (lower, count) in &ages.buckets {
        let at = usize::try_from((lower / bin).min(bins)).unwrap_or(0);
        rows[at].count += count;
    }
    let marked = getres.and_then(|getres| usize::try_from(getres / bin).ok());
    if let Some(row) = marked.and_then(|at| rows.get_mut(at)) {
        row.mark = "<- clock_getres";
    }
    if rows.last().is_some_and(|row| row.count == 0) {
        rows.pop();
    } else if let Some(last) = rows.last_mut() {
        last.label = format!("over {}", last.label);
    }
    let samples = units::counted(ages.count, "read", "reads");
    let max = units::nanos(ages.max_ns);
    format!("\n{title}: {samples}, max {max}\n{}", bars(&rows))
}

/// The next number of 1, 2 or 5 times a power of ten.
fn nice(least: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for digit in [1, 2, 5] {
            let number = power.saturating_mul(digit);
            if number >= least {
                return number;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn bars(rows: &[Row]) -> String {
    let highest = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1);
    let width = rows.iter().map(|row| row.label.len()).max().unwrap_or(0);
    let line = |row: &Row| {
        let length = u128::from(row.count) * BAR as u128 / u128::from(highest);
        let length = usize::try_from(length).unwrap_or(BAR).max(usize::from(row.count > 0));
        let bar = "#".repeat(length);
        let number = if row.count == 0 { String::new() } else { units::count(row.count) };
        let text = format!("{:>width$} |{bar} {number} {}", row.label, row.mark);
        format!("{}\n", text.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::wrongness::Resolution;

    #[test]
    fn bins_are_round_numbers() {
        assert_eq!([0, 1, 3, 60, 501, 1_000].map(nice), [1, 1, 5, 100, 1_000, 1_000]);
        assert!(nice(u64::MAX) >= u64::MAX / 2);
    }

    #[test]
    fn a_staleness_is_drawn_with_the_line_of_getres() {
        let buckets = vec![(0, 10), (1_900_000, 40), (3_000_000, 5), (90_000_000, 1)];
        let busy = Distribution {
            count: 56,
            p99_ns: 7_000_000,
            max_ns: 90_000_000,
            buckets,
            ..Distribution::default()
        };
        let clock = ClockRow {
            clock: "CLOCK_TAI".to_owned(),
            resolution: Some(Resolution { getres_ns: Some(4_000_000), ..Resolution::default() }),
            ..ClockRow::default()
        };
        let staleness = Staleness { busy, ..Staleness::default() };
        let text = render(&clock, &staleness);
        assert!(text.contains("staleness of TAI, busy: 56 reads, max 90 ms"), "{text}");
        assert!(text.contains("  4 ms |  <- clock_getres"), "{text}");
        assert!(text.contains("over 7.5 ms |# 1") || text.contains("over 7 ms |# 1"), "{text}");
        assert!(text.contains("idle: no samples"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80 && line == line.trim_end()));
    }
}
