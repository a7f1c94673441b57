//! The survey as text: the processes that read the clock, the most costly first.

use crate::costs::whole;
use crate::counter_reads;
use clockscope_model::names::short_clock;
use clockscope_model::survey::{
    Certainty, ClockRow, Elsewhere, Estimate, Route, SurveyGroup, SurveyReport, SurveyRow,
};
use clockscope_text::lines::{WIDTH, cut_middle, labelled};
use clockscope_text::names::distinct;
use clockscope_text::units;

/// Processes shown without `--all`.
const ROWS: usize = 20;
/// Share of the host's CPU time from which on the cost on another host is worth a line.
const MATTERS: f64 = 0.01;
/// Units and containers shown without `--all`.
const GROUPS: usize = 10;

/// The report with all rows or the first ones, in lines of at most 80 columns.
pub fn render(report: &SurveyReport, all: bool) -> String {
    let most = |usual| if all { usize::MAX } else { usual };
    let [facts, remarks] = [facts(report), remarks(report)].map(|lines| {
        let lines = lines.iter().map(|(label, sentence)| labelled(label, sentence));
        lines.collect::<String>()
    });
    // What can be gained stands above the table.
    let [above, below] = match report.has_fallen_back {
        true => [facts.as_str(), ""],
        false => ["", facts.as_str()],
    };
    let table = processes(report, most(ROWS)) + &groups(report, most(GROUPS));
    format!("{}\n{above}\n{table}\n{below}{remarks}", sum(report))
}

/// All reads of the host in a line.
pub(crate) fn sum(report: &SurveyReport) -> String {
    match report.reads {
        Some(reads) => format!(
            "{} clock reads a second (95 %: {}) took {} of {}",
            brief(reads.per_second),
            interval(&reads),
            cores(report.cores),
            units::counted(report.cpus, "CPU", "CPUs"),
        ),
        None => "no read of the clocksource was seen".to_owned(),
    }
}

/// Duration of the sampling, and the number of samples.
pub(crate) fn sampled(report: &SurveyReport) -> String {
    format!(
        "{}: {} of {}",
        units::nanos(report.elapsed_ns),
        units::counted(report.samples, "sample", "samples"),
        units::counted(report.cpus, "CPU", "CPUs"),
    )
}

/// Cost of the whole host's reads, here and on other clocksources, as labels and clauses.
pub(crate) fn facts(report: &SurveyReport) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(cost) = report.costs.first() {
        let how = if report.has_fallen_back {
            ", because each is a system call: the kernel fell back to a clocksource that programs cannot read; \
             clockscope doctor says why"
        } else {
            ""
        };
        facts.push((
            "Here",
            format!("{} a read, measured meanwhile{how}", units::picos(cost.read_ps)),
        ));
    }
    if report.reads.is_some() {
        facts.extend(elsewhere(report));
    }
    facts
}

fn elsewhere(report: &SurveyReport) -> Vec<(&'static str, String)> {
    let gains = report.elsewhere.iter().filter(|row| row.more_cores < 0.0).map(|row| {
        let gain = format!(
            "on {} the same reads would take {} CPUs, {} fewer (typical: {} a read)",
            row.clocksource,
            cores(row.cores),
            cores(-row.more_cores),
            units::picos(row.read_ps)
        );
        ("Gain", gain)
    });
    let of_all = |row: &Elsewhere| row.more_cores / report.cpus.max(1) as f64;
    let matters = report.elsewhere.iter().any(|row| of_all(row) >= MATTERS);
    let losses: Vec<String> = report
        .elsewhere
        .iter()
        .filter(|row| row.more_cores >= 0.0 && matters)
        .map(|row| {
            let (on, how) = if row.is_measured {
                ("at least".to_owned(), "a system call here")
            } else {
                (format!("on {}", row.clocksource), "typical")
            };
            format!(
                "{on} {} CPUs, {} more ({how}: {})",
                cores(row.cores),
                cores(row.more_cores),
                units::picos(row.read_ps)
            )
        })
        .collect();
    let losses = (!losses.is_empty())
        .then(|| ("Fallen back", format!("the same reads would take {}", losses.join("; "))));
    gains.chain(losses).collect()
}

