//! `clockscope trace --via sites`: the time of system calls is estimated from a sample of them.

use std::time::Duration;

use crate::support::attaching::Attachment;
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::installed_or_skip;
use crate::support::running::{Report, Traced};
use crate::trace_sites::exact;

/// The duration of calls that the program prints, in nanoseconds.
fn took(traced: &Traced, name: &str) -> u64 {
    let line = format!("took {name} ");
    let said = traced.stdout.lines().find_map(|said| said.strip_prefix(&line));
    said.expect("a line of the program").parse().expect("nanoseconds")
}

fn timed(report: &Report, name: &str) -> u64 {
    report.syscall(name, "timed")
}

#[test]
fn the_time_of_calls_is_about_what_the_program_measures() {
    let Some(program) = builds::c("site_times", Link::Dynamic) else { return };
    let traced = exact(&[], &words![program, "plain"]);
    let report = traced.report();
    let slept = report.syscall("poll", "time_total_ns");
    let said = took(&traced, "poll");
    // On a busy machine a long call may have no estimate.
    let is_quiet = said < 2 * 60 * 5_000_000;
    let is_said = is_quiet || slept > 0;
    assert!(!is_said || (said / 2..said * 2).contains(&slept), "{slept} of {said} ns");
    assert!((16..40).contains(&timed(&report, "poll")), "{report:#?}");
    // The report's mean is the duration of a call alone, and the loop's time per call is an upper limit for it.
    let mean = report.syscall("getpgid", "time_avg_ps") / 1_000;
    let loop_of_one = took(&traced, "getpgid") / 300_000;
    assert!(mean <= 2 * loop_of_one, "{mean} of {loop_of_one} ns");
    // Two threads make 300,000 calls each. About one call in 64 is timed.
    assert!((6_000..12_000).contains(&timed(&report, "getpgid")), "{report:#?}");
}

#[test]
fn calls_that_cannot_be_timed_are_not_and_keep_no_others_from_it() {
    let Some(program) = builds::c("site_times", Link::Dynamic) else { return };
    for (options, mode, pauses, calls) in [
        // Counts are all that is asked for.
        (&["--counts-only"][..], "plain", 0..=0, 0..=0),
        // Each `pause` is interrupted, and what a handler takes is no time of the call that it interrupts.
        (&[], "handlers", 0..=0, 1..=u64::MAX),
        // Only the calls before the program forbids itself the counter are timed.
        (&[], "forbids", 0..=0, 3_000..=5_999),
        // Some calls are left by a jump.
        (&[], "leaps", 0..=u64::MAX, 301..=u64::MAX),
    ] {
        let report = exact(options, &words![program, mode]).report();
        assert!(pauses.contains(&timed(&report, "pause")), "{mode}: {report:#?}");
        assert!(calls.contains(&timed(&report, "getpgid")), "{mode}: {report:#?}");
        let has_time = report.syscall("getpgid", "time_total_ns") > 0;
        assert!(!has_time || options.is_empty(), "{mode}: {report:#?}");
    }
}

/// The session that begins to time a call is killed, and the call returns in the next one.
#[test]
fn a_call_that_an_earlier_session_has_begun_to_time_is_not_timed() {
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let waits = "import os, select\n\
                 events = select.epoll()\n\
                 events.register(0)\n\
                 print('ready', flush=True)\n\
                 while events.poll() and os.read(0, 9):\n    print('read', flush=True)";
    let mut program = Conversation::start(&words![python, "-c", waits]);
    let attach = |program: &Conversation| Attachment::to(&[program.pid()], &["--via", "sites"]);
    let read = |program: &mut Conversation| {
        program.say("read");
        program.wait_for("read");
    };
    let first = attach(&program);
    read(&mut program);
    read(&mut program);
    first.kill_after(Duration::from_millis(500));
    let second = attach(&program);
    read(&mut program);
    read(&mut program);
    let report = second.detach().report();
    assert_eq!(timed(&report, "epoll_wait"), 1, "{report:#?}");
    let waited = report.syscall("epoll_wait", "time_total_ns");
    assert!(waited <= report.field("wall_ns").as_u64().expect("nanoseconds"), "{report:#?}");
}
