//! Attached to a running process, clockscope counts each of its calls exactly once.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::attaching::{
    Attachment, Image, assert_code_is_of_its_files, assert_nothing_piles_up, attach_for, mappings,
    signal, status_of, wait_until,
};
use crate::support::builds::{self, Link};
use crate::support::compare::assert_counts;
use crate::support::conversation::Conversation;
use crate::support::places_left;
use crate::support::printed::Printed;
use crate::support::running::{
    HUNG_AFTER, Report, Traced, clockscope, code_as_shell, finish, untraced, vdso_rows_of,
};
use crate::support::servers::{self, Postgres};
use crate::support::{installed_or_skip, root_or_skip, server};

/// The values of `--via` that this user can use.
fn ways() -> &'static [&'static str] {
    if root_or_skip().is_some() {
        &["none", "bpf", "ptrace", "sites"]
    } else {
        &["none", "ptrace", "sites"]
    }
}

/// Calls that code in a program never counts: see [`super::trace_sites`].
const NEVER_BY_SITES: [&str; 2] = ["rt_sigreturn", "[vdso]"];

/// The report, which is without refusals. Counted by code in the program, calls are exact or named: the report may name
/// only the instructions that [`places_left`] knows.
#[track_caller]
fn without_refusals(traced: &Traced) -> Report {
    without_refusals_but(traced, &[])
}

/// As [`without_refusals`], for programs with system calls that are not counted, for these reasons.
#[track_caller]
fn without_refusals_but(traced: &Traced, why: &[&str]) -> Report {
    let report = traced.report();
    let mut reasons = report.reasons("syscalls");
    if report.field("via") == "sites" {
        let never = [&NEVER_BY_SITES, why].concat();
        reasons.retain(|reason| !never.iter().any(|never| reason.contains(never)));
        places_left::take_known(&mut reasons);
    }
    assert_eq!([report.reasons("vdso"), reasons], [[""; 0]; 2], "{report:#?}");
    report
}

/// Attaches while the server works, lets it count its own calls, and detaches while it works.
#[track_caller]
fn counts_between_two_moments(server: Conversation, options: &[&str]) -> Report {
    counts_but_for_the_runtimes_own(server, options, 0, &[])
}

/// As [`counts_between_two_moments`], for a runtime that makes up to `own_calls` of the counted calls by itself, and
/// with system calls that are not counted, for these reasons.
#[track_caller]
fn counts_but_for_the_runtimes_own(
    mut server: Conversation,
    options: &[&str],
    own_calls: u64,
    why: &[&str],
) -> Report {
    let attachment = Attachment::to(&[server.pid()], options);
    server.begin();
    for number in 0..300 {
        server.check_an_answer(number);
    }
    let mut said = server.end();
    let traced = attachment.detach();
    let report = without_refusals_but(&traced, why);
    for (key, calls) in &mut said.vdso {
        let seen = report.vdso_calls(key);
        if (*calls..=*calls + own_calls).contains(&seen) {
            *calls = seen;
        }
    }
    assert_counts(&said, &report);
    server.goes_on_and_ends_well();
    report
}

#[test]
fn a_server_in_c_while_all_its_threads_work() {
    for via in ways() {
        let Some(server) = server(6) else { return };
        let pid = server.pid();
        let report = counts_between_two_moments(server, &["--via", via]);
        let attached = &report.field("attached")[0];
        assert_eq!(attached["pid"], pid, "{report:#?}");
        assert_eq!(attached["threads"], 6, "{report:#?}");
        assert_eq!(attached["ended"], "interrupted", "{report:#?}");
        assert!(attached["pause_ns"].as_u64().is_some_and(|pause| pause > 0), "{report:#?}");
        assert!(attached["detach_pause_ns"].as_u64().is_some_and(|pause| pause > 0), "{report:#?}");
        assert_eq!(report.syscall("shmat", "calls"), 0, "our own call is counted: {report:#?}");
    }
}

