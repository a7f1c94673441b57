//! The section on what one call adds inside other work, as text.

use super::names::{list, of_row};
use super::signed_picos;
use crate::table::{Head, draw};
use clockscope_model::bench::InWorkRow;
use clockscope_text::lines::labelled;
use clockscope_text::units;

/// A call that adds more than this many times its own cost is dearer in work; one that adds less
/// than the second is cheaper.
const DEARER: f64 = 1.25;
const CHEAPER: f64 = 0.8;
const NAME_MIN: usize = 12;

/// The section; empty if there are no rows.
pub fn render(rows: &[InWorkRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = |text, least| Head { text, least, is_left: false };
    let heads = [
        Head::NAME,
        head("alone", 7),
        head("compute-bound", 13),
        head("memory-bound", 13),
        Head { text: "grade", least: 5, is_left: true },
    ];
    let cells = rows.iter().map(|row| {
        vec![
            of_row(&row.name),
            time(i64::try_from(row.alone_ps).unwrap_or(i64::MAX)),
            with_interval(row.compute_ps, row.compute_ci_ps),
            with_interval(row.memory_ps, row.memory_ci_ps),
            row.grade.clone(),
        ]
    });
    let mut out = "What one call adds to an iteration of other work\n\n".to_owned();
    out += &draw(&heads, cells.collect(), false, NAME_MIN);
    out.push('\n');
    out + &labelled("In work", &conclusion(rows))
}

/// Times from here on have a unit that suits them, in picoseconds.
const LONG_PS: u64 = 100_000_000;

/// In nanoseconds with one decimal, so that they stand below each other.
fn time(ps: i64) -> String {
    if ps.unsigned_abs() < LONG_PS {
        format!("{:.1} ns", ps as f64 / 1000.0)
    } else {
        signed_picos(ps)
    }
}

/// `25.9 ns ±0.3`: the median, and how far away the farther end of its interval is.
fn with_interval(ps: i64, (low, high): (i64, i64)) -> String {
    let away = ps.saturating_sub(low).max(high.saturating_sub(ps)).max(0);
    let away = time(away);
    format!("{} ±{}", time(ps), away.strip_suffix(" ns").unwrap_or(&away))
}

/// What to conclude.
fn conclusion(rows: &[InWorkRow]) -> String {
    let usable: Vec<&InWorkRow> = rows.iter().filter(|row| row.grade != "unusable").collect();
    if usable.is_empty() {
        return "the host was too busy to tell; measure again when it is quiet".to_owned();
    }
    let alone = |row: &InWorkRow| row.alone_ps as f64;
    let dearer = usable.iter().filter(|row| row.memory_ci_ps.0 as f64 > alone(row) * DEARER);
    let cheaper = usable.iter().filter(|row| (row.compute_ci_ps.1 as f64) < alone(row) * CHEAPER);
    let ratio = |row: &InWorkRow| row.memory_ps as f64 / alone(row).max(1.0);
    let worst = dearer.clone().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let mut text = match worst {
        Some(row) => format!(
            "beside loads that miss the cache {} adds {}, {:.1} times what it costs alone: it waits \
             for the loads before it, which a loop of nothing but calls does not show",
            of_row(&row.name),
            signed_picos(row.memory_ps),
            ratio(row),
        ),
        None => "no call costs much more beside loads that miss the cache than alone".to_owned(),
    };
    let others = u64::try_from(dearer.count()).unwrap_or(0).saturating_sub(1);
    if others > 0 {
        let calls = units::counted(others, "other call adds", "other calls add");
        text += &format!(" ({calls} at least a quarter more than alone)");
    }
    let cheaper: Vec<String> = cheaper.map(|row| of_row(&row.name)).collect();
    if !cheaper.is_empty() {
        text += &format!(
            ". Beside multiplications {} less than alone, because the CPU does both at once",
            list(&cheaper, "adds", "add"),
        );
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::bench::PathName;
    use clockscope_text::lines::width;

    fn row(clock: &str, route: &str, alone: u64, compute: i64, memory: i64) -> InWorkRow {
        InWorkRow {
            name: PathName { clock: Some(clock.to_owned()), call: None, route: route.to_owned() },
            alone_ps: alone,
            compute_ps: compute,
            compute_ci_ps: (compute - 200, compute + 300),
            memory_ps: memory,
            memory_ci_ps: (memory - 1_200, memory + 900),
            grade: "quiet".to_owned(),
        }
    }

    #[test]
    fn the_table_is_aligned_and_says_what_to_conclude() {
        let rows = [
            row("CLOCK_MONOTONIC", "vdso", 21_600, 25_900, 43_500),
            row("rdtsc", "tsc", 8_750, 6_200, 14_600),
            row("CLOCK_PROCESS_CPUTIME_ID", "syscall", 238_000, 238_100, 249_000),
            row("CLOCK_MONOTONIC_COARSE", "vdso", 4_500, -100, 5_000),
        ];
        insta::assert_snapshot!(render(&rows));
    }

    #[test]
    fn lines_keep_the_width() {
        let rows = [row(&"x".repeat(90), "syscall", u64::MAX / 4, i64::MIN / 4, i64::MAX / 4)];
        for line in render(&rows).lines() {
            assert!(width(line) <= 80, "{line}");
        }
    }

    #[test]
    fn nothing_is_concluded_from_noise() {
        let mut noisy = row("rdtsc", "tsc", 8_750, 6_200, 14_600);
        noisy.grade = "unusable".to_owned();
        assert!(render(&[noisy]).contains("too busy to tell"));
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn an_interval_that_reaches_the_cost_alone_proves_nothing() {
        let mut wide = row("rdtsc", "tsc", 8_750, 6_200, 14_600);
        wide.memory_ci_ps.0 = 9_000;
        wide.compute_ci_ps.1 = 8_000;
        let text = render(&[wide]);
        assert!(text.contains("no call costs much more"), "{text}");
        assert!(!text.contains("both at once"), "{text}");
    }
}
