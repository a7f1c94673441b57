//! `clockscope trace --via sites`: code in the program counts its system calls. Each count equals the kernel's, or the
//! program's own, and the program does not notice.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;

use crate::support::attaching::{
    Attachment, Image, assert_code_is_of_its_files, attach_for, signal,
};
use crate::support::builds::{self, Link};
use crate::support::compare::assert_exact;
use crate::support::conversation::Conversation;
use crate::support::placed::{self, as_nobody, for_everybody};
use crate::support::running::{Report, Traced, Tracing, child_of, clockscope, rows, trace};
use crate::support::{installed_or_skip, priorities_or_skip, root_or_skip, server};
use skips::skip;
use vdso_image::layout::AREA_SIZE;
use vdso_reader::maps::{self, Mapping};

/// Calls that the kernel counts and clockscope's code does not: signal handlers return by a call that is not replaced,
/// and the kernel repeats calls that a signal has interrupted.
const LEFT: [&str; 2] = ["rt_sigreturn", "restart_syscall"];

/// Calls in which threads wait until they are killed. The kernel counts an error that the thread does not see.
const WAITING: [&str; 4] = ["futex", "epoll_pwait", "wait4", "nanosleep"];

/// The rows in which the two counts differ, and the number of calls that the kernel counted.
pub(super) fn differences(report: &Report, left: &[&str]) -> (Vec<String>, u64) {
    let rows: Vec<&Value> = rows(report.field("by_sites")).collect();
    let number = |row: &Value, field: &str| row[field].as_u64().expect("a number");
    let all = rows.iter().map(|row| number(row, "kernel")).sum();
    let differs = |row: &&&Value| {
        let name = row["name"].as_str().expect("a name");
        // Errors that the code cannot see are null, not 0.
        let errors_differ = row["errors"].as_u64().is_some_and(|errors| {
            let kernel = number(row, "kernel_errors");
            errors > kernel || errors < kernel && !WAITING.contains(&name)
        });
        !left.contains(&name) && (row["sites"] != row["kernel"] || errors_differ)
    };
    (rows.iter().filter(differs).map(ToString::to_string).collect(), all)
}

#[track_caller]
fn assert_equal_to_the_kernels(command: &[OsString], least: u64) {
    assert_equal_but(command, least, &LEFT);
}

#[track_caller]
fn assert_equal_but(command: &[OsString], least: u64, left: &[&str]) {
    let traced = trace(&["--via", "both"], command).succeeded();
    let (differences, all) = differences(&traced.report(), left);
    assert!(differences.is_empty(), "{command:?}: {differences:#?}");
    assert!(all >= least, "{all} calls of {command:?}");
}

/// Traces a command by code in it; the counts that it prints must be those of the report.
#[track_caller]
pub(super) fn exact(options: &[&str], command: &[OsString]) -> Traced {
    let traced = trace(&[&["--via", "sites"], options].concat(), command).succeeded();
    let report = traced.report();
    assert_eq!(report.field("via"), "sites");
    assert_exact(&traced);
    traced
}

#[test]
fn what_programs_say_of_themselves_is_counted() {
    for link in Link::EVERY {
        let Some(program) = builds::c("reads", link) else { continue };
        if matches!(link, Link::MuslDynamic) {
            // The function by which the program makes calls has no room for a jump, and any file may call it.
            let report = trace(&["--via", "sites"], &words![program]).succeeded().report();
            assert_eq!(report.syscall("getppid", "calls"), 0, "{report:?}");
            assert!(report.has_syscall_reason("with no room for a jump in front"), "{report:?}");
        } else {
            exact(&[], &words![program]);
        }
    }
    let Some(program) = builds::c("threads", Link::Dynamic) else { return };
    exact(&[], &words![program, "all", "40"]);
    exact(&[], &words![program, "churn", "400"]);
}

/// Some programs, such as valgrind's tools, map files in order to read or translate them, so mapped code must stay
/// unchanged.
#[test]
fn what_a_program_maps_while_it_runs_is_left_alone_and_named() {
    let Some(file) = builds::c("reads", Link::Static) else { return };
    for link in [Link::Static, Link::StaticPie, Link::Dynamic] {
        let Some(program) = builds::c("maps_files", link) else { return };
        let traced = trace(&["--via", "sites"], &words![program, file]);
        assert_eq!(traced.code(), 7, "{traced:?}");
        assert_eq!(traced.stdout, "result segments 1 others 0\n", "{link:?}: {traced:?}");
        let words = format!("{}, which the program loaded while it ran", file.display());
        assert!(traced.report().has_syscall_reason(&words), "{link:?}: {traced:?}");
    }
}

