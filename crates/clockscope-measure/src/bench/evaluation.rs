//! Makes the report from batches: accepts batches, computes costs and ratios.

use super::launches::Collected;
use crate::clocks::{COUNTERS, EMPTY_LOOP};
use crate::rounds::GATE;
use clockscope_model::bench::{
    BenchReport, LaunchRow, Method, PathName, PathRow, RatioRow, SCHEMA,
};
use clockscope_model::host::HostState;
use clockscope_stats::gate::{BestControl, Speeds, best_of_run};
use clockscope_stats::gated::{self, Gate, Summary};

/// Greatest number of a path's counted batches in the report.
const SAMPLES_MAX: usize = 1_000;
/// Greatest number of a path's rejected batches in the report.
const REJECTED_MAX: usize = 300;

/// One path with the results from its batches.
struct Evaluated<'a> {
    name: &'a PathName,
    launches: &'a [gated::Launch],
    verdict: Gate,
    summary: Summary,
}

/// Makes the report.
pub(super) fn report(collected: &Collected, host: HostState, net: bool) -> BenchReport {
    let all = 0..collected.names.len();
    let loops = collected.batches.iter().flatten().flatten();
    let best_ns = best_of_run(loops.map(|batch| batch.control_before_ns).collect()).unwrap_or(0);
    let mut speeds = Speeds::default();
    for path in all.clone() {
        let batches = collected.batches[path].iter().flatten();
        speeds.add(BestControl::of_path(best_ns, batches.clone()), batches);
    }
    let level = speeds.level();
    let paths: Vec<Evaluated> =
        all.filter_map(|path| evaluate(collected, path, best_ns, &speeds)).collect();
    let empty_ns = paths
        .iter()
        .find(|path| path.name.clock.as_deref() == Some(EMPTY_LOOP))
        .map_or(0.0, |path| path.summary.median.median);
    let minus_ns = if net { empty_ns } else { 0.0 };
    BenchReport {
        schema: SCHEMA,
        host,
        method: Method {
            launches: u32::try_from(collected.rounds.len()).unwrap_or(u32::MAX),
            rounds: collected.rounds.clone(),
            cpu: collected.cpu,
            gate_percent: GATE * 100.0,
            speed: Some(rounded(1.0 / level)),
            confidence_percent: gated::CONFIDENCE * 100.0,
            control_ns_min: best_ns,
            empty_loop_ps: picos(empty_ns),
            net,
            elapsed_ms: 0,
        },
        paths: paths.iter().map(|path| row(path, minus_ns)).collect(),
        ratios: ratios(&paths, minus_ns),
        declines: collected.declines.clone(),
        ..BenchReport::default()
    }
}

fn evaluate<'a>(
    collected: &'a Collected,
    path: usize,
    best_ns: u64,
    speeds: &Speeds,
) -> Option<Evaluated<'a>> {
    let launches = &collected.batches[path];
    let best = BestControl::of_path(best_ns, launches.iter().flatten());
    let at = |level| Gate::of(launches, best, (level, GATE));
    let verdict = at(speeds.level());
    let elsewhere: Vec<Gate> = speeds.levels().skip(1).map(at).collect();
    let summary = gated::summarize(launches, &verdict, &elsewhere)?;
    Some(Evaluated { name: &collected.names[path], launches, verdict, summary })
}

/// Converts nanoseconds to whole picoseconds; 0 for negative values.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(super) fn picos(ns: f64) -> u64 {
    (ns * 1e3).round() as u64
}

