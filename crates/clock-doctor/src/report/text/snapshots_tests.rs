//! Snapshots of the text.

use super::samples_tests::{healthy, nothing, warp, wrong};
use super::*;

fn plain(report: &DoctorReport) -> String {
    render(report, &TextOptions { all: true, ..TextOptions::default() })
}

#[test]
fn a_guest_whose_cpus_disagreed() {
    insta::assert_snapshot!(plain(&warp()));
}

#[test]
fn a_healthy_machine_gets_few_lines() {
    insta::assert_snapshot!(plain(&healthy()));
}

#[test]
fn a_root_without_evidence() {
    insta::assert_snapshot!(plain(&nothing()));
}

#[test]
fn wrong_time_comes_before_speed() {
    insta::assert_snapshot!(plain(&wrong()));
}

#[test]
fn of_a_healthy_machine_one_line_is_enough() {
    let printed = render(&healthy(), &TextOptions::default());
    insta::assert_snapshot!(printed, @r"fast: clocksource tsc; 22 ns a read (measured)");
    assert!(render(&warp(), &TextOptions::default()) == plain(&warp()));
}

#[test]
fn colour_changes_no_word() {
    for report in [warp(), healthy(), nothing(), wrong()] {
        let coloured = render(&report, &TextOptions { colour: true, columns: None, all: true });
        assert!(coloured.starts_with("\u{1b}[1"), "{coloured}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain(&report));
    }
}
