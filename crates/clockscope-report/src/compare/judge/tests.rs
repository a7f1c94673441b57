//! Verdicts on made sets.

use proptest::prelude::*;

use std::path::Path;

use super::*;
use crate::compare::text;
use clock_doctor::state::HostState;
use clockscope_text::foreign::json_document;

mod chance;

fn options() -> JudgeOptions {
    JudgeOptions {
        confidence_percent: 95.0,
        min_effect_percent: 1.0,
        higher_is_better: false,
        unit: String::new(),
    }
}

fn plain(file: &str, values: Vec<f64>) -> Source {
    Source { file: file.to_owned(), content: Content::Plain(values) }
}

/// A file with one path, whose launches have these medians and 40 batches within 0.4 percent each.
fn bench(file: &str, launches: &[f64]) -> Source {
    let batches = launches
        .iter()
        .flat_map(|median| (-20..=20).map(move |step| median * (1.0 + f64::from(step) * 0.0001)));
    let path = BenchPath {
        name: PathName {
            clock: Some("CLOCK_TAI".to_owned()),
            call: None,
            route: "vdso".to_owned(),
        },
        samples_ps: batches.collect(),
        launches_ps: launches.to_vec(),
        grade: "quiet".into(),
        kept: 1.0,
        ..BenchPath::default()
    };
    let bench = BenchFile { paths: vec![path], ..BenchFile::default() };
    Source { file: file.to_owned(), content: Content::Bench(Box::new(bench)) }
}

fn bench_mut(source: &mut Source) -> &mut BenchFile {
    match &mut source.content {
        Content::Bench(bench) => bench,
        Content::Plain(_) => panic!("is a bench file"),
    }
}

fn verdict_of(base: &[f64], other: &[f64]) -> Verdict {
    compare(vec![bench("a", base), bench("b", other)], &options()).comparisons[0].verdict
}

#[test]
fn a_change_must_hold_between_all_launches() {
    let base = [100.0, 100.3, 99.8];
    assert_eq!(verdict_of(&base, &[105.0, 105.2, 104.7]), Verdict::Slower);
    assert_eq!(verdict_of(&base, &[95.0, 95.2, 94.7]), Verdict::Faster);
    assert_eq!(verdict_of(&base, &[100.1, 99.9, 100.2]), Verdict::Same, "the same binary again");
    assert_eq!(verdict_of(&base, &[105.0, 105.2, 100.0]), Verdict::NotProven);
    assert_eq!(verdict_of(&base, &[100.0, 100.1, 108.0]), Verdict::NotProven, "one in a regime");
}

#[test]
fn launches_that_disagree_are_named() {
    let sources = vec![bench("a", &[100.0, 100.3]), bench("b", &[105.0, 105.2, 105.1, 100.0])];
    let report = compare(sources, &options());
    let comparison = &report.comparisons[0];
    assert!(comparison.shift_percent.unwrap().0 > 4.0, "{comparison:?}");
    assert!(comparison.sentence.contains("the launches disagree"), "{}", comparison.sentence);
    assert_eq!(comparison.more_needed, None);
    assert!(report.notes[0].contains("The launches of TAI by vdso disagree"));
}

#[test]
fn one_launch_is_judged_with_a_warning() {
    let report = compare(vec![bench("a", &[100.0]), bench("b", &[110.0])], &options());
    assert_eq!(report.comparisons[0].verdict, Verdict::Slower);
    assert_eq!(verdict_of(&[100.0], &[102.5]), Verdict::NotProven, "launches may differ so much");
    assert_eq!(verdict_of(&[100.0], &[100.0]), Verdict::NotProven);
    assert_eq!(verdict_of(&[100.0, 100.1], &[102.5, 102.6]), Verdict::Slower);
    assert!(report.notes[0].starts_with("A file has one launch only"), "{:?}", report.notes);
}

#[test]
fn launches_that_were_disturbed_are_not_called_missing() {
    let mut other = bench("b", &[110.0]);
    bench_mut(&mut other).launches = 3;
    let report = compare(vec![bench("a", &[100.0, 100.2, 100.1]), other], &options());
    let [note] = report.notes.as_slice() else { panic!("{:?}", report.notes) };
    assert!(note.starts_with("Of the 3 launches of TAI by vdso in b all but one were"), "{note}");
    assert!(!note.contains("one launch only"), "{note}");
}

