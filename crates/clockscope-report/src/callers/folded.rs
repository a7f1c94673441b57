//! Stacks in the folded format of flame graph tools: `process;outermost;...;innermost;called N`.

use std::collections::BTreeMap;

use super::shares;
use clockscope_model::names::{self, CUT};
use clockscope_model::trace::TraceReport;

/// A line for each distinct stack, in the order of the text; the counts of each function add up to its exact
/// number of calls. Empty if there are no samples.
pub fn render(report: &TraceReport) -> String {
    stacks(report).iter().map(|(stack, calls)| format!("{stack} {calls}\n")).collect()
}

/// The distinct stacks with their calls; stacks without calls are left out.
pub(super) fn stacks(report: &TraceReport) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let Some(callers) = &report.callers else { return sums };
    let whole = shares::whole_calls(callers);
    let called: Vec<String> = callers.called.iter().map(|row| word(&names::called(row))).collect();
    let frames: Vec<String> = callers.frames.iter().map(|row| word(&names::frame(row))).collect();
    let mut processes: BTreeMap<i32, String> = BTreeMap::new();
    let mut add = |stack: String, calls: u64| {
        if calls > 0 {
            *sums.entry(stack).or_default() += calls;
        }
    };
    for (stack, calls) in callers.stacks.iter().zip(&whole.of_stacks) {
        let Some(called) = called.get(stack.called) else { continue };
        let process =
            processes.entry(stack.pid).or_insert_with(|| word(&names::process(report, stack.pid)));
        let mut parts: Vec<&str> = vec![process];
        if !stack.complete {
            parts.push(CUT);
        }
        parts.extend(stack.frames.iter().rev().filter_map(|i| frames.get(*i).map(String::as_str)));
        parts.push(called);
        add(parts.join(";"), *calls);
    }
    for (called, calls) in called.iter().zip(&whole.without_stack) {
        add(format!("[not sampled];{called}"), *calls);
    }
    sums
}

/// A name that the format can hold: `;` separates frames, `#` begins a comment, and tools strip blanks at the ends.
fn word(name: &str) -> String {
    let name = name.trim().replace(';', ":");
    match name.strip_prefix('#') {
        Some(rest) => format!("?{rest}"),
        None if name.is_empty() => "[unknown]".to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tests::server;

    #[test]
    fn stacks_are_lines_from_the_process_to_the_call() {
        assert_snapshot!(render(&server()));
    }

    #[test]
    fn counts_add_up_to_the_exact_calls() {
        let report = server();
        let callers = report.callers.as_ref().unwrap();
        for row in &callers.called {
            let end = format!(";{}", names::called(row));
            let of_row = stacks(&report).into_iter().filter(|(stack, _)| stack.ends_with(&end));
            assert_eq!(of_row.map(|(_, calls)| calls).sum::<u64>(), row.calls, "{end}");
        }
    }

    #[test]
    fn names_cannot_break_the_format() {
        let mut report = server();
        let callers = report.callers.as_mut().unwrap();
        callers.frames[0].function = Some("a;b\nc 7\t".into());
        callers.frames[1].function = Some("# no comment".into());
        report.processes_detail[0].command = "#;\u{1b}\n".into();
        let folded = render(&report);
        assert!(folded.contains(";a:b?c 7;"), "{folded}");
        assert!(folded.contains(";? no comment;"), "{folded}");
        for line in folded.lines() {
            let (stack, calls) = line.rsplit_once(' ').unwrap();
            assert!(calls.parse::<u64>().unwrap() > 0);
            assert!(!stack.contains(char::is_control) && !stack.starts_with('#'), "{line:?}");
        }
    }

    #[test]
    fn nothing_sampled_is_nothing_or_said() {
        assert_eq!(render(&TraceReport::default()), "");
        let mut report = server();
        report.callers.as_mut().unwrap().stacks.clear();
        assert_snapshot!(render(&report), @r"
    [not sampled];clock_gettime(MONOTONIC) 400001
    [not sampled];getcpu 7
    [not sampled];gettimeofday 100001
    ");
    }
}
