//! Whether `clockscope bench` measures what other tools measure: a plain loop in C, google-benchmark,
//! calls counted until a timer fires, and `perf bench syscall basic`.
//!
//! All run in turn in every round on the same CPU, in runs of milliseconds, and of each the best figure
//! counts: it is the one that a busy machine disturbs least, for tools that only know a mean as well.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clockscope_measure::host;
use clockscope_model::bench::{BenchReport, PathRow};

use crate::figure::{Unit, exact_verdict, or_dash};
use crate::machine;
use crate::page::Page;
use crate::process::{self, words};
use crate::suite::Suite;
use crate::tools::is_installed;

const LIMIT: Duration = Duration::from_secs(120);
/// Calls of one run of perf bench, and its runs a round: short, so that one of them is undisturbed.
const PERF_CALLS: u32 = 50_000;
const PERF_RUNS: usize = 25;
/// Processes of google-benchmark a round. Where the loader puts its loops decides whether a branch of
/// theirs shares its place in the predictor with one of the kernel's, which costs a system call 30 to
/// 40 ns; with one process a round that was so in most rounds (docs/measuring.md).
const GOOGLE_RUNS: usize = 12;
/// How long a round waits for others to stop tracing system calls.
const PATIENCE: Duration = Duration::from_secs(60);

/// A path, as paths.h names it and as clockscope does.
struct Compared {
    name: &'static str,
    shown: &'static str,
    subject: &'static str,
    route: &'static str,
}

impl Compared {
    fn is_system_call(&self) -> bool {
        self.route == "syscall" || self.subject.starts_with("getppid")
    }
}

const PATHS: [Compared; 6] = [
    compared("monotonic_libc", "MONOTONIC by libc", "CLOCK_MONOTONIC", "libc"),
    compared("monotonic_vdso", "MONOTONIC by vDSO", "CLOCK_MONOTONIC", "vdso"),
    compared("monotonic_syscall", "MONOTONIC by syscall", "CLOCK_MONOTONIC", "syscall"),
    compared("monotonic_coarse_libc", "MONOTONIC_COARSE by libc", "CLOCK_MONOTONIC_COARSE", "libc"),
    compared("getppid_syscall", "getppid by syscall", "getppid", "syscall"),
    compared("getppid_libc", "getppid by libc", "getppid-libc", "libc"),
];

const fn compared(
    name: &'static str,
    shown: &'static str,
    subject: &'static str,
    route: &'static str,
) -> Compared {
    Compared { name, shown, subject, route }
}

/// A way to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Clockscope,
    Loop,
    GoogleBenchmark,
    Counting,
    PerfBench,
}

impl Way {
    const ALL: [Self; 5] =
        [Self::Clockscope, Self::Loop, Self::GoogleBenchmark, Self::Counting, Self::PerfBench];

    /// The name, how far from clockscope it may be in percent, and on which paths that counts.
    fn row(self) -> (&'static str, f64, fn(&Compared) -> bool) {
        match self {
            Self::Clockscope => ("clockscope bench", 0.0, |_| true),
            Self::Loop => ("plain C loop", 2.0, |_| true),
            Self::GoogleBenchmark => ("google-benchmark", 4.0, |_| true),
            Self::Counting => ("counted until a timer", 4.0, |path| !path.is_system_call()),
            Self::PerfBench => ("perf bench", 6.0, |path| path.name == "getppid_libc"),
        }
    }

    fn name(self) -> &'static str {
        self.row().0
    }
}

/// Nanoseconds a call, by path.
type Costs = BTreeMap<&'static str, f64>;

