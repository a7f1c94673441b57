//! Verdicts on made-up reports.

use proptest::prelude::*;

use super::*;
use crate::tests::server;
use clockscope_model::bench::{LaunchRow, Method, PathName, PathRow};
use clockscope_model::host::HostState;
use clockscope_model::trace::Way;
use clockscope_text::foreign::json_document;
use clockscope_text::lines::{WIDTH, width};

mod chance;

fn name(clock: &str) -> PathName {
    PathName { clock: Some(clock.to_owned()), call: None, route: "vdso".to_owned() }
}

/// A path whose launches have these medians and 41 batches within 0.2 percent each.
fn path(clock: &str, launches: &[u64]) -> PathRow {
    let batches =
        launches.iter().flat_map(|median| (9_980..=10_020).map(move |part| median * part / 10_000));
    let mut samples_ps: Vec<u64> = batches.collect();
    samples_ps.sort_unstable();
    let median = samples_ps.get(samples_ps.len() / 2).copied().unwrap_or(0);
    let launch =
        |median: &u64| LaunchRow { cost_ps_median: *median, accepted: 41, ..LaunchRow::default() };
    PathRow {
        name: name(clock),
        cost_ps_median: median,
        cost_ps_ci_low: median * 999 / 1_000,
        cost_ps_ci_high: median * 1_001 / 1_000,
        cost_ps_min: samples_ps.first().copied().unwrap_or(0),
        samples_ps,
        launches: launches.iter().map(launch).collect(),
        grade: "quiet".to_owned(),
        ..PathRow::default()
    }
}

fn bench(file: &str, paths: Vec<PathRow>) -> Source {
    let report = BenchReport { paths, ..BenchReport::default() };
    Source { file: file.to_owned(), content: Content::Bench(Box::new(report)) }
}

fn compared(before: PathRow, after: PathRow) -> CompareReport {
    compare(&bench("a", vec![before]), &bench("b", vec![after]), None).unwrap()
}

fn verdict_of(before: &[u64], after: &[u64]) -> Verdict {
    compared(path("CLOCK_TAI", before), path("CLOCK_TAI", after)).rows[0].verdict
}

#[test]
fn a_change_must_hold_between_all_launches() {
    for (what, after, verdict) in [
        ("all slower", [105_000, 105_200, 104_700], Verdict::Slower),
        ("all faster", [95_000, 95_200, 94_700], Verdict::Faster),
        ("the same binary again", [100_100, 99_900, 100_200], Verdict::Same),
        ("one as before", [105_000, 105_200, 100_000], Verdict::NotProven),
        ("one in a regime", [100_000, 100_100, 108_000], Verdict::NotProven),
    ] {
        assert_eq!(verdict_of(&[100_000, 100_300, 99_800], &after), verdict, "{what}");
    }
}

#[test]
fn launches_that_disagree_are_named() {
    let before = path("CLOCK_TAI", &[100_000, 100_300]);
    let report = compared(before, path("CLOCK_TAI", &[105_000, 105_200, 105_100, 100_000]));
    assert_eq!(report.rows[0].verdict, Verdict::NotProven);
    assert!(report.rows[0].change() > 4.0, "{report:?}");
    assert!(report.notes[0].starts_with("The launches of TAI by vdso disagree"), "{report:?}");
}

#[test]
fn one_launch_is_judged_with_a_warning() {
    let report = compared(path("CLOCK_TAI", &[100_000]), path("CLOCK_TAI", &[110_000]));
    assert_eq!(report.rows[0].verdict, Verdict::Slower);
    let apart = verdict_of(&[100_000], &[102_500]);
    assert_eq!(apart, Verdict::NotProven, "launches may differ so much");
    assert_eq!(verdict_of(&[100_000], &[100_000]), Verdict::NotProven);
    assert_eq!(verdict_of(&[100_000, 100_100], &[102_500, 102_600]), Verdict::Slower);
    let note = "One file has a single undisturbed launch of TAI";
    assert!(report.notes[0].starts_with(note), "{report:?}");
}

