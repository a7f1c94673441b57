use super::*;
use crate::tests::{called, fallen_back, frame, server, stack};
use clockscope_model::callers::PairRow;
use clockscope_model::trace::Via;

const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

fn names(report: &TraceReport) -> Vec<(Option<String>, String)> {
    sites(report).into_iter().map(|site| (site.function, site.place)).collect()
}

fn name(function: &str, place: &str) -> (Option<String>, String) {
    (Some(function.to_owned()), place.to_owned())
}

/// A report of one function whose callers are these frames.
fn one(frames: &[FrameRow]) -> TraceReport {
    let mut report = server();
    let callers = report.callers.as_mut().unwrap();
    callers.frames = frames.to_vec();
    let all: Vec<usize> = (0..frames.len()).collect();
    callers.stacks = vec![stack(0, &all, 10, 400_001.0)];
    callers.pairs.clear();
    report
}

#[test]
fn sites_are_ranked_by_reads() {
    assert_eq!(
        names(&server()),
        [
            name("fd_fifo_post_internal", "/src/libfdproto/fifo.c:512"),
            name("fd_fifo_timedget", "/opt/diameter/lib/libfdproto.so.7"),
            name("log_line", "/src/diameterd/log.c:44"),
            name("stamp", "/src/diameterd/log.c:17"),
            name("libplugin.so.2+0x77", "/opt/plugins/libplugin.so.2+0x77"),
        ]
    );
}

#[test]
fn figures_of_a_site() {
    let first = &sites(&server())[0];
    assert_eq!(first.called, ["clock_gettime(MONOTONIC)"]);
    assert!((first.reads - 212_000.4).abs() < 1e-6);
    assert!((first.per_second - 106_000.2).abs() < 1e-6);
    assert!((first.share - 212_000.4 / 500_002.0).abs() < 1e-9);
    assert!((first.time_ns.unwrap() - 212_000.4 * 24.0).abs() < 1e-3);
    let all: f64 = sites(&server()).iter().map(|site| site.share).sum();
    assert!((all - 1.0).abs() < 1e-9, "{all}");
}

#[test]
fn one_line_is_one_site_and_a_function_is_one_without() {
    let mut report = server();
    let callers = report.callers.as_mut().unwrap();
    // A further address of the same line, and a further one of the same function without a line.
    callers.frames.push(FrameRow { address: 0x5180, ..callers.frames[1].clone() });
    callers.frames.push(FrameRow { address: 0x6180, ..callers.frames[13].clone() });
    callers.stacks[1].frames[1] = 15;
    assert_eq!(names(&report)[0], name("fd_fifo_post_internal", "/src/libfdproto/fifo.c:512"));
    assert!((sites(&report)[0].reads - 332_000.7).abs() < 1e-6);
    let callers = report.callers.as_mut().unwrap();
    callers.stacks[0].frames[1] = 13;
    callers.stacks[1].frames[1] = 16;
    let one = name("fd_fifo_timedget", "/opt/diameter/lib/libfdproto.so.7");
    assert_eq!(names(&report)[0], one);
    assert_eq!(names(&report).iter().filter(|name| **name == one).count(), 1);
}

#[test]
fn a_function_without_a_name_that_reads_for_all_others_is_no_line_to_change() {
    let mut report = one(&[]);
    let callers = report.callers.as_mut().unwrap();
    let nameless = |address| FrameRow {
        function: None,
        start: Some(address),
        ..frame("", "/opt/app", address + 5, None)
    };
    callers.frames = [0x1000, 0x2000, 0x3000].map(nameless).to_vec();
    callers.stacks = vec![stack(0, &[0, 1], 6, 60.0), stack(0, &[0, 2], 4, 40.0)];
    let places: Vec<String> = names(&report).into_iter().map(|name| name.1).collect();
    assert_eq!(places, ["/opt/app+0x2000", "/opt/app+0x3000"]);
    // With one caller it may be the program's own.
    let callers = report.callers.as_mut().unwrap();
    callers.stacks.truncate(1);
    callers.stacks.push(stack(0, &[0], 4, 40.0)); // it is cut there
    assert_eq!(names(&report)[0].1, "/opt/app+0x1000");
}

