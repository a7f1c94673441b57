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
    let mut measured: Vec<Measured> = ways().into_iter().map(Measured::new).collect();
    for _ in 0..rounds {
        for way in &mut measured {
            way.measure()?;
        }
    }
    let untraced_ns = measured.iter().map(|way| way.untraced_ns).fold(f64::MAX, f64::min);
    println!("untraced: {untraced_ns:.1} ns a call");
    println!("{:<20} {:>15} {:>15}  reported/untraced", "", "followed", "bystander");
    for way in &mut measured {
        let show = |ns: f64| format!("{ns:6.1} {:5.2}x", ns / untraced_ns);
        way.reported.sort_by(f64::total_cmp);
        let (first, last) = (way.reported.first(), way.reported.last());
        let middle = way.reported.get(way.reported.len() / 2);
        let reported = match (first, middle, last) {
            (Some(first), Some(middle), Some(last)) => {
                format!("{middle:.2} ({first:.2} to {last:.2})")
            }
            _ => String::new(),
        };
        let (followed, bystander) = (show(way.followed_ns), show(way.bystander_ns));
        println!("{:<20} {followed:>15} {bystander:>15}  {reported}", way.name);
    }
    Ok(())
}

/// One way to count: the cheapest round of each kind, in nanoseconds a call.
struct Measured {
    name: &'static str,
    options: BpfOptions,
    untraced_ns: f64,
    bystander_ns: f64,
    followed_ns: f64,
    /// The average that the counter reports, as a share of an untraced run just before.
    reported: Vec<f64>,
}

impl Measured {
    fn new((name, options): (&'static str, BpfOptions)) -> Self {
        let (untraced_ns, bystander_ns, followed_ns) = (f64::MAX, f64::MAX, f64::MAX);
        Self { name, options, untraced_ns, bystander_ns, followed_ns, reported: Vec::new() }
    }

    fn measure(&mut self) -> Result<(), Box<dyn Error>> {
        let untraced_ns = child_ns(None)?;
        self.untraced_ns = self.untraced_ns.min(untraced_ns);
        let mut counter = BpfCounter::start(&self.options)?;
        self.followed_ns = self.followed_ns.min(child_ns(Some(&mut counter))?);
        self.bystander_ns = self.bystander_ns.min(child_ns(None)?);
        let tallies = counter.read()?;
        let rows = || tallies.iter().filter(|row| row.number == 110);
        let calls: u64 = rows().map(|row| row.calls).sum();
        assert_eq!(calls, u64::from(CALLS));
        if self.options.time {
            let cost = counter.calibration();
            let total_ns: u64 = rows().map(|row| row.corrected_time_ns(&cost)).sum();
            self.reported.push(total_ns as f64 / calls as f64 / untraced_ns);
        }
        Ok(())
    }
}

fn ways() -> Vec<(&'static str, BpfOptions)> {
    let counts = BpfOptions { mark: 0x1234_5678_9abc_def0, ..BpfOptions::default() };
    let time = BpfOptions { time: true, ..counts.clone() };
    let latency = BpfOptions { latency: true, ..time.clone() };
    let by = |breakdown, of: &BpfOptions| BpfOptions { breakdown, ..of.clone() };
    vec![
        ("counts by process", by(Breakdown::Process, &counts)),
        ("counts", counts),
        ("time by process", by(Breakdown::Process, &time)),
        ("time by thread", by(Breakdown::Thread, &time)),
        ("time of one call", BpfOptions { numbers: Some(vec![110]), ..time.clone() }),
        ("time", time),
        ("latency by process", by(Breakdown::Process, &latency)),
        ("latency", latency),
    ]
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
