use std::time::{Duration, Instant};

use insta::assert_snapshot;

use super::*;
use crate::tests::{called, frame, stack};
use clockscope_model::callers::{FrameRow, StackRow};

const LIMITS: CallersOptions = CallersOptions { least_share: 0.02, width: 80, whole: false };

/// A least share and a width.
fn at(least_share: f64, width: usize) -> CallersOptions {
    CallersOptions { least_share, width, ..LIMITS }
}

fn drawn(callers: &Callers, limits: CallersOptions) -> String {
    Tree::of(callers, 0, &Classes::of(callers)).render(limits)
}

/// Stacks of one function, by the names of their frames, the caller first.
fn callers(stacks: &[(&str, f64)]) -> Callers {
    let mut all = Callers { called: vec![called("time", 100, 1)], ..Callers::default() };
    let mut names: Vec<&str> = Vec::new();
    for (path, calls) in stacks {
        let indices = path.split_whitespace().map(|name| {
            names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        });
        let indices: Vec<usize> = indices.collect();
        all.stacks.push(stack(0, &indices, 1, *calls));
    }
    all.frames = names.iter().map(|name| frame(name, "/bin/a", 1, None)).collect();
    all
}

#[test]
fn a_single_chain_has_one_share() {
    assert_snapshot!(drawn(&callers(&[("a b main _start", 7.0)]), LIMITS), @r"
    -100.0%--a
             b
             main
    ");
}

#[test]
fn what_is_below_the_limit_is_added_up() {
    let stacks = [("a main", 50.0), ("b main", 47.0), ("c main", 1.5), ("d x main", 1.5)];
    assert_snapshot!(drawn(&callers(&stacks), LIMITS));
    assert_snapshot!(drawn(&callers(&stacks), at(0.0, 80)));
    assert_snapshot!(drawn(&callers(&stacks), at(0.6, 80)), @r"
       -100.0%--[4 callers below 60 %]
    ");
}

#[test]
fn shares_of_a_branch_add_up_to_its_own() {
    let tree = drawn(&callers(&[("a b", 20.0), ("a c", 30.0), ("d", 50.0)]), LIMITS);
    assert_snapshot!(tree, @r"
    |--50.0%--a
    |         |--30.0%--c
    |          --20.0%--b
     --50.0%--d
    ");
}

#[test]
fn recursion_is_one_node() {
    let stacks =
        [("f f f main", 1.0), ("f f main", 1.0), ("f main", 1.0), ("even odd even odd main", 1.0)];
    assert_snapshot!(drawn(&callers(&stacks), LIMITS));
}

#[test]
fn a_stack_that_is_cut_says_so() {
    let mut all = callers(&[("a main", 60.0), ("a", 40.0), ("", 100.0)]);
    all.stacks[1].complete = false;
    all.stacks[2].complete = false;
    assert_snapshot!(drawn(&all, LIMITS), @r"
    |--50.0%--a
    |         |--30.0%--main
    |          --20.0%--[callers not known]
     --50.0%--[callers not known]
    ");
}

#[test]
fn nothing_is_drawn_of_nothing() {
    assert_eq!(drawn(&callers(&[]), LIMITS), "");
    assert_eq!(drawn(&callers(&[("a", 0.0), ("b", f64::NAN), ("c", -1.0)]), LIMITS), "");
    let mut wrong = callers(&[("a b", 1.0)]);
    wrong.stacks[0].frames = vec![0, 99];
    assert_eq!(drawn(&wrong, LIMITS), "   -100.0%--a\n");
}

/// A chain of functions without a branch, and a branch at its end.
fn chain(functions: usize) -> Callers {
    let path: Vec<String> = (1..=functions).map(|index| format!("f{index}")).collect();
    let path = path.join(" ");
    callers(&[(&format!("{path} left"), 3.0), (&format!("{path} right"), 1.0)])
}

#[test]
fn long_chains_lose_their_middle() {
    assert_snapshot!(drawn(&chain(20), LIMITS));
    assert_eq!(drawn(&chain(20), CallersOptions { whole: true, ..LIMITS }).lines().count(), 22);
    assert_eq!(drawn(&chain(10), LIMITS).lines().count(), 12);
    assert_eq!(drawn(&chain(11), LIMITS).lines().count(), 11);
}

/// Every function has two callers: the tree grows to the right up to its limit.
fn deep() -> Callers {
    let mut stacks = Vec::new();
    for depth in 0..12 {
        let mut path: Vec<String> = (0..depth).map(|level| format!("left{level}")).collect();
        path.push(format!("a_function_with_a_very_long_name_at_depth_{depth}<int, char>"));
        stacks.push((path.join(" "), 10.0));
    }
    let stacks: Vec<(&str, f64)> = stacks.iter().map(|(path, n)| (path.as_str(), *n)).collect();
    let mut all = callers(&stacks);
    all.frames.push(FrameRow { function: Some("a\u{1b}[31m\nb".into()), ..FrameRow::default() });
    all.stacks.push(StackRow { frames: vec![all.frames.len() - 1], ..stack(0, &[], 1, 60.0) });
    all
}

#[test]
fn no_line_exceeds_the_width() {
    for width in [60, 80, 120] {
        let tree = drawn(&deep(), at(0.0, width));
        assert!(tree.contains("...\n") || width == 120, "{tree}");
        assert!(tree.contains("a?[31m?b\n"), "{tree}");
        for line in tree.lines() {
            assert!(clockscope_text::lines::width(line) <= width, "{width}: {line}");
            assert!(!line.ends_with(' '), "{line:?}");
        }
    }
    assert_snapshot!(drawn(&deep(), at(0.0, 60)));
}

#[test]
fn ten_thousand_stacks_take_no_time_to_speak_of() {
    let mut all = Callers { called: vec![called("time", 1, 1)], ..Callers::default() };
    all.frames = (0..5_000).map(|n| frame(&format!("f{n}"), "/bin/a", n, None)).collect();
    for index in 0..10_000_usize {
        let frames: Vec<usize> = (0..40).map(|level| (index * 7 + level * level) % 5_000).collect();
        all.stacks.push(stack(0, &frames, 1, 1.0));
    }
    // The work grows with the number of frames: twice the stacks take about twice the time. A search among
    // all stacks for each would take four times. The factor is generous for a busy host.
    let took = |all: &Callers| {
        let time = || {
            let start = Instant::now();
            let lines = drawn(all, at(0.0, 100));
            assert!(lines.len() > 1_000);
            start.elapsed()
        };
        (0..3).map(|_| time()).min().unwrap_or(Duration::MAX)
    };
    let whole = took(&all);
    all.stacks.truncate(1_250);
    let eighth = took(&all);
    assert!(whole < eighth * 40, "{whole:?} for eight times what takes {eighth:?}");
}
