//! The report as metrics, in the text format of Prometheus, for node_exporter's textfile collector.
//!
//! node_exporter itself has `node_time_clocksource_available_info` and `_current_info`. The same
//! series from a second source fails its whole scrape ("was collected before with the same name and
//! label values", prometheus/node_exporter#753), so ours begin with `clockscope_` and keep its
//! labels `device` and `clocksource`.

use std::collections::BTreeMap;

use super::families::{self, Family};
use super::model::DoctorReport;
use crate::facts::Facts;
use crate::log::event::{EventKind, UnstableReason};
use crate::measured::Measured;
use crate::rules::catalogue;

/// `clocksource0` of sysfs: Linux has no other.
const DEVICE: &str = "0";
pub(super) const NANOS_A_SECOND: f64 = 1e9;

/// The metrics of a report, and of the facts it is based on. `judged_at` is the time of the judgement, in seconds since
/// 1970, UTC.
pub fn render(facts: &Facts, report: &DoctorReport, judged_at: f64) -> String {
    let mut families = verdict(report, judged_at);
    families.extend([verdict_in_words(report), boot(facts), findings(report)]);
    families.extend(clocksources(report));
    families.extend([unstable(facts), warp(facts)]);
    families.extend(report.measured.iter().flat_map(measurements));
    families.extend(time_of_day(report));
    families::render(&families)
}

fn verdict(report: &DoctorReport, judged_at: f64) -> Vec<Family> {
    let when = "When doctor judged, in seconds since 1970";
    vec![
        Family::gauge("clockscope_doctor_run_timestamp_seconds", when).with(&[], judged_at),
        Family::gauge("clockscope_build_info", "The version of clockscope that judged")
            .with(&[("version", &report.clockscope)], 1.0),
        Family::gauge("clockscope_doctor_state_info", "How the clock is read")
            .with(&[("state", report.state.name())], 1.0),
        Family::gauge(
            "clockscope_doctor_status",
            "Exit status of doctor: 0 nothing to mend, 1 slow, 2 wrong time possible, 3 unknown",
        )
        .with(&[], f64::from(report.exit_status())),
    ]
}

/// One series for each machine, with labels for grouping in rules and alerts.
fn verdict_in_words(report: &DoctorReport) -> Family {
    let labels = [
        ("state", Some(report.state.name())),
        ("clocksource", report.source.as_deref()),
        ("platform", report.platform.as_deref()),
        ("cause", report.cause().map(|row| row.id.as_str())),
        ("fix", report.advice.first().map(|advice| advice.name.as_str())),
    ];
    Family::gauge(
        "clockscope_doctor_verdict_info",
        "The state of the clock, its cause and the best advice, by their labels; empty where there is none",
    )
    .with(&labels.map(|(name, value)| (name, value.unwrap_or_default())), 1.0)
}

fn boot(facts: &Facts) -> Family {
    let family = Family::gauge("clockscope_boot_info", "Which boot of the machine was judged");
    facts.boot_id.iter().fold(family, |family, id| family.with(&[("boot_id", &id.value)], 1.0))
}

fn findings(report: &DoctorReport) -> Family {
    let family = Family::gauge("clockscope_doctor_finding_info", "What doctor found");
    report.findings.iter().fold(family, |family, finding| {
        let severity = finding.severity.name();
        let rule = catalogue::page(&finding.id).map_or("", |page| page.group);
        family.with(&[("rule", rule), ("label", &finding.id), ("severity", severity)], 1.0)
    })
}

fn clocksources(report: &DoctorReport) -> [Family; 2] {
    let add = |family: Family, name: &String| {
        family.with(&[("device", DEVICE), ("clocksource", name)], 1.0)
    };
    let available = Family::gauge(
        "clockscope_clocksource_available_info",
        "Available clocksources, as node_time_clocksource_available_info of node_exporter",
    );
    let current = Family::gauge(
        "clockscope_clocksource_current_info",
        "The current clocksource, as node_time_clocksource_current_info of node_exporter",
    );
    let available = report.available.iter().flatten().fold(available, add);
    [available, report.source.iter().fold(current, add)]
}

