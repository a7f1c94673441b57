//! clockscope names the processes that trace system calls on this host: real tracers are started, and must be named.
//! Other tracers may run at the same time; the tests look for their own only.
//!
//! These tests need root; without it each test is skipped with a message.

use std::process::Command;
use std::time::Instant;

use clockscope_measure::host;

use crate::support::tracefs::{Tracer, with_tracefs};
use crate::support::{installed_or_skip, root_or_skip, running};

/// Waits until clockscope sees the tracer trace by these means, and gives the clause that says so.
///
/// Meanwhile the tracer attaches itself to one event after another, or ends with an error.
#[track_caller]
fn seen(tracer: &mut Tracer, means: &str) -> String {
    let marker = format!("(pid {})", tracer.pid());
    let start = Instant::now();
    while start.elapsed() < running::HUNG_AFTER {
        let tracing = host::collect().syscall_tracing;
        let is_it = |who: &&String| who.contains(&marker) && who.contains(means);
        if let Some(who) = tracing.who.iter().find(is_it) {
            assert_eq!(tracing.active, Some(true), "{tracing:?}");
            return who.clone();
        }
        tracer.assert_runs();
    }
    panic!("{marker} was not seen by {means}: {:?}", host::collect().syscall_tracing);
}

fn is_named(pid: u32) -> bool {
    let tracing = host::collect().syscall_tracing;
    tracing.who.iter().any(|who| who.contains(&format!("(pid {pid})")))
}

#[test]
fn another_clockscope_is_seen_and_gone_when_it_ends() {
    let Some(()) = root_or_skip() else { return };
    let mut command = Command::new(running::clockscope());
    command.args(["trace", "--via", "bpf", "-o", "/dev/null", "--", "cat"]);
    let (input, hold) = std::io::pipe().expect("a pipe");
    let mut tracer = Tracer::start(command.stdin(input));
    let pid = tracer.pid();
    let who = seen(&mut tracer, "BPF on sys_enter");
    assert!(who.starts_with("clockscope"), "{who}");
    drop(hold);
    tracer.wait();
    assert!(!is_named(pid));
}

#[test]
fn bpftrace_is_seen() {
    let Some(()) = root_or_skip() else { return };
    let Some(bpftrace) = installed_or_skip(&["/usr/bin/bpftrace"]) else { return };
    let program = "tracepoint:raw_syscalls:sys_enter { @ = count(); }";
    let mut tracer = Tracer::start(with_tracefs(&bpftrace).args(["-e", program]));
    let pid = tracer.pid();
    let who = seen(&mut tracer, "sys_enter");
    assert_eq!(who, format!("bpftrace (pid {pid}): BPF on sys_enter"));
    drop(tracer);
    assert!(!is_named(pid));
}

#[test]
fn perf_without_a_program_is_seen() {
    let Some(()) = root_or_skip() else { return };
    let Some(perf) = installed_or_skip(&["/usr/bin/perf"]) else { return };
    let event = ["stat", "-e", "raw_syscalls:sys_enter", "-a", "sleep", "1000"];
    let all = ["trace", "-a", "-o", "/dev/null", "sleep", "1000"];
    for arguments in [&event[..], &all[..]] {
        let mut tracer = Tracer::start(with_tracefs(&perf).args(arguments));
        let who = seen(&mut tracer, "perf events");
        assert!(who.starts_with("perf"), "{arguments:?}: {who}");
    }
}
