//! clockscope names the processes that trace system calls on this host: real tracers are started, and must be named.
//! Other tracers may run at the same time; the tests look for their own only.
//!
//! These tests need root; without it each test is skipped with a message.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use clockscope_measure::host;
use clockscope_model::host::SyscallTracing;

use crate::support::tracefs::with_tracefs;
use crate::support::{installed_or_skip, root_or_skip, running};

/// A tracer that is ended with its group when the test ends.
struct Tracer(Child);

impl Tracer {
    fn start(command: &mut Command) -> Self {
        use std::os::unix::process::CommandExt as _;
        let child = command.process_group(0).spawn();
        Self(child.expect("the tracer starts"))
    }

    /// Waits until clockscope sees this process id trace by these means, and gives the clause that says so.
    ///
    /// Meanwhile the tracer attaches itself to one event after another, or ends with an error.
    fn seen(&mut self, pid: u32, means: &str) -> String {
        let marker = format!("(pid {pid})");
        let start = Instant::now();
        while start.elapsed() < running::HUNG_AFTER {
            let tracing = host::collect().syscall_tracing;
            let is_it = |who: &&String| who.contains(&marker) && who.contains(means);
            if let Some(who) = tracing.who.iter().find(is_it) {
                assert_eq!(tracing.active, Some(true), "{tracing:?}");
                return who.clone();
            }
            let ended = self.0.try_wait().expect("it can be waited for");
            assert!(ended.is_none(), "the tracer ended: {ended:?}");
        }
        panic!("{marker} was not seen by {means}: {:?}", host::collect().syscall_tracing);
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn end(mut self) -> u32 {
        let pid = self.pid();
        let group = format!("-{pid}");
        let _ = Command::new("/bin/kill").args(["-s", "INT", "--", &group]).status();
        let _ = self.0.wait();
        pid
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_named(tracing: &SyscallTracing, pid: u32) -> bool {
    tracing.who.iter().any(|who| who.contains(&format!("(pid {pid})")))
}

#[test]
fn another_clockscope_is_seen_and_gone_when_it_ends() {
    let Some(()) = root_or_skip() else { return };
    let mut command = Command::new(running::clockscope());
    command.args(["trace", "--via", "bpf", "-o", "/dev/null", "--", "cat"]);
    command.stderr(Stdio::null()).stdout(Stdio::null());
    let (input, hold) = std::io::pipe().expect("a pipe");
    let mut tracer = Tracer::start(command.stdin(input));
    let pid = tracer.pid();
    let who = tracer.seen(pid, "BPF on sys_enter");
    assert!(who.starts_with("clockscope"), "{who}");
    drop(hold);
    tracer.0.wait().expect("it ends");
    assert!(!is_named(&host::collect().syscall_tracing, pid));
}

#[test]
fn bpftrace_is_seen() {
    let Some(()) = root_or_skip() else { return };
    let Some(bpftrace) = installed_or_skip(&["/usr/bin/bpftrace"]) else { return };
    let program = "tracepoint:raw_syscalls:sys_enter { @ = count(); }";
    let mut command = with_tracefs(&bpftrace);
    command.args(["-e", program]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tracer = Tracer::start(&mut command);
    let pid = tracer.pid();
    let who = tracer.seen(pid, "sys_enter");
    assert_eq!(who, format!("bpftrace (pid {pid}): BPF on sys_enter"));
    let pid = tracer.end();
    assert!(!is_named(&host::collect().syscall_tracing, pid));
}

#[test]
fn perf_without_a_program_is_seen() {
    let Some(()) = root_or_skip() else { return };
    let Some(perf) = installed_or_skip(&["/usr/bin/perf"]) else { return };
    let event = ["stat", "-e", "raw_syscalls:sys_enter", "-a", "sleep", "1000"];
    let all = ["trace", "-a", "-o", "/dev/null", "sleep", "1000"];
    for arguments in [&event[..], &all[..]] {
        let mut command = with_tracefs(&perf);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tracer = Tracer::start(&mut command);
        let pid = tracer.pid();
        let who = tracer.seen(pid, "perf events");
        assert!(who.starts_with("perf"), "{arguments:?}: {who}");
        tracer.end();
    }
}
