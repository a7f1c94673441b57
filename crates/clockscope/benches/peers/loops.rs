//! The loop workload under a tracer: launches, and the series that come of them.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clockscope_stats::gate::{Batch, BestControl};
use clockscope_stats::median::median;

use crate::process;
use crate::rounds::{Variant, interleave};
use crate::series::Series;
use crate::suite::{LAUNCH_LIMIT, Suite};
use crate::tracer::Tracer;

/// How much slower than the best a control loop may be.
const GATE_TOLERANCE: f64 = 0.03;
/// Fewest gated batches that make a launch count as undisturbed.
const BATCHES_NEEDED: usize = 5;

/// What the loop does.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    /// The kind of call, as loop.c names it.
    pub(crate) kind: &'static str,
    pub(crate) threads: usize,
    pub(crate) batches: usize,
    /// Calls in a batch; 0 to calibrate a batch to 200 us.
    pub(crate) batch_calls: usize,
    /// Limit for all batches of a launch.
    pub(crate) limit_ms: usize,
    /// Pin thread i to CPU i + this.
    pub(crate) first_cpu: Option<usize>,
    /// Sleep that long before the first call: a page of a clock is good only after some readings.
    pub(crate) sleep_ms: usize,
    /// What is executed, where that is what the loop does.
    pub(crate) executes: PathBuf,
}

impl Loop {
    /// A loop on one pinned CPU with batches of 200 us.
    pub(crate) fn new(suite: &Suite, kind: &'static str) -> Self {
        Self {
            kind,
            threads: 1,
            batches: suite.options.choose(200, 50),
            batch_calls: 0,
            limit_ms: suite.options.choose(400, 100),
            first_cpu: Some(1.min(suite.cpus - 1)),
            sleep_ms: 0,
            executes: suite.workloads.true_program.clone(),
        }
    }

    /// The same with this number of calls in a batch, and this number of batches.
    pub(crate) fn in_batches(self, batch_calls: usize, batches: usize) -> Self {
        Self { batch_calls, batches, ..self }
    }

    /// The same without pinning.
    pub(crate) fn unpinned(self) -> Self {
        Self { first_cpu: None, ..self }
    }

    fn command(&self, suite: &Suite) -> Vec<OsString> {
        let mut line = format!(
            "{} --threads {} --batches {} --limit-ms {} --batch-calls {} --sleep-ms {}",
            self.kind, self.threads, self.batches, self.limit_ms, self.batch_calls, self.sleep_ms
        );
        if let Some(cpu) = self.first_cpu {
            line.push_str(&format!(" --pin {cpu}"));
        }
        let mut command = vec![suite.workloads.loop_program.clone().into_os_string()];
        command.extend(process::words(&line));
        command.extend(["--exec".into(), self.executes.clone().into()]);
        command
    }
}

/// One launch of the loop.
pub(crate) struct Launch {
    /// Each with the number of its thread.
    pub(crate) batches: Vec<(usize, Batch)>,
    /// Calls that the loop made.
    pub(crate) calls: u64,
    /// What the tracer wrote.
    pub(crate) summary: String,
}

/// Runs the loop under every tracer in rounds.
pub(crate) fn launch_in_rounds(
    suite: &Suite,
    tracers: &[Tracer],
    rounds: usize,
    workload: &Loop,
) -> Vec<Variant<Launch>> {
    interleave(suite, tracers, rounds, |tracer| launch(suite, tracer, workload))
}

/// Runs the loop once.
pub(crate) fn launch(suite: &Suite, tracer: Tracer, workload: &Loop) -> Result<Launch> {
    let path = suite.path("summary");
    // It is not there at the first launch.
    let _ = std::fs::remove_file(&path);
    let command = tracer.wrap(&suite.tools, &path, &workload.command(suite));
    let finished = process::run(&command, LAUNCH_LIMIT)?;
    let summary = std::fs::read(&path).unwrap_or_default();
    let (batches, calls) = read_batches(&finished.stdout)?;
    Ok(Launch { batches, calls, summary: String::from_utf8_lossy(&summary).into_owned() })
}