/// The kernel writes a line feed in the name of a mapping as `\012`, and in `/proc/PID/exe` as it is.
#[test]
fn a_static_program_whose_name_has_a_line_end_is_its_own() {
    let Some(program) = builds::c("reads", Link::Static) else { return };
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let copy = folder.path().join("two\nlines");
    placed::program(&program, &copy, 0o755);
    exact(&[], &words![copy]);
}

/// The program prints how many of its calls fail. clockscope's code cannot see every result: not where the C library
/// calls a function right behind the call, nor where one instruction makes calls of several numbers.
#[test]
fn errors_are_counted_where_they_are_seen_and_not_zero_elsewhere() {
    for link in [Link::Dynamic, Link::Static] {
        let Some(program) = builds::c("reads", link) else { return };
        let report = exact(&[], &words![program]).report();
        assert!(report.knows_errors("write") && report.syscall("write", "errors") == 0);
        assert!(!report.knows_errors("fchdir"), "{report:?}");
    }
    let Some(program) = builds::c("sites", Link::Dynamic) else { return };
    let report = exact(&[], &words![program, "errors"]).report();
    for name in ["execve", "mprotect"] {
        assert!(report.knows_errors(name), "{name}: {report:?}");
    }
    // `close` and `read` may be cancelled, since the program has threads.
    for name in ["close", "read", "getuid"] {
        assert!(!report.knows_errors(name), "{name}: {report:?}");
    }
}

#[test]
fn counts_are_those_of_the_kernel_in_c() {
    let Some(()) = root_or_skip() else { return };
    for link in Link::EVERY {
        if matches!(link, Link::MuslStatic | Link::MuslDynamic) {
            continue;
        }
        // A static program is too far from the vDSO for jumps, and the vDSO makes system calls for some clocks. Its
        // start makes two `brk` by one number.
        let far: &[&str] = &["rt_sigreturn", "clock_gettime", "brk"];
        let left = if link == Link::Dynamic { &LEFT } else { far };
        if let Some(program) = builds::c("reads", link) {
            assert_equal_but(&words![program], 20, left);
        }
    }
    let Some(tree) = builds::c("tree", Link::Dynamic) else { return };
    for kind in ["fork", "exec", "vfork", "thread-exec", "prefork"] {
        assert_equal_to_the_kernels(&words![tree, kind], 20);
    }
    // A table leads to some calls of glibc's `posix_spawn`.
    assert_equal_but(&words![tree, "spawn"], 20, &["rt_sigprocmask"]);
    let report = trace(&["--via", "sites"], &words![tree, "spawn"]).report();
    assert!(report.has_syscall_reason("in functions that jump to computed addresses"));
}

#[test]
fn counts_are_those_of_the_kernel_in_runtimes_and_shells() {
    let Some(()) = root_or_skip() else { return };
    let shell = "for i in 1 2 3 4 5; do /bin/true; ls / | wc -l; done; cd /; echo $(echo end)";
    assert_equal_to_the_kernels(&words!["/bin/sh", "-c", shell], 1_000);
    assert_equal_to_the_kernels(
        &words!["/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=20000", "status=none"],
        40_000,
    );
    if let Some(python) = installed_or_skip(&["/usr/bin/python3"]) {
        // Libraries that are loaded later, threads, forks and other programs.
        let program = include_str!("trace_sites/threads.py");
        assert_equal_to_the_kernels(&words![python, "-c", program], 7_000);
    }
    if let Some(go) = builds::go_program("reads") {
        assert_equal_to_the_kernels(&words![go, "100", "3"], 100);
    }
}

/// Signal handlers that look at the interrupted address, such as unwinders and the C library's cancellation, must find
/// an address of the program. For a good part of the time a thread is in a stub.
#[test]
fn handlers_of_signals_never_come_from_a_stub() {
    let Some(program) = builds::c("sites", Link::Dynamic) else { return };
    let traced = exact(&[], &words![program, "signals"]);
    let line = traced.stdout.lines().find(|line| line.starts_with("handled ")).expect("a line");
    let words: Vec<&str> = line.split(' ').collect();
    let handled: u64 = words[1].parse().expect("a number");
    assert!(handled > 50 && words[3] == "0", "{line}");
}