/// The best figures so far.
#[derive(Default)]
struct Best {
    costs: BTreeMap<(Way, &'static str), f64>,
    /// Gated medians of clockscope, of the round with the smallest.
    medians: Costs,
    /// Rounds at whose beginning or end system calls were traced on this host.
    traced_rounds: usize,
    /// Why a way could not be asked.
    failures: BTreeMap<Way, String>,
}

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    let rounds = suite.options.rounds.unwrap_or(suite.options.choose(5, 1));
    let cpu = 1.min(suite.cpus - 1);
    page.heading(2, "Agreement of clockscope bench with other tools");
    page.text(&format!(
        "Nanoseconds a call on CPU {cpu}: the best of {rounds} round{} in which all ways took turns, and its distance \
         from clockscope's minimum. {}; load {}.",
        if rounds == 1 { "" } else { "s" },
        machine::date(),
        machine::load()
    ));
    let best = measure(suite, rounds, cpu);
    if let Some(failure) = best.failures.get(&Way::Clockscope) {
        bail!("clockscope bench: {failure}");
    }
    if best.traced_rounds > 0 {
        page.text(&format!("In {} of them others traced system calls.", best.traced_rounds));
    }
    write_table(page, &best);
    for (way, failure) in &best.failures {
        page.text(&format!("{}: {failure}", way.name()));
    }
    for way in Way::ALL.into_iter().skip(1) {
        write_verdict(page, &best, way);
    }
    Ok(())
}

fn measure(suite: &Suite, rounds: usize, cpu: usize) -> Best {
    let mut best = Best::default();
    for round in 0..rounds {
        let mut ways = Way::ALL;
        if round % 2 == 1 {
            ways.reverse();
        }
        let was_traced = !becomes_untraced();
        for way in ways {
            if best.failures.contains_key(&way) {
                continue;
            }
            match ask(suite, way, cpu, &mut best.medians) {
                Ok(costs) => {
                    for (path, cost) in costs {
                        let known = best.costs.entry((way, path)).or_insert(cost);
                        *known = known.min(cost);
                    }
                }
                Err(error) => {
                    best.failures.insert(way, format!("{error:#}"));
                }
            }
        }
        best.traced_rounds += usize::from(was_traced || is_traced());
    }
    best
}

/// Whether system calls are traced on this host, which makes them dearer for all programs.
fn is_traced() -> bool {
    host::collect().syscall_tracing.active == Some(true)
}

/// Waits until no system calls are traced any more; false if that takes too long.
fn becomes_untraced() -> bool {
    let started = Instant::now();
    while is_traced() {
        if started.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    true
}

fn ask(suite: &Suite, way: Way, cpu: usize, medians: &mut Costs) -> Result<Costs> {
    let pinned = |program: OsString, arguments: &str| {
        let mut command = words(&format!("taskset -c {cpu}"));
        command.push(program);
        command.extend(words(arguments));
        process::run(&command, LIMIT)
    };
    let ours = || suite.workloads.agreement.clone().into_os_string();
    match way {
        Way::Clockscope => ask_clockscope(suite, cpu, medians),
        Way::Loop => read_lines(&pinned(ours(), "loop")?.stdout),
        Way::Counting => read_lines(&pinned(ours(), "count")?.stdout),
        Way::GoogleBenchmark => {
            let program = suite.workloads.google_benchmark.clone().map_err(anyhow::Error::msg)?;
            let options = "--benchmark_format=json --benchmark_min_time=0.004 \
                           --benchmark_repetitions=5";
            let mut best = Costs::new();
            for _ in 0..GOOGLE_RUNS {
                for (path, cost) in read_google(&pinned(program.clone().into(), options)?.stdout)? {
                    let known = best.entry(path).or_insert(cost);
                    *known = known.min(cost);
                }
            }
            Ok(best)
        }
        Way::PerfBench => {
            ensure!(is_installed("perf"), "perf is not installed");
            let arguments = format!("bench syscall basic --loop {PERF_CALLS}");
            let mut best = f64::INFINITY;
            for _ in 0..PERF_RUNS {
                best = best.min(read_perf(&pinned("perf".into(), &arguments)?.stdout)?);
            }
            Ok(Costs::from([("getppid_libc", best)]))
        }
    }
}

/// Reads lines of a path's name and its cost.
fn read_lines(text: &str) -> Result<Costs> {
    let mut costs = Costs::new();
    for line in text.lines() {
        let (name, cost) = line.split_once(' ').context("a line without a cost")?;
        if let Some(path) = PATHS.iter().find(|path| path.name == name) {
            costs.insert(path.name, cost.parse()?);
        }
    }
    ensure!(!costs.is_empty(), "it measured nothing");
    Ok(costs)
}

/// The best repetition of each of google-benchmark's benchmarks.
fn read_google(text: &str) -> Result<Costs> {
    let document: serde_json::Value = serde_json::from_str(text)?;
    let mut costs = Costs::new();
    for run in document["benchmarks"].as_array().context("no benchmarks")? {
        let name = run["run_name"].as_str().unwrap_or_default();
        let is_mean = run["run_type"] != "iteration";
        let Some(path) = PATHS.iter().find(|path| path.name == name && !is_mean) else { continue };
        ensure!(run["time_unit"] == "ns", "not in nanoseconds");
        let cost = run["real_time"].as_f64().context("no time")?;
        let best = costs.entry(path.name).or_insert(cost);
        *best = best.min(cost);
    }
    ensure!(!costs.is_empty(), "it measured nothing");
    Ok(costs)
}

/// Nanoseconds a call, of a line such as `0.117 usecs/op`.
fn read_perf(text: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_suffix("usecs/op"));
    let micros: f64 = line.context("perf bench printed no usecs/op")?.trim().parse()?;
    Ok(micros * 1e3)
}

