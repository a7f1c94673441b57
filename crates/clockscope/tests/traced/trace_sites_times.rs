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
fn nothing_is_timed_where_counts_are_all_that_is_asked() {
    let Some(program) = builds::c("site_times", Link::Dynamic) else { return };
    let report = exact(&["--counts-only"], &words![program, "plain"]).report();
    assert_eq!(timed(&report, "getpgid"), 0);
    assert_eq!(report.syscall("getpgid", "time_total_ns"), 0);
}

#[test]
fn what_a_handler_takes_is_no_time_of_the_call_that_it_interrupts() {
    let Some(program) = builds::c("site_times", Link::Dynamic) else { return };
    let report = exact(&[], &words![program, "handlers"]).report();
    assert_eq!(timed(&report, "pause"), 0, "each was interrupted: {report:#?}");
    assert!(timed(&report, "getpgid") > 0, "{report:#?}");
}

#[test]
fn a_program_that_forbids_itself_the_counter_goes_on_untimed() {
    let Some(program) = builds::c("site_times", Link::Dynamic) else { return };
    let report = exact(&[], &words![program, "forbids"]).report();
    // The calls before the program forbids the counter.
    assert!((3_000..6_000).contains(&timed(&report, "getpgid")), "{report:#?}");
}

#[test]
fn calls_that_are_left_by_a_jump_do_not_keep_others_from_being_timed() {
    let Some(program) = builds::c("site_times", Link::Dynamic) else { return };
    let report = exact(&[], &words![program, "leaps"]).report();
    assert!(timed(&report, "getpgid") > 300, "{report:#?}");
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
