//! Programs that `clockscope trace` cannot count, or can hardly count: each runs as without clockscope, and the report
//! names the calls that were not counted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::support::builds::{self, Link};
use crate::support::command::Said;
use crate::support::compare::{
    assert_declined, assert_exact, assert_exact_and_nothing_else, assert_exact_unless,
    assert_same_as_untraced,
};
use crate::support::conversation::Conversation;
use crate::support::placed::{self, as_nobody, for_everybody};
use crate::support::running::{Traced, Tracing, clockscope, trace, trace_vdso, untraced};
use crate::support::{installed_or_skip, root_or_skip, skip};
use crate::trace_sites_seen::gdb;

/// Traces a command and checks that its output and exit status are as untraced.
#[track_caller]
fn same_as_untraced(command: &[OsString]) -> Traced {
    let traced = trace_vdso(command);
    assert_same_as_untraced(&traced, &untraced(command));
    traced
}

/// `confined`, which imposes limits, and its static build, to execute under them.
fn confined() -> Option<(PathBuf, PathBuf)> {
    Some((builds::c("confined", Link::Dynamic)?, builds::c("confined", Link::Static)?))
}

// Programs that cannot be counted.

const NO_64_BITS: &str = "it is a 32-bit program";
const UNDER_FILTER: &str = "a seccomp filter was on before it started";

#[test]
fn a_32_bit_program_runs_and_the_report_says_why_it_was_not_counted() {
    let Some(program) = builds::c("reads", Link::Bits32) else { return };
    let traced = same_as_untraced(&words![program]);
    assert_declined(&traced, NO_64_BITS);
    assert!(traced.report().vdso_rows().is_empty());
    let Some((limiter, _)) = confined() else { return };
    let traced = same_as_untraced(&words![limiter, "nothing", "exec", program]);
    assert_declined(&traced, NO_64_BITS);
}

#[test]
fn a_setuid_program_keeps_its_privilege() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("privileged", Link::Static) else { return };
    let Some((_, limiter)) = confined() else { return };
    let directory = for_everybody(&[
        (&program, "privileged", 0o4755),
        (&limiter, "confined", 0o755),
        (&clockscope(), "clockscope", 0o755),
    ]);
    let place = |name: &str| directory.path().join(name);
    let alone = untraced(&words![as_nobody(), place("privileged")]);
    if !String::from_utf8_lossy(&alone.stdout).contains("effective user 0\n") {
        return skip("/tmp does not allow setuid programs");
    }
    let direct = words![place("privileged")];
    let by_another = words![place("confined"), "nothing", "exec", place("privileged")];
    for command in [&direct[..], &by_another[..]] {
        let starter = words![as_nobody(), place("clockscope")];
        let report = directory.path().join("report.json");
        let traced = Tracing::reporting_to(&report, &starter, &["--via", "none"], command).finish();
        assert_same_as_untraced(&traced, &alone);
        let reason = "it is setuid, setgid or has file capabilities, which it would lose when traced; \
                      run clockscope as root";
        assert_eq!(traced.report().reasons("vdso"), [reason], "{traced:?}");
        let declines = traced.report().field("declines").clone();
        assert_eq!(declines[0]["command"], "privileged", "{traced:?}");
        fs::remove_file(report).expect("remove the report");
        let said = untraced(&words![starter, "run", "--clock", "kernel", "--", command]).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.starts_with("clockscope: privileged (process "), "{said}");
        // Root may trace it.
        let by_root = trace_vdso(&words![as_nobody(), command]);
        assert_same_as_untraced(&by_root, &alone);
        assert_exact_unless(None, &by_root);
    }
}

