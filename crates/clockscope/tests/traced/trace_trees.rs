//! `clockscope trace` counts exactly in threads, signal handlers, forked children and all programs that they execute.

use std::io::Read;

use crate::support::builds::{self, Link};
use crate::support::compare::{assert_exact, assert_exact_and_nothing_else};
use crate::support::daemon::Daemon;
use crate::support::printed::Printed;
use crate::support::running::{rows, trace, trace_vdso, vdso_rows_of};

/// Traces a C program with each of these words of arguments, and checks all counts that it prints.
fn counts_are_exact(name: &str, arguments: &[&str]) {
    let Some(program) = builds::c(name, Link::Dynamic) else { return };
    for words in arguments {
        let words: Vec<&str> = words.split_whitespace().collect();
        let traced = trace(&[], &words![program, words]);
        assert_exact_and_nothing_else(&traced);
        assert_eq!(traced.code(), 0, "{name} {words:?}");
    }
}

#[test]
fn threads_at_once_and_one_after_another() {
    counts_are_exact("threads", &["all 64", "all 1000", "churn 5000"]);
}

#[test]
fn how_long_threads_waited_for_a_cpu_is_told() {
    let Some(program) = builds::c("queued", Link::Dynamic) else { return };
    let traced = trace(&["--via", "none"], &words![program]);
    let printed = traced.stdout.trim().strip_prefix("result queued ").map(str::parse::<u64>);
    let Some(Ok(waited)) = printed else { panic!("{traced:?}") };
    let report = traced.report();
    let told = report.number("queued_ns");
    // It may wait once more until it ends. A wait before its start is not the program's.
    assert!(waited > 0 && (waited..2 * waited).contains(&told), "{told} of {waited}");
}

#[test]
fn a_signal_handler_that_reads_the_clock_it_interrupts() {
    counts_are_exact("signals", &[""]);
}

/// Children and grandchildren, 700 at once, and programs that are executed by a child or by another thread than the
/// first.
#[test]
fn forked_children_and_what_they_execute() {
    let kinds = ["fork", "crowd", "exec", "vfork", "spawn", "thread-exec", "prefork"];
    counts_are_exact("tree", &kinds);
}

/// A process on its parent's memory and thread pointer, a thread without one of its own, and threads whose thread
/// pointer is zero.
#[test]
fn tasks_that_share_memory_and_thread_pointers() {
    counts_are_exact("shared_vm", &["process", "thread", "zero"]);
}

/// While a process has one thread, it counts without a search; another task may come at any moment. In some of so many
/// tries the handler interrupts the first read, which takes a slot.
#[test]
fn a_second_task_that_comes_while_the_first_counts() {
    let ways = ["pthread 20", "handler 200", "process 20", "vfork 20", "fork 20", "exec 20"];
    counts_are_exact("second_thread", &ways);
}

/// A handler comes after each instruction of the first read, which takes a slot: it reads, makes a task with the same
/// thread pointer, or forks a child that returns to the interrupted instruction, as its parent does.
#[test]
fn a_handler_after_each_instruction_of_the_first_read() {
    let Some(program) = builds::c("second_thread", Link::Dynamic) else { return };
    for (way, tries) in
        [("step", 5000), ("step-handler", 5000), ("step-fork", 5000), ("handler-fork", 200)]
    {
        let traced = trace(&["--via", "none"], &words![&program, way, tries.to_string()]);
        let said = Printed::parse(&traced.stdout);
        let [ref result] = said.results[..] else { panic!("{traced:?}") };
        let made = result.strip_prefix("tries ").map(str::parse);
        let Some(Ok(made)) = made else { panic!("{traced:?}") };
        assert!(
            way == "handler-fork" || made < tries,
            "the read has more instructions: {traced:?}"
        );
        // Parent and child return from the interrupted read. It is counted once if it had been counted before the fork.
        let once = if way.ends_with("fork") { made } else { 0 };
        let counted = traced.report().vdso_rows();
        let missing: Vec<_> = said.vdso.iter().map(|(read, said)| said - counted[read]).collect();
        assert!(missing.len() == 1 && (0..=once).contains(&missing[0]), "{way}: {missing:?}");
    }
}