#[test]
fn libraries_that_pass_the_call_on_are_no_line_to_change() {
    let own = frame("app::poll", "/opt/app", 0x10, Some(("poll.rs", 7)));
    let expected = [name("app::poll", "poll.rs:7")];
    for wrappers in [
        &["std::time::Instant::now", "std::sys::pal::unix::time::Timespec::now"] as &[&str],
        &["std::chrono::_V2::steady_clock::now()"],
        &["time.Now", "time.now", "runtime.nanotime1.abi0"],
    ] {
        let mut frames = vec![frame("clock_gettime", LIBC, 1, None)];
        frames.extend(wrappers.iter().rev().map(|name| frame(name, "/opt/app", 2, None)));
        frames.push(own.clone());
        assert_eq!(names(&one(&frames)), expected, "{wrappers:?}");
    }
    let clock = [frame("clock_gettime", LIBC, 1, None), frame("clock", LIBC, 2, None), own];
    assert_eq!(names(&one(&clock)), expected);
}

#[test]
fn callers_that_are_not_known_are_not_guessed() {
    let libc = [frame("clock_gettime", LIBC, 1, None), frame("resolver", LIBC, 2, None)];
    let mut report = one(&libc);
    assert_eq!(names(&report), [name("resolver", LIBC)]);
    report.callers.as_mut().unwrap().stacks[0].complete = false;
    assert_eq!(names(&report), [(None, String::new())]);
    assert_eq!(sites(&report)[0].advice, []);
    assert_eq!(names(&one(&[])), [(None, String::new())]);
}

/// Python reads the clock before it runs any function of the program.
#[test]
fn the_start_of_an_interpreter_is_no_unknown_language() {
    for (calls, expected) in [(30_000.0, &["Python"] as &[&str]), (3_000.0, &[])] {
        let mut report = one(&[
            frame("main", "/opt/app", 0x10, Some(("app.c", 7))),
            frame("lock_acquire", "/usr/lib/libpython3.12.so.1.0", 0x20, None),
        ]);
        let callers = report.callers.as_mut().unwrap();
        callers.stacks = vec![stack(0, &[0], 9, 300_000.0), stack(0, &[1], 1, calls)];
        assert_eq!(unread_languages(callers), expected);
    }
}

#[test]
fn what_reads_no_clock_is_no_site() {
    let mut report = server();
    let callers = report.callers.as_mut().unwrap();
    callers.called[0] = called("getcpu", 400_001, 3_000);
    assert_eq!(names(&report), [name("log_line", "/src/diameterd/log.c:44")]);
    assert_eq!(sites(&TraceReport::default()), []);
}

#[test]
fn a_pair_is_advised_to_merge() {
    let merge = |report: &TraceReport| {
        let advice = sites(report).remove(0).advice;
        advice.into_iter().find(|advice| matches!(advice, Advice::Merge { .. }))
    };
    let mut report = server();
    let with = Some("fd_fifo_timedget (libfdproto.so.7)".to_owned());
    let Some(Advice::Merge { share, gap_ns: 120, with: found }) = merge(&report) else {
        panic!("{:?}", sites(&report)[0].advice);
    };
    assert!((share - 0.55).abs() < 1e-9 && found == with, "{share} {found:?}");
    let pairs = |report: &mut TraceReport, pairs: &[PairRow]| {
        report.callers.as_mut().unwrap().pairs = pairs.to_vec();
    };
    let pair =
        PairRow { first: 0, second: 1, samples: 9, share: 0.55, gap_ns: 120, gaps_ns: vec![] };
    for (why, row) in [
        ("seldom", PairRow { share: 0.4, ..pair.clone() }),
        ("far apart", PairRow { gap_ns: 20_000, ..pair.clone() }),
        ("of another clock", PairRow { second: 2, ..pair.clone() }),
        ("of nothing", PairRow { second: 99, ..pair.clone() }),
    ] {
        pairs(&mut report, &[row]);
        assert_eq!(merge(&report), None, "{why}");
    }
    pairs(&mut report, &[PairRow { second: 0, ..pair }]);
    assert!(matches!(merge(&report), Some(Advice::Merge { with: None, .. })));
}