#[test]
fn the_change_is_that_from_the_one_printed_median_to_the_other() {
    // Bench printed 2.24 and 2.13 ns; most batches lie elsewhere.
    let with = |file: &str, printed: f64, batches: &[f64]| {
        let mut source = bench(file, &[printed, printed, printed]);
        let path = &mut bench_mut(&mut source).paths[0];
        path.samples_ps = batches.iter().copied().cycle().take(60).collect();
        path.median_ps = Some((printed, printed * 0.99, printed * 1.01));
        source
    };
    let (base, other) = (with("a", 2_240.0, &[2_300.0, 2_240.0]), with("b", 2_130.0, &[2_000.0]));
    let report = compare(vec![base, other], &options());
    let comparison = &report.comparisons[0];
    let (change, low, high) = comparison.change_percent.unwrap();
    assert!((change - (2_130.0 - 2_240.0) / 22.4).abs() < 1e-9, "{comparison:?}");
    assert!(low < change && change < high, "{comparison:?}");
    assert_eq!((report.sets[0].median, report.sets[1].median), (2_240.0, 2_130.0));
    assert!(
        text::render(&report, 40, true).contains("-4.91 %"),
        "{}",
        text::render(&report, 40, true)
    );
}

#[test]
fn a_change_that_the_cheapest_batch_does_not_share_is_not_proven() {
    let with = |file: &str, median: f64, cheapest: f64| {
        let mut source = bench(file, &[median, median * 1.001, median * 0.999]);
        bench_mut(&mut source).paths[0].cheapest_ps = Some(cheapest);
        source
    };
    let verdict =
        |other| compare(vec![with("a", 100.0, 99.0), other], &options()).comparisons[0].verdict;
    assert_eq!(verdict(with("b", 110.0, 108.9)), Verdict::Slower);
    assert_eq!(verdict(with("b", 110.0, 99.2)), Verdict::NotProven, "a neighbour took the rest");
}

#[test]
fn an_unusable_path_proves_nothing_and_an_empty_one_is_too_few() {
    let mut noisy = bench("b", &[110.0, 110.0]);
    bench_mut(&mut noisy).paths[0].grade = "unusable".into();
    let report = compare(vec![bench("a", &[100.0, 100.0]), noisy], &options());
    assert_eq!(report.comparisons[0].verdict, Verdict::NotProven);
    assert!(report.conclusion.contains("too noisy"), "{}", report.conclusion);

    let mut empty = bench("b", &[]);
    bench_mut(&mut empty).paths[0].samples_ps = Vec::new();
    let report = compare(vec![bench("a", &[100.0, 100.0]), empty], &options());
    assert_eq!(report.comparisons[0].verdict, Verdict::TooFew);
    assert!(report.conclusion.contains("b has 0 values"), "{}", report.conclusion);
    assert!(!text::render(&report, 40, true).is_empty());
}

#[test]
fn paths_without_values_leave_a_change_as_sure_as_it_is() {
    let with = |file: &str, median: f64, empty: usize| {
        let mut source = bench(file, &[median, median * 1.001, median * 0.999]);
        let nothing = (0..empty).map(|number| BenchPath {
            name: PathName {
                clock: Some(format!("CLOCK_{number}")),
                call: None,
                route: "vdso".to_owned(),
            },
            ..BenchPath::default()
        });
        bench_mut(&mut source).paths.extend(nothing);
        source
    };
    let p_among = |empty: usize| {
        let report = compare(vec![with("a", 100.0, empty), with("b", 103.0, empty)], &options());
        assert_eq!(report.comparisons.len(), 1 + empty);
        report.comparisons[0].p_holm
    };
    let alone = p_among(0);
    assert!(alone > 0.0 && alone < 0.05, "{alone}");
    assert_eq!(p_among(60), alone);
}

#[test]
fn paths_of_one_file_only_are_listed() {
    let mut other = bench("b", &[100.0, 100.1]);
    bench_mut(&mut other).paths[0].name.route = "libc".to_owned();
    let report = compare(vec![bench("a", &[100.0, 100.2]), other], &options());
    let expected = [
        ("b".to_owned(), "CLOCK_TAI by libc".to_owned()),
        ("a".to_owned(), "CLOCK_TAI by vdso".to_owned()),
    ];
    assert_eq!(report.unmatched, expected);
    assert_eq!(report.conclusion, "No path is in two files, so nothing is compared.");
}

