//! How right the rates are just after the start, over many starts.

use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use clockscope_sys::affinity;
use fastclock::Clock;

use crate::bracket::Bracketed;
use crate::clocks::{self, Peer};
use crate::figure::exact_verdict;
use crate::machine::measured_by;
use crate::page::Page;
use crate::process;
use crate::suite::{LAUNCH_LIMIT, Suite};

/// How long fastclock may take before it must be right.
const CALIBRATION: Duration = Duration::from_millis(200);
/// How long the rates are observed.
const WINDOW: Duration = Duration::from_secs(3);
/// Brackets at both ends of the window, of which the tightest counts.
const BRACKETS: usize = 400;
/// Time between two readings of fastclock in the window: it renews itself in readings.
const PAUSE: Duration = Duration::from_millis(10);
const ALONE: &str = "fastclock alone";
const P90_PPM: f64 = 0.02;

/// The hidden mode of this program that is one start: prints `start PPM NAME` for each clock.
pub(crate) fn one() -> Result<()> {
    let last_cpu = affinity::allowed()?.pop().context("no CPU")?;
    affinity::restrict_to(&[last_cpu])?;
    let mut all = clocks::start_peers();
    let clock = Clock::alone();
    clock.calibrate(CALIBRATION);
    all.insert(0, Peer { name: ALONE, read: Box::new(move || clock.now().0.0) });
    let look = |one: &Peer| Bracketed::best_of(BRACKETS, &one.read);
    let first: Vec<Bracketed> = all.iter().map(look).collect();
    let end = std::time::Instant::now() + WINDOW;
    while std::time::Instant::now() < end {
        std::thread::sleep(PAUSE);
        (all[0].read)();
    }
    let mut out = std::io::stdout().lock();
    for (one, first) in all.iter().zip(first) {
        let last = look(one);
        let passed = (last.middle() - first.middle()) as f64;
        let gained = (last.ahead() - first.ahead()) as f64;
        writeln!(out, "start {} {}", gained / passed * 1e6, one.name)?;
    }
    Ok(())
}

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    let starts = suite.options.choose(24, 3);
    page.heading(2, "Rate error right after the start");
    page.text(&measured_by("start"));
    page.text(&format!(
        "{starts} process starts. In each all clocks start one after another: fastclock alone takes {} ms, \
         fast-clock 100 ms as in its documentation, the others what they take. Then for {} s: how much faster or \
         slower than CLOCK_MONOTONIC each is, between the tightest of {BRACKETS} brackets at both ends, in parts \
         per million without the sign.",
        CALIBRATION.as_millis(),
        WINDOW.as_secs()
    ));
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for _ in 0..starts {
        for (name, ppm) in start_once()? {
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(ppm.abs()),
                None => found.push((name, vec![ppm.abs()])),
            }
        }
    }
    for (_, values) in &mut found {
        values.sort_by(f64::total_cmp);
    }
    let shown = |ppm: f64| format!("{ppm:.4}");
    let row = |(name, values): &(String, Vec<f64>)| {
        let at = |share: f64| shown(nearest(values, share));
        vec![name.clone(), at(0.5), at(0.9), at(1.0)]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    page.table(&["clock", "median ppm", "p90 ppm", "worst ppm"], &rows);
    if let Some((_, values)) = found.iter().find(|(name, _)| name == ALONE) {
        let p90 = nearest(values, 0.9);
        let found = format!("{p90:.4} ppm over {} starts", values.len());
        let what = "rate error of fastclock after the first 200 ms, p90";
        page.verdict(&exact_verdict(what, "<= 0.02 ppm", &found, p90 <= P90_PPM));
    }
    Ok(())
}

fn start_once() -> Result<Vec<(String, f64)>> {
    let program = std::env::current_exe().context("this program has no path")?;
    let command: Vec<OsString> = vec![program.into(), "--bench".into(), "--one-start".into()];
    let finished = process::run(&command, LAUNCH_LIMIT)?;
    let found = finished.stdout.lines().filter_map(|line| {
        let (ppm, name) = line.strip_prefix("start ")?.split_once(' ')?;
        Some((name.to_owned(), ppm.parse().ok()?))
    });
    Ok(found.collect())
}

/// The smallest value that this share of the sorted values does not exceed.
fn nearest(sorted: &[f64], share: f64) -> f64 {
    let mut ranked = sorted.iter().enumerate();
    let enough = |at: usize| (at + 1) as f64 >= share * sorted.len() as f64;
    ranked.find(|(at, _)| enough(*at)).map_or(f64::NAN, |(_, &value)| value)
}