#[test]
fn a_change_that_the_cheapest_batch_does_not_share_is_not_proven() {
    let with = |median: u64, cheapest: u64| PathRow {
        cost_ps_min: cheapest,
        ..path("CLOCK_TAI", &[median, median * 1_001 / 1_000, median * 999 / 1_000])
    };
    let verdict = |after| compared(with(100_000, 99_000), after).rows[0].verdict;
    assert_eq!(verdict(with(110_000, 108_900)), Verdict::Slower);
    assert_eq!(verdict(with(110_000, 99_200)), Verdict::NotProven, "a neighbour took the rest");
}

#[test]
fn an_unusable_path_proves_nothing_and_an_empty_one_is_too_few() {
    let base = || path("CLOCK_TAI", &[100_000, 100_000]);
    let noisy = PathRow { grade: "unusable".to_owned(), ..path("CLOCK_TAI", &[110_000, 110_000]) };
    assert_eq!(compared(base(), noisy).rows[0].verdict, Verdict::NotProven);
    let dropped =
        PathRow { batches: 1_000, accepted: 41, ..path("CLOCK_TAI", &[110_000, 110_000]) };
    assert_eq!(compared(base(), dropped).rows[0].verdict, Verdict::NotProven);
    let zero = PathRow { cost_ps_median: 0, ..base() };
    assert_eq!(compared(zero, base()).rows[0].verdict, Verdict::NotProven, "there are no percents");
    let report = compared(base(), path("CLOCK_TAI", &[]));
    assert_eq!(report.rows[0].verdict, Verdict::TooFew);
    assert_eq!(report.conclusion, "No change proven in 1 path: 1 too few.");
    assert!(text::render(&report, true).contains("  too few\n"));
}

#[test]
fn paths_without_values_leave_a_change_as_sure_as_it_is() {
    let with = |file: &str, median: u64, empty: usize| {
        let empty = (0..empty).map(|number| path(&format!("CLOCK_{number}"), &[]));
        let measured = path("CLOCK_TAI", &[median, median * 1_001 / 1_000, median * 999 / 1_000]);
        bench(file, std::iter::once(measured).chain(empty).collect())
    };
    let p_among = |empty: usize| {
        let report = compare(&with("a", 100_000, empty), &with("b", 103_000, empty), None).unwrap();
        assert_eq!(report.rows.len(), 1 + empty);
        report.rows[0].p_holm
    };
    let alone = p_among(0);
    assert!(alone > 0.0 && alone < 0.05, "{alone}");
    assert_eq!(p_among(60), alone);
}

#[test]
fn paths_of_one_file_only_are_listed() {
    let mut other = path("CLOCK_TAI", &[100_000, 100_100]);
    other.name.route = "libc".to_owned();
    let report = compared(path("CLOCK_TAI", &[100_000, 100_200]), other);
    let expected = [("a", "TAI by vdso"), ("b", "TAI by libc")]
        .map(|(file, name)| (file.to_owned(), name.to_owned()));
    assert_eq!(report.unmatched, expected);
    assert_eq!(report.conclusion, "Nothing is in both files, so nothing is compared.");
}