/// Traces a command by a clockscope started in a restricted way. The program must behave as without clockscope, must
/// not be counted for this reason, and must be counted if root traces it.
#[track_caller]
fn declined_but_counted_by_root(
    starter: &[OsString],
    folder: &Path,
    command: &[OsString],
    reason: &str,
) {
    let starter = words![starter, folder.join("clockscope")];
    for via in ["none", "ptrace"] {
        let report = folder.join("report.json");
        let traced = Tracing::reporting_to(&report, &starter, &["--via", via], command).finish();
        assert_same_as_untraced(&traced, &untraced(command));
        assert_eq!(traced.report().reasons("vdso"), [reason], "{traced:?}");
        fs::remove_file(report).expect("remove the report");
    }
    let run = untraced(&words![starter, "run", "--clock", "kernel", "--", command]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.ends_with(&format!("kept the kernel's clock: {reason}\n")), "{said}");
    let by_root = trace_vdso(command);
    assert_same_as_untraced(&by_root, &untraced(command));
    assert_exact_unless(None, &by_root);
}

#[test]
fn a_program_whose_file_may_not_be_read_is_declined_for_that_reason() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let Some((_, limiter)) = confined() else { return };
    let directory = for_everybody(&[
        (&program, "reads", 0o711),
        (&limiter, "confined", 0o755),
        (&clockscope(), "clockscope", 0o755),
    ]);
    let place = |name: &str| directory.path().join(name);
    let reason = "you may execute its file but not read it, so the kernel keeps its memory from you, and gives it no \
                  privileges if it is setuid; run clockscope as root";
    for command in
        [&words![place("reads")][..], &words![place("confined"), "nothing", "exec", place("reads")]]
    {
        declined_but_counted_by_root(&words![as_nobody()], directory.path(), command, reason);
    }
}

#[test]
fn a_program_of_another_user_is_declined_for_that_reason() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let directory =
        for_everybody(&[(&program, "reads", 0o755), (&clockscope(), "clockscope", 0o755)]);
    // Root without CAP_SYS_PTRACE, as in most containers, starts the program as another user.
    let starter = words!["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"];
    let command = words![as_nobody(), directory.path().join("reads")];
    let reason = "it runs as another user or group, whose memory is read with CAP_SYS_PTRACE only; run clockscope as \
                  that user, or with that capability (root has it, except in most containers)";
    declined_but_counted_by_root(&starter, directory.path(), &command, reason);
}

// Commands that cannot be started.

#[test]
fn commands_that_cannot_be_executed_end_as_in_a_shell() {
    let directory = for_everybody(&[]);
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        placed::script(text, &path, mode);
        path
    };
    let cases = [
        (directory.path().join("missing"), &[127][..]),
        (PathBuf::from("clockscope-no-such-command"), &[127]),
        (directory.path().to_owned(), &[126]),
        (file("not-executable", "#!/bin/sh\n", 0o644), &[126]),
        (file("bad-interpreter", "#!/no/such/interpreter\n", 0o755), &[126, 127]),
        (file("garbage", "\u{7f}ELF, or so it says", 0o755), &[126]),
    ];
    for (program, codes) in cases {
        let traced = trace_vdso(&words![program]);
        assert!(codes.contains(&traced.code()), "{}: {traced:?}", program.display());
        let name = program.file_name().expect("has a name").to_string_lossy();
        assert!(traced.stderr.contains(&*name), "the message names it: {traced:?}");
        assert_eq!(traced.stderr.trim_end().lines().count(), 1, "one line: {traced:?}");
    }
    // Shells run a file without a known format as a script, and execve refuses it. The test accepts both.
    for (name, text, said) in [("empty", "", ""), ("without-shebang", "echo said\n", "said\n")] {
        let traced = trace_vdso(&words![file(name, text, 0o755)]);
        let as_a_script = traced.code() == 0 && traced.stdout == said;
        assert!(traced.code() == 126 || as_a_script, "{name}: {traced:?}");
    }
}

#[test]
fn a_script_with_a_shebang_runs() {
    let directory = for_everybody(&[]);
    let script = directory.path().join("script");
    placed::script("#!/bin/sh\necho \"said $1\"\nexit 4\n", &script, 0o755);
    assert_eq!(same_as_untraced(&words![script, "this"]).code(), 4);
}