fn processes(report: &SurveyReport, most: usize) -> String {
    if report.processes.is_empty() {
        return "No process was seen reading a clock.\n".to_owned();
    }
    let mut text = "reads/s     95 % interval   CPUs of its CPU      PID process\n".to_owned();
    for row in report.processes.iter().take(most) {
        let start = start(row.reads.as_ref(), row.certainty, row.cores, row.share);
        let pid = match row.pid {
            Some(pid) => pid.to_string(),
            None if row.processes == 1 => "ended".to_owned(),
            None => "-".to_owned(),
        };
        let several = match row.processes {
            ..=1 => String::new(),
            several => format!(", {} processes:", units::brief(several)),
        };
        let who = format!("{}{several} {}", row.command, clocks(row));
        line(&mut text, &format!("{start} {pid:>8}"), &who);
    }
    let left = report.processes.iter().skip(most);
    let (number, more) = left.fold((0, 0.0), |sum, row| (sum.0 + 1, sum.1 + row.cores));
    if number > 0 {
        let rows = units::counted(number, "row", "rows");
        text.push_str(&format!("... {rows} more, {} CPUs; --all shows them\n", cores(more)));
    }
    text
}

fn groups(report: &SurveyReport, most: usize) -> String {
    if report.groups.is_empty() {
        return String::new();
    }
    let mut text = "\nreads/s     95 % interval   CPUs of its CPU processes in\n".to_owned();
    for group in report.groups.iter().take(most) {
        let SurveyGroup { kind, name, processes, .. } = group;
        let start = start(group.reads.as_ref(), group.certainty, group.cores, group.share);
        line(&mut text, &format!("{start} {processes:>9}"), &format!("{kind} {name}"));
    }
    if let Some(left) = report.groups.len().checked_sub(most).filter(|left| *left > 0) {
        let rows = units::counted(left as u64, "row", "rows");
        text.push_str(&format!("... {rows} more; --all shows them\n"));
    }
    text
}

/// Limits of the survey, its own cost, and the next command, as labels and clauses.
pub(crate) fn remarks(report: &SurveyReport) -> Vec<(&'static str, String)> {
    let unseen = format!(
        "a process that reads the clock less often than {} times a second may be missing; a longer --duration or a \
         higher --freq sees more. Coarse reads are seen, but cost too little for a rate",
        brief(report.visible_from_per_second)
    );
    let mut remarks = vec![("Not seen", unseen)];
    let doubt = report.counter_doubt.as_deref();
    let counters = counter_reads::sentence(&report.counter_reads, (false, doubt), false);
    remarks.extend(counters.map(|files| ("Can read the counter itself", files)));
    if report.lost_samples > 0 {
        let lost = format!(
            "{} of {} samples, because there were too many processes; a lower --freq or a shorter --duration loses fewer",
            units::count(report.lost_samples),
            units::count(report.samples),
        );
        remarks.push(("Lost", lost));
    }
    let own = format!(
        "clockscope used {} of CPU time, most of it to measure what a read costs, and sampled for {}, \
         {} a second of each busy one",
        units::nanos(report.own_cpu_ns),
        sampled(report),
        report.frequency_hz
    );
    remarks.push(("Overhead", own));
    let first = report.processes.iter().find(|row| row.reads.is_some() && row.pid.is_some());
    if let Some((row, pid)) = first.and_then(|row| Some((row, row.pid?))) {
        let next = format!(
            "clockscope trace -p {pid} --callers --duration 10 counts the reads of {} and says who makes them",
            row.command
        );
        remarks.push(("Next", next));
    }
    remarks
}

/// Rate, interval, CPUs and share.
fn start(reads: Option<&Estimate>, certainty: Certainty, of_cpus: f64, share: f64) -> String {
    let Some(reads) = reads else {
        return format!("{:>7} {:>17} {:>6} {:>10}", "coarse", "-", "-", "-");
    };
    let rate = match certainty {
        Certainty::Seen => "seen".to_owned(),
        Certainty::About => format!("~{}", brief(reads.per_second)),
        Certainty::Estimated => brief(reads.per_second),
    };
    let interval = match certainty {
        Certainty::Seen => format!("up to {}", brief(reads.high_per_second)),
        _ => interval(reads),
    };
    let share = format!("{:.0} %", share * 100.0);
    format!("{rate:>7} {interval:>17} {:>6} {share:>10}", cores(of_cpus))
}

/// A line whose end is cut to the width.
fn line(text: &mut String, start: &str, end: &str) {
    let room = WIDTH.saturating_sub(start.chars().count() + 1).max(8);
    text.push_str(&format!("{start} {}\n", cut_middle(end.trim_end(), room)));
}

/// The clocks of a process, the most costly first.
fn clocks(row: &SurveyRow) -> String {
    distinct(row.clocks.iter().filter_map(clock)).join(", ")
}

/// The name of a clock; `None` if the sampled register did not show the clock.
fn clock(row: &ClockRow) -> Option<String> {
    let name = match &row.clock {
        Some(clock) => short_clock(clock).to_owned(),
        None if row.function == "clock_gettime" => return None,
        None => row.function.clone(),
    };
    Some(if row.route == Route::Syscall { format!("{name} by syscall") } else { name })
}