#[test]
fn a_coarse_clock_is_advised_only_by_what_is_known() {
    let coarse = |report: &TraceReport| {
        let advice = sites(report).remove(0).advice;
        advice.into_iter().find_map(|advice| match advice {
            Advice::Coarse { share, tick_ns: 4_000_000 } => Some(share),
            _ => None,
        })
    };
    let mut report = server();
    assert_eq!(coarse(&report), None, "what lies between a pair's reads may be measured");
    report.callers.as_mut().unwrap().pairs.clear();
    // All other places have 288,001.6 of 500,002 reads. If all of the 7 % that came in another tick were this
    // site's, 83.5 % of its own would still have come in the same tick.
    let part = 212_000.4 / 500_002.0;
    let expected = (0.93 - (1.0 - part)) / part;
    assert!((coarse(&report).unwrap() - expected).abs() < 1e-9);
    report.clock_reads.same_tick_share = Some(0.7);
    assert_eq!(coarse(&report), None, "the others may be at fault for all of it");
    // A pair known to follow within 40 us, too far apart for one read to serve both.
    report.callers.as_mut().unwrap().pairs = vec![PairRow {
        first: 0,
        second: 0,
        samples: 9,
        share: 0.9,
        gap_ns: 40_000,
        gaps_ns: vec![],
    }];
    let share = coarse(&report).unwrap();
    assert!((share - 0.9 * 0.99).abs() < 1e-3, "{share}");
    report.clock_reads.same_tick_share = None;
    assert!(coarse(&report).is_some());
    report.callers.as_mut().unwrap().called[0].clock = Some("CLOCK_MONOTONIC_COARSE".to_owned());
    assert_eq!(coarse(&report), None, "it is a coarse clock");
}

#[test]
fn what_a_program_has_a_word_for_is_told_by_that_word() {
    let mut report = server();
    let callers = report.callers.as_mut().unwrap();
    for frame in &mut callers.frames {
        if frame.function.is_some() {
            frame.function = Some("InstrStartNode".into());
        }
    }
    let [Advice::Known { advice }] = &sites(&report)[0].advice[..] else {
        panic!("{:?}", sites(&report)[0]);
    };
    assert!(advice.contains("TIMING OFF"), "{advice}");
}

#[test]
fn nothing_is_advised_of_sites_that_hardly_read() {
    let mut report = server();
    report.clock_reads.reads *= 1_000;
    assert!(sites(&report).iter().all(|site| site.advice.is_empty()));
}

#[test]
fn reads_that_the_kernel_answers() {
    let first = |report: &TraceReport| sites(report).remove(0).advice;
    assert!(first(&fallen_back()).contains(&Advice::FallenBack { each_ps: 1_300_000 }));
    let mut report = server();
    let clock = "CLOCK_THREAD_CPUTIME_ID".to_owned();
    report.vdso[0].clock = Some(clock.clone());
    report.callers.as_mut().unwrap().called[0].clock = Some(clock.clone());
    assert!(first(&report).contains(&Advice::AlwaysKernel { clock, each_ps: 24_000 }));
    let mut report = fallen_back();
    report.callers.as_mut().unwrap().called[0].via = Via::Syscall;
    assert!(first(&report).contains(&Advice::PastVdso { each_ps: 1_200_000 }));
    // If the vDSO made these system calls, they are already counted as vDSO calls.
    report.callers.as_mut().unwrap().frames[0].module = Some("[vdso]".into());
    assert_eq!(names(&report), [name("log_line", "/src/diameterd/log.c:44")]);
}
