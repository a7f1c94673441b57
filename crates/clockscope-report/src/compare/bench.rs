//! Results of `bench --save` in the form for comparison.

use super::host_changes;
use super::judge::Path;
use crate::bench::names;
use clockscope_model::bench::{BenchReport, Method, PathRow};
use clockscope_model::compare::Cost;
use clockscope_text::foreign::printable;
use clockscope_text::lines::cut_middle;

/// Limit for the length of a name, in columns; clockscope's own names have up to 45.
const NAME_MAX: usize = 100;
/// Fewer batches give no interval of a median.
const BATCHES_MIN: usize = 4;
/// Least share of a path's batches that must be undisturbed for a change to be proven.
const KEPT_LEAST: f64 = 0.1;

pub(super) fn paths(report: &BenchReport) -> Vec<Path> {
    report.paths.iter().map(path).collect()
}

fn path(row: &PathRow) -> Path {
    // If hardly any batch was accepted, the medians cover all batches.
    let all = row.grade == "unusable";
    let launches = row.launches.iter().filter(|launch| launch.accepted > 0 || all);
    let median = row.cost_ps_median;
    Path {
        name: cut_middle(&names::of_row(&row.name), NAME_MAX),
        cost: (row.samples_ps.len() >= BATCHES_MIN).then(|| Cost {
            ps: median,
            low_ps: row.cost_ps_ci_low.min(median),
            high_ps: row.cost_ps_ci_high.max(median),
        }),
        launches_ps: launches.map(|launch| launch.cost_ps_median as f64).collect(),
        cheapest_ps: Some(row.cost_ps_min as f64).filter(|cheapest| *cheapest > 0.0),
        is_unusable: all || (row.accepted as f64) < row.batches as f64 * KEPT_LEAST,
        regimes: row.regimes.as_deref().map(printable),
    }
}

/// One clause for each difference between the hosts, and between the states they were in.
pub(super) fn host_changes(before: &BenchReport, after: &BenchReport) -> Vec<String> {
    let (a, b) = (&before.method, &after.method);
    let mut clauses = host_changes::between(&before.host, &after.host);
    clauses.extend(host_changes::of_cpu(a.cpu, b.cpu));
    let control_ns =
        |method: &Method| method.control_ns_min as f64 / method.speed.unwrap_or(1.0).max(0.1);
    clauses.extend(host_changes::of_speed(control_ns(a), control_ns(b)));
    clauses
}