#[test]
fn hosts_are_compared_with_the_first() {
    let mut sources = vec![bench("a", &[1.0]), bench("b", &[1.0]), bench("c", &[1.0])];
    for (source, clocksource) in sources.iter_mut().zip(["tsc", "tsc", "hpet"]) {
        bench_mut(source).host =
            HostState { clocksource: Some(clocksource.to_owned()), ..HostState::default() };
    }
    let report = compare(sources, &options());
    assert_eq!(report.host_changes, ["c: clocksource: tsc, then hpet"]);
}

#[test]
fn what_is_not_alike_is_refused() {
    let mut net = bench("net", &[1.0]);
    bench_mut(&mut net).net = true;
    let said = check_alike(&[bench("a", &[1.0]), net]).unwrap_err();
    assert!(said.contains("--net"), "{said}");
    let said = check_alike(&[bench("a", &[1.0]), plain("b", vec![1.0])]).unwrap_err();
    assert!(said.contains("files of one kind"), "{said}");
}

#[test]
fn a_median_of_zero_is_compared_absolutely() {
    let zero = plain("a", vec![-1.0, -0.5, 0.0, 0.0, 0.5, 1.0]);
    let ten = plain("b", vec![9.0, 9.5, 10.0, 10.0, 10.5, 11.0]);
    let report = compare(vec![zero, ten], &options());
    assert_eq!(report.comparisons[0].verdict, Verdict::Slower);
    assert_eq!(report.comparisons[0].shift_percent, None);
    assert!(report.conclusion.contains("the median of the first is zero"), "{}", report.conclusion);
}

#[test]
fn rates_are_better_when_higher() {
    let options = JudgeOptions { higher_is_better: true, unit: "op/s".to_owned(), ..options() };
    let rates = |by: f64| (0..20).map(|index| 100.0 * by + f64::from(index % 5) * 0.1).collect();
    let report = compare(vec![plain("a", rates(1.0)), plain("b", rates(1.1))], &options);
    assert_eq!(report.comparisons[0].verdict, Verdict::Faster);
    assert!(report.conclusion.starts_with("b is better than a: +9.98 %"), "{}", report.conclusion);
}

#[test]
fn the_outlier_that_blinds_ministat_does_not_blind_us() {
    let source = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ministat");
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        plain(name, text.lines().map(|line| line.trim().parse().unwrap()).collect())
    };
    let sources = vec![source("c2_vdso_a.txt"), source("c2_vdso_b.txt")];
    let exact = JudgeOptions { min_effect_percent: 0.0, ..options() };
    let comparison = &compare(sources, &exact).comparisons[0];
    assert!(comparison.u_p < 0.05 && comparison.welch_p.unwrap() > 0.5, "{comparison:?}");
    assert!(comparison.sentence.contains("differs from"), "{}", comparison.sentence);
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    let number = prop_oneof![
        Just(0.0),
        (-5..5_i32).prop_map(f64::from),
        -1e150..1e150_f64,
        -1e-300..1e-300_f64,
        20.0..22.0_f64
    ];
    prop::collection::vec(number, 1..40)
}

proptest! {
    #[test]
    fn no_numbers_make_it_panic_and_its_json_is_read_back(
        sets in prop::collection::vec(numbers(), 1..4), confidence in 50.0..99.99_f64,
    ) {
        let sources = sets.into_iter().map(|values| plain("f", values)).collect();
        let options = JudgeOptions { confidence_percent: confidence, ..options() };
        let report = compare(sources, &options);
        let printed = json_document(&report).unwrap();
        let read: CompareReport = serde_json::from_str(&printed).unwrap();
        prop_assert_eq!(read.comparisons.len(), report.comparisons.len());
        prop_assert!(text::render(&report, 40, true).is_ascii());
    }

    #[test]
    fn exchanged_files_exchange_the_verdict(
        a in prop::collection::vec(-1e3..1e3_f64, 1..40),
        b in prop::collection::vec(-1e3..1e3_f64, 1..40),
    ) {
        let exact = JudgeOptions { min_effect_percent: 0.0, ..options() };
        let both = |a: &[f64], b: &[f64]| {
            compare(vec![plain("a", a.to_vec()), plain("b", b.to_vec())], &exact).comparisons[0].verdict
        };
        let turned = match both(&b, &a) {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            same => same,
        };
        prop_assert_eq!(both(&a, &b), turned);
    }
}
