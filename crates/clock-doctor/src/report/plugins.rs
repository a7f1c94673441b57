//! The report for programs that run checks: a line for Nagios and its like, and one for node-problem-detector.
//!
//! Nagios, Icinga, Naemon and others read `STATE - text | performance data` and the exit status, which is that of
//! doctor (<https://www.monitoring-plugins.org/doc/guidelines.html>). Of a custom plugin node-problem-detector takes 1
//! for "the problem is there", 0 for "it is not" and every other status for "cannot be told". It reads 4 KiB
//! and cuts them at `max_output_length` bytes, which is 80 unless its configuration says otherwise
//! (`pkg/custompluginmonitor/plugin/plugin.go`).

use super::model::DoctorReport;
use super::status::{NOTHING_TO_MEND, SLOW, UNKNOWN, WRONG};
use super::text;
use clockscope_text::foreign::printable;
use clockscope_text::lines::cut_middle;

/// What node-problem-detector keeps of a message, in bytes.
const NPD_MESSAGE_MAX: usize = 80;
/// Columns for the name of a clocksource; the longest in Linux has 27.
const NAME_MAX: usize = 27;
const NANOS_A_SECOND: f64 = 1e9;

/// The output of a monitoring plugin: state, verdict and cause in the first line, then one line each for the cause
/// and the best advice. The performance data has the cost of a read, `read`, in seconds, if it was measured.
///
/// [`DoctorReport::exit_status`] is the exit status.
pub fn nagios(report: &DoctorReport) -> String {
    let state = nagios_state(report.exit_status());
    let (cause, advice) = (report.cause(), report.advice.first());
    let mut out = format!("CLOCK {state} - {}", in_plain(&text::verdict(report)));
    if let Some(cause) = cause {
        out += &format!(" [{}]", cause.id);
    }
    if let Some(cost) = report.cost.filter(|cost| cost.is_measured) {
        // The middle is the median; what is measured has one figure.
        let median_ns = f64::midpoint(cost.low_ns, cost.high_ns);
        out += &format!(" | read={}s;;;0", fixed(median_ns / NANOS_A_SECOND));
    }
    out.push('\n');
    if let Some(cause) = cause {
        out += &format!("Cause: {} [{}]\n", in_plain(&cause.title), cause.id);
    }
    if let Some(advice) = advice {
        out += &format!("Best advice: {} [fix:{}]\n", in_plain(&advice.title), advice.name);
    }
    out
}

/// What a monitoring plugin prints if it could not look, and why, as a clause.
pub fn nagios_failure(why: &str) -> String {
    format!("CLOCK {} - {}\n", nagios_state(UNKNOWN), in_plain(why))
}

fn nagios_state(status: i32) -> &'static str {
    match status {
        NOTHING_TO_MEND => "OK",
        SLOW => "WARNING",
        WRONG => "CRITICAL",
        _ => "UNKNOWN",
    }
}

/// One line of at most 80 bytes for node-problem-detector, the most telling first. It has no measured figure, so that
/// it changes only if the machine does, and no condition is updated by noise. [`npd_status`] is the exit status.
pub fn npd(report: &DoctorReport) -> String {
    let word = match report.exit_status() {
        NOTHING_TO_MEND => "fast",
        SLOW => "slow",
        WRONG => "wrong time possible",
        _ => "not enough evidence",
    };
    let mut parts = vec![word.to_owned()];
    parts.extend(report.cause().map(|cause| format!(" [{}]", cause.id)));
    let name = report.source.as_deref().map(|name| cut_middle(&printable(name), NAME_MAX));
    parts.extend(name.map(|name| format!(" on {}", in_plain(&name))));
    parts.extend(report.advice.first().map(|advice| format!(", fix:{}", advice.name)));
    in_bytes(&parts)
}

/// What is printed for node-problem-detector if doctor could not look, and why, as a clause.
pub fn npd_failure(why: &str) -> String {
    in_bytes(&["unknown: ".to_owned() + &in_plain(why)])
}

/// What doctor exits with for node-problem-detector: 1 if the clock is slow or wrong time is possible, else as always.
pub fn npd_status(status: i32) -> i32 {
    if status == WRONG { SLOW } else { status }
}

/// As many of the parts as fit; the first is cut if it alone does not.
fn in_bytes(parts: &[String]) -> String {
    let mut line = String::new();
    for part in parts {
        if !line.is_empty() && line.len() + part.len() > NPD_MESSAGE_MAX {
            break;
        }
        line += part;
    }
    line.truncate(NPD_MESSAGE_MAX);
    line.push('\n');
    line
}

/// The text in ASCII, on one line, without the bar that begins performance data.
fn in_plain(text: &str) -> String {
    let plain = |c| match c {
        '|' => '/',
        ' '..='~' => c,
        _ => '?',
    };
    text.chars().map(plain).collect()
}

