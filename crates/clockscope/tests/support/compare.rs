//! Compares a report with the counts that the tracee printed.

use super::printed::Printed;
use super::running::{Report, Traced};

/// Checks every count that the tracee printed against the report.
#[track_caller]
pub(crate) fn assert_exact(traced: &Traced) -> Printed {
    let printed = Printed::parse(&traced.stdout);
    assert_counts(&printed, &traced.report());
    printed
}

/// Checks every count that a tracee printed against a report.
#[track_caller]
pub(crate) fn assert_counts(printed: &Printed, report: &Report) {
    for (key, calls) in &printed.vdso {
        assert_eq!(report.vdso_calls(key), *calls, "vDSO calls of {key:?}\n{report:#?}");
    }
    for (key, calls) in &printed.at_least {
        assert!(
            report.vdso_calls(key) >= *calls,
            "at least {calls} vDSO calls of {key:?}\n{report:#?}"
        );
    }
    if report.counts_syscalls() {
        assert_syscalls(printed, report);
    }
    for (what, said) in [("processes", printed.processes), ("threads", printed.threads)] {
        assert_eq!(report.number(what), said.unwrap_or_else(|| report.number(what)), "{what}");
    }
}

#[track_caller]
fn assert_syscalls(printed: &Printed, report: &Report) {
    for (name, calls) in &printed.syscalls {
        assert_eq!(report.syscall(name, "calls"), *calls, "calls of {name}\n{report:#?}");
    }
    // Code in the program does not see the errors of every call.
    let errors = printed.errors.iter().filter(|(name, _)| report.knows_errors(name));
    for (name, errors) in errors {
        assert_eq!(report.syscall(name, "errors"), *errors, "errors of {name}");
    }
}

/// As [`assert_exact`], and nothing else may be counted: for programs whose runtime makes no vDSO calls.
///
/// `getrandom` is allowed, because newer C libraries call it through the vDSO for themselves.
#[track_caller]
pub(crate) fn assert_exact_and_nothing_else(traced: &Traced) -> Printed {
    let printed = assert_exact(traced);
    let mut rows = traced.report().vdso_rows();
    let getrandom = ("getrandom".to_owned(), "-".to_owned());
    if !printed.vdso.contains_key(&getrandom) {
        rows.remove(&getrandom);
    }
    assert_eq!(rows, printed.vdso, "rows of the report, and lines that the tracee printed");
    printed
}

/// Checks two runs with different numbers of calls: the reports must differ by the same number.
#[track_caller]
pub(crate) fn assert_exact_by_difference(few: &Traced, many: &Traced) {
    let (printed_few, printed_many) = (assert_exact(few), assert_exact(many));
    assert!(!printed_few.by_difference.is_empty(), "nothing to compare by difference");
    for (key, calls_few) in &printed_few.by_difference {
        let said = printed_many.by_difference[key] - calls_few;
        let counted = many.report().vdso_calls(key) - few.report().vdso_calls(key);
        assert_eq!(counted, said, "difference of two runs in vDSO calls of {key:?}");
    }
}

/// Checks that one process was not counted, for this reason and no other.
///
/// vDSO calls of that process may be missing in part, but the report must not have too many.
#[track_caller]
pub(crate) fn assert_declined(traced: &Traced, reason: &str) -> Printed {
    let report = traced.report();
    assert_eq!(report.reasons("vdso"), [reason], "{report:#?}");
    let printed = Printed::parse(&traced.stdout);
    for (key, calls) in &printed.vdso {
        assert!(report.vdso_calls(key) <= *calls, "too many vDSO calls of {key:?}\n{report:#?}");
    }
    printed
}

/// Checks the counts of a process, or with a `reason` that the process was not counted for that reason.
#[track_caller]
pub(crate) fn assert_exact_unless(reason: Option<&str>, traced: &Traced) -> Printed {
    match reason {
        Some(reason) => assert_declined(traced, reason),
        None => {
            assert_eq!(traced.report().reasons("vdso"), [""; 0], "{traced:?}");
            assert_exact(traced)
        }
    }
}

/// Checks that the program's output and exit status are the same as without clockscope.
#[track_caller]
pub(crate) fn assert_same_as_untraced(traced: &Traced, untraced: &std::process::Output) {
    let stdout = String::from_utf8_lossy(&untraced.stdout);
    assert_eq!(traced.stdout, stdout, "standard output, traced and untraced");
    assert_eq!(traced.code(), super::running::code_as_shell(untraced.status), "exit status");
}