fn ask_clockscope(suite: &Suite, cpu: usize, medians: &mut Costs) -> Result<Costs> {
    let mut costs = Costs::new();
    for names in ["monotonic monotonic_coarse", "syscalls getppid getppid-libc"] {
        let mut command = vec![suite.tools.clockscope.clone().into_os_string()];
        command.extend(words(&format!("bench {names} --launches 1 --cpu {cpu} --format json")));
        let report: BenchReport = serde_json::from_str(&process::run(&command, LIMIT)?.stdout)?;
        for path in &PATHS {
            let Some(row) = report.paths.iter().find(|row| is_row_of(row, path)) else { continue };
            let nanos = |picos: u64| picos as f64 / 1e3;
            costs.insert(path.name, nanos(row.cost_ps_min));
            let median = medians.entry(path.name).or_insert(f64::INFINITY);
            *median = median.min(nanos(row.cost_ps_median));
        }
    }
    ensure!(!costs.is_empty(), "it measured nothing");
    Ok(costs)
}

fn is_row_of(row: &PathRow, path: &Compared) -> bool {
    let subject = row.name.clock.as_deref().or(row.name.call.as_deref());
    subject == Some(path.subject) && row.name.route == path.route
}

impl Best {
    /// The cost of a path, and its distance from clockscope's in percent.
    fn distance(&self, way: Way, path: &Compared) -> Option<(f64, f64)> {
        let cost = self.costs.get(&(way, path.name))?;
        let ours = self.costs.get(&(Way::Clockscope, path.name))?;
        Some((*cost, (cost / ours - 1.0) * 100.0))
    }
}

fn write_table(page: &mut Page, best: &Best) {
    let mut head = vec!["path", "clockscope min", "its median"];
    head.extend(Way::ALL.iter().skip(1).map(|way| way.name()));
    let rows: Vec<Vec<String>> = PATHS
        .iter()
        .map(|path| {
            let show = |cost: Option<&f64>| or_dash(cost.map(|cost| Unit::Nanos.show(*cost)));
            let mut row = vec![
                path.shown.to_owned(),
                show(best.costs.get(&(Way::Clockscope, path.name))),
                show(best.medians.get(path.name)),
            ];
            row.extend(Way::ALL.iter().skip(1).map(|way| cell(best, *way, path)));
            row
        })
        .collect();
    page.table(&head, &rows);
}

fn cell(best: &Best, way: Way, path: &Compared) -> String {
    or_dash(best.distance(way, path).map(|(cost, percent)| {
        // Adding zero takes the sign from a zero.
        let tenths = (percent * 10.0).round() / 10.0 + 0.0;
        format!("{} ({tenths:+.1} %)", Unit::Nanos.show(cost))
    }))
}

fn write_verdict(page: &mut Page, best: &Best, way: Way) {
    let (name, most, counts) = way.row();
    let distances = PATHS.iter().filter(|path| counts(path)).filter_map(|path| {
        let (_, percent) = best.distance(way, path)?;
        Some((path, percent))
    });
    let worst = distances.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let what = format!("clockscope bench and {name} agree");
    let limit = format!("within {most} %");
    page.verdict(&match worst {
        None => format!("{what}: target {limit}: not measured"),
        Some((path, percent)) => {
            let found = format!("{percent:+.1} % at most, {}:", path.shown);
            exact_verdict(&what, &limit, &found, percent.abs() <= most)
        }
    });
}
