use proptest::prelude::*;

use super::*;
use crate::page::check;
use clockscope_model::wrongness::{ClockRow, Distribution, Fault, Gaps, OffsetRow, Resolution};
use clockscope_model::wrongness::{StabilityRow, Staleness, WarpRow};

fn fixture() -> WrongnessReport {
    let text =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/reports/wrongness.json"));
    serde_json::from_str(text).expect("a wrongness report")
}

#[test]
fn the_page_of_a_real_machine_is_whole() {
    let html = render(&fixture());
    check::page(&html);
    for words in [
        "No fault was found in 9 clocks, 10,800,000 reads.",
        "of the reads are older than the 4 ms of clock_getres",
        "clock_getres: 4 ms",
        "No ordered reading was less than that of another CPU before",
        "Every interval holds zero: no skew is proven, and none can be larger than 209 ticks.",
        "Nobody set the clock while it was watched, for 9.8 s.",
        "a slope of -1: only the noise of reading the clock is left in it.",
        "clockscope wrongness --stability --format html",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert_eq!(html.matches("<figure>").count(), 6);
}

#[test]
fn nothing_looked_at_is_a_page() {
    check::page(&render(&WrongnessReport::default()));
}

#[test]
fn faults_stand_on_top() {
    let mut report = fixture();
    report.faults = vec![Fault {
        kind: "warp".to_owned(),
        clock: "rdtsc".to_owned(),
        sentence: "CPU 2 is <500> ns behind.".to_owned(),
    }];
    report.warps[0] = WarpRow {
        warps: 12,
        max_warp: 500,
        behind: Some(2),
        unit: "ns".to_owned(),
        ..report.warps[0].clone()
    };
    report.offsets[0].proven = true;
    report.steps.notices = 1;
    report.steps.steps_ns = vec![-1_000_000_000];
    report.rates[0].ppm = 50.0;
    report.clocks[0].backward = 1;
    report.clocks[0].burst = vec![3, 2, -1];
    let html = render(&report);
    check::page(&html);
    for words in [
        "<h2>What is wrong</h2>\n<ul>\n<li>CPU 2 is &lt;500&gt; ns behind.",
        "rdtsc goes back by up to 500 ns between CPUs 0 and 1: CPU 2 is behind.",
        "The counters of CPUs 0 and 1 are apart",
        "-1 s",
        "CLOCK_MONOTONIC runs 50 ppm off CLOCK_MONOTONIC_RAW",
        "3, 2, -1",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("No fault was found"));
}

#[test]
fn a_read_that_nothing_orders_is_no_fault() {
    let mut report = fixture();
    report.warps[0].warps = 12_127;
    report.warps[0].max_warp = 845;
    report.warps[0].unordered = true;
    let html = render(&report);
    check::page(&html);
    assert!(
        html.contains("rdtsc went back by up to 845 ticks, because nothing orders it"),
        "{html}"
    );
    assert!(html.contains("not ordered: no fault"), "{html}");
}

prop_compose! {
    fn distribution()(
        numbers in prop::array::uniform6(any::<u64>()),
        mean_ns in prop::num::f64::ANY,
        buckets in prop::collection::vec(any::<(u64, u64)>(), 0..9),
    ) -> Distribution {
        let [count, min_ns, p1_ns, p50_ns, p99_ns, max_ns] = numbers;
        Distribution {
            count, min_ns, p1_ns, p50_ns, p99_ns, max_ns, mean_ns, buckets, hdr: String::new()
        }
    }
}

prop_compose! {
    fn clock()(
        clock in ".{0,12}",
        unit in "ns|ticks",
        busy in distribution(),
        idle in distribution(),
        numbers in prop::array::uniform4(any::<u64>()),
        zero_share in prop::num::f64::ANY,
        getres_ns in prop::option::of(any::<u64>()),
    ) -> ClockRow {
        let [min_step, gcd, max_step, ahead] = numbers;
        let staleness = Staleness { reference: "<r>".to_owned(), busy, idle, ahead, ..Staleness::default() };
        let steps = Resolution {
            getres_ns, min_step, gcd, max_step, zero_share, ..Resolution::default()
        };
        ClockRow {
            clock, unit,
            staleness: Some(staleness),
            resolution: Some(steps),
            ..ClockRow::default()
        }
    }
}

prop_compose! {
    fn numbers()(
        reals in prop::array::uniform6(prop::num::f64::ANY),
        whole in prop::array::uniform3(any::<i64>()),
        large in prop::array::uniform2(any::<u64>()),
        flag: bool,
    ) -> (OffsetRow, WarpRow, RateRow, StabilityRow) {
        let unit = "ns".to_owned();
        (
            OffsetRow {
                unit: unit.clone(), offset: whole[0], error: large[0],
                interval: (whole[1], whole[2]), proven: flag, ..OffsetRow::default()
            },
            WarpRow {
                unit, handovers: large[0], warps: large[1], max_warp: large[1],
                floor: Some(large[0]), random: flag, ..WarpRow::default()
            },
            RateRow {
                ppm: reals[0], bound_ppm: reals[1], expected_ppm: Some(reals[2]),
                offset_ns: Some(whole[0]), baseline_ms: large[0], ..RateRow::default()
            },
            StabilityRow {
                tau_s: reals[3], adev: Some(reals[4]), oadev: Some(reals[5]), mdev: None,
                tdev_s: Some(reals[0]), mtie_s: None,
            },
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_model_makes_a_page(
        clocks in prop::collection::vec(clock(), 0..4),
        numbers in prop::collection::vec(numbers(), 0..4),
        lengths in distribution(),
        share in prop::num::f64::ANY,
        count: u64,
    ) {
        let gaps = Gaps { count, share, foreign: Some(count), lengths, ..Gaps::default() };
        let report = WrongnessReport {
            clocks,
            offsets: numbers.iter().map(|row| row.0.clone()).collect(),
            warps: numbers.iter().map(|row| row.1.clone()).collect(),
            rates: numbers.iter().map(|row| row.2.clone()).collect(),
            stability: numbers.iter().map(|row| row.3.clone()).collect(),
            gaps: Some(gaps),
            ..WrongnessReport::default()
        };
        check::page(&render(&report));
    }
}