/// The C library decides by a thread's address whether a signal cancels the thread. A thread that is wrongly not
/// cancelled waits for ever, and this test hangs.
#[test]
fn threads_are_cancelled_in_the_middle_of_calls() {
    for link in [Link::Dynamic, Link::MuslStatic, Link::MuslDynamic] {
        if let Some(program) = builds::c("sites", link) {
            let traced = trace(&["--via", "sites"], &words![program, "cancel"]).succeeded();
            assert_eq!(traced.stdout, "cleaned 400\n");
        }
    }
}

/// Where several threads end their process at once, the kernel stops only those that are not killed yet.
#[test]
fn threads_that_are_killed_while_they_end_are_named() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("sites", Link::Dynamic) else { return };
    let traced = Tracing::new(&["--via", "both"], &words![program, "ends"]).finish().succeeded();
    let report = traced.report();
    let row = rows(report.field("by_sites")).find(|row| row["name"] == "exit_group");
    let count = |way: &str| row.expect("exit_group")[way].as_u64().expect("a number");
    let (sites, kernel) = (count("sites"), count("kernel"));
    let reasons = report.reasons("syscalls");
    let words = reasons.iter().find(|reason| reason.contains("killed in"));
    let named =
        words.map_or(0, |words| words.split(' ').nth(2).expect(words).parse().expect(words));
    assert!(sites > 200 && kernel > sites, "{report:?}");
    assert!(kernel <= sites + named, "{sites} and {named} of {kernel}: {report:?}");
}

/// clockscope's code adds without a lock only while a single task uses the memory, and not one call longer.
#[test]
fn tasks_that_share_memory_lose_no_calls() {
    for link in [Link::Dynamic, Link::Static] {
        let Some(program) = builds::c("shared_vm", link) else { return };
        // Two tasks seldom add at the same moment, so the last mode is repeated.
        for mode in ["process", "thread", "zero", "zero", "zero", "zero"] {
            exact(&[], &words![program, mode, "calls"]);
        }
    }
}

/// `mov $600,%eax; syscall` and similar calls, in a program whose code lies far below the table.
#[test]
fn numbers_that_no_table_has_are_counted_as_others() {
    for link in [Link::Static, Link::Dynamic] {
        let Some(program) = builds::c("numbers", link) else { return };
        for options in [&["--via", "sites"][..], &["--via", "sites", "--counts-only"]] {
            let traced = trace(options, &words![program]);
            assert_eq!(traced.code(), 7, "{traced:?}");
            let report = traced.report();
            assert_eq!(report.syscall("getppid", "calls"), 3, "{report:?}");
            let all = rows(report.field("syscalls")).map(|row| row["calls"].as_u64().unwrap_or(0));
            assert!(all.sum::<u64>() >= 3 + 11 * 3, "{report:?}");
        }
    }
}

#[test]
fn without_privileges_each_way_is_the_one_that_was_decided() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("reads", Link::Static) else { return };
    let files = [(&*clockscope(), "clockscope", 0o755), (&program, "reads", 0o755)];
    let folder = for_everybody(&files);
    let [own, program] = ["clockscope", "reads"].map(|name| folder.path().join(name));
    let starter = words![as_nobody(), "--no-new-privs", own];
    let report = folder.path().join("report.json");
    let traced = |starter: &[OsString], options: &[&str]| {
        Tracing::reporting_to(&report, starter, options, &words![program]).finish().succeeded()
    };
    let sites = traced(&starter, &["--via", "sites"]);
    assert_eq!(sites.report().field("via"), "sites");
    assert_exact(&sites);
    // `--via sites` is never chosen by default: without root it is vDSO calls only, or ptrace if an option needs more.
    let rest = |traced: &Traced| {
        let mut lines =
            traced.stderr.lines().filter(|line| line.starts_with("clockscope: counting"));
        let line = lines.next().unwrap_or_default().to_owned();
        assert_eq!(lines.next(), None, "{traced:?}");
        line
    };
    for (options, names) in [
        (&[][..], &["root", "--via ptrace", "--via sites"][..]),
        (&["--per-process"], &["root", "--via ptrace"]),
        (&["--per-thread"], &["root", "--via ptrace"]),
        (&["--top"], &["root", "--via ptrace"]),
        (&["--no-follow", "-c"], &["root"]),
    ] {
        let traced = traced(&starter, options);
        assert_eq!(traced.report().field("via"), "none", "{options:?}");
        let line = rest(&traced);
        for word in ["root", "--via ptrace", "--via sites"] {
            // If clockscope was built without its eBPF program, it names clang instead of root.
            let named = line.contains(word) || word == "root" && line.contains("clang");
            assert_eq!(named, names.contains(&word), "{options:?}: {line}");
        }
    }
    for options in [&["-c"][..], &["-e", "write"], &["--latency"], &["--callers=syscalls"]] {
        let traced = traced(&starter, options);
        let report = traced.report();
        assert_eq!(report.field("via"), "ptrace", "{options:?}");
        assert!(report.syscall("write", "calls") > 0, "{options:?}");
        assert!(rest(&traced).contains("by ptrace"), "{traced:?}");
    }
    assert_eq!(rest(&traced(&starter, &["--quiet"])), "");
}

