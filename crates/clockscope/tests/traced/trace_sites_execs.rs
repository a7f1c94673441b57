//! `clockscope trace --via sites` and programs that are executed in unusual ways, or under a seccomp filter.

use std::ffi::OsString;

use crate::support::builds::{self, Link};
use crate::support::compare::assert_exact;
use crate::support::printed::Printed;
use crate::support::running::{Report, Traced, Tracing, clockscope, trace, untraced};
use crate::support::{installed_or_skip, placed, root_or_skip, works_or_skip};
use crate::trace_sites::{differences, exact};

const NO_FILTERS: &str = "filters of system calls are not allowed here";

fn counted(command: &[OsString]) -> (Traced, Report) {
    let traced = trace(&["--via", "both"], command);
    assert_eq!(traced.code(), 0, "{command:?}: {traced:?}");
    let report = traced.report();
    // A shell that starts the program may call getppid as well.
    let said = Printed::parse(&traced.stdout).syscalls["getppid"];
    assert!(report.syscall("getppid", "calls") >= said, "{command:?}: {traced:?}");
    (traced, report)
}

#[track_caller]
fn assert_counted(command: &[OsString]) {
    assert_counted_but(command, &["rt_sigreturn"]);
}

/// A static program is too far from the vDSO for jumps, and the vDSO makes system calls for some clocks. Its start makes
/// two `brk` by one number.
const FAR: [&str; 3] = ["rt_sigreturn", "clock_gettime", "brk"];

#[track_caller]
fn assert_counted_but(command: &[OsString], left: &[&str]) {
    let (traced, report) = counted(command);
    let (differences, _) = differences(&report, left);
    assert!(differences.is_empty(), "{command:?}: {differences:#?}; {traced:?}");
}

#[test]
fn by_the_loader_that_is_named_itself() {
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let Some(()) = root_or_skip() else { return };
    let Some(loader) = installed_or_skip(&["/lib64/ld-linux-x86-64.so.2"]) else { return };
    assert_counted(&words![loader, program]);
}

#[test]
fn of_files_that_have_no_name_any_more() {
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let Some(()) = root_or_skip() else { return };
    let removed = "cp \"$1\" \"$2\" && exec 9<\"$2\" && rm \"$2\" && exec /proc/self/fd/9";
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let copy = directory.path().join("copy");
    assert_counted(&words!["sh", "-c", removed, "sh", program, copy]);
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let in_memory = "import os, sys\n\
                     file = os.memfd_create('program')\n\
                     os.write(file, open(sys.argv[1], 'rb').read())\n\
                     os.execve(file, ['program'], os.environ)";
    assert_counted(&words![python, "-c", in_memory, program]);
}

/// A file system gives a removed file's inode to the next file; here the file is written anew.
#[test]
fn of_a_file_that_has_become_another_program() {
    let Some(program) = builds::c("reads", Link::Static) else { return };
    let Some(other) = builds::c("reads", Link::MuslStatic) else { return };
    let Some(()) = root_or_skip() else { return };
    let twice = "cp \"$1\" \"$3\" && \"$3\" > /dev/null && cat \"$2\" > \"$3\" && \"$3\"";
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let copy = directory.path().join("copy");
    assert_counted_but(&words!["sh", "-c", twice, "sh", other, program, copy], &FAR);
}

#[test]
fn of_scripts_in_other_roots_and_namespaces() {
    let Some(program) = builds::c("reads", Link::Static) else { return };
    let Some(()) = root_or_skip() else { return };
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let place = |name: &str| directory.path().join(name);
    placed::program(&program, &place("reads"), 0o755);
    assert_counted_but(&words!["chroot", directory.path(), "/reads"], &FAR);
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let script = place("script");
    let text = format!("#!/bin/sh\nexec {}\n", program.display());
    placed::script(&text, &script, 0o755);
    assert_counted(&words![script]);
    for kind in ["-m", "-i", "-pf", "-n"] {
        if untraced(&words!["unshare", kind, "true"]).status.success() {
            assert_counted(&words!["unshare", kind, program]);
        }
    }
}

#[test]
fn of_programs_that_cannot_be_counted_among_others() {
    let Some(program) = builds::c("reads", Link::Bits32) else { return };
    let Some(other) = builds::c("reads", Link::Dynamic) else { return };
    let traced =
        trace(&["--via", "sites"], &words!["sh", "-c", "\"$0\"; exec \"$1\"", program, other])
            .succeeded();
    assert!(traced.report().has_syscall_reason("1 program without the shim"), "{traced:?}");
}