// Programs under limits.

#[test]
fn a_seccomp_filter_that_kills_clock_reads_does_not_see_counting() {
    let Some((program, _)) = confined() else { return };
    let traced = trace_vdso(&words![program, "clock-calls-kill"]);
    assert_exact_and_nothing_else(&traced);
    assert_eq!(traced.code(), 0);
}

#[test]
fn limits_that_a_program_sets_for_itself() {
    let Some((program, _)) = confined() else { return };
    for limit in ["no-tsc", "undumpable", "files=0", "files=3", "stdout-only", "no-ptrace"] {
        let traced = same_as_untraced(&words![program, limit]);
        assert_exact_and_nothing_else(&traced);
        assert_eq!(traced.code(), 0, "{limit}");
    }
}

#[test]
fn limits_that_hold_when_a_program_is_executed() {
    let Some((limiter, program)) = confined() else { return };
    let is_root = fs::metadata("/proc/self").expect("there is a /proc").uid() == 0;
    // Root can read whether a seccomp filter allows the calls that counting needs.
    let unseen = (!is_root).then_some(UNDER_FILTER);
    for (limit, declined) in [
        ("clock-calls-kill", unseen),
        ("undumpable", None),
        ("files=0", None),
        ("files=3", None),
        ("stdout-only", None),
        ("no-ptrace", unseen),
        // This filter forbids even mmap and openat, so clockscope can put nothing into the program.
        ("all-but-start-kill", Some(UNDER_FILTER)),
    ] {
        let command = words![limiter, limit, "exec", program, "nothing"];
        assert_exact_unless(declined, &same_as_untraced(&command));
    }
    // This program has forbidden itself rdtsc, so clockscope must not time calls by it.
    let command = words![limiter, "no-tsc", "exec", program, "no-tsc"];
    assert_exact_unless(None, &same_as_untraced(&command));
}

#[test]
fn a_stack_with_no_room_for_the_image() {
    let Some((limiter, program)) = confined() else { return };
    for (kib, is_roomy) in [(16, false), (24, false), (64, true), (256, true)] {
        let limit = format!("stack={kib}");
        // With an environment of 3 KiB, a stack of 16 KiB is too small for the program itself in 3 of 100 runs.
        let command = words!["env", "-i", limiter, limit, "exec", program, "nothing"];
        let traced = same_as_untraced(&command);
        let declined = "its stack is limited to less than 64 KiB (ulimit -s)";
        assert_exact_unless((!is_roomy).then_some(declined), &traced);
    }
}

/// `timeout` sends its signal twice, and the second one may come after the program's end.
#[test]
fn signals_that_come_when_the_program_has_ended_do_not_cost_the_report() {
    let script = "trap '' TERM; P=$PPID; (while kill -0 $$; do :; done; while kill -TERM $P; do :; done) >/dev/null 2>&1 & exit 3";
    for _ in 0..10 {
        let traced = trace(&["--via", "none"], &words!["sh", "-c", script]);
        assert_eq!(traced.code(), 3, "{traced:?}");
        assert!(traced.has_report(), "{traced:?}");
    }
}

/// PR_SET_MDWE, as systemd's `MemoryDenyWriteExecute=` sets it.
#[test]
fn where_memory_that_was_written_is_never_executed() {
    let Some((limiter, program)) = confined() else { return };
    let limit = "write-or-execute";
    if untraced(&words![limiter, limit]).status.code() == Some(77) {
        return skip("the kernel does not know PR_SET_MDWE");
    }
    // The program sets the limit itself, after clockscope has mapped the image.
    assert_exact_and_nothing_else(&same_as_untraced(&words![limiter, limit]));
    let traced = same_as_untraced(&words![limiter, limit, "exec", program, "nothing"]);
    let reason = "it could not map the image or attach the shared pages \
                  (a limit on its memory, or PR_SET_MDWE)";
    assert_declined(&traced, reason);
    // If clockscope is under the limit too, it knows, and writes the image itself.
    let starter = words![limiter, limit, "exec", clockscope()];
    let inside = Tracing::below(&starter, &["--via", "none"], &words![program, "nothing"]);
    assert_exact_and_nothing_else(&inside.finish());
}

