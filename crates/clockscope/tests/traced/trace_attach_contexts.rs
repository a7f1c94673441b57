//! Attaching and detaching while contexts are suspended: coroutines that a signal handler has preempted wait on stacks
//! of no thread, or in the heap, and are resumed later where they were. Also the memory that stays mapped for them.
//!
//! `make test-signals` attaches to many more targets, of every kind.

use std::fs::{self, File};
use std::io::{Write, stdout};
use std::os::unix::fs::FileExt;

use crate::support::attaching::{
    Attachment, Image, assert_refused, attach_for, images_of_clockscope, mappings, status_of,
};
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::{root_or_skip, server};

/// Arguments of `preempted.c`: way of switching, coroutines, microseconds between switches, stack depth in KiB.
type Shape = (&'static str, u32, u32, u32);

/// Attaches again and again, by each of `ways` in turn. At the end the target must report no fault.
#[track_caller]
fn survives((how, coroutines, micros, kib): Shape, ways: &[&str], times: usize) {
    let Some(program) = builds::c("preempted", Link::Dynamic) else { return };
    let words = [coroutines, micros, kib].map(|number| number.to_string());
    let mut target = Conversation::start(&words![program, how, words[0], words[1], words[2]]);
    let what = format!("{how} {coroutines} {micros} us {kib} KiB");
    for number in 0..times {
        let via = ways[number % ways.len()];
        let seconds = ["0.004", "0.01", "0.02"][number % 3];
        let traced = attach_for(seconds, &[target.pid()], &["--via", via]);
        assert!(target.is_running(), "{what}: dead after attachment {number}, {via}: {traced:?}");
        assert_eq!(traced.code(), 0, "{what}: {traced:?}");
    }
    let (said, status) = target.last_words();
    assert_eq!(status.code(), Some(7), "{what}: {said}");
}

fn ways() -> &'static [&'static str] {
    if root_or_skip().is_some() { &["none", "bpf", "ptrace"] } else { &["none", "ptrace"] }
}

/// Coroutines that a timer or another thread preempts, also of several threads; contexts that wait in the heap; handlers
/// that use megabytes of stack.
#[test]
fn contexts_that_wait_survive() {
    for shape in [
        ("swap", 20, 200, 0),
        ("swap", 400, 100, 0),
        ("frames", 20, 200, 0),
        ("frames", 400, 1000, 0),
        ("kill", 60, 100, 0),
        ("threads", 60, 200, 0),
        ("swap", 8, 300, 300),
        ("swap", 8, 300, 600),
        ("swap", 8, 300, 7000),
    ] {
        survives(shape, ways(), 12);
    }
}

/// 200 targets, each attached to 20 times: half an hour.
#[test]
#[ignore = "takes half an hour: make test-signals"]
fn the_matrix_of_contexts() {
    let shapes = ["swap", "frames", "kill", "threads"];
    let depths = [0, 0, 0, 64, 300, 600, 2000, 7000];
    let mut all = 0;
    for number in 0..200_u32 {
        let pick = |of: &[u32]| of[(number as usize / 4 + number as usize * 7) % of.len()];
        let how = shapes[number as usize % shapes.len()];
        let kib = if how == "frames" { 0 } else { pick(&depths) };
        let coroutines = if kib < 600 { pick(&[4, 8, 20, 60, 150, 400]) } else { 8 };
        let micros = pick(&[100, 200, 500, 1000, 3000, 10_000]);
        survives((how, coroutines, micros, kib), ways(), 20);
        all += 20;
    }
    let _ = writeln!(stdout(), "200 targets, {all} attachments: no death");
}

/// KiB of a process's addresses (VmSize) and of its anonymous memory. The latter is summed from the page tables: the
/// count in `/proc/PID/status` may lag, because each CPU adds its part later.
fn sizes(pid: i32) -> [u64; 2] {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it has memory");
    let anonymous = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let addresses = status_of(pid, "VmSize").expect("it has memory");
    [addresses.as_str(), anonymous.expect("a line")].map(|size| {
        let kib = size.trim().split(' ').next().expect("a number");
        kib.parse().expect("a number")
    })
}

#[test]
fn nothing_piles_up_after_the_first_attachment() {
    counts_exactly_and_grows_no_more(60);
}

