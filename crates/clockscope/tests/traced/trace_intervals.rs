//! The times between two reads, against what the program itself measures with them.

use clockscope_model::trace::TraceReport;
use clockscope_report::callers::intervals::{Interval, intervals};

use crate::support::builds::{self, Link};
use crate::support::printed::Printed;
use crate::support::running::trace;

/// What the program says of one of its functions: lines, times measured, and first decile, median and ninth decile of what
/// it measured in nanoseconds.
struct Said {
    lines: [String; 2],
    times: f64,
    ns: [f64; 3],
}

/// What the program says of a function.
fn said(printed: &Printed, function: &str) -> Said {
    let of = |text: &&String| text.starts_with(&format!("interval {function} "));
    let text = printed.results.iter().find(of).unwrap_or_else(|| panic!("{:?}", printed.results));
    let figures: Vec<f64> =
        text.split(' ').skip(2).map(|word| word.parse().expect("a number")).collect();
    let [from, to, times, a, b, c] = figures[..] else { panic!("{text}") };
    let lines = [from, to].map(|line| format!("{function} (measures.c:{line})"));
    Said { lines, times, ns: [a, b, c] }
}

fn of<'a>(found: &'a [Interval], said: &Said, report: &TraceReport) -> &'a Interval {
    let row = found.iter().find(|row| row.lines == said.lines);
    row.unwrap_or_else(|| panic!("{:?} in {found:#?} of {:#?}", said.lines, report.callers))
}

#[test]
fn times_between_reads_are_what_the_program_measures() {
    let Some(program) = builds::c("measures", Link::Dynamic) else { return };
    let options = ["--via", "none", "--intervals", "--freq", "5000"];
    let traced = trace(&options, &words![&program, "60000"]);
    let printed = Printed::parse(&traced.stdout);
    let report = traced.report().model();
    let found = intervals(&report);
    let truth = ["brief_work", "middle_work", "long_work"].map(|it| said(&printed, it));
    let [brief, middle, long] = [0, 1, 2].map(|kind| of(&found, &truth[kind], &report));
    // Five times what chance makes of the fewer samples.
    for (row, said) in [(brief, &truth[0]), (middle, &truth[1])] {
        let ratio = row.reads / said.times;
        assert!((0.67..1.5).contains(&ratio), "{ratio} of {:?}", row.lines);
    }
    let medians = [brief, middle, long].map(|row| row.gaps_ns[0]);
    assert!(medians.is_sorted(), "{medians:?}: {found:#?}");
    // A sampled call returns from a breakpoint, which is a small part of the longer works.
    for (row, said) in [(middle, &truth[1]), (long, &truth[2])] {
        let (least, most) = (0.9 * said.ns[0], 1.1 * said.ns[2]);
        assert!((least..most).contains(&(row.gaps_ns[0] as f64)), "{row:?}, truly {:?}", said.ns);
    }
}