/// A process with one thread counts without a search, and so do its children.
#[test]
fn a_second_task_that_comes_while_the_first_counts() {
    let Some(program) = builds::c("second_thread", Link::Dynamic) else { return };
    for way in ["pthread", "handler", "process", "vfork", "fork", "exec"] {
        let mut program = Conversation::start(&words![&program, way, "10", "asked"]);
        let attachment = Attachment::to(&[program.pid()], &["--via", "none"]);
        program.say("");
        let said = Printed::parse(&program.wait_for("done"));
        let traced = attachment.detach();
        program.say("");
        assert_counts(&said, &traced.report());
    }
}

#[test]
fn servers_in_c_of_every_kind_of_linking_and_in_go() {
    let in_c = [Link::Static, Link::StaticPie, Link::StaticFixed];
    let in_c = in_c.map(|link| (builds::c("attach_server", link), "4"));
    for (program, threads) in in_c.into_iter().chain([(builds::go_program("attach_server"), "6")]) {
        let Some(program) = program else { continue };
        for via in ["none", "sites"] {
            let server = Conversation::start(&words![program, threads]);
            counts_between_two_moments(server, &["--via", via]);
        }
    }
}

#[test]
fn a_program_in_c_with_musl() {
    for link in [Link::MuslStatic, Link::MuslDynamic] {
        let Some(program) = builds::c("waits", link) else { return };
        for via in ["none", "sites"] {
            let mut program = Conversation::start(&words![program]);
            let attachment = Attachment::to(&[program.pid()], &["--via", via]);
            program.say("read");
            let said = program.wait_for("result line read");
            let report = without_refusals(&attachment.detach());
            assert_counts(&Printed::parse(&said), &report);
            assert!(program.status().success());
        }
    }
}

#[test]
fn a_server_in_java_while_all_its_threads_work() {
    let Some(java) = installed_or_skip(&["/usr/bin/java"]) else { return };
    let Some(classes) = builds::java_class("AttachServer") else { return };
    for option in ["-XX:+UseSerialGC", "-XX:+UseG1GC"] {
        let command = words![java, option, "-cp", classes, "AttachServer", "4"];
        for via in ["none", "sites"] {
            let server = Conversation::start(&command);
            // The virtual machine itself reads the time of day now and then, and has compiled code.
            let compiled = ["executable mappings without a file"];
            counts_but_for_the_runtimes_own(server, &["--via", via], 5, &compiled);
        }
    }
}

#[test]
fn attached_again_it_counts_again_from_zero() {
    let Some(mut server) = server(4) else { return };
    let image = Image::of(server.pid()).expect("it has a vDSO");
    let maps = mappings(server.pid());
    for round in 0..6 {
        let via = ["none", "sites"][round % 2];
        let attachment = Attachment::to(&[server.pid()], &["--via", via]);
        let said = server.works(11);
        assert_counts(&said, &without_refusals(&attachment.detach()));
        image.assert_as_before(server.pid());
        assert_code_is_of_its_files(server.pid());
        assert_nothing_piles_up(server.pid(), &maps);
    }
    server.ends_well();
}

#[test]
fn what_happens_while_nobody_is_attached_is_not_counted() {
    let Some(mut server) = server(4) else { return };
    server.works(1);
    let attachment = Attachment::to(&[server.pid()], &["--via", "none"]);
    server.check_an_answer(2);
    let report = without_refusals(&attachment.detach());
    server.works(3);
    assert_eq!(report.reads_of("CLOCK_TAI"), 0, "{report:#?}");
    assert!(report.reads_of("CLOCK_MONOTONIC") > 0);
    server.ends_well();
}

#[test]
fn children_forked_and_executed_while_attached_are_counted() {
    for via in ways() {
        let Some(mut server) = server(4) else { return };
        let attachment = Attachment::to(&[server.pid()], &["--via", via]);
        let mut said = String::new();
        for round in 0..20 {
            said += &server.ask(&format!("fork {}", 1000 + round));
            said += &server.ask(&format!("exec {}", 2000 + round));
        }
        let report = without_refusals(&attachment.detach());
        assert_counts(&Printed::parse(&said), &report);
        assert_eq!(report.number("processes"), 41, "{report:#?}");
        server.ends_well();
    }
}