#[test]
#[ignore = "takes minutes: make test-signals"]
fn the_matrix_of_one_process_attached_to_a_thousand_times() {
    counts_exactly_and_grows_no_more(1000);
}

fn counts_exactly_and_grows_no_more(rounds: usize) {
    let Some(mut target) = server(3) else { return };
    let image = Image::of(target.pid()).expect("it has a vDSO");
    let mut first = None;
    for round in 0..rounds {
        let via = ["none", "ptrace"][round % 2];
        Attachment::counts_exactly(&mut target, &["--via", via]);
        image.assert_as_before(target.pid());
        let (first_sizes, maps) =
            first.get_or_insert_with(|| (sizes(target.pid()), mappings(target.pid())));
        assert_eq!(mappings(target.pid()), *maps, "attachment {round}");
        let now = sizes(target.pid());
        // The C library of the target may map a page or two at any time.
        let grown = [0, 1].map(|index| now[index].saturating_sub(first_sizes[index]));
        assert!(grown.iter().all(|kib| *kib <= 32), "attachment {round}: {grown:?} KiB more");
    }
    target.ends_well();
}

/// The image of another build stays in place beside this build's image. Both count exactly.
#[test]
fn an_image_of_another_build_is_left_alone() {
    let Some(mut target) = server(3) else { return };
    let pid = target.pid();
    let image = Image::of(pid).expect("it has a vDSO");
    let counts = |target: &mut Conversation| {
        Attachment::counts_exactly(target, &["--via", "none"]);
        image.assert_as_before(pid);
        images_of_clockscope(pid)
    };
    let first = counts(&mut target);
    assert_eq!((first.len(), &counts(&mut target)), (1, &first), "the image is used again");
    // The last byte of `e_ident` has no meaning (elf(5)), so changing it makes the image one of another build.
    let memory = File::options().write(true).open(format!("/proc/{pid}/mem")).expect("open");
    memory.write_all_at(&[0x5a], first[0].start + 15).expect("write to the image");
    let both = counts(&mut target);
    assert_eq!(both.len(), 2);
    assert!(both.contains(&first[0]));
    assert_eq!(counts(&mut target), both, "ours is used again");
    // A killed clockscope leaves its jumps, and the other build's attachment works beside them.
    Attachment::to(&[pid], &["--via", "none"]).kill();
    target.check_an_answer(3);
    let ours = both.iter().find(|image| **image != first[0]).expect("ours");
    memory.write_all_at(&[0x5b], ours.start + 15).expect("write to the image");
    attach_for("0.02", &[pid], &["--via", "none"]).succeeded();
    assert_eq!(counts(&mut target).len(), 3);
    target.ends_well();
}

/// The target sets a seccomp filter while clockscope is attached, so no thread can replace the pages. They stay and do
/// no harm, and the target goes on.
#[test]
fn pages_stay_where_no_thread_may_replace_them() {
    let Some(program) = builds::c("preempted", Link::Dynamic) else { return };
    let target = Conversation::start(&words![program, "filter", "8", "300"]);
    let pid = target.pid();
    let maps = mappings(pid);
    let traced = attach_for("0.5", &[pid], &["--via", "none"]).succeeded();
    assert!(traced.stderr.contains("stays attached until it ends"), "{}", traced.stderr);
    let shared = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
    assert!(shared.contains("SYSV"), "{shared}");
    let kernels = |maps: &[String]| maps.iter().filter(|map| map.contains("[v")).count();
    assert_eq!(kernels(&mappings(pid)), kernels(&maps));
    let (said, status) = target.last_words();
    assert_eq!(status.code(), Some(7), "{said}");
}

/// Pages that stay mapped would take addresses that such a process needs.
#[test]
fn a_process_with_few_addresses_is_left_alone() {
    let Some(program) = builds::c("attach_server", Link::Dynamic) else { return };
    let limited = words!["prlimit", "--as=100000000", program, "1"];
    let target = Conversation::start(&limited);
    let traced = attach_for("0.05", &[target.pid()], &["--via", "none"]);
    assert_refused(&traced, &["its address space is limited to 97656 KiB (ulimit -v)"]);
    assert_eq!(images_of_clockscope(target.pid()), []);
    target.goes_on_and_ends_well();
}
