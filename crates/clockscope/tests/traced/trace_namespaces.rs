//! Processes in several IPC namespaces, like the processes of several containers: one trace counts them all.

use std::process::Command;

use crate::support::attaching::{Attachment, assert_refused, attach_below};
use crate::support::builds::{self, Link};
use crate::support::compare::{assert_counts, assert_declined};
use crate::support::conversation::Conversation;
use crate::support::printed::Printed;
use crate::support::running::{Tracing, clockscope, rows, trace, vdso_rows_of};
use crate::support::{installed_or_skip, root_or_skip, works_or_skip};

/// Why a clockscope that may not enter another IPC namespace does not count the processes there.
const NOT_ALLOWED: &str = "it is in another IPC namespace (container), which clockscope enters with CAP_SYS_ADMIN; run \
                           clockscope as root on the host, or inside";

/// The server of `attach_server.c`, started by these words, which must execute it in place of themselves.
fn server(starter: &[&str]) -> Option<Conversation> {
    let program = builds::c("attach_server", Link::Static)?;
    Some(Conversation::start(&words![starter, program, "3"]))
}

#[test]
fn processes_of_several_namespaces_are_attached_to_at_once() {
    let Some(()) = root_or_skip() else { return };
    let starters: [&[&str]; 4] = [
        &["unshare", "--ipc"],
        &[],
        &["unshare", "--ipc", "--mount", "--net", "--uts"],
        &["unshare", "--ipc", "--user", "--map-root-user"],
    ];
    let servers: Option<Vec<Conversation>> = starters.iter().map(|words| server(words)).collect();
    let Some(mut servers) = servers else { return };
    let pids: Vec<i32> = servers.iter().map(Conversation::pid).collect();
    for round in 0..3 {
        let attachment = Attachment::to(&pids, &["--via", "none", "--per-process", "--callers"]);
        let mut said = Vec::new();
        for server in &mut servers {
            let own = server.works(round);
            // The servers execute programs, in one namespace after the other.
            let children = server.ask("fork 3") + &server.ask("exec 5");
            said.push((own, Printed::parse(&children)));
        }
        let traced = attachment.detach();
        let report = traced.report();
        assert_eq!(rows(report.field("attached")).count(), 4, "{report:#?}");
        assert_eq!(rows(report.field("declines")).count(), 0, "{report:#?}");
        let mut all = Printed::default();
        for (pid, (own, children)) in pids.iter().zip(said) {
            let counted = vdso_rows_of(report.process(*pid));
            for (key, calls) in &own.vdso {
                assert_eq!(counted.get(key), Some(calls), "{key:?} of {pid}");
            }
            for (key, calls) in own.vdso.into_iter().chain(children.vdso) {
                *all.vdso.entry(key).or_default() += calls;
            }
        }
        assert_counts(&all, &report);
    }
    for server in servers {
        server.ends_well();
    }
}

/// Changes that the tracer makes in shared memory while programs run also reach a namespace that it entered later.
#[test]
fn calls_are_timed_and_sampled_in_a_namespace_that_is_not_the_first_one() {
    let Some(()) = root_or_skip() else { return };
    let Some(mut busy) = server(&["unshare", "--ipc"]) else { return };
    let mut idle = Command::new("sleep").arg("1000").spawn().expect("start sleep");
    let pids = [idle.id().cast_signed(), busy.pid()];
    let attachment = Attachment::to(&pids, &["--via", "none", "--callers"]);
    let said = busy.works(9);
    let report = attachment.detach().report();
    idle.kill().and_then(|()| idle.wait()).expect("end sleep");
    assert_counts(&said, &report);
    let timed: u64 = rows(report.field("vdso")).filter_map(|row| row["timed"].as_u64()).sum();
    assert!(timed > 0, "{report:#?}");
    let samples = &report.field("callers")["samples"];
    assert!(samples.as_u64() > Some(0), "{samples} {report:#?}");
    busy.ends_well();
}

/// Counts what a script of shell does with the program `reads`, whose place is in `$0`.
#[track_caller]
fn counts_what_a_script_does(script: &str, link: Link) {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("reads", link) else { return };
    let traced = trace(&["--via", "none"], &words!["sh", "-c", script, program]);
    let mut said = Printed::parse(&traced.stdout);
    // Each run prints that it is one process.
    (said.processes, said.threads) = (None, None);
    let report = traced.report();
    assert_counts(&said, &report);
    assert_eq!(rows(report.field("declines")).count(), 0, "{report:#?}");
}

#[test]
fn programs_that_are_executed_in_a_namespace_of_their_own_are_counted() {
    let few =
        "for turn in 1 2 3; do unshare --ipc \"$0\"; \"$0\"; unshare --ipc --user \"$0\"; done";
    counts_what_a_script_does(few, Link::Dynamic);
    // More namespaces than clockscope remembers. The kernel gives the number of a namespace that is gone to a new one.
    let many = "i=0; while [ $i -lt 150 ]; do unshare --ipc \"$0\"; i=$((i + 1)); done; \"$0\"";
    counts_what_a_script_does(many, Link::Static);
}

/// Without CAP_SYS_ADMIN on the host, clockscope gives the reason, and the program runs uncounted.
#[test]
fn who_may_not_enter_a_namespace_leaves_its_processes_alone() {
    let Some(setpriv) = installed_or_skip(&["/usr/bin/setpriv"]) else { return };
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("reads", Link::Static) else { return };
    let powerless = words![setpriv, "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"];
    // An unprivileged program can make its own IPC namespace inside its own user namespace.
    let command = words!["unshare", "--user", "--map-root-user", "--ipc", program];
    let why = "user namespaces cannot be made here";
    let Some(()) = works_or_skip(&words![powerless, command], why) else { return };
    let Some(server) = server(&["unshare", "--ipc"]) else { return };
    let traced = attach_below(&powerless, "0.1", &[server.pid()], &["--via", "none"]);
    assert_refused(&traced, &[NOT_ALLOWED]);
    server.ends_well();
    let starter = words![powerless, clockscope()];
    assert_declined(&Tracing::below(&starter, &["--via", "none"], &command).finish(), NOT_ALLOWED);
}

/// The next clockscope restores the processes of both namespaces.
#[test]
fn a_killed_tracer_leaves_processes_of_several_namespaces_running() {
    let Some(()) = root_or_skip() else { return };
    let (Some(mut first), Some(mut second)) = (server(&[]), server(&["unshare", "--ipc"])) else {
        return;
    };
    let pids = [first.pid(), second.pid()];
    for _ in 0..3 {
        let attachment = Attachment::to(&pids, &["--via", "none"]);
        first.check_an_answer(1);
        second.check_an_answer(1);
        attachment.kill();
        first.check_an_answer(2);
        second.check_an_answer(2);
    }
    let attachment = Attachment::to(&pids, &["--via", "none"]);
    let said = second.works(3);
    assert_counts(&said, &attachment.detach().report());
    for server in [first, second] {
        server.ends_well();
    }
}