#[test]
fn several_processes_at_once() {
    let Some(mut first) = server(3) else { return };
    let Some(mut second) = server(2) else { return };
    let Some(program) = builds::go_program("attach_server") else { return };
    let mut third = Conversation::start(&words![program, "2"]);
    let pids = [first.pid(), second.pid(), third.pid()];
    let attachment = Attachment::to(&pids, &["--via", "none", "--per-process"]);
    let said = [&mut first, &mut second, &mut third].map(|server| server.works(5));
    let report = without_refusals(&attachment.detach());
    assert_eq!(report.field("attached").as_array().map(Vec::len), Some(3), "{report:#?}");
    for (pid, said) in pids.iter().zip(&said) {
        let counted = vdso_rows_of(report.process(*pid));
        for (key, calls) in &said.vdso {
            let counted = counted.get(key).copied().unwrap_or(0);
            assert_eq!(counted, *calls, "{key:?} of {pid}");
        }
    }
    for server in [first, second, third] {
        server.ends_well();
    }
}

#[test]
fn a_report_is_whole_however_often_its_end_is_asked_for() {
    let Some(server) = server(3) else { return };
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let page = folder.path().join("page.html");
    let mut command = Command::new(clockscope());
    command.args(["trace", "--via", "none", "--format", "html", "-p", &server.pid().to_string()]);
    let mut child = command.arg("-o").arg(&page).stderr(Stdio::piped()).spawn().expect("start it");
    let pid = child.id().try_into().expect("is a pid");
    let mut said = BufReader::new(child.stderr.take().expect("is piped"));
    let mut line = String::new();
    while !line.contains("Ctrl-C ends it") {
        line.clear();
        assert!(said.read_line(&mut line).expect("read what it says") > 0, "it has ended");
    }
    let (sender, ended) = channel();
    thread::spawn(move || sender.send(said.read_to_end(&mut Vec::new()).is_ok()));
    let start = Instant::now();
    // The process id stays clockscope's until the test has waited for it.
    loop {
        signal("INT", pid);
        match ended.recv_timeout(Duration::from_millis(2)) {
            Err(RecvTimeoutError::Timeout) => assert!(start.elapsed() < HUNG_AFTER),
            ended => break assert_eq!(ended, Ok(true)),
        }
    }
    assert_eq!(code_as_shell(finish(child).status), 0);
    let page = fs::read_to_string(page).expect("read the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    server.ends_well();
}

#[test]
fn the_duration_ends_it() {
    let Some(server) = server(3) else { return };
    let traced = attach_for("0.3", &[server.pid()], &["--via", "none"]).succeeded();
    let report = without_refusals(&traced);
    assert_eq!(report.field("attached")[0]["ended"], "duration", "{report:#?}");
    let wall = report.number("wall_ns");
    assert!(wall >= 300_000_000, "it lasted {wall} ns");
    server.ends_well();
}

/// The server is waiting in `read` for its next line when counting ends.
#[test]
fn the_time_of_a_call_that_has_not_ended_is_in_its_average() {
    let Some(mut server) = server(2) else { return };
    let attachment = Attachment::to(&[server.pid()], &["--via", "ptrace"]);
    server.check_an_answer(1);
    let report = attachment.detach().report();
    let [calls, total, average] =
        ["calls", "time_total_ns", "time_avg_ps"].map(|what| report.syscall("read", what));
    let by_calls = calls * average / 1000;
    assert!(calls > 1 && total.abs_diff(by_calls) <= calls, "{calls} {total} {by_calls}");
    server.ends_well();
}

#[test]
fn the_end_of_the_process_ends_it() {
    let Some(mut server) = server(3) else { return };
    let pid = server.pid();
    let mut attachment = Attachment::to(&[pid], &["--via", "none"]);
    let said = server.works(5);
    server.ends_well();
    let report = attachment.wait().succeeded().report();
    assert_counts(&said, &report);
    assert_eq!(report.field("attached")[0]["ended"], "exited", "{report:#?}");
}

// Real servers. perf counts the calls of the kernel's vDSO functions by hardware breakpoints, from before the
// attachment to after it; for redis also a second time while clockscope is attached. The server is at rest except for
// the test's requests. Each stop also makes an event loop that waits with a limit turn once (epoll_wait(2) returns
// EINTR), after the one call too.

/// A running `perf stat` with breakpoints on the vDSO functions of a process.
struct Breakpoints {
    perf: Child,
    names: Vec<String>,
}

impl Breakpoints {
    /// Starts perf. A CPU has four breakpoints, so two functions leave room for a second count at the same time.
    fn on(pid: i32) -> Option<Self> {
        root_or_skip()?;
        let perf = installed_or_skip(&["/usr/bin/perf"])?;
        let image = Image::of(pid).expect("it has a vDSO");
        let wanted = ["clock_gettime", "gettimeofday"];
        let functions = image.functions();
        let chosen = functions.iter().filter(|of| wanted.contains(&of.name.as_str()));
        let (names, events): (Vec<_>, Vec<_>) =
            chosen.map(|of| (of.name.clone(), format!("mem:{:#x}:x", of.at))).unzip();
        let mut command = Command::new(perf);
        command.args(["stat", "-x", ";", "-e", &events.join(","), "-p", &pid.to_string()]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let perf = command.spawn().expect("start perf");
        let child = i32::try_from(perf.id()).expect("is a pid");
        // perf counts once it has opened its events and sleeps.
        wait_until("perf counts", || {
            let links = fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten();
            let events = links.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
            let open = events.filter(|to| to.to_string_lossy().contains("perf_event")).count();
            let asleep = status_of(child, "State");
            open >= names.len() && asleep.is_some_and(|state| state.starts_with('S'))
        });
        Some(Self { perf, names })
    }

    /// Ends perf; gives the calls of each function.
    fn read(self) -> Vec<(String, u64)> {
        signal("INT", self.perf.id().try_into().expect("is a pid"));
        let output = finish(self.perf);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let counts = text.lines().filter_map(|line| line.split(';').next()?.parse().ok());
        let counts: Vec<u64> = counts.collect();
        assert_eq!(counts.len(), self.names.len(), "{text}");
        self.names.into_iter().zip(counts).collect()
    }
}

/// Calls of a function, summed over all clocks.
fn calls_of(report: &Report, function: &str) -> u64 {
    let rows = report.vdso_rows();
    rows.iter().filter(|((name, _), _)| name == function).map(|(_, calls)| calls).sum()
}

#[track_caller]
fn assert_as_breakpoints_saw(report: &Report, seen: &[(String, u64)]) {
    for (function, calls) in seen {
        assert_eq!(calls_of(report, function), *calls, "calls of {function}\n{report:#?}");
    }
}

#[test]
fn an_nginx_worker_at_rest_but_for_our_requests() {
    let Some(server) = servers::nginx() else { return };
    wait_until("nginx has two workers", || server.children().len() == 2);
    let workers = server.children();
    let open =
        |worker: &i32| fs::read_dir(format!("/proc/{worker}/fd")).expect("list open files").count();
    let open_at_rest: Vec<usize> = workers.iter().map(open).collect();
    let outer: Option<Vec<_>> = workers.iter().map(|pid| Breakpoints::on(*pid)).collect();
    let Some(outer) = outer else { return };
    let attachment = Attachment::to(&workers, &["--via", "none"]);
    let url = format!("http://127.0.0.1:{}/", server.port);
    for _ in 0..50 {
        let output = untraced(&words!["curl", "-sf", &url]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), servers::nginx_body());
    }
    // nginx closes the last connection after curl has its answer, and reads the clock for that.
    wait_until("nginx is at rest again", || {
        let state = |worker: &i32| status_of(*worker, "State");
        let is_asleep = |worker| state(worker).is_some_and(|state| state.starts_with('S'));
        workers.iter().map(open).eq(open_at_rest.iter().copied()) && workers.iter().all(is_asleep)
    });
    let report = without_refusals(&attachment.detach());
    assert_as_breakpoints_saw(&report, &sum_of(outer));
    assert!(calls_of(&report, "gettimeofday") >= 50, "{report:#?}");
    server.ends_well();
}

/// Calls of each function, summed over all processes.
fn sum_of(counting: Vec<Breakpoints>) -> Vec<(String, u64)> {
    let counts: Vec<_> = counting.into_iter().map(Breakpoints::read).collect();
    let sum = |index: usize| counts.iter().map(|counts| counts[index].1).sum();
    counts[0].iter().enumerate().map(|(index, (name, _))| (name.clone(), sum(index))).collect()
}

/// Checks that a report has at least the calls seen during the attachment, and at most those seen from before the
/// attachment to after it.
#[track_caller]
fn assert_between(report: &Report, least: &[(String, u64)], most: &[(String, u64)]) {
    for ((function, least), (_, most)) in least.iter().zip(most) {
        let counted = calls_of(report, function);
        assert!((*least..=*most).contains(&counted), "{function}: {least} {counted} {most}");
    }
}

/// At rest, redis reads the clock ten times a second.
#[test]
fn a_redis_server_under_our_requests() {
    let Some(server) = servers::redis() else { return };
    let Some(before) = Breakpoints::on(server.pid()) else { return };
    let attachment = Attachment::to(&[server.pid()], &["--via", "none"]);
    let port = server.port.to_string();
    // Each TIME in a script reads the clock.
    let script = "local last = 0 for i = 1, 20011 do local now = redis.call('TIME') \
                  local us = now[1] * 1000000 + now[2] if us < last then return 'backwards' end \
                  last = us end return 'in order'";
    let during = Breakpoints::on(server.pid()).expect("as before");
    let output = untraced(&words!["redis-cli", "-p", port, "eval", script, "0"]);
    let during = during.read();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.trim(), "in order", "{output:?}");
    let report = without_refusals(&attachment.detach());
    assert_between(&report, &during, &before.read());
    assert!(calls_of(&report, "gettimeofday") >= 20_011, "{report:#?}");
    server.ends_well();
}