/// Reads what loop.c prints.
fn read_batches(text: &str) -> Result<(Vec<(usize, Batch)>, u64)> {
    let mut batches = Vec::new();
    let mut calls = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["batch", thread, calls, ns, before, after] => {
                let batch = Batch {
                    calls: calls.parse()?,
                    ns: ns.parse()?,
                    control_before_ns: before.parse()?,
                    control_after_ns: after.parse()?,
                    involuntary_switches: 0,
                };
                batches.push((thread.parse()?, batch));
            }
            ["calls", number] => calls = Some(number.parse()?),
            _ => {}
        }
    }
    ensure!(!batches.is_empty(), "the loop finished no batch");
    Ok((batches, calls.context("the loop did not say how many calls it made")?))
}

/// Turns launches into series of nanoseconds per call: the gated median of each launch.
///
/// The gate compares each batch with the best control loops that its thread had in any launch of any
/// variant. A disturbed launch counts only if fewer than half of all launches are undisturbed.
pub(crate) fn series(variants: &[Variant<Launch>]) -> Vec<Series> {
    let gate = Gate::over(variants);
    variants.iter().map(|variant| gate.series(variant)).collect()
}

struct Gate(Vec<Option<BestControl>>);

impl Gate {
    fn over(variants: &[Variant<Launch>]) -> Self {
        let all = || variants.iter().flat_map(|variant| variant.rounds.iter().flatten());
        let batches = || all().flat_map(|launch| &launch.batches);
        let threads = batches().map(|(thread, _)| thread + 1).max().unwrap_or(0);
        let of = |thread| batches().filter(move |(of, _)| *of == thread).map(|(_, batch)| batch);
        let best = |thread| BestControl::of(of(thread));
        Self((0..threads).map(best).collect())
    }

    fn accepts(&self, (thread, batch): &(usize, Batch)) -> bool {
        let best = self.0.get(*thread).copied().flatten();
        best.is_some_and(|best| best.accepts(batch, 1.0, GATE_TOLERANCE))
    }

    fn series(&self, variant: &Variant<Launch>) -> Series {
        let launches: Vec<Option<GatedLaunch>> = variant
            .rounds
            .iter()
            .map(|launch| launch.as_ref().map(|launch| self.gate(launch)))
            .collect();
        let present = || launches.iter().flatten();
        let undisturbed = present().filter(|launch| launch.gated_ns.is_some()).count();
        let use_all = undisturbed * 2 < present().count();
        let value = |launch: &GatedLaunch| if use_all { launch.plain_ns } else { launch.gated_ns };
        let minimum = present().map(|launch| launch.minimum_ns).reduce(f64::min);
        let (accepted, total) = present()
            .fold((0, 0), |sums, launch| (sums.0 + launch.accepted, sums.1 + launch.total));
        Series {
            name: variant.tracer.name(),
            values: launches.iter().map(|launch| launch.as_ref().and_then(value)).collect(),
            minimum,
            accepted_share: (total > 0).then(|| accepted as f64 / total as f64),
            noisy: use_all,
            failure: variant.failure.clone(),
        }
    }

    fn gate(&self, launch: &Launch) -> GatedLaunch {
        let all: Vec<f64> = launch.batches.iter().map(|(_, batch)| batch.call_ns()).collect();
        let kept = launch.batches.iter().filter(|batch| self.accepts(batch));
        let kept: Vec<f64> = kept.map(|(_, batch)| batch.call_ns()).collect();
        GatedLaunch {
            plain_ns: median(&all),
            gated_ns: median(&kept).filter(|_| kept.len() >= BATCHES_NEEDED.min(all.len())),
            minimum_ns: all.iter().copied().fold(f64::INFINITY, f64::min),
            accepted: kept.len(),
            total: all.len(),
        }
    }
}

struct GatedLaunch {
    plain_ns: Option<f64>,
    gated_ns: Option<f64>,
    minimum_ns: f64,
    accepted: usize,
    total: usize,
}