/// A killed tracer leaves jumps, code and a table in the program; the next tracer removes the jumps.
#[test]
fn what_a_killed_tracer_has_left_in_a_running_program_is_no_harm() {
    let Some(mut server) = server(4) else { return };
    let pid = server.pid();
    server.begin();
    for round in 0..24 {
        let attachment = Attachment::start(&[], &[pid], &["--via", "sites"]);
        // The kills come from before the first stop to long after the last one.
        attachment.kill_after(Duration::from_millis(round * 8));
        server.check_an_answer(round);
        // An attachment without sites leaves the jumps in place.
        let via = if round % 3 == 0 { "none" } else { "sites" };
        attach_for("0.02", &[pid], &["--via", via]).succeeded();
        if via == "sites" {
            assert!(assert_code_is_of_its_files(pid) > 100_000);
        }
        server.check_an_answer(round);
    }
    server.end();
    server.ends_well();
}

/// An area stays for the life of the process, so the next session counts by the stubs that are there.
#[test]
fn sessions_of_a_running_program_use_the_same_areas() {
    let Some(mut server) = server(4) else { return };
    let pid = server.pid();
    server.begin();
    let areas = || -> Vec<Mapping> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
        let mappings = maps::parse(&maps).into_iter();
        mappings.filter(|it| it.perms == "r-xp" && it.size() == AREA_SIZE as u64).collect()
    };
    let mut first = Vec::new();
    for round in 0..10 {
        let attachment = Attachment::to(&[pid], &["--via", "sites"]);
        server.check_an_answer(round);
        if round % 2 == 0 {
            attachment.kill_after(Duration::ZERO);
            server.check_an_answer(round);
        } else {
            let report = attachment.detach().report();
            assert_eq!(report.syscall("write", "calls"), 1, "{round}");
        }
        if round == 0 {
            first = areas();
        }
        assert_eq!((areas(), first.is_empty()), (first.clone(), false), "{round}");
    }
    server.end();
    server.ends_well();
}

/// A thread that is taken out of a stub for a signal is never stepped: the kernel would go on to step it when the tracer
/// has died, and the first step would end the program.
#[test]
fn a_tracer_that_is_killed_among_signals_ends_no_program() {
    for link in [Link::Dynamic, Link::Static, Link::MuslDynamic] {
        let Some(program) = builds::c("sites", link) else { return };
        let mut program = Conversation::start(&words![program, "storm"]);
        let pid = program.pid();
        for round in 0..24 {
            let attachment = Attachment::start(&[], &[pid], &["--via", "sites"]);
            attachment.kill_after(Duration::from_millis(30 + round * 5));
        }
        program.say("end");
        program.wait_for("result over");
        assert!(program.status().success(), "{link:?}");
    }
}

/// Checks that a process has the unchanged code of its files and of the kernel's vDSO, and can be attached to.
#[track_caller]
fn assert_is_as_plainly(pid: i32) {
    assert!(assert_code_is_of_its_files(pid) > 10_000);
    let own = Image::of(std::process::id().cast_signed()).expect("this process has a vDSO");
    let theirs = Image::of(pid).expect("it has a vDSO");
    assert!(own.code() == theirs.code(), "the vDSO of {pid} is changed");
    attach_for("0.02", &[pid], &["--via", "none"]).succeeded();
}