/// The workload of "gettimeofday() system call" (2013): a client that times 60,000 questions.
#[test]
fn a_client_that_times_60000_round_trips() {
    let Some(program) = builds::c("roundtrips", Link::Dynamic) else { return };
    let printed = assert_exact_and_nothing_else(&trace(&[], &words![program, "60000"]));
    assert!(printed.has_result("the measured time is plausible"));
}

#[test]
fn counting_by_cpu_is_exact_too() {
    let Some(program) = builds::c("threads", Link::Dynamic) else { return };
    for arguments in [["all", "64"], ["churn", "500"]] {
        let options = ["--via", "none", "--count-by", "cpu"];
        assert_exact(&trace(&options, &words![program, arguments]));
    }
}

#[test]
fn processes_add_up_to_the_whole() {
    let Some(program) = builds::c("tree", Link::Dynamic) else { return };
    let report = trace(&["--per-process"], &words![program, "fork"]).report();
    let processes: Vec<_> = rows(report.field("processes_detail")).collect();
    assert_eq!(processes.len(), 29);
    let of_processes = processes.iter().flat_map(|process| vdso_rows_of(process).into_values());
    assert_eq!(of_processes.sum::<u64>(), report.vdso_rows().into_values().sum::<u64>());
}

#[test]
fn threads_add_up_to_their_process() {
    let Some(program) = builds::c("threads", Link::Dynamic) else { return };
    let report = trace(&["--per-thread"], &words![program, "all", "64"]).report();
    let process = rows(report.field("processes_detail")).next().expect("one process");
    let of_threads: Vec<u64> =
        rows(&process["threads"]).flat_map(|thread| vdso_rows_of(thread).into_values()).collect();
    assert_eq!(of_threads.len(), 64, "the first thread reads no clock, the others one each");
    assert_eq!(of_threads.iter().sum::<u64>(), report.vdso_rows().into_values().sum::<u64>());
}

#[test]
fn a_shell_script_of_5000_short_commands() {
    let script = "i=0; while [ $i -lt 5000 ]; do /bin/true; i=$((i+1)); done; echo result $i";
    let traced = trace_vdso(&words!["sh", "-c", script]);
    assert_eq!(traced.stdout, "result 5000\n");
    assert_eq!(traced.report().number("processes"), 5001);
    assert_eq!(traced.code(), 0);
}

/// The program `tree`, whose daemon outlives the command. Its reads up to the end of the command may be counted; with
/// `--wait-all` all of them are.
fn daemon(options: &[&str]) -> Option<Daemon> {
    Some(Daemon::new(options, &builds::c("tree", Link::Dynamic)?, "daemon"))
}

fn printed(daemon: &Daemon) -> Printed {
    Printed::parse(&daemon.wrote("stdout"))
}

#[test]
fn a_daemon_is_left_running_when_the_command_ends() {
    let Some(mut daemon) = daemon(&["--via", "none"]) else { return };
    let mut alive = daemon.is_left();
    assert!(!printed(&daemon).has_result("the daemon is done"));
    let report = daemon.report();
    assert!(report.reads_of("CLOCK_TAI") >= 211, "the command's own reads: {report:#?}");
    daemon.let_go();
    alive.read_to_end(&mut Vec::new()).expect("wait for the daemon");
    let printed = printed(&daemon);
    assert!(printed.has_result("the daemon is done"), "{printed:?}");
    let key = ("clock_gettime".to_owned(), "CLOCK_TAI".to_owned());
    assert_eq!(printed.vdso[&key], 211 + 503 + 1009);
}

#[test]
fn a_daemon_is_counted_to_its_end_with_wait_all() {
    let Some(mut daemon) = daemon(&["--via", "none", "--wait-all"]) else { return };
    let mut clockscope = daemon.tracing.command.spawn().expect("start clockscope");
    daemon.let_go();
    let status = clockscope.wait().expect("wait for clockscope");
    assert_eq!(status.code(), Some(3));
    let printed = printed(&daemon);
    let report = daemon.report();
    assert!(printed.has_result("the daemon is done"));
    assert_eq!(report.vdso_rows(), printed.vdso);
}
