//! What counting system calls by eBPF costs a tight loop of `getppid`, followed and not.
//!
//! `cargo run --release --example bpf_cost [ROUNDS]`, as root. Every round measures each way once, in turn;
//! the cheapest of all rounds is printed, as nanoseconds a call and as a ratio to untraced.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::env;
use std::error::Error;
use std::hint;
use std::io::{self, Read, Write};
use std::os::unix::process::parent_id;
use std::process::{Command, Stdio};
use std::time::Instant;

use clockscope::syscalls::Breakdown;
use clockscope::syscalls::bpf::{BpfCounter, BpfOptions};

const CALLS: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let argument = env::args().nth(1);
    if argument.as_deref() == Some("loop") {
        return looping();
    }
    let rounds = argument.map_or(Ok(7), |text| text.parse())?;
    let ways = ways();
    let mut followed_ns = vec![f64::MAX; ways.len()];
    let mut bystander_ns = vec![f64::MAX; ways.len()];
    let mut reported_ns = vec![f64::MAX; ways.len()];
    for _ in 0..rounds {
        for (at, (_, options)) in ways.iter().enumerate() {
            let counter = options.as_ref().map(BpfCounter::start).transpose()?;
            bystander_ns[at] = bystander_ns[at].min(child_ns(None)?);
            let Some(mut counter) = counter else { continue };
            followed_ns[at] = followed_ns[at].min(child_ns(Some(&mut counter))?);
            let tallies = counter.read()?;
            let calls: u64 =
                tallies.iter().filter(|row| row.number == 110).map(|row| row.calls).sum();
            assert!(calls >= u64::from(CALLS), "counted {calls}");
            if let Some(row) = tallies.iter().find(|row| row.number == 110) {
                let average = row.corrected_average_ps(&counter.calibration()) as f64 / 1000.0;
                reported_ns[at] = reported_ns[at].min(average);
            }
        }
    }
    let untraced = bystander_ns[0];
    println!("{:<26} {:>16} {:>16} {:>9}", "", "followed", "bystander", "reported");
    for (at, (name, _)) in ways.iter().enumerate() {
        let show = |ns: f64| format!("{ns:7.1} {:6.2}x", ns / untraced);
        let followed = if at == 0 { String::new() } else { show(followed_ns[at]) };
        let reported = if at == 0 { String::new() } else { format!("{:.1}", reported_ns[at]) };
        println!("{name:<26} {followed:>16} {:>16} {reported:>9}", show(bystander_ns[at]));
    }
    Ok(())
}

fn ways() -> Vec<(&'static str, Option<BpfOptions>)> {
    let counts = BpfOptions { mark: 0x1234_5678_9abc_def0, ..BpfOptions::default() };
    let time = BpfOptions { time: true, ..counts.clone() };
    let by = |breakdown, of: &BpfOptions| Some(BpfOptions { breakdown, ..of.clone() });
    vec![
        ("untraced", None),
        ("counts", Some(counts.clone())),
        ("counts by process", by(Breakdown::Process, &counts)),
        ("time", Some(time.clone())),
        ("time by process", by(Breakdown::Process, &time)),
        ("time by thread", by(Breakdown::Thread, &time)),
        ("time, filtered in", Some(BpfOptions { numbers: Some(vec![110]), ..time.clone() })),
        ("time, filtered out", None),
        ("latency", Some(BpfOptions { latency: true, ..time.clone() })),
        ("latency by process", by(Breakdown::Process, &BpfOptions { latency: true, ..time })),
    ]
    .into_iter()
    .filter(|way| way.0 == "untraced" || way.1.is_some())
    .collect()
}

/// Runs the loop in another process, followed or not; nanoseconds a call.
fn child_ns(counter: Option<&mut BpfCounter>) -> Result<f64, Box<dyn Error>> {
    let mut child = Command::new(env::current_exe()?)
        .arg("loop")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(counter) = counter {
        counter.follow(i32::try_from(child.id())?)?;
    }
    child.stdin.take().map(|mut stdin| stdin.write_all(b"g")).transpose()?;
    let mut text = String::new();
    child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut text)).transpose()?;
    child.wait()?;
    Ok(text.trim().parse()?)
}

fn looping() -> Result<(), Box<dyn Error>> {
    io::stdin().read_exact(&mut [0])?;
    let start = Instant::now();
    for _ in 0..CALLS {
        hint::black_box(parent_id());
    }
    println!("{}", start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    Ok(())
}