#[test]
fn programs_that_a_running_one_executes_are_as_they_were() {
    let Some(program) = builds::c("attach_server", Link::Dynamic) else { return };
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let executes = include_str!("trace_sites/executes.py");
    let mut server = Conversation::start(&words![python, "-c", executes, program]);
    let attachment = Attachment::to(&[server.pid()], &["--via", "sites"]);
    server.say("go on");
    server.wait_for("ready");
    server.check_an_answer(1);
    let child = child_of(server.pid()).expect("its child");
    let report = attachment.detach().report();
    let calls = ["getppid", "execve"].map(|name| report.syscall(name, "calls"));
    assert_eq!(calls, [1000, 2]);
    for pid in [server.pid(), child] {
        assert_is_as_plainly(pid);
    }
    signal("KILL", child);
    server.goes_on_and_ends_well();
}

#[test]
fn what_a_killed_tracer_has_left_in_a_program_that_it_launched_is_no_harm() {
    let Some(program) = builds::c("attach_server", Link::Dynamic) else { return };
    let tracing = Tracing::new(&["--via", "sites"], &words![program, "4"]);
    let mut server = Conversation::start(&tracing.words());
    let pid = child_of(server.pid()).expect("its child");
    signal("KILL", server.pid());
    server.check_an_answer(1);
    for (round, via) in ["none", "sites", "sites", "none"].into_iter().enumerate() {
        attach_for("0.02", &[pid], &["--via", via]).succeeded();
        server.check_an_answer(round as u64);
    }
    assert!(assert_code_is_of_its_files(pid) > 100_000);
    server.check_health();
}

#[test]
fn of_a_daemon_that_goes_on_is_said_what_remains() {
    let starts = "sleep 100 > /dev/null 2>&1 & echo $!; sleep 0.5";
    let traced = trace(&["--via", "sites"], &words!["sh", "-c", starts]);
    let pid: i32 = traced.stdout.lines().next().expect("a line").parse().expect("its number");
    let said = format!("clockscope: sleep ({pid}) goes on with clockscope's code");
    assert!(traced.stderr.contains(&said), "{traced:?}");
    attach_for("0.1", &[pid], &["--via", "sites"]).succeeded();
    assert!(assert_code_is_of_its_files(pid) > 10_000);
    signal("KILL", pid);
}

/// The constructors of libraries that the loader maps are counted, also where other libraries or the program ask for
/// no read-only data.
#[test]
fn what_libraries_do_first_is_counted() {
    let shared = &["-shared", "-fPIC"];
    let Some(library) = builds::c_with("site_library", Link::Dynamic, shared) else { return };
    let preload = format!("LD_PRELOAD={}", library.display());
    for options in [&["-Wl,-z,norelro"][..], &["-no-pie"]] {
        let Some(program) = builds::c_with("numbers", Link::Dynamic, options) else { return };
        let traced = trace(&["--via", "sites"], &words!["env", preload, program]);
        // `env` has no such library, and the program calls getppid three times.
        assert_eq!(traced.report().syscall("getppid", "calls"), 33, "{traced:?}");
    }
}

/// A library that is loaded while the program runs is left alone and named, whether clockscope has launched the program
/// or attached to it.
#[test]
fn libraries_that_a_running_program_loads_are_named() {
    let shared = &["-shared", "-fPIC"];
    let Some(library) = builds::c_with("site_library", Link::Dynamic, shared) else { return };
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let named = format!("by 1 instruction of {}, which the program loaded", library.display());
    let loads = "import ctypes, sys; ctypes.CDLL(sys.argv[1])";
    let traced = trace(&["--via", "sites"], &words![python, "-c", loads, library]).succeeded();
    let report = traced.report();
    assert_eq!(report.syscall("getppid", "calls"), 0, "{traced:?}");
    assert!(report.has_syscall_reason(&named), "{report:?}");
    assert!(!report.has_syscall_reason("unseen"), "{report:?}");
}

/// Libraries loaded while clockscope is attached make their calls by the C library.
#[test]
fn calls_of_libraries_that_a_running_program_loads_are_counted_in_the_c_library() {
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let program = include_str!("trace_sites/loads.py");
    let mut server = Conversation::start(&words![python, "-c", program]);
    let attachment = Attachment::to(&[server.pid()], &["--via", "sites"]);
    server.ask("load");
    let report = attachment.detach().report();
    assert_eq!(report.syscall("getppid", "calls"), 1500);
    assert!(!report.has_syscall_reason("unseen"), "{report:?}");
    assert!(assert_code_is_of_its_files(server.pid()) > 1_000_000);
    server.say("end");
    assert!(server.status().success());
}

