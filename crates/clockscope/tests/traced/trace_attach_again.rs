//! Attaching to a process that clockscope traces already, or that a killed clockscope has left: the process goes on, is
//! counted by one clockscope at a time, and is unchanged in the end.

use crate::support::attaching::{
    Attachment, Image, assert_nothing_piles_up, assert_refused, attach_for, is_attached_or_refused,
    mappings,
};
use crate::support::builds::{self, Link};
use crate::support::compare::assert_counts;
use crate::support::conversation::Conversation;
use crate::support::printed::Printed;
use crate::support::running::{Report, Tracing, child_of, clockscope, untraced};
use crate::support::server;

const VDSO: [&str; 2] = ["--via", "none"];

// Attached already.

#[test]
fn two_attachments_one_after_the_other() {
    let Some(mut target) = server(4) else { return };
    let first = Attachment::to(&[target.pid()], &VDSO);
    target.begin();
    for _ in 0..3 {
        let second = attach_for("0.1", &[target.pid()], &VDSO);
        assert_refused(&second, &["clockscope", &target.pid().to_string()]);
        target.check_an_answer(1);
    }
    assert_counts(&target.end(), &first.detach().report());
    target.ends_well();
}

#[test]
fn two_attachments_at_once() {
    let Some(mut target) = server(6) else { return };
    let before = Image::of(target.pid()).expect("it has a vDSO");
    let mut attached = 0;
    for round in 0..20 {
        let options = [&VDSO[..], &["--duration", "0.05"]].concat();
        let mut both = [0, 1].map(|_| Attachment::start(&[], &[target.pid()], &options));
        target.check_an_answer(round);
        for attachment in &mut both {
            let traced = attachment.wait();
            attached +=
                u32::from(is_attached_or_refused(&traced, &["it is traced by clockscope ("]));
        }
        before.assert_as_before(target.pid());
    }
    // In each round one attachment succeeds. The other one is refused unless it comes after the first has left.
    assert!((20..=35).contains(&attached), "{attached} of 40");
    target.ends_well();
}

#[test]
fn a_program_that_clockscope_has_started() {
    let Some(program) = builds::c("attach_states", Link::Dynamic) else { return };
    // Without --no-follow, clockscope remains the program's tracer, and a process has only one.
    for (options, is_free) in
        [(&["--via", "none"][..], false), (&["--via", "none", "--no-follow"], true)]
    {
        let tracing = Tracing::new(options, &words![program, "waits"]);
        let mut target = Conversation::start(&tracing.words());
        let pid = child_of(target.pid()).expect("its child");
        let traced = attach_for("0.1", &[pid], &VDSO);
        if is_free {
            traced.succeeded();
        } else {
            assert_refused(&traced, &["it is traced by clockscope ("]);
        }
        let said = Printed::parse(&target.ask("count"));
        assert_eq!(target.status().code(), Some(7));
        let report = Report::read(tracing.report_path()).expect("a report");
        if !is_free {
            assert_counts(&said, &report);
        }
    }
}

// clockscope is killed.

/// The next attachment works, and removes everything, including the remains of the killed clockscope.
#[track_caller]
fn cleans_up(target: &mut Conversation, image: &Image, maps: &[String]) {
    let pid = target.pid();
    let traced = attach_for("0.05", &[pid], &VDSO).succeeded();
    assert!(traced.report().reads_of("CLOCK_MONOTONIC") > 0, "it counts: {traced:?}");
    image.assert_as_before(pid);
    assert_nothing_piles_up(pid, maps);
    Attachment::counts_exactly(target, &VDSO);
    image.assert_as_before(pid);
    assert_nothing_piles_up(pid, maps);
}

#[test]
fn clockscope_is_killed_while_attached_and_attaches_again() {
    let Some(mut target) = server(8) else { return };
    let image = Image::of(target.pid()).expect("it has a vDSO");
    let maps = mappings(target.pid());
    for round in 0..10 {
        Attachment::to(&[target.pid()], &VDSO).kill();
        target.check_an_answer(round);
        target.check_health();
        cleans_up(&mut target, &image, &maps);
    }
    target.ends_well();
}

#[test]
fn clockscope_is_killed_at_any_moment() {
    let Some(killer) = builds::c("killer", Link::Dynamic) else { return };
    let Some(mut target) = server(8) else { return };
    let image = Image::of(target.pid()).expect("it has a vDSO");
    let maps = mappings(target.pid());
    let pid = target.pid().to_string();
    for round in 0..60_u64 {
        // An attachment takes some milliseconds, and longer in a debug build.
        let micros = round * 7919 % 120_000;
        let options = ["--via", "none", "-p", &pid, "--duration", "0.02", "-o", "/dev/null"];
        untraced(&words![killer, micros.to_string(), clockscope(), "trace", options]);
        target.check_an_answer(round);
    }
    target.check_health();
    cleans_up(&mut target, &image, &maps);
    target.ends_well();
}

/// strace kills it before its first write into the process, before its second, and so on.
#[test]
fn clockscope_is_killed_before_each_write_of_its_first_attachment() {
    let Some(program) = builds::c("attach_states", Link::Dynamic) else { return };
    for write in 1.. {
        let mut target = Conversation::start(&words![program, "waits"]);
        let (pid, maps) = (target.pid(), mappings(target.pid()));
        let kill = format!("inject=pwrite64:signal=KILL:when={write}");
        let strace = ["strace", "-o", "/dev/null", "-e", &kill];
        let trace =
            words![clockscope(), "trace", VDSO, "--duration", "0.02", "-p", pid.to_string()];
        let killed = untraced(&words![strace, trace]);
        attach_for("0.02", &[pid], &VDSO).succeeded();
        assert_nothing_piles_up(pid, &maps);
        target.ask("count");
        assert_eq!(target.status().code(), Some(7), "write {write}");
        if killed.status.success() {
            assert!(write > 10, "it writes image, trampolines and jumps");
            return;
        }
    }
}

#[test]
fn clockscope_is_killed_and_the_target_ends_by_itself() {
    let Some(mut target) = server(4) else { return };
    Attachment::to(&[target.pid()], &VDSO).kill();
    target.works(1);
    for kind in ["fork 100", "exec 100"] {
        target.ask(kind);
    }
    target.ends_well();
}
