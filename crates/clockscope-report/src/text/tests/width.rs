//! Default output keeps to 80 columns for every report.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::*;
use crate::options::{CallersOptions, SortBy};
use crate::tests::database;
use clockscope_model::trace::{Clock, VdsoRow};
use clockscope_text::foreign::Foreign;
use clockscope_text::lines::width;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000_u64, 0..10_000_000_000_u64, any::<u64>()]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_]{1,20}", "[A-Z_]{1,60}", ".{0,30}", "\\PC{0,300}"]
}

/// Any JSON of the sample's form: each field with another value or left out, and any number of rows. A sample of several
/// words, separated by `|`, stands for one of them.
fn varied(key: &str, sample: &Value) -> BoxedStrategy<Value> {
    match sample {
        Value::Object(fields) => {
            let field = |(key, sample): (&String, &Value)| {
                (Just(key.clone()), option::weighted(0.9, varied(key, sample)))
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            let known = |(key, value): (String, Option<Value>)| Some((key, value?));
            fields.prop_map(move |all| all.into_iter().filter_map(known).collect()).boxed()
        }
        Value::Array(rows) => vec(varied(key, &rows[0]), 0..5).prop_map(Value::Array).boxed(),
        Value::String(words) => {
            let words: Vec<String> = words.split('|').map(str::to_owned).collect();
            prop_oneof![select(words), word()].prop_map(Value::from).boxed()
        }
        // It is a number of samples.
        Value::Number(_) if key == "samples_effective" => {
            number().prop_map(|samples| Value::from(samples as f64 / 2.0)).boxed()
        }
        Value::Number(one) if one.is_f64() => {
            prop_oneof![any::<f64>(), 0.0..1e9_f64].prop_map(Value::from).boxed()
        }
        Value::Number(_) => match key {
            "called" | "frames" | "first" | "second" => (0..5_u64).prop_map(Value::from).boxed(),
            "pid" | "parent" | "tid" | "children" | "exit_code" | "signal" => {
                any::<i32>().prop_map(Value::from).boxed()
            }
            "schema" | "number" | "freq" | "line" => any::<u32>().prop_map(Value::from).boxed(),
            _ => number().prop_map(Value::from).boxed(),
        },
        _ => any::<bool>().prop_map(Value::from).boxed(),
    }
}

fn reports() -> impl Strategy<Value = TraceReport> {
    let sample = serde_json::from_str(include_str!("../../tests/any.json")).unwrap();
    varied("", &sample).prop_map(|report| serde_json::from_value(report).unwrap())
}

fn options() -> impl Strategy<Value = TextOptions> {
    let sort = select(vec![SortBy::Time, SortBy::Calls, SortBy::Errors, SortBy::Name]);
    let clocks =
        [Clock::Kernel, Clock::Syscall, Clock::Coarse, Clock::Slow, Clock::Tsc, Clock::TscFast];
    let clock = select(clocks.to_vec());
    (sort, clock, any::<[bool; 4]>()).prop_map(|(sort, clock, flags)| {
        let [per_process, per_thread, summary_only, latency] = flags;
        TextOptions {
            sort,
            per_process,
            per_thread,
            summary_only,
            latency,
            clock,
            ..TextOptions::default()
        }
    })
}

proptest! {
    #[test]
    fn no_line_is_wider_than_80_columns(report in reports(), options in options()) {
        let text = render(&report, &options);
        prop_assert!(text.ends_with('\n'));
        for line in text.lines() {
            prop_assert!(width(line) <= WIDTH, "{} columns: {line:?}", width(line));
            prop_assert!(!line.ends_with(' '), "{line:?}");
            prop_assert!(!line.contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn every_row_is_printed(report in reports()) {
        let options =
            TextOptions { all: true, summary_only: true, ..TextOptions::default() };
        let mut bare = report;
        bare.declines.clear();
        bare.callers = None;
        let rows = bare.vdso.iter().filter(|row| row.calls > 0).count()
            + bare.syscalls.iter().filter(|row| row.calls > 0).count();
        let waits = bare.syscalls.iter().any(|row| row.calls > 0 && row.waits);
        let legend = usize::from(waits);
        let expected = if rows == 0 { 1 } else { rows + 4 + legend };
        prop_assert_eq!(render(&bare, &options).lines().count(), expected);
    }
}

#[test]
fn names_are_cut_only_where_the_terminal_is_too_narrow() {
    let name = "a_call_with_a_name_of_sixty_columns_which_no_kernel_has_so_f";
    let row = VdsoRow { function: name.into(), ..database().vdso.remove(2) };
    let report = TraceReport {
        command: vec![Foreign::from("program ".repeat(12).trim_end())],
        vdso: vec![row],
        ..TraceReport::default()
    };
    for (columns, is_whole) in [(60, false), (80, false), (109, true), (160, true)] {
        let defaults = TextOptions::default();
        let callers = CallersOptions { width: columns, ..defaults.callers };
        let text = render(&report, &TextOptions { callers, ..defaults });
        assert_eq!(text.contains(name), is_whole, "{columns}: {text}");
        let longest = text.lines().map(width).max();
        assert!(longest <= Some(columns.max(80)), "{columns}: {text}");
        let is_row = |line: &&str| line.contains(" vdso ");
        let rows: Vec<&str> = text.lines().filter(is_row).collect();
        assert!(rows.len() == 1 && width(rows[0]) <= columns, "{columns}: {text}");
    }
}
