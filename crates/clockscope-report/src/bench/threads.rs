//! The section on threads, as text.

use super::names::{list, of_row};
use crate::table::{Head, draw};
use clockscope_model::bench::ThreadsRow;
use clockscope_text::lines::labelled;
use clockscope_text::units;

/// A path that keeps this share of the ideal rate scales.
const SCALES: f64 = 0.9;
const NAME_MIN: usize = 12;

/// The section; empty if there are no rows.
pub fn render(rows: &[ThreadsRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = |text| Head { text, least: text.len(), is_left: false };
    let heads = [
        Head::NAME,
        head("threads"),
        head("calls/s"),
        head("of ideal"),
        Head { text: "cost on each CPU", least: 16, is_left: true },
    ];
    let cells = rows.iter().map(|row| {
        vec![
            of_row(&row.name),
            row.threads.to_string(),
            rate(row.calls_per_second),
            units::share(row.efficiency),
            format!("{}{}", costs(&row.cost_ps_by_thread), remark(&row.grade)),
        ]
    });
    let mut out = "Threads on different CPUs, all at the same time\n\n".to_owned();
    out += &draw(&heads, cells.collect(), false, NAME_MIN);
    out.push('\n');
    out + &labelled("Threads", &conclusion(rows))
}

/// `45.3 M`: calls a second with three digits.
fn rate(per_second: f64) -> String {
    for (unit, name) in [(1e9, " G"), (1e6, " M"), (1e3, " k")] {
        if per_second >= unit {
            let value = per_second / unit;
            let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            return format!("{value:.decimals$}{name}");
        }
    }
    format!("{per_second:.0}")
}

/// The cost on the only thread, or from the cheapest to the dearest of them.
fn costs(by_thread: &[u64]) -> String {
    let (least, most) = (by_thread.iter().min(), by_thread.iter().max());
    match (least, most) {
        (Some(least), Some(most)) => {
            let (least, most) = (units::picos(*least), units::picos(*most));
            if least == most { least } else { format!("{least} to {most}") }
        }
        _ => "-".to_owned(),
    }
}

fn remark(grade: &str) -> String {
    if grade == "quiet" { String::new() } else { format!(" ({grade})") }
}

/// What to conclude from the most threads of each path.
fn conclusion(rows: &[ThreadsRow]) -> String {
    let most = rows.iter().map(|row| row.threads).max().unwrap_or(1);
    let of_most: Vec<&ThreadsRow> = rows.iter().filter(|row| row.threads == most).collect();
    if most < 2 {
        return "only one thread ran: that says nothing about threads that run at the same time."
            .to_owned();
    }
    if of_most.iter().all(|row| row.grade == "unusable") {
        return "the host was too busy to tell; measure again when it is quiet.".to_owned();
    }
    let usable = || of_most.iter().filter(|row| row.grade != "unusable");
    let names = |scales: bool| -> Vec<String> {
        let wanted = usable().filter(|row| (row.efficiency >= SCALES) == scales);
        wanted.map(|row| of_row(&row.name)).collect()
    };
    let (scaling, waiting) = (names(true), names(false));
    let mut sentences = Vec::new();
    if !scaling.is_empty() {
        sentences.push(format!(
            "on {most} threads {} at least {} of the ideal rate: the threads do not wait for one \
             another.",
            list(&scaling, "keeps", "keep"),
            units::share(SCALES)
        ));
    }
    let worst = usable().min_by(|a, b| a.efficiency.total_cmp(&b.efficiency));
    if let Some(worst) = worst.filter(|_| !waiting.is_empty()) {
        let share = units::share(worst.efficiency);
        let how_far = match waiting.len() {
            1 => share,
            _ => format!("{share} at worst ({})", of_row(&worst.name)),
        };
        sentences.push(format!(
            "On {most} threads {} to {how_far}: the threads share something, such as a device, a \
             lock or the core of two CPUs.",
            list(&waiting, "falls", "fall"),
        ));
    }
    sentences.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::bench::PathName;
    use clockscope_text::lines::width;

    fn row(clock: &str, costs_ps: &[u64], efficiency: f64) -> ThreadsRow {
        ThreadsRow {
            name: PathName {
                clock: Some(clock.to_owned()),
                call: None,
                route: "syscall".to_owned(),
            },
            threads: u32::try_from(costs_ps.len()).unwrap(),
            cpus: (0..).take(costs_ps.len()).collect(),
            calls_per_second: costs_ps.iter().map(|ps| 1e12 / *ps as f64).sum(),
            efficiency,
            cost_ps_by_thread: costs_ps.to_vec(),
            cost_ps_min_by_thread: costs_ps.to_vec(),
            grade: "quiet".to_owned(),
        }
    }

    #[test]
    fn the_table_is_aligned_and_says_what_to_conclude() {
        let mut busy = row("CLOCK_TAI", &[21_600; 4], 0.97);
        busy.grade = "noisy".to_owned();
        let rows = [
            row("CLOCK_MONOTONIC", &[21_600], 1.0),
            row("CLOCK_MONOTONIC", &[21_600, 21_700, 21_600, 25_100], 0.973),
            row("CLOCK_PROCESS_CPUTIME_ID", &[1_226_000], 1.0),
            row("CLOCK_PROCESS_CPUTIME_ID", &[4_905_000; 4], 0.25),
            busy,
        ];
        insta::assert_snapshot!(render(&rows));
    }

    #[test]
    fn lines_keep_the_width() {
        let rows = [row(&"x".repeat(90), &[1, u64::MAX], 1e9)];
        for line in render(&rows).lines() {
            assert!(width(line) <= 80, "{line}");
        }
    }

    #[test]
    fn one_thread_and_noise_prove_nothing() {
        assert!(render(&[row("rdtsc", &[8_000], 1.0)]).contains("only one thread ran"));
        let mut noisy = row("rdtsc", &[8_000, 8_000], 1.0);
        noisy.grade = "unusable".to_owned();
        assert!(render(&[noisy]).contains("too busy to tell"));
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn rates_have_three_digits() {
        for (per_second, text) in [
            (46_296_296.0, "46.3 M"),
            (999.0, "999"),
            (4_630_000.0, "4.63 M"),
            (3_100_000_000.0, "3.10 G"),
            (815_660.0, "816 k"),
        ] {
            assert_eq!(rate(per_second), text);
        }
    }
}