/// How often a clocksource is given up in the log of this boot; no series without a log. A line that only repeats the
/// watchdog's verdict is not counted again.
fn unstable(facts: &Facts) -> Family {
    let family = Family::counter(
        "clockscope_clocksource_unstable_total",
        "Times that the kernel gave a clocksource up, in the log of this boot",
    );
    if facts.log.is_none() {
        return family;
    }
    let mut times = BTreeMap::from([("tsc", 0_u32)]);
    for event in facts.events() {
        use EventKind::{Marked, OldDelta, Unstable};
        let name = match &event.kind {
            Marked { name, .. } | OldDelta { name, .. } => name,
            Unstable { reason: UnstableReason::Watchdog, is_whole: true, .. } => continue,
            Unstable { .. } => "tsc",
            _ => continue,
        };
        *times.entry(name).or_default() += 1;
    }
    times.iter().fold(family, |family, (name, times)| {
        family.with(&[("clocksource", name)], f64::from(*times))
    })
}

fn warp(facts: &Facts) -> Family {
    let family = Family::gauge(
        "clockscope_tsc_warp_cycles",
        "Largest step back of the TSC from one CPU to another, at boot by the log, or measured now",
    );
    let logged = facts.events().filter_map(|event| match event.kind {
        EventKind::Warp(cycles) => Some(cycles),
        _ => None,
    });
    let measured = facts.measured.as_ref().and_then(|measured| measured.warp.as_ref());
    family
        .with_some(&[("when", "boot")], logged.max().map(|cycles| cycles as f64))
        .with_some(&[("when", "now")], measured.map(|warp| warp.worst_ticks as f64))
}

/// How far the time is behind each clock outside of this kernel that counts in UTC.
fn time_of_day(report: &DoctorReport) -> [Family; 2] {
    let [behind, error] = [
        ("clockscope_time_behind_seconds", "CLOCK_REALTIME behind a clock outside of this kernel"),
        ("clockscope_time_behind_error_seconds", "Greatest error of that comparison"),
    ]
    .map(|(name, help)| Family::gauge(name, help));
    let utc = report.measured.iter().filter_map(|measured| measured.utc.as_ref());
    let read = utc.flat_map(|utc| &utc.references).filter(|one| one.aside.is_none());
    read.fold([behind, error], |[behind, error], one| {
        let labels = [("reference", one.name.as_str())];
        let seconds = |ns: i64| ns as f64 / NANOS_A_SECOND;
        [behind.with(&labels, seconds(one.behind_ns)), error.with(&labels, seconds(one.error_ns))]
    })
}

