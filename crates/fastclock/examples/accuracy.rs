//! Measures how closely the discipline follows `CLOCK_MONOTONIC` on this machine.
//!
//! `accuracy starts N` prints the rate error right after each of N starts. `accuracy run SECONDS`
//! prints the error and the bound of a page that is renewed every 100 ms, `accuracy run SECONDS
//! 1000` every second. `accuracy record COUNT PERIOD_MS` prints readings for tests/page/data.

#![allow(clippy::print_stdout, reason = "its purpose")]

use std::thread::sleep;
use std::time::Duration;

use fastclock::arch::CpuCounter;
use fastclock::discipline::{Discipline, Settings};
use fastclock::keeper::{Keeper, Pace};
use fastclock::page::{Counter, Page, PageClock, Writer};
use fastclock::sys::{look, now};
use fastclock::{ClockId, Nanos};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, otherwise: u64| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    match arguments.first().map(String::as_str) {
        Some("starts") => starts(number(1, 24)),
        Some("run") => run(number(1, 60), number(2, 100)),
        Some("record") => record(number(1, 300), number(2, 100)),
        _ => {
            println!("usage: accuracy starts N | run SECONDS [PERIOD_MS] | record COUNT PERIOD_MS")
        }
    }
}

fn calibrated(settings: Settings) -> Discipline {
    let mut discipline = Discipline::new(settings);
    while discipline.estimate().is_none() {
        discipline.observe(&look(&CpuCounter, 64));
        sleep(Duration::from_millis(50));
    }
    discipline
}

fn starts(count: u64) {
    let mut rates = Vec::new();
    for _ in 0..count {
        rates.push(calibrated(Settings::default()).status().hz);
    }
    let mut long = calibrated(Settings::default());
    for _ in 0..100 {
        sleep(Duration::from_millis(100));
        long.observe(&look(&CpuCounter, 64));
    }
    let truth = long.status();
    println!("{:.1} Hz over {:.1} s", truth.hz, truth.baseline.as_seconds());
    let mut ppm: Vec<f64> = rates.iter().map(|hz| ((hz / truth.hz - 1.0) * 1e6).abs()).collect();
    ppm.sort_by(f64::total_cmp);
    let at = |share: usize| ppm[(ppm.len() - 1) * share / 100];
    println!(
        "rate error after 200 ms: median {:.4} ppm, p90 {:.4}, worst {:.4}",
        at(50),
        at(90),
        at(100)
    );
}

fn run(seconds: u64, period: u64) {
    let period = Duration::from_millis(period);
    let horizon = Nanos(i64::try_from(period.as_nanos()).unwrap_or(i64::MAX));
    let pace = Pace {
        horizon,
        valid: Nanos(3_000_000_000),
        grace: Nanos::ZERO,
        lead: Nanos(20_000),
        steepest_ppm: 500,
    };
    let page = Page::new();
    let mut writer = Writer::create(&page, [0; 2], 0);
    let mut keeper = Keeper::new(Settings::default(), pace);
    let end = now(ClockId::Monotonic).0 + i64::try_from(seconds).unwrap_or(60) * 1_000_000_000;
    let mut errors = Vec::new();
    let (mut samples, mut outside, mut worst_bound, mut widest) = (0_u64, 0_u64, 0, 0);
    let mut due = 0;
    while now(ClockId::Monotonic).0 < end {
        if now(ClockId::Monotonic).0 >= due {
            let ready = keeper.discipline.estimate().is_some();
            due = now(ClockId::Monotonic).0 + if ready { horizon.0 } else { 50_000_000 };
            let verdict = keeper.observe(&look(&CpuCounter, 64));
            if verdict != fastclock::discipline::Step::Steady {
                println!("{verdict:?} {:?}", keeper.discipline.status());
            }
            let _ = keeper.publish(&mut writer, &CpuCounter);
        }
        let Some(content) = writer.current() else { continue };
        let before = CpuCounter.ordered();
        let kernel = now(ClockId::Monotonic);
        let after = CpuCounter.ordered();
        let (Some(low), Some(high)) =
            (content.time(before, PageClock::Monotonic), content.time(after, PageClock::Monotonic))
        else {
            continue;
        };
        let bound = content.bound_at(after).0;
        samples += 1;
        worst_bound = worst_bound.max(bound);
        // The clock was read somewhere in the bracket: a larger distance is certainly an error.
        outside += u64::from(kernel.0 + bound < low.0 || kernel.0 > high.0 + bound);
        let width = high.0 - low.0;
        if width < 60 {
            errors.push((low.0 + width / 2 - kernel.0).abs());
            widest = widest.max(width);
        }
    }
    errors.sort_unstable();
    let at = |share: usize| errors.get(errors.len().saturating_sub(1) * share / 1000).copied();
    println!(
        "{samples} samples, {outside} certainly outside the bound, worst bound {worst_bound} ns"
    );
    println!(
        "{} tight ones (up to {widest} ns): error p50 {:?} p99.9 {:?} max {:?} ns",
        errors.len(),
        at(500),
        at(999),
        at(1000)
    );
    println!("{:?}", keeper.discipline.status());
}

fn record(count: u64, period: u64) {
    for _ in 0..count {
        let reading = look(&CpuCounter, 64);
        let (ticks, half, mono) = (reading.ticks.0, reading.half_width.0, reading.mono.0);
        let (real, boot, tai) =
            (reading.offsets.real.0, reading.offsets.boot.0, reading.offsets.tai.0);
        let widths = (reading.offsets_half_width, reading.boot_half_width);
        println!("{ticks} {half} {mono} {real} {} {boot} {} {tai}", widths.0, widths.1);
        sleep(Duration::from_millis(period));
    }
}