/// Plugins may print digits and a point only, no exponent.
fn fixed(seconds: f64) -> String {
    let text = format!("{seconds:.12}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::report::case_tests::cases;
    use crate::report::text::samples;
    use crate::root::{self, Root};
    use crate::rules;
    use crate::rules::catalogue::{Fix, Label};

    /// What node-problem-detector reads of a plugin.
    const NPD_READS: usize = 4096;

    fn reports() -> Vec<(String, DoctorReport)> {
        let mut all: Vec<(String, DoctorReport)> =
            [samples::warp(), samples::healthy(), samples::nothing(), samples::wrong()]
                .into_iter()
                .map(|report| ("sample".to_owned(), report))
                .collect();
        for (case, folder) in cases() {
            let facts: Facts = root::facts(&Root::open(&folder).unwrap());
            all.push((case.id, DoctorReport::new(&facts, &rules::examine(&facts))));
        }
        all
    }

    #[test]
    fn nagios_gets_the_state_of_the_exit_status_and_one_bar_at_most() {
        for (id, report) in reports() {
            let text = nagios(&report);
            let state = ["OK", "WARNING", "CRITICAL", "UNKNOWN"]
                [usize::try_from(report.exit_status()).unwrap()];
            assert!(text.starts_with(&format!("CLOCK {state} - ")), "{id}: {text}");
            let (first, rest) = text.split_once('\n').unwrap();
            assert!(first.matches('|').count() <= 1 && !rest.contains('|'), "{id}: {text}");
            assert!(text.is_ascii() && text.ends_with('\n') && text.len() < 1024, "{id}: {text}");
            if let Some(cause) = report.cause() {
                assert!(first.contains(&format!("[{}]", cause.id)), "{id}: {text}");
            }
        }
    }

    #[test]
    fn performance_data_has_digits_and_is_measured() {
        assert!(nagios(&samples::healthy()).contains(" | read=0.000000022s;;;0\n"));
        assert!(!nagios(&samples::warp()).contains('|'), "an expected cost is no measurement");
        assert_eq!(
            (fixed(0.25), fixed(2.5e-8).as_str(), fixed(0.0).as_str()),
            ("0.25".to_owned(), "0.000000025", "0")
        );
    }

    #[test]
    fn node_problem_detector_gets_a_line_that_nothing_cuts() {
        for (id, report) in reports() {
            let line = npd(&report);
            assert!(
                line.trim_end().len() <= NPD_MESSAGE_MAX && line.len() <= NPD_READS,
                "{id}: {line}"
            );
            assert!(line.is_ascii() && line.matches('\n').count() == 1, "{id}: {line}");
            let wanted = match report.exit_status() {
                NOTHING_TO_MEND => 0,
                SLOW | WRONG => 1,
                _ => UNKNOWN,
            };
            assert_eq!(npd_status(report.exit_status()), wanted, "{id}");
            if let Some(cause) = report.cause() {
                assert!(line.contains(&cause.id), "{id}: {line}");
            }
        }
        assert_eq!(npd(&samples::warp()), "slow [tsc-warp] on acpi_pm, fix:paravirtprovider-kvm\n");
        assert_eq!(npd(&samples::healthy()), "fast on tsc\n");
    }

    #[test]
    fn no_label_is_too_long_for_it() {
        for (label, fix) in
            Label::ALL.into_iter().flat_map(|label| Fix::ALL.map(|fix| (label, fix)))
        {
            let mut report = samples::wrong();
            label.to_string().clone_into(&mut report.findings[0].id);
            report.source = Some("hyperv_clocksource_tsc_page".to_owned());
            report.advice = samples::warp().advice;
            fix.to_string().clone_into(&mut report.advice[0].name);
            let line = npd(&report);
            assert!(line.starts_with(&format!("wrong time possible [{label}]")), "{line}");
            assert!(line.len() <= NPD_MESSAGE_MAX + 1, "{line}");
        }
    }

    #[test]
    fn a_measurement_does_not_change_the_message() {
        let mut report = samples::healthy();
        let before = npd(&report);
        report.cost = report.cost.map(|cost| crate::rules::finding::Cost {
            low_ns: 31.0,
            high_ns: 31.0,
            ..cost
        });
        assert_eq!(npd(&report), before);
    }

    #[test]
    fn a_failure_is_said_where_the_program_looks_for_it() {
        let why = format!("cannot read /\u{e9}|\n{}", "x".repeat(200));
        assert!(nagios_failure(&why).starts_with("CLOCK UNKNOWN - cannot read /?/?xxx"));
        assert_eq!(npd_failure(&why).len(), NPD_MESSAGE_MAX + 1);
        assert!(npd_failure(&why).starts_with("unknown: cannot read /?/?xxx"));
    }
}
