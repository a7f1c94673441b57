//! The report as JSON, as the model says.

use super::model::TraceReport;
use clockscope_text::foreign::json;

/// The report on one line, or with an entry on each line if `pretty`; ends with a line end.
///
/// # Errors
///
/// None that the model can cause; what `serde_json` says otherwise.
pub fn render(report: &TraceReport, pretty: bool) -> serde_json::Result<String> {
    Ok(json(report, pretty)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Latency, VdsoRow};

    fn report() -> TraceReport {
        TraceReport {
            schema: 1,
            command: vec!["date".into(), "-u\n".into()],
            exit_code: Some(0),
            vdso: vec![VdsoRow {
                function: "clock_gettime".into(),
                clock: Some("CLOCK_MONOTONIC".into()),
                calls: u64::MAX,
                timed: 3,
                time_total_ns: 60,
                time_avg_ps: 20_500,
                time_uncertain: false,
                latency_ns: Some(Latency { p50: 20, buckets: vec![(16, 3)], ..Latency::default() }),
            }],
            ..TraceReport::default()
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let compact = render(&report(), false).unwrap();
        let pretty = render(&report(), true).unwrap();
        assert_eq!(compact.lines().count(), 1);
        assert!(pretty.lines().count() > 10);
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&compact), parse(&pretty));
    }

    #[test]
    fn keys_and_values_are_those_of_the_schema() {
        let json: serde_json::Value =
            serde_json::from_str(&render(&report(), false).unwrap()).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["command"][1], "-u\n");
        assert_eq!(json["signal"], serde_json::Value::Null);
        assert_eq!(json["vdso"][0]["clock"], "CLOCK_MONOTONIC");
        assert_eq!(json["vdso"][0]["calls"], u64::MAX);
        assert_eq!(json["vdso"][0]["time_avg_ps"], 20_500);
        assert_eq!(json["vdso"][0]["latency_ns"]["buckets"][0][1], 3);
    }

    #[test]
    fn a_rate_that_is_no_number_becomes_null() {
        let mut report = report();
        report.clock_reads.reads_per_second = f64::INFINITY;
        let json: serde_json::Value =
            serde_json::from_str(&render(&report, false).unwrap()).unwrap();
        assert_eq!(json["clock_reads"]["reads_per_second"], serde_json::Value::Null);
    }
}