#[test]
fn without_room_for_itself_clockscope_says_so_in_one_line() {
    let Some((limiter, _)) = confined() else { return };
    for (limit, words) in [
        ("stack=64", "clockscope: the stack is limited to 64 KiB (ulimit -s); "),
        ("kib=60000", "clockscope: the address space is limited to 60000 KiB (ulimit -v); "),
        ("data=2000", "clockscope: the data segment is limited to 2000 KiB (ulimit -d); "),
    ] {
        for subcommand in [&["trace"][..], &["run", "--clock", "kernel"], &["--version"]] {
            let starter = words![limiter, limit, "exec", clockscope()];
            let output = untraced(&words![starter, subcommand, "--", "echo", "started"]);
            Said::of(output).is_refused(125, &[words]);
        }
    }
}

#[test]
fn an_address_space_with_no_room_to_spare() {
    let Some((limiter, program)) = confined() else { return };
    let command = |kib: u32| words![limiter, format!("kib={kib}"), "exec", program, "nothing"];
    let (mut too_small, mut enough) = (64, 16_384);
    assert!(untraced(&command(enough)).status.success());
    while enough - too_small > 4 {
        let middle = u32::midpoint(too_small, enough);
        let is_enough = untraced(&command(middle)).status.success();
        *(if is_enough { &mut enough } else { &mut too_small }) = middle;
    }
    // The image and the stack have random addresses, so the exact limit varies a little.
    for spare in [64, 128, 256, 512, 4096] {
        let kib = enough + spare;
        let reason = format!("its address space is limited to {kib} KiB (ulimit -v)");
        assert_declined(&same_as_untraced(&command(kib)), &reason);
    }
    assert_exact_unless(None, &same_as_untraced(&command(enough + (256 << 10))));
}

#[test]
fn programs_that_handle_their_vdso_themselves() {
    let Some(program) = builds::c("own_vdso", Link::Dynamic) else { return };
    let said = |mode: &str| assert_exact(&same_as_untraced(&words![program, mode]));
    // The program finds its vDSO in three ways.
    let looks = said("look");
    assert!(looks.results.iter().all(|result| result.ends_with("answers")), "{looks:?}");
    said("unmap");
    assert!(said("move").has_result("the moved image answers"));
}

#[test]
fn no_clock_lies_between_two_system_calls() {
    let Some(program) = builds::c("sandwich", Link::Dynamic) else { return };
    assert_exact(&same_as_untraced(&words![program]));
}

#[test]
fn a_time_namespace_keeps_its_offset() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("sandwich", Link::Dynamic) else { return };
    let command = words!["unshare", "-T", "--monotonic", "8640000", program, "8640000"];
    let alone = untraced(&command);
    if !alone.status.success() {
        return skip("time namespaces are missing");
    }
    let printed = assert_exact(&same_as_untraced(&command));
    assert!(printed.has_result("after the offset: yes"), "{printed:?}");
    let starter = words!["unshare", "-T", "--monotonic", "8640000", clockscope()];
    let inside = Tracing::below(&starter, &["--via", "none"], &words![program, "8640000"]).finish();
    assert_same_as_untraced(&inside, &alone);
    assert_exact(&inside);
}

#[test]
fn address_randomisation_switched_off() {
    let Some(setarch) = installed_or_skip(&["/usr/bin/setarch"]) else { return };
    for link in [Link::Dynamic, Link::Static, Link::StaticPie, Link::StaticFixed] {
        let Some(program) = builds::c("reads", link) else { return };
        assert_exact_and_nothing_else(&trace_vdso(&words![setarch, "-R", program]));
    }
}