fn interval(reads: &Estimate) -> String {
    format!("{} to {}", brief(reads.low_per_second), brief(reads.high_per_second))
}

/// Two or three digits: an estimate has no more.
fn brief(per_second: f64) -> String {
    let digits = per_second.max(1.0).log10().floor().max(2.0) - 2.0;
    let unit = 10_f64.powf(digits);
    units::brief(whole(((per_second / unit).round() * unit).round()))
}

/// CPUs with two digits or three: `0.004`, `0.44`, `26`.
fn cores(cores: f64) -> String {
    match cores {
        ..0.0995 => format!("{cores:.3}"),
        ..9.95 => format!("{cores:.2}"),
        _ => format!("{cores:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(per_second: f64) -> Option<Estimate> {
        let (low_per_second, high_per_second) = (per_second * 0.9, per_second * 1.11);
        Some(Estimate { per_second, low_per_second, high_per_second })
    }

    fn row(pid: i32, command: &str, reads: Option<Estimate>, samples: u64) -> SurveyRow {
        let mut row = report().processes.remove(0);
        (row.pid, row.command, row.reads) = (Some(pid), command.into(), reads);
        (row.read_samples, row.certainty) = (samples, Certainty::of(samples));
        row.clocks[0].reads = reads;
        row
    }

    /// A survey of a host with one heavy reader.
    fn report() -> SurveyReport {
        crate::tests::read(include_str!("../tests/survey.json"))
    }

    #[test]
    fn the_screen_names_the_reader_what_it_costs_and_what_would_be_lost() {
        let text = render(&report(), false);
        for wanted in [
            "21M clock reads a second (95 %: 18.9M to 23.3M) took 0.46 of 2 CPUs\n\nreads/s",
            "  21M    18.9M to 23.3M   0.45       44 %     4711 postgres MONOTONIC",
            "sampled for 10 s: 5,123 samples of 2 CPUs",
            "on hpet 26 CPUs, 26 more",
            "clockscope trace -p 4711 --callers",
            "56.1k times a second",
        ] {
            assert!(text.replace("\n              ", " ").contains(wanted), "{wanted}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        // On sixty-four CPUs the same reads would not be missed.
        let large = SurveyReport { cpus: 6_400, ..report() };
        assert!(!render(&large, false).contains("Fallen back:"));
    }

    #[test]
    fn few_samples_are_no_number() {
        let mut report = report();
        report.processes = vec![
            row(1, "some", around(58_123.0), 3),
            row(2, "one", around(20_000.0), 1),
            row(3, "coarse", None, 0),
        ];
        let text = render(&report, false);
        let lines: Vec<&str> =
            text.lines().skip_while(|line| !line.starts_with("reads/s")).collect();
        assert!(lines[1].starts_with(" ~58.1k    52.3k to 64.5k"), "{text}");
        assert!(lines[2].starts_with("   seen       up to 22.2k"), "{text}");
        assert!(lines[3].starts_with(" coarse                 -      -"), "{text}");
    }

    #[test]
    fn rows_beyond_the_screen_are_added_up_and_all_shows_them() {
        let mut report = report();
        report.processes = (1..=25).map(|pid| row(pid, "some", around(1e6), 50)).collect();
        let text = render(&report, false);
        assert!(text.contains("... 5 rows more, 2.25 CPUs; --all shows them\n"), "{text}");
        assert!(!render(&report, true).contains("--all shows them"));
    }

    #[test]
    fn a_host_that_fell_back_is_told_what_it_would_gain() {
        let mut report = report();
        report.has_fallen_back = true;
        report.elsewhere.truncate(1);
        let tsc = &mut report.elsewhere[0];
        (tsc.clocksource, tsc.read_ps) = ("tsc".to_owned(), 25_000);
        (tsc.is_measured, tsc.cores, tsc.more_cores) = (false, 0.01, -0.49);
        let text = render(&report, false).replace("\n              ", " ");
        let gain = "Gain:         on tsc the same reads would take 0.010 CPUs, 0.49 fewer";
        assert!(text.contains(gain) && text.contains("clockscope doctor says why"), "{text}");
        assert!(!text.contains("Fallen back:"), "{text}");
    }

    #[test]
    fn a_quiet_host_has_nothing_to_show() {
        let report = SurveyReport { elapsed_ns: 1_000_000_000, cpus: 1, ..SurveyReport::default() };
        let text = render(&report, false);
        assert!(text.contains("No process was seen reading a clock.\n"), "{text}");
        assert!(!text.contains("Next:") && !text.contains("Fallen back:"), "{text}");
    }
}