fn row(path: &Evaluated<'_>, minus_ns: f64) -> PathRow {
    let Evaluated { summary, launches, verdict, .. } = path;
    let picos = |ns: f64| picos(ns - minus_ns);
    let costs = |counting: bool| -> Vec<u64> {
        let of_launch = |(launch, batches): (usize, &gated::Launch)| -> Vec<u64> {
            let batches = batches.iter().enumerate();
            let chosen = batches.filter(|(batch, _)| verdict.counts(launch, *batch) == counting);
            chosen.map(|(_, batch)| picos(batch.call_ns())).collect()
        };
        launches.iter().enumerate().flat_map(of_launch).collect()
    };
    PathRow {
        name: path.name.clone(),
        cost_ps_min: picos(summary.min_ns),
        cost_ps_median: picos(summary.median.median),
        cost_ps_ci_low: picos(summary.median.low),
        cost_ps_ci_high: picos(summary.median.high),
        cost_ps_p5: picos(summary.p5_p95_ns.0),
        cost_ps_p95: picos(summary.p5_p95_ns.1),
        batches: summary.batches as u64,
        accepted: summary.accepted as u64,
        grade: summary.grade.name().to_owned(),
        calls_per_batch: launches.iter().flatten().map(|batch| batch.calls).max().unwrap_or(0),
        launches: summary
            .launches
            .iter()
            .map(|launch| LaunchRow {
                cost_ps_min: picos(launch.min_ns),
                cost_ps_median: picos(launch.median_ns),
                batches: launch.batches as u64,
                accepted: launch.accepted as u64,
            })
            .collect(),
        regimes: regimes(summary, minus_ns),
        samples_ps: thinned(&costs(true), SAMPLES_MAX),
        rejected_ps: thinned(&costs(false), REJECTED_MAX),
    }
}

/// At most `most` of the values, evenly chosen, in their order.
fn thinned(values: &[u64], most: usize) -> Vec<u64> {
    let count = values.len().min(most);
    (0..count).map(|place| values[place * values.len() / count]).collect()
}

