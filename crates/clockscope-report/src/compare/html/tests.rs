use proptest::prelude::*;

use super::*;
use crate::page::check;

fn fixture(text: &str) -> CompareReport {
    serde_json::from_str(text).expect("a comparison")
}

fn of_paths() -> CompareReport {
    fixture(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/reports/compare.json"
    )))
}

fn of_numbers() -> CompareReport {
    fixture(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/reports/compare-plain.json"
    )))
}

#[test]
fn the_page_of_two_bench_files_is_whole() {
    let html = render(&of_paths());
    check::page(&html);
    for words in [
        "Of 10 comparisons: 2 slower, 1 faster, 5 no change that matters",
        "The largest proven change is that of CLOCK_MONOTONIC_COARSE by libc: -29 %.",
        "The machines differ",
        "getcpu by libc",
        "clockscope compare before.json after.json --format html",
    ] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn the_page_of_plain_numbers_is_whole() {
    let html = render(&of_numbers());
    check::page(&html);
    assert!(html.contains("gettimeofday.txt against poor.txt, realtime.txt, second.txt"));
    assert!(html.contains("Furthest apart: the median of gettimeofday.txt is 1494"), "{html}");
}

#[test]
fn nothing_to_compare_is_a_page() {
    check::page(&render(&CompareReport::default()));
}

#[test]
fn one_set_is_a_page() {
    let mut report = of_numbers();
    report.sets.truncate(1);
    report.comparisons.clear();
    let html = render(&report);
    check::page(&html);
    assert!(html.contains("There is nothing to compare."));
}

#[test]
fn the_command_is_fit_for_a_shell() {
    let mut report = of_numbers();
    report.sets.truncate(1);
    report.sets[0].file = "it's <here>".to_owned();
    report.min_effect_percent = 2.5;
    report.higher_is_better = true;
    let expected = "clockscope compare --higher-is-better --min-effect 2.5 'it'\\''s <here>'";
    assert!(command(&report, &files(&report)).starts_with(expected));
    check::page(&render(&report));
}

prop_compose! {
    fn set()(
        file in ".{0,9}",
        path in prop::option::of("a|b"),
        reals in prop::array::uniform7(prop::num::f64::ANY),
        values in prop::collection::vec(prop::num::f64::ANY, 0..6),
        n: u64,
    ) -> SetRow {
        let [min, median, median_ci_low, median_ci_high, max, mean, sd] = reals;
        SetRow {
            file, path, n, min, median, median_ci_low, median_ci_high, max, mean, sd, values,
            ..SetRow::default()
        }
    }
}

prop_compose! {
    fn comparison()(
        path in prop::option::of(".{0,9}"),
        base in 0_usize..9,
        other in 0_usize..9,
        verdict in 0_usize..5,
        reals in prop::array::uniform7(prop::num::f64::ANY),
        percent in prop::option::of((prop::num::f64::ANY, prop::num::f64::ANY, prop::num::f64::ANY)),
    ) -> Comparison {
        let verdicts =
            [Verdict::Slower, Verdict::Faster, Verdict::Same, Verdict::NotProven, Verdict::TooFew];
        let [shift, low, high, u, u_p, welch_p, cliff_delta] = reals;
        Comparison {
            path, base, other, shift, u, u_p, cliff_delta,
            verdict: verdicts[verdict],
            shift_ci_low: low,
            shift_ci_high: high,
            shift_percent: percent,
            welch_p: Some(welch_p),
            ..Comparison::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_model_makes_a_page(
        sets in prop::collection::vec(set(), 0..6),
        comparisons in prop::collection::vec(comparison(), 0..6),
        min_effect_percent in prop::num::f64::NORMAL,
        unit in "ps|ns||<u>",
    ) {
        let report = CompareReport {
            sets, comparisons, min_effect_percent, unit, ..CompareReport::default()
        };
        check::page(&render(&report));
    }
}