/// A thread that is in clockscope's code when a signal comes gets the signal before it enters the call.
#[test]
fn a_call_that_only_a_handler_ends_is_not_waited_for() {
    let Some(program) = builds::c("site_signal", Link::Dynamic) else { return };
    let traced = exact(&[], &words![program]);
    if traced.stdout.contains("no breakpoints") {
        skip("there are no hardware breakpoints");
    }
}

/// Programs, their modes, what they print, and the calls that the report names as not counted; behind a colon, why one
/// instruction of the program is left, or some.
#[test]
fn what_cannot_be_replaced_is_left_alone_and_named() {
    let jumps = "some: in functions that jump to computed addresses";
    let (right, unseen) = ("right 1000\n", "libraries that the program loaded and unloaded unseen");
    let (twenty, five) = (format!("calls of 20 {unseen}"), format!("calls of 5 {unseen}, or"));
    for (name, mode, said, named) in [
        ("reads", "", "", "rt_sigreturn"),
        // Code that jumps behind the instruction that would be replaced makes calls that the jump does not see.
        ("sites", "joined", "", "one: to which code jumps"),
        // An instruction that can fault is not displaced.
        ("sites", "faulting", "", "some: with no room for a jump in front"),
        // A stub uses no stack: a signal handler's stack may be full, and a runtime may have its stack elsewhere.
        ("sites", "stackless", "", "asked for such memory 20 times"),
        ("sites", "stackless", "", &twenty),
        // Another tool has written over a jump.
        ("site_broken", "", "right 50\n", "one: in code that was changed"),
        // The program is stopped and continued.
        ("sites", "halted", "given 4000 of 4000", ""),
        // The kernel refuses to map libraries, which clockscope cannot know.
        ("sites", "refused", "", &five),
        // Computed jumps and constants stay as they are.
        ("site_shapes", "labels", right, jumps),
        ("site_shapes", "table", right, jumps),
        // Such calls are counted where the function is called that makes them.
        ("site_shapes", "waits", right, ""),
        ("site_shapes", "constant", right, "some: which may be data"),
        // Code that no file has, in memory that no notice is given of.
        ("site_shapes", "memfd", right, "calls of /memfd:code (deleted), which was not looked at"),
        ("site_shapes", "shm", right, "calls of /SYSV00000000 (deleted), which was not looked at"),
        ("site_shapes", "pkey", right, "calls of 1 executable mapping without a file"),
    ] {
        let Some(program) = builds::c_with(name, Link::Dynamic, &["-Wl,-z,noseparate-code"]) else {
            return;
        };
        let traced = exact(&[], &words![&program, mode]);
        assert!(traced.stdout.contains(said), "{name} {mode}: {traced:?}");
        let report = traced.report();
        let is_named = match named.split_once(": ") {
            Some(("one", why)) => report.left(&program, why) == 1,
            Some((_, why)) => report.left(&program, why) > 0,
            None => named.is_empty() || report.has_syscall_reason(named),
        };
        assert!(is_named, "{mode}: {report:?}");
        let is_unseen = report.has_syscall_reason("unseen");
        assert_eq!(is_unseen, ["refused", "stackless"].contains(&mode), "{mode}: {report:?}");
    }
}

/// Code jumps to the address of a call, or calls by the address of a function, which instructions hold.
#[test]
fn addresses_in_instructions_are_known() {
    for options in [&[][..], &["-fno-pie", "-no-pie"]] {
        let Some(program) = builds::c_with("site_shapes", Link::Dynamic, options) else { return };
        for (mode, why) in [
            ("pointer", "as calls that wait are not counted with this C library"),
            ("resumed", "to which code jumps"),
        ] {
            let traced = exact(&[], &words![&program, mode]);
            assert!(traced.stdout.contains("right 1000\n"), "{traced:?}");
            assert!(traced.report().left(&program, why) > 0, "{mode}: {traced:?}");
        }
    }
}

/// The tracer has a higher priority than the program, but must leave the CPU to it while it waits for a step.
#[test]
fn a_real_time_program_on_the_tracers_cpu_goes_on() {
    let Some(()) = priorities_or_skip("20") else { return };
    let Some(program) = builds::c("sites", Link::Dynamic) else { return };
    let starter = words!["taskset", "-c", "0", clockscope()];
    let real_time = words!["chrt", "-f", "20", program, "signals"];
    let traced = Tracing::below(&starter, &["--via", "sites"], &real_time).finish().succeeded();
    assert_exact(&traced);
    assert!(traced.stdout.contains("outside 0"), "{}", traced.stdout);
}