/// A clause on the groups into which the launches fall; `None` if they agree.
fn regimes(summary: &Summary, minus_ns: f64) -> Option<String> {
    let groups = gated::regimes(summary);
    if groups.len() < 2 {
        return None;
    }
    let one = |group: &gated::Regime| {
        let numbers: Vec<String> = group.launches.iter().map(|n| (n + 1).to_string()).collect();
        let word = if numbers.len() == 1 { "launch" } else { "launches" };
        format!("{:.1} ns in {word} {}", group.median_ns - minus_ns, numbers.join(", "))
    };
    Some(groups.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// Ratios of pairs of paths: each route to a clock to its vDSO route, each way of reading the counter to the
/// barest, each system call to the first one.
fn ratios(paths: &[Evaluated<'_>], minus_ns: f64) -> Vec<RatioRow> {
    let find = |clock: &str, route: &str| {
        let is_meant = |path: &&Evaluated<'_>| {
            path.name.clock.as_deref() == Some(clock) && path.name.route == route
        };
        paths.iter().find(is_meant)
    };
    let first_call = paths.iter().find(|path| path.name.call.is_some());
    let mut rows = Vec::new();
    for of in paths {
        let to = match (of.name.clock.as_deref(), of.name.route.as_str()) {
            (None, _) => first_call.filter(|first| first.name != of.name),
            (Some(clock), "tsc") if clock != COUNTERS[0] => find(COUNTERS[0], "tsc"),
            (Some(clock), "syscall" | "libc") => find(clock, "vdso"),
            _ => None,
        };
        let Some(to) = to else { continue };
        let ratio = gated::ratio((of.launches, &of.verdict), (to.launches, &to.verdict), minus_ns);
        rows.extend(ratio.map(|interval| RatioRow {
            of: of.name.clone(),
            to: to.name.clone(),
            ratio: rounded(interval.median),
            ci_low: rounded(interval.low),
            ci_high: rounded(interval.high),
        }));
    }
    rows
}

/// Rounds to four decimals; more would be noise.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_stats::gate::Batch;

    fn name(clock: &str, route: &str) -> PathName {
        PathName { clock: Some(clock.into()), call: None, route: route.into() }
    }

    /// The report on launches with the batches of paths at the given costs; controls at 1000 ns but for `noisy`.
    fn measured(paths: &[(&str, &str, &[u64])], noisy: usize, net: bool) -> BenchReport {
        let mut collected = Collected { cpu: Some(1), ..Collected::default() };
        for (clock, route, costs) in paths {
            let batch = |round: usize, cost: u64| Batch {
                calls: 1000,
                ns: cost * 1000,
                control_before_ns: if round < noisy { 1200 } else { 1000 },
                control_after_ns: 1000,
                involuntary_switches: 0,
            };
            let launch = |cost: &u64| (0..40).map(|round| batch(round, *cost)).collect::<Vec<_>>();
            collected.names.push(name(clock, route));
            collected.batches.push(costs.iter().map(launch).collect());
            collected.rounds = vec![40; costs.len()];
        }
        report(&collected, HostState::default(), net)
    }

    #[test]
    fn the_keys_of_the_report_are_filled() {
        let empty: (&str, &str, &[u64]) = ("empty loop", "none", &[1, 1]);
        let clock = "CLOCK_MONOTONIC";
        let paths = [empty, (clock, "vdso", &[21, 21]), (clock, "syscall", &[126, 126])];
        let report = measured(&paths, 10, false);
        let vdso = &report.paths[1];
        assert_eq!((vdso.cost_ps_min, vdso.cost_ps_median), (21_000, 21_000));
        assert_eq!((vdso.batches, vdso.accepted, vdso.grade.as_str()), (80, 60, "quiet"));
        assert_eq!((vdso.samples_ps.len(), vdso.rejected_ps.len()), (60, 20));
        assert_eq!((vdso.launches.len(), vdso.regimes.as_deref()), (2, None));
        assert_eq!(report.method.empty_loop_ps, 1_000);
        assert_eq!((report.ratios.len(), report.ratios[0].ratio), (1, 6.0));
        assert_eq!(report.method.control_ns_min, 1000);
    }

    #[test]
    fn net_costs_are_without_the_empty_loop() {
        let report =
            measured(&[("empty loop", "none", &[1]), ("CLOCK_TAI", "vdso", &[21])], 0, true);
        assert_eq!((report.paths[0].cost_ps_median, report.paths[1].cost_ps_median), (0, 20_000));
        assert_eq!((report.method.empty_loop_ps, report.method.net), (1_000, true));
    }

    #[test]
    fn a_planted_slow_launch_is_named_as_a_regime() {
        let clock = "CLOCK_MONOTONIC";
        let syscall: (&str, &str, &[u64]) = (clock, "syscall", &[126, 145, 127]);
        let report = measured(&[syscall, (clock, "vdso", &[21, 21, 21])], 0, false);
        assert_eq!(report.paths[1].regimes, None);
        let regimes = report.paths[0].regimes.as_deref();
        assert_eq!(regimes, Some("126.5 ns in launches 1, 3; 145.0 ns in launch 2"));
    }

    #[test]
    fn counters_are_compared_with_the_barest() {
        let counters: [(&str, &str, &[u64]); 2] =
            [("rdtsc", "tsc", &[10]), ("rdtscp", "tsc", &[15])];
        let paths = [counters[0], counters[1], ("CLOCK_TAI", "libc", &[20])];
        let [row] = &measured(&paths, 0, false).ratios[..] else { panic!("several rows") };
        assert_eq!((row.of.clock.as_deref(), row.ratio), (Some("rdtscp"), 1.5));
    }

    #[test]
    fn a_long_list_is_thinned_evenly() {
        let values: Vec<u64> = (0..2500).collect();
        let few = thinned(&values, 1000);
        assert_eq!((few.len(), few[0], few[999]), (1000, 0, 2497));
        assert_eq!(thinned(&values[..3], 1000), [0, 1, 2]);
        assert!(thinned(&[], 10).is_empty());
    }
}