/// The clock reads of a query with timed nodes: two for each row of each node, and some more whose number does not
/// depend on the rows.
#[track_caller]
fn reads_of_rows(postgres: &Postgres, rows: u64) -> u64 {
    let (mut session, pid) = postgres.session();
    let seen = Breakpoints::on(pid);
    let attachment = Attachment::to(&[pid], &["--via", "none"]);
    session.say(&format!(
        "explain (analyze, timing on, summary off) select count(*) from generate_series(1, {rows});"
    ));
    session.say("select 'done';");
    let plan = session.wait_for("done");
    assert!(plan.contains(&format!("rows={rows}")), "{plan}");
    let report = without_refusals(&attachment.detach());
    if let Some(seen) = seen {
        assert_as_breakpoints_saw(&report, &seen.read());
    }
    session.say("select 6 * 7;");
    assert_eq!(session.line(), "42", "the backend goes on");
    assert!(session.status().success());
    report.reads_of("CLOCK_MONOTONIC")
}

#[test]
fn a_postgres_backend_that_explains() {
    let Some(postgres) = servers::postgres() else { return };
    let (few, many) = (reads_of_rows(&postgres, 1000), reads_of_rows(&postgres, 51_000));
    assert_eq!(many - few, 2 * 50_000, "two reads a row: {few}, {many}");
    postgres.server.ends_well();
}

#[test]
fn a_program_that_is_only_starting() {
    let Some(program) = builds::c("attach_server", Link::Dynamic) else { return };
    for _ in 0..20 {
        let mut server = Conversation::start_silent(&words![program, "8"]);
        attach_for("0.05", &[server.pid()], &["--via", "none"]).succeeded();
        server.wait_for("ready");
        server.ends_well();
    }
}