// Tracers and unwinders.

#[test]
fn a_program_that_is_a_tracer_itself() {
    let Some(program) = builds::c("traced_inside", Link::Dynamic) else { return };
    let traced = trace_vdso(&words![program]).succeeded();
    assert_exact_unless(None, &traced);
}

#[test]
fn strace_inside_ends_and_does_not_hang() {
    let Some(strace) = installed_or_skip(&["/usr/bin/strace"]) else { return };
    let traced = trace_vdso(&words![strace, "-f", "-o", "/dev/null", "echo", "said"]);
    // A process has one tracer, and strace's child already has clockscope.
    assert_eq!(traced.code(), 1, "{traced:?}");
    assert!(traced.stderr.contains("PTRACE_TRACEME, ...): Operation not permitted"), "{traced:?}");
}

#[test]
fn where_ptrace_is_forbidden_it_says_so() {
    let Some((limiter, _)) = confined() else { return };
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let starter = words![limiter, "no-ptrace", "exec", clockscope()];
    let traced = Tracing::below(&starter, &["--via", "none"], &words![program]).finish();
    assert_same_as_untraced(&traced, &untraced(&words![program]));
    assert_declined(&traced, "ptrace is not allowed here");
}

/// Walks from signal handlers that interrupt the image, from inside the image, and from the kernel's functions.
/// Debian's compilers omit frame pointers, so the walks need the image's unwind tables.
#[test]
fn backtraces_reach_main_from_everywhere() {
    let Some(program) = builds::c_with("unwind", Link::Dynamic, &["-rdynamic"]) else { return };
    let expected = untraced(&words![program]);
    let traced = trace(&["--via", "none"], &words![program]);
    for result in [
        "hits inside the image: some",
        "incomplete inside the image 0",
        "incomplete behind the image 0",
        "incomplete elsewhere 0",
    ] {
        let alone = String::from_utf8_lossy(&expected.stdout);
        assert!(alone.contains(result), "untraced: {expected:?}");
        assert!(traced.stdout.lines().any(|line| line == format!("result {result}")), "{traced:?}");
    }
}

/// gdb finds the image through the auxiliary vector that the kernel keeps, and reads the image's symbols and unwind
/// tables from the process's memory.
#[test]
fn gdb_names_our_function_and_walks_to_main() {
    let Some(_) = installed_or_skip(&["/usr/bin/gdb"]) else { return };
    let Some(program) = builds::c("spin", Link::Dynamic) else { return };
    let tracing = Tracing::new(&["--via", "none", "--no-follow"], &words![program]);
    let mut spinning = Conversation::start_silent(&tracing.words());
    let line = spinning.line();
    let pid = line.rsplit(' ').next().expect("a number");
    let commands = ["break __vdso_clock_gettime", "continue", "backtrace", "kill"];
    let text = gdb(&words!["-p", pid], &commands).expect("it is installed");
    // The tracer ends with the program.
    spinning.status();
    let frames: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert!(frames.first().is_some_and(|line| line.contains("clock_gettime")), "{text}");
    assert!(frames.iter().any(|line| line.contains("main")), "{text}");
}

#[test]
fn a_failure_before_the_start_starts_nothing() {
    let Some(()) = root_or_skip() else { return };
    let directory = for_everybody(&[(&clockscope(), "clockscope", 0o755)]);
    let own = directory.path().join("clockscope");
    let trace = ["trace", "--via", "bpf", "--", "echo", "started"];
    let output = untraced(&words![as_nobody(), own, trace]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn counting_system_calls_says_whom_it_costs() {
    let Some(()) = root_or_skip() else { return };
    let output = untraced(&words![clockscope(), "trace", "--", "true"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("system call of every process on this host"), "{words}");
}