#[test]
fn what_is_not_alike_is_refused() {
    let method = Method { net: true, ..Method::default() };
    let net = Content::Bench(Box::new(BenchReport { method, ..BenchReport::default() }));
    let net = Source { file: "net".to_owned(), content: net };
    for (other, why) in [(net, "--net"), (traced("b", server()), "files of one kind")] {
        let said = compare(&bench("a", Vec::new()), &other, None).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}

fn traced(file: &str, report: TraceReport) -> Source {
    Source { file: file.to_owned(), content: Content::Trace(Box::new(report)) }
}

/// The server on a machine with the TSC.
fn fast() -> TraceReport {
    let mut report = server();
    let host = HostState { clocksource: Some("tsc".to_owned()), ..HostState::default() };
    report.host = Some(host);
    report.overhead.vdso_bracket_ps = 18_000;
    for row in &mut report.vdso {
        row.time_avg_within_ps = Some(400);
    }
    report
}

/// The same program on a machine that reads an hpet.
fn slow() -> TraceReport {
    let mut report = fast();
    let host = HostState { clocksource: Some("hpet".to_owned()), ..HostState::default() };
    report.host = Some(host);
    (report.wall_ns, report.cpu_ns) = (2_400_000_000, 1_900_000_000);
    for row in &mut report.vdso[..2] {
        (row.time_avg_ps, row.time_avg_within_ps) = (1_230_000, Some(9_000));
    }
    report.clock_reads.time_ns = 615_002_460;
    report
}

fn of_traces(before: TraceReport, after: TraceReport) -> CompareReport {
    compare(&traced("old.json", before), &traced("new.json", after), None).unwrap()
}

#[test]
fn the_old_machine_against_the_new_one() {
    let report = of_traces(fast(), slow());
    insta::assert_snapshot!(text::render(&report, false));
}

#[test]
fn a_run_is_no_different_from_itself() {
    let report = of_traces(fast(), fast());
    let changed = |row: &CompareRow| matches!(row.verdict, Verdict::Slower | Verdict::Faster);
    assert!(!report.rows.iter().any(changed), "{report:?}");
    assert_eq!(report.host_changes, [""; 0]);
}

#[test]
fn costs_of_traces_differ_beyond_what_timing_is_wrong_by() {
    let with = |ps: u64, within: u64| {
        let mut report = fast();
        (report.vdso[0].time_avg_ps, report.vdso[0].time_avg_within_ps) = (ps, Some(within));
        report
    };
    let name = of_traces(fast(), fast()).rows[1].name.clone();
    let verdict = |before, after| {
        let report = of_traces(before, after);
        report.rows.iter().find(|row| row.name == name).unwrap().verdict
    };
    // Two runs of one program on one busy machine.
    assert_eq!(verdict(with(22_280, 2_200), with(30_205, 400)), Verdict::NotProven);
    assert_eq!(verdict(with(24_000, 400), with(60_000, 400)), Verdict::Slower);
    assert_eq!(verdict(with(60_000, 400), with(24_000, 400)), Verdict::Faster);
    let mut rare = with(60_000, 400);
    rare.wall_ns *= 1_000;
    assert_eq!(verdict(with(24_000, 400), rare), Verdict::NotProven, "its caches are cold");
}

#[test]
fn limits_of_traces_are_told() {
    let mut old = fast();
    (old.host, old.via) = (None, Some(Way::Bpf));
    old.command = vec!["other".into()];
    let said = of_traces(old, fast()).notes.join(" ");
    for expected in [
        "Clock reads: 500,002, 250,001 a second, 0.81 % of the CPU time; then",
        "The commands differ: other, then ",
        "System calls were counted by bpf, then by ",
        "old.json does not say on which machine it was made.",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn no_figure_is_too_large_and_no_line_too_wide() {
    let mut vast = slow();
    vast.command = vec!["x y ".repeat(100).as_str().into()];
    for row in &mut vast.vdso {
        (row.calls, row.time_total_ns, row.time_avg_ps) = (u64::MAX, u64::MAX, u64::MAX);
        row.time_avg_within_ps = Some(u64::MAX);
    }
    (vast.clock_reads.reads, vast.clock_reads.time_ns) = (u64::MAX, u64::MAX);
    let empty = TraceReport::default;
    for (a, b) in
        [(fast(), vast.clone()), (vast.clone(), fast()), (empty(), vast), (empty(), empty())]
    {
        let report = of_traces(a, b);
        for all in [false, true] {
            let text = text::render(&report, all);
            let wide = text.lines().find(|line| width(line) > WIDTH);
            assert_eq!(wide, None, "{text}");
        }
    }
}

proptest! {
    #[test]
    fn no_file_is_slower_than_another_that_is_slower_than_it(
        a in prop::collection::vec(1..1_000_000_u64, 0..4),
        b in prop::collection::vec(1..1_000_000_u64, 0..4),
    ) {
        let (there, back) = (verdict_of(&a, &b), verdict_of(&b, &a));
        let is_change = |verdict| matches!(verdict, Verdict::Faster | Verdict::Slower);
        prop_assert!(there != back || !is_change(there), "{there:?} {back:?}");
    }

    #[test]
    fn its_json_is_read_back(launches in prop::collection::vec(0..u64::MAX / 20_000, 0..4)) {
        let report = compared(path("CLOCK_TAI", &launches), path("CLOCK_TAI", &[1, 2]));
        let read: CompareReport = serde_json::from_str(&json_document(&report).unwrap()).unwrap();
        prop_assert_eq!(read.rows.len(), report.rows.len());
    }
}
