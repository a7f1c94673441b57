use insta::assert_snapshot;

use super::*;
use crate::tests::{called, fallen_back, server, stack};
use clockscope_model::callers::{CutRow, FrameRow, StackRow};

fn text(report: &TraceReport, width: usize) -> String {
    let options = CallersOptions { least_share: 0.02, width, whole: true };
    let lines = lines_to_change(report, &sites::sites(report), options);
    render(report, options) + if lines.is_empty() { "" } else { "\n" } + &lines
}

#[test]
fn a_server_in_80_columns() {
    assert_snapshot!(text(&server(), 80));
}

/// A narrow head of a tree leaves the number of stacks out.
#[test]
fn at_other_widths_the_same_is_said_in_other_lines() {
    let words = |width| {
        let said = text(&server(), width).replace(" (3,000 stacks)", "");
        said.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for width in [60, 120] {
        let text = text(&server(), width);
        let wide = text.lines().find(|line| clockscope_text::lines::width(line) > width);
        assert_eq!(wide, None, "{text}");
        assert_eq!(words(width), words(80));
        assert_eq!(text.contains(" (3,000 stacks)"), width > 60, "{text}");
    }
}

#[test]
fn nothing_is_said_of_callers_that_were_not_asked_for() {
    assert_eq!(text(&TraceReport::default(), 80), "");
}

#[test]
fn what_would_name_functions_is_said_once() {
    let mut report = server();
    let callers = report.callers.as_mut().unwrap();
    callers.stripped =
        vec!["lib.so is stripped: its debugging symbols would name its functions".into()];
    let text = text(&report, 80);
    let said = "Not named:    lib.so is stripped: its debugging symbols would name its functions\n";
    assert!(text.contains(said), "{text}");
}

#[test]
fn no_sample_is_said() {
    let empty = TraceReport { callers: Some(Callers::default()), ..TraceReport::default() };
    assert_eq!(text(&empty, 80), "Callers:      no stack was sampled, of 0 calls\n");
    let called = vec![called("time", 3, 0), called("getcpu", 1, 0)];
    let callers = Callers { lost: 1, called, ..Callers::default() };
    let report = TraceReport { callers: Some(callers), ..TraceReport::default() };
    assert_snapshot!(text(&report, 80), @r"
    Callers:      no stack was sampled, of 4 calls; 1 more was lost

    Without tree: time (3 calls, 0 stacks), getcpu (1 call, 0 stacks)
    ");
}

#[test]
fn shares_of_few_samples_are_rough_unless_they_are_of_all_calls() {
    let of = |calls, samples| {
        let row = CalledRow { samples_effective: 2.0, ..called("time", calls, samples) };
        rough(&Callers { called: vec![row], cost_share: 0.001, ..Callers::default() })
    };
    assert_eq!(of(2, 2), "");
    assert_eq!(
        of(90, 4),
        "; shares are rough: those of time say as much as 2 that stand for equally many calls (let \
         it run longer, or raise --freq)"
    );
}

#[test]
fn no_margin_is_wider_than_all_reads() {
    let site = sites::sites(&server()).remove(0);
    assert_eq!(within(&Site { reads: 1e-300, ..site.clone() }), " ±100");
    assert_eq!(within(&Site { reads: 0.0, share: 0.0, ..site }), "", "no reads have no margin");
}

#[test]
fn a_host_that_fell_back_is_sent_to_doctor() {
    let text = text(&fallen_back(), 80);
    let sites = &text[text.find("The line to change").unwrap()..];
    assert_snapshot!(sites);
}

#[test]
fn many_reasons_for_cut_stacks_take_one_paragraph() {
    let cut = |reason: &str, module: Option<&str>, samples| CutRow {
        reason: reason.to_owned(),
        module: module.map(Into::into),
        samples,
    };
    let mut callers = Callers { samples: 100, ..Callers::default() };
    callers.cut = vec![
        cut("the copied part of the stack ends", None, 30),
        cut("no unwind information", Some("/usr/lib/libodd.so"), 20),
        cut("code made at run time", Some("[jit]"), 5),
        cut("a\u{1b}[2J", Some("/tmp/x"), 2),
        cut("and another", None, 1),
    ];
    assert_snapshot!(super::cut(&callers).unwrap(), @r"
    58 of 100 end before the first function of their thread (30: the copied part of the stack ends; 20 in libodd.so: no unwind information; 5 in [jit]: code made at run time; 2 in x: a?[2J; 1 otherwise)
    ");
    callers.cut.clear();
    assert_eq!(super::cut(&callers), None);
    callers.stacks = vec![StackRow { complete: false, ..stack(0, &[], 7, 1.0) }];
    assert_snapshot!(super::cut(&callers).unwrap(), @r"
    7 of 100 end before the first function of their thread (no reason is known)
    ");
}

#[test]
fn names_that_move_the_cursor_are_made_harmless() {
    let mut report = server();
    let callers = report.callers.as_mut().unwrap();
    callers.frames[1] = FrameRow {
        function: Some("evil\u{1b}[2J\nname".into()),
        module: Some("/tmp/\u{202e}x".into()),
        file: Some("a\tb\n.c".into()),
        ..callers.frames[1].clone()
    };
    let text = text(&report, 80);
    assert!(text.contains("evil?[2J?name") && text.contains("  a?b?.c:512"), "{text}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn a_short_report_has_what_matters() {
    let report = server();
    let options = |whole| CallersOptions { least_share: 0.02, width: 80, whole };
    let mut sites = sites::sites(&report);
    assert_eq!(listed_sites(&sites, false), 5, "a line about one more is no shorter");
    sites.push(sites[4].clone());
    assert_eq!((listed_sites(&sites, false), listed_sites(&sites, true)), (4, 6));
    sites.extend(vec![sites[4].clone(); 20]);
    assert_eq!(listed_sites(&sites, true), SITES);
    let mut report = server();
    let called = &mut report.callers.as_mut().unwrap().called;
    called.iter_mut().skip(1).for_each(|row| row.calls = 3);
    let trees = |whole| render(&report, options(whole)).matches(" stacks)\n").count();
    assert!(trees(false) >= 1 && trees(false) < trees(true), "{} {}", trees(false), trees(true));
}