fn measurements(measured: &Measured) -> Vec<Family> {
    let mut costs = Family::gauge(
        "clockscope_clock_read_seconds",
        "Median cost of one read of a clock, by the vDSO and by system call",
    );
    let mut paths = Family::gauge(
        "clockscope_clock_path_info",
        "How a program that calls the vDSO gets its answer: from the vDSO, or by a system call",
    );
    for read in &measured.reads {
        let clock = ("clock", read.clock.as_str());
        let cost = |ns: Option<f64>| ns.filter(|ns| ns.is_finite()).map(|ns| ns / NANOS_A_SECOND);
        let (vdso, syscall) = (cost(read.vdso_ns), cost(read.syscall_ns));
        costs = costs.with_some(&[clock, ("path", "vdso")], vdso);
        costs = costs.with_some(&[clock, ("path", "syscall")], syscall);
        let path = match (read.falls_back, vdso) {
            (Some(true), _) | (None, None) => "syscall",
            _ => "vdso",
        };
        if read.falls_back.is_some() || vdso.is_some() || syscall.is_some() {
            paths = paths.with(&[clock, ("path", path)], 1.0);
        }
    }
    let host = &measured.host;
    let rate = Family::gauge("clockscope_tsc_frequency_hertz", "Rate of the TSC")
        .with_some(&[("by", "kernel")], host.tsc_hz_kernel)
        .with_some(&[("by", "measurement")], host.tsc_hz_measured);
    vec![costs, paths, rate]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Evidence, Known, Log};
    use crate::log::event::{Event, Mark};
    use crate::measured::{ReadCost, WarpMeasured};
    use crate::report::case_tests as samples;

    /// The time of the judgement.
    const NOW: f64 = 1_795_000_000.25;

    fn event(kind: EventKind) -> Event {
        Event { evidence: Evidence::default(), at: None, kind }
    }

    fn facts() -> Facts {
        let marked = EventKind::Marked { name: "tsc".to_owned(), why: Mark::Skew };
        let events = vec![
            event(EventKind::Warp(220)),
            event(EventKind::unstable("check_tsc_sync_source failed")),
            event(marked),
            event(EventKind::unstable("clocksource watchdog")),
        ];
        Facts { log: Some(Log { events, ..Log::default() }), ..Facts::default() }
    }

    #[test]
    fn the_log_is_counted_once() {
        let text = render(&facts(), &samples::warp(), NOW);
        assert!(text.contains("# TYPE clockscope_clocksource_unstable_total counter\n"), "{text}");
        assert!(text.contains("clockscope_clocksource_unstable_total{clocksource=\"tsc\"} 2\n"));
        assert!(text.contains("clockscope_tsc_warp_cycles{when=\"boot\"} 220\n"));
        assert!(!text.contains("EOF"));
        let text = render(&Facts::default(), &samples::warp(), NOW);
        assert!(!text.contains("unstable_total"), "no log is not a log without marks");
    }

    #[test]
    fn measurements_are_in_base_units() {
        let read = |clock: &str, vdso_ns, falls_back| ReadCost {
            clock: clock.to_owned(),
            vdso_ns,
            syscall_ns: Some(250.0),
            falls_back,
        };
        let reads = vec![
            read("CLOCK_MONOTONIC", Some(25.0), Some(false)),
            read("CLOCK_TAI", None, None),
            read("CLOCK_BOOTTIME", Some(260.0), Some(true)),
        ];
        let warp = Some(WarpMeasured::default());
        let measured = Measured { reads, warp, ..Measured::default() };
        let report = DoctorReport { measured: Some(measured), ..samples::healthy() };
        let facts = Facts { measured: report.measured.clone(), ..Facts::default() };
        let text = render(&facts, &report, NOW);
        for line in [
            "clockscope_clock_read_seconds{clock=\"CLOCK_MONOTONIC\",path=\"vdso\"} 2.5e-8",
            "clockscope_clock_path_info{clock=\"CLOCK_MONOTONIC\",path=\"vdso\"} 1",
            "clockscope_clock_path_info{clock=\"CLOCK_TAI\",path=\"syscall\"} 1",
            "clockscope_clock_path_info{clock=\"CLOCK_BOOTTIME\",path=\"syscall\"} 1",
            "clockscope_tsc_warp_cycles{when=\"now\"} 0",
            "clockscope_doctor_status 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_verdict_is_one_series_with_cause_and_fix() {
        let boot_id = Some(Known::new("8d0d6f0c-boot".to_owned(), "", ""));
        let facts = Facts { boot_id, ..Facts::default() };
        let text = render(&facts, &samples::warp(), NOW);
        for line in [
            "clockscope_doctor_verdict_info{state=\"slow\",clocksource=\"acpi_pm\",platform=\"virtualbox\",\
             cause=\"tsc-warp\",fix=\"newer-kernel\"} 1",
            "clockscope_doctor_run_timestamp_seconds 1795000000.25",
            "clockscope_boot_info{boot_id=\"8d0d6f0c-boot\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        let text = render(&Facts::default(), &samples::healthy(), NOW);
        assert!(text.contains(",cause=\"\",fix=\"\"} 1\n"), "{text}");
        assert!(!text.contains("boot_info"), "no boot is not an empty one");
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let report = DoctorReport { source: Some("a\"b\\c\nd".to_owned()), ..samples::healthy() };
        let text = render(&Facts::default(), &report, NOW);
        assert!(text.contains(r#"clocksource="a\"b\\c\nd"} 1"#), "{text}");
    }
}
