//! The text of reports; `case_tests` has snapshots of the recorded machines.

use super::*;
use crate::facts::{Facts, Unread};
use crate::report::case_tests::{healthy, report_on, warp};
use crate::rules;

fn plain(report: &DoctorReport) -> String {
    render(report, &TextOptions { all: true, ..TextOptions::default() })
}

/// The report on a machine without any evidence.
fn nothing() -> DoctorReport {
    let unread = vec![Unread::new("var/log/kern.log", "permission denied")];
    let facts = Facts { unread, ..Facts::default() };
    DoctorReport::new(&facts, &rules::examine(&facts))
}

#[test]
fn a_root_without_evidence() {
    insta::assert_snapshot!(plain(&nothing()));
}

#[test]
fn of_a_healthy_machine_one_line_is_enough() {
    let printed = render(&healthy(), &TextOptions::default());
    assert_eq!(printed.lines().collect::<Vec<_>>(), [plain(&healthy()).lines().next().unwrap()]);
    assert!(render(&warp(), &TextOptions::default()) == plain(&warp()));
}

#[test]
fn colour_changes_no_word() {
    for report in [warp(), healthy(), nothing(), report_on("lkml-cpuid15-wrong-freq-tsc")] {
        let coloured = render(&report, &TextOptions { colour: true, columns: None, all: true });
        assert!(coloured.starts_with("\u{1b}[1"), "{coloured}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain(&report));
    }
}
