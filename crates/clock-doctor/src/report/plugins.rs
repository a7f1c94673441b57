//! The report for monitoring programs.
//!
//! Nagios, Icinga, Naemon and others read `STATE - text | performance data` and the exit status, which is doctor's
//! (<https://www.monitoring-plugins.org/doc/guidelines.html>).

use super::metrics::NANOS_A_SECOND;
use super::model::DoctorReport;
use super::status::{NOTHING_TO_MEND, SLOW, UNKNOWN, WRONG};
use super::text;

/// The output of a monitoring plugin: state, verdict and cause in the first line, then one line each for the cause and
/// the best advice. The performance data contains `read`, the cost of a read in seconds, if it was measured, and `behind`,
/// how far the time is behind the best clock outside of this kernel.
///
/// [`DoctorReport::exit_status`] is the exit status.
pub fn nagios(report: &DoctorReport) -> String {
    let state = nagios_state(report.exit_status());
    let (cause, advice) = (report.cause(), report.advice.first());
    let mut out = format!("CLOCK {state} - {}", in_plain(&text::verdict(report)));
    if let Some(cause) = cause {
        out += &format!(" [{}]", cause.id);
    }
    let mut data = String::new();
    if let Some(cost) = report.cost.filter(|cost| cost.is_measured) {
        // The midpoint is the median, because a measured cost has one figure.
        let median_ns = f64::midpoint(cost.low_ns, cost.high_ns);
        data += &format!(" read={}s;;;0", fixed(median_ns / NANOS_A_SECOND));
    }
    if let Some(time) = &report.time {
        data += &format!(" behind={}s", fixed(time.behind_ns as f64 / NANOS_A_SECOND));
    }
    if !data.is_empty() {
        out += &format!(" |{data}");
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

/// The output of a monitoring plugin that failed. `why` is a clause.
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

/// The text in ASCII, on one line, without the `|` that begins performance data.
fn in_plain(text: &str) -> String {
    let plain = |c| match c {
        '|' => '/',
        ' '..='~' => c,
        _ => '?',
    };
    text.chars().map(plain).collect()
}

/// A decimal number without exponent: plugins may print digits and a point only.
fn fixed(seconds: f64) -> String {
    format!("{seconds:.12}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::case_tests::{cases, healthy, report, warp};
    use crate::rules::finding::Cost;

    #[test]
    fn nagios_gets_the_state_of_the_exit_status_and_one_bar_at_most() {
        for (case, folder) in cases() {
            let (id, report) = (case.id, report(&folder));
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
        let cost = Some(Cost { low_ns: 22.0, high_ns: 22.0, is_measured: true });
        let measured = DoctorReport { cost, ..healthy() };
        assert!(nagios(&measured).contains(" | read=0.000000022s;;;0\n"));
        assert!(!nagios(&warp()).contains('|'), "an expected cost is no measurement");
        assert_eq!(
            (fixed(0.25), fixed(2.5e-8).as_str(), fixed(0.0).as_str()),
            ("0.25".to_owned(), "0.000000025", "0")
        );
    }

    #[test]
    fn a_failure_is_said_where_the_program_looks_for_it() {
        let why = format!("cannot read /\u{e9}|\n{}", "x".repeat(200));
        assert!(nagios_failure(&why).starts_with("CLOCK UNKNOWN - cannot read /?/?xxx"));
    }
}
