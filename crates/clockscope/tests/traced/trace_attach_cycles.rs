//! Attaching and detaching again and again under full load: nothing crashes, no request is lost, no answer is wrong,
//! and at the end the program is unchanged.
//!
//! 200 cycles in all, shared by six programs.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::attaching::{
    Image, assert_nothing_piles_up, attach_for, mappings, signal, wait_until,
};
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::installed_or_skip;
use crate::support::running::{finish, untraced};
use crate::support::servers;

/// Duration of an attachment in seconds. It varies, so that attachments end at different moments.
fn lasting(cycle: u32) -> String {
    format!("{:.3}", 0.004 + f64::from(cycle * 7 % 23) / 1000.0)
}

/// Attaches and detaches while `load` runs in another thread; the flag tells `load` to stop.
#[track_caller]
fn cycle_under<T: Send>(
    pids: &[i32],
    cycles: u32,
    load: impl FnOnce(&AtomicBool) -> T + Send,
) -> T {
    let before: Vec<_> =
        pids.iter().map(|pid| (Image::of(*pid).expect("it has a vDSO"), mappings(*pid))).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| load(&stop));
        // Dropping this tells the load to stop, also if a cycle fails.
        let stopping = StopAtEnd(&stop);
        for cycle in 0..cycles {
            let traced = attach_for(&lasting(cycle), pids, &["--via", "none"]);
            assert_eq!(traced.code(), 0, "cycle {cycle}: {traced:?}");
            let report = traced.report();
            assert_eq!(report.reasons("vdso"), [""; 0], "cycle {cycle}");
            for (pid, (image, maps)) in pids.iter().zip(&before) {
                image.assert_as_before(*pid);
                assert_nothing_piles_up(*pid, maps);
            }
        }
        drop(stopping);
        load.join().expect("the load found nothing wrong")
    })
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Attaches to a conversation's server while a thread asks it all the time and checks each answer.
#[track_caller]
fn conversation(mut server: Conversation, cycles: u32) {
    let pid = server.pid();
    let (server, answers) = cycle_under(&[pid], cycles, |stop| {
        let mut answers = 0;
        while !stop.load(Ordering::Acquire) {
            server.begin();
            for _ in 0..20 {
                answers += 1;
                server.check_an_answer(answers);
            }
            server.end();
        }
        server.check_health();
        (server, answers)
    });
    assert!(answers > u64::from(cycles), "{answers} answers in {cycles} cycles");
    server.ends_well();
}

#[test]
fn a_server_in_c() {
    let Some(program) = builds::c("attach_server", Link::Dynamic) else { return };
    conversation(Conversation::start(&words![program, "10"]), 50);
}

#[test]
fn a_server_in_go() {
    let Some(program) = builds::go_program("attach_server") else { return };
    conversation(Conversation::start(&words![program, "6"]), 30);
}

#[test]
fn a_server_in_java() {
    let Some(java) = installed_or_skip(&["/usr/bin/java"]) else { return };
    let Some(classes) = builds::java_class("AttachServer") else { return };
    let command = words![java, "-cp", classes, "AttachServer", "4"];
    conversation(Conversation::start(&command), 30);
}

/// redis-benchmark makes the load, and a script checks that its own counter goes up by one.
#[test]
fn redis_server() {
    let Some(server) = servers::redis() else { return };
    let port = server.port.to_string();
    let mut benchmark = Command::new("redis-benchmark");
    benchmark.args(["-p", &port, "-n", "100000000", "-c", "8", "-t", "get,set", "-q"]);
    let mut benchmark = benchmark.stdout(Stdio::null()).spawn().expect("start redis-benchmark");
    let mut expected = 0;
    let expected = cycle_under(&[server.pid()], 30, |stop| {
        while !stop.load(Ordering::Acquire) {
            let output = untraced(&words!["redis-cli", "-p", port, "-r", "50", "incr", "counter"]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let answers: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
            let right: Vec<u64> = (expected + 1..=expected + 50).collect();
            assert_eq!(answers, right, "{output:?}");
            expected += 50;
        }
        expected
    });
    assert!(benchmark.try_wait().expect("look at redis-benchmark").is_none(), "it has given up");
    benchmark.kill().expect("end redis-benchmark");
    benchmark.wait().expect("wait for redis-benchmark");
    let last = untraced(&words!["redis-cli", "-p", port, "get", "counter"]);
    assert_eq!(String::from_utf8_lossy(&last.stdout).trim(), expected.to_string());
    server.ends_well();
}

/// wrk makes the load and reports broken connections; curl compares every byte.
#[test]
fn nginx_workers() {
    let Some(server) = servers::nginx() else { return };
    let Some(wrk) = installed_or_skip(&["/usr/bin/wrk"]) else { return };
    wait_until("nginx has two workers", || server.children().len() == 2);
    let url = format!("http://127.0.0.1:{}/", server.port);
    let mut load = Command::new(wrk);
    load.args(["-t", "1", "-c", "8", "-d", "1000s", &url]).stdin(Stdio::null());
    let load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start wrk");
    let all_of_them = servers::nginx_body().repeat(20);
    let many = format!("{url}?[1-20]");
    cycle_under(&server.children(), 30, |stop| {
        while !stop.load(Ordering::Acquire) {
            let output = untraced(&words!["curl", "-sS", "--fail", many]);
            assert!(output.status.success(), "{output:?}");
            assert!(output.stdout == all_of_them.as_bytes(), "20 pages as they are");
        }
    });
    signal("INT", load.id().try_into().expect("is a pid"));
    let output = finish(load);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("requests in"), "{output:?}");
    assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
    assert_eq!(server.children().len(), 2, "both workers are there");
    server.ends_well();
}

/// pgbench checks its own transactions; afterwards the sums of all tables must agree.
#[test]
fn postgres_backends() {
    let Some(postgres) = servers::postgres() else { return };
    let made = postgres.client("pgbench", &["-i", "-q", "-s", "1"]);
    assert!(made.status.success(), "{made:?}");
    let backends = || {
        let all = postgres.server.children().into_iter();
        let is_backend = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("postgres postgres [local]")
        };
        all.filter(is_backend).collect::<Vec<i32>>()
    };
    wait_until("the backend of the first pgbench has ended", || backends().is_empty());
    let mut bench = postgres.start_client("pgbench", &["-n", "-c", "4", "-j", "1", "-T", "100000"]);
    wait_until("pgbench has four backends", || backends().len() == 4);
    let busy = backends();
    cycle_under(&busy, 30, |stop| {
        while !stop.load(Ordering::Acquire) {
            let sum = "select sum(abalance) = (select sum(tbalance) from pgbench_tellers) \
                       and sum(abalance) = (select sum(bbalance) from pgbench_branches) \
                       and sum(abalance) = (select coalesce(sum(delta), 0) from pgbench_history) \
                       from pgbench_accounts";
            let output = postgres.client("psql", &["-X", "-A", "-t", "-c", sum]);
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "t", "{output:?}");
        }
    });
    // A client of pgbench that saw an error would have left, and its backend with it.
    assert!(bench.try_wait().expect("look at pgbench").is_none(), "pgbench has given up");
    wait_until("psql's backend has ended and no other", || backends() == busy);
    // Not SIGINT, which programs in the background of a shell ignore.
    signal("TERM", bench.id().try_into().expect("is a pid"));
    let output = finish(bench);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!words.contains("ERROR") && !words.contains("aborted"), "{words}");
    postgres.server.ends_well();
}
