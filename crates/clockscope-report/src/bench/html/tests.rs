use proptest::prelude::*;

use super::*;
use crate::page::check;
use clockscope_model::bench::{InWorkRow, Instructions, InstructionsRow, PathName};
use clockscope_model::bench::{LaunchRow, PathDecline, RatioRow, ThreadsRow};

const FIXTURE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/reports/bench.json"));

fn fixture() -> BenchReport {
    serde_json::from_str(FIXTURE).expect("a bench report")
}

#[test]
fn the_page_of_a_real_machine_is_whole() {
    let html = render(&fixture());
    check::page(&html);
    assert!(html.len() < 400_000, "{} bytes", html.len());
    for words in [
        "CLOCK_MONOTONIC costs 21.7 ns through libc, 20.8 ns by the vDSO and 125 ns by system call.",
        "It costs 5.79 times as much by system call as by the vDSO.",
        "Threads slow each other down in CLOCK_PROCESS_CPUTIME_ID by syscall (37 % with 4).",
        "Never enter the kernel: CLOCK_REALTIME by libc",
        "this CPU is no aarch64",
        "clockscope bench --threads 1,2,3,4 --in-work --instructions --format html",
        "2499.998 MHz",
        "88 ns in 2 launches, 103 ns in 1",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert_eq!(html.matches("<figure>").count(), 4);
}

#[test]
fn a_measurement_of_nothing_is_a_page() {
    let html = render(&BenchReport::default());
    check::page(&html);
    assert!(html.contains("No path was measured."));
}

#[test]
fn system_calls_are_called_so() {
    let name = PathName { clock: None, call: Some("read".to_owned()), route: "syscall".to_owned() };
    let path = PathRow { name, cost_ps_median: 84_200, ..PathRow::default() };
    let html = render(&BenchReport { paths: vec![path], ..BenchReport::default() });
    check::page(&html);
    assert!(html.contains("What system calls cost"), "{html}");
    assert!(html.contains("read by syscall costs 84.2 ns."), "{html}");
    assert!(html.contains("clockscope bench syscalls --format html"), "{html}");
}

#[test]
fn a_traced_host_is_warned_of() {
    let mut report = fixture();
    report.host.syscall_tracing.active = Some(true);
    report.host.syscall_tracing.who = vec!["<b>perf</b> & friends".to_owned()];
    let html = render(&report);
    check::page(&html);
    assert!(html.contains("(&lt;b&gt;perf&lt;/b&gt; &amp; friends): each costs more"), "{html}");
}

#[test]
fn hundreds_of_paths_make_a_page() {
    let mut report = fixture();
    let paths = report.paths.clone();
    for copy in 0..8 {
        let renamed = paths.iter().cloned().map(|mut path| {
            path.name.clock = path.name.clock.map(|clock| format!("{clock}_{copy}"));
            path
        });
        report.paths.extend(renamed);
    }
    let html = render(&report);
    check::page(&html);
    assert!(report.paths.len() > 350 && html.len() < 2_000_000, "{}", html.len());
}

prop_compose! {
    fn name()(clock in ".{0,20}", route in "libc|vdso|syscall|<x>&\"") -> PathName {
        PathName { clock: Some(clock), call: None, route }
    }
}

prop_compose! {
    fn path()(
        name in name(),
        costs in prop::array::uniform6(any::<u64>()),
        samples_ps in prop::collection::vec(any::<u64>(), 0..6),
        batches: u64,
        accepted: u64,
        grade in "quiet|noisy|unusable|",
    ) -> PathRow {
        let [cost_ps_min, cost_ps_median, cost_ps_ci_low, cost_ps_ci_high, low, high] = costs;
        PathRow {
            name, cost_ps_min, cost_ps_median, cost_ps_ci_low, cost_ps_ci_high,
            cost_ps_p5: low, cost_ps_p95: high, batches, accepted, grade,
            calls_per_batch: 1,
            launches: vec![LaunchRow { cost_ps_median, ..LaunchRow::default() }],
            regimes: Some("<regime>".to_owned()),
            rejected_ps: samples_ps.clone(),
            samples_ps,
        }
    }
}

prop_compose! {
    fn rest()(
        name in name(),
        reals in prop::array::uniform5(prop::num::f64::ANY),
        whole in prop::array::uniform3(any::<i64>()),
        threads: u32,
        count: u64,
    ) -> (RatioRow, ThreadsRow, InWorkRow, InstructionsRow) {
        let [ratio, ci_low, ci_high, calls_per_second, efficiency] = reals;
        let interval = (whole[1], whole[2]);
        let grade = "quiet".to_owned();
        (
            RatioRow { of: name.clone(), to: name.clone(), ratio, ci_low, ci_high },
            ThreadsRow {
                name: name.clone(), threads, cpus: vec![threads], calls_per_second, efficiency,
                cost_ps_by_thread: vec![count], cost_ps_min_by_thread: Vec::new(),
                grade: grade.clone(),
            },
            InWorkRow {
                name: name.clone(), alone_ps: count, compute_ps: whole[0], compute_ci_ps: interval,
                memory_ps: whole[1], memory_ci_ps: interval, grade,
            },
            InstructionsRow {
                name, user: Some(count), in_vdso: None, syscalls: Some(count), agreeing: None,
                counted: Some(ratio), counted_user: Some(ci_low), cycles: None, ipc: Some(ci_high),
            },
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_model_makes_a_page(
        paths in prop::collection::vec(path(), 0..5),
        rest in prop::collection::vec(rest(), 0..4),
        gate_percent in prop::num::f64::NORMAL,
        text in ".{0,20}",
    ) {
        let rows = rest.iter().map(|row| row.3.clone()).collect();
        let report = BenchReport {
            paths,
            ratios: rest.iter().map(|row| row.0.clone()).collect(),
            threads: rest.iter().map(|row| row.1.clone()).collect(),
            in_work: rest.iter().map(|row| row.2.clone()).collect(),
            instructions: Some(Instructions { no_counters: Some(text.clone()), rows }),
            method: Method { gate_percent, ..Method::default() },
            declines: vec![PathDecline { reason: text.clone(), ..PathDecline::default() }],
            notes: vec![text],
            ..BenchReport::default()
        };
        check::page(&render(&report));
    }
}
