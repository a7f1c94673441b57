//! The survey as metrics, in the text format of Prometheus, for node_exporter's textfile collector.
//!
//! Processes with the same name, unit and container are one series: their numbers change too often for labels.

use std::collections::BTreeMap;
use std::fmt;

use clock_doctor::report::families::{self, Family};
use clockscope_model::survey::{Estimate, SurveyReport};

const NANOS_A_SECOND: f64 = 1e9;
const PICOS_A_SECOND: f64 = 1e12;

/// Reads and CPUs of the processes with the same labels.
#[derive(Default)]
struct Together {
    reads: Vec<Estimate>,
    cores: f64,
    processes: u64,
}

/// The metrics of a report.
///
/// # Errors
///
/// None that a report can cause.
pub fn render(report: &SurveyReport) -> Result<String, fmt::Error> {
    let mut together: BTreeMap<[String; 3], Together> = BTreeMap::new();
    for row in &report.processes {
        let unit = row.place.unit.as_ref().map(|unit| unit.verbatim().to_owned());
        let container = row.place.container_name();
        let labels = [
            row.command.verbatim().to_owned(),
            unit.unwrap_or_default(),
            container.unwrap_or_default(),
        ];
        let one = together.entry(labels).or_default();
        one.reads.extend(row.reads);
        one.cores += row.cores;
        one.processes += row.processes;
    }
    let mut families = host(report);
    families.extend(by_process(&together));
    families::render(families)
}

fn host(report: &SurveyReport) -> Vec<Family> {
    let gauge = Family::gauge;
    let cost = report.costs.iter().fold(
        gauge("clockscope_survey_read_seconds", "Time of one read of a clock, measured meanwhile"),
        |family, cost| family.with(&[("of", &cost.of)], float(cost.read_ps) / PICOS_A_SECOND),
    );
    let elsewhere = report.elsewhere.iter().fold(
        gauge(
            "clockscope_survey_host_cores_with",
            "CPUs that the same reads would take with another clocksource",
        ),
        |family, row| family.with(&[("clocksource", &row.clocksource)], row.cores),
    );
    let reads = report.reads;
    vec![
        gauge("clockscope_survey_seconds", "How long the CPUs were sampled")
            .with(&[], float(report.elapsed_ns) / NANOS_A_SECOND),
        gauge("clockscope_survey_samples", "Samples of all CPUs").with(&[], float(report.samples)),
        gauge(
            "clockscope_survey_lost_samples",
            "Samples that are missing because there were too many processes",
        )
        .with(&[], float(report.lost_samples)),
        gauge(
            "clockscope_survey_visible_from_reads_per_second",
            "A process that reads the clock more seldom may be missing",
        )
        .with(&[], report.visible_from_per_second),
        gauge("clockscope_survey_host_reads_per_second", "Reads of the clocksource, estimated")
            .with_some(&[("limit", "estimate")], reads.map(|reads| reads.per_second))
            .with_some(&[("limit", "low")], reads.map(|reads| reads.low_per_second))
            .with_some(&[("limit", "high")], reads.map(|reads| reads.high_per_second)),
        gauge("clockscope_survey_host_cores", "CPUs that all reads of clocks take")
            .with(&[], report.cores),
        elsewhere,
        cost,
    ]
}

fn by_process(together: &BTreeMap<[String; 3], Together>) -> [Family; 3] {
    let mut reads = Family::gauge(
        "clockscope_survey_reads_per_second",
        "Clock reads of processes, estimated, with the limits of the interval of 95 %",
    );
    let mut cores =
        Family::gauge("clockscope_survey_cores", "CPUs that clock reads of processes take");
    let mut processes =
        Family::gauge("clockscope_survey_processes", "Processes that were seen reading a clock");
    for ([command, unit, container], one) in together {
        let labels: [(&'static str, &str); 3] =
            [("command", command), ("unit", unit), ("container", container)];
        let with = |limit| [labels.as_slice(), &[("limit", limit)]].concat();
        if let Some(sum) = Estimate::sum(one.reads.iter().copied()) {
            reads = reads
                .with(&with("estimate"), sum.per_second)
                .with(&with("low"), sum.low_per_second)
                .with(&with("high"), sum.high_per_second);
        }
        cores = cores.with(&labels, one.cores);
        processes = processes.with(&labels, float(one.processes));
    }
    [reads, cores, processes]
}

#[expect(clippy::cast_precision_loss, reason = "metrics are of this type")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::text::tests::report;

    #[test]
    fn processes_of_one_name_and_unit_are_one_series() {
        let mut report = report();
        let mut second = report.processes[0].clone();
        second.pid = Some(4712);
        report.processes.push(second);
        let text = render(&report).unwrap();
        let labels = "command=\"postgres\",unit=\"postgresql@15-main.service\",container=\"\"";
        for line in [
            format!("clockscope_survey_processes{{{labels}}} 2"),
            format!("clockscope_survey_reads_per_second{{{labels},limit=\"estimate\"}} 42000000"),
            format!("clockscope_survey_cores{{{labels}}} 0.9"),
            "clockscope_survey_host_cores_with{clocksource=\"hpet\"} 26".to_owned(),
            "clockscope_survey_read_seconds{of=\"clocksource\"} 2.21e-11".replace("e-11", "e-8"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("4712") && !text.contains("EOF"));
    }
}