/// The sanitizer's runtime jumps to the instructions right before a call, so these calls stay uncounted; the report
/// names the library.
#[test]
fn of_sanitized_programs() {
    let Some(program) = builds::c("reads", Link::AddressSanitizer) else { return };
    let Some(()) = root_or_skip() else { return };
    let (traced, report) = counted(&words!["env", "ASAN_OPTIONS=detect_leaks=0", program]);
    let names_it = report.has_syscall_reason("libasan");
    let known: &[&str] = if names_it { &["rt_sigreturn", "read"] } else { &["rt_sigreturn"] };
    let (left, _) = differences(&report, known);
    assert!(left.is_empty(), "{left:#?}; {traced:?}");
}

/// clockscope makes no call in a program that loads a library, whatever the program's filter allows.
#[test]
fn a_filter_that_is_installed_later_is_not_violated() {
    let Some(program) = builds::c("site_filters", Link::Dynamic) else { return };
    for mode in ["late", "late-by-prctl"] {
        let command = words![program, mode];
        let Some(()) = works_or_skip(&command, NO_FILTERS) else { return };
        let traced = exact(&[], &command);
        assert!(!traced.report().has_syscall_reason("unseen"), "{mode}: {traced:?}");
    }
}

/// Where the loader does not say that all libraries are mapped, the program's own `mprotect` does not say it either.
#[test]
fn a_program_without_libraries_sends_no_signal() {
    let Some(program) = builds::alone() else { return };
    let Some(()) = works_or_skip(&words![program], NO_FILTERS) else { return };
    exact(&[], &words![program]);
}

/// The program's filter allows a call from one address only, so the instruction there must stay.
#[test]
fn a_filter_that_looks_at_the_address_of_a_call_sees_the_programs() {
    let Some(program) = builds::c("site_filters", Link::Dynamic) else { return };
    let command = words![program, "pinned"];
    let Some(()) = works_or_skip(&command, NO_FILTERS) else { return };
    exact(&[], &command);
}

/// The launch code sends its own thread SIGURG when it is done, and the thread sends itself one when the loader has
/// mapped all libraries. The program must not see either.
#[test]
fn of_programs_that_find_the_signal_of_the_launch_as_it_was() {
    for link in [Link::Static, Link::Dynamic] {
        let Some(program) = builds::c("urgent", link) else { return };
        for how in ["blocked", "pending", "ignored", "handled"] {
            let command = words![program, how];
            let plainly = untraced(&command);
            let said = String::from_utf8_lossy(&plainly.stdout);
            assert!(said.contains(&format!("result {how}: ")), "{plainly:?}");
            let traced = trace(&["--via", "sites"], &command);
            assert_eq!((traced.code(), &*traced.stdout), (0, &*said), "{traced:?}");
            let report = traced.report();
            assert_exact(&traced);
            let is_late = report.has_syscall_reason("loaded while it ran");
            assert!(!is_late && !report.has_syscall_reason("unseen"), "{how}: {report:?}");
            assert!(!report.has_syscall_reason("without the shim"), "{how}: {report:?}");
            assert_eq!(report.syscall("execve", "calls"), 2, "{how}: {traced:?}");
        }
    }
}

/// Each program is launched while other processes send it SIGURG.
#[test]
fn of_programs_that_others_send_the_signal_of_the_launch() {
    let Some(program) = builds::c("urgent", Link::Dynamic) else { return };
    for _ in 0..5 {
        let report = exact(&[], &words![program, "sent"]).report();
        assert!(!report.has_syscall_reason("without the shim"), "{report:?}");
    }
}

/// The tracer moves the thread out of the code that notes a call, and no call is noted twice or lost.
#[test]
fn of_a_program_that_others_send_that_signal_while_it_maps_files() {
    let Some(program) = builds::c("urgent", Link::Dynamic) else { return };
    let report = trace(&["--via", "sites"], &words![program, "maps"]).succeeded().report();
    let unseen = "libraries that the program loaded and unloaded unseen";
    assert!(report.has_syscall_reason(unseen), "{report:?}");
}

/// The filter kills a process that sends a signal to a thread, as the launch code does.
#[test]
fn below_a_filter_that_the_tracer_has_too() {
    let Some(starter) = builds::c("urgent", Link::Dynamic) else { return };
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let starter = words![starter, "filtered"];
    let Some(()) = works_or_skip(&words![starter, "true"], NO_FILTERS) else { return };
    let below = words![starter, clockscope()];
    let traced = Tracing::below(&below, &["--via", "sites"], &words![program]).finish().succeeded();
    assert_exact(&traced);
}

/// Without randomized addresses, each program has its loader where the one before had it, with the file's bytes.
#[test]
fn of_programs_at_the_addresses_of_those_before() {
    let turns = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done";
    let traced = trace(&["--via", "sites"], &words!["setarch", "-R", "sh", "-c", turns]);
    let report = traced.succeeded().report();
    assert!(!report.has_syscall_reason("in code that was changed"), "{report:?}");
}
