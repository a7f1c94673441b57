//! The rule for the verdicts faster, slower, same, not proven and too few.
//!
//! One interval decides, in percent of the first cost. For traces, it is the interval of the two costs. For
//! results of `bench`, it is widened to the change of the cheapest batch and to every change between a launch
//! of one file and a launch of the other: batches of one launch are correlated and launches differ, so an
//! interval by batches alone is too narrow. In addition, the change must be improbable by chance among all
//! rows of the report.

use clockscope_model::compare::{CompareReport, CompareRow, Cost, Verdict};
use clockscope_stats::holm;
use clockscope_stats::launches::{LaunchPair, common_spread, p_of_interval};

/// Possible difference between launches, in percent, that a single launch does not show: the gate accepts
/// batches beside control loops that are this much slower than the best.
const ONE_LAUNCH_MARGIN: f64 = 3.0;
/// A change is proven if its corrected p is below this.
const P_MAX: f64 = 0.05;

/// One path of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    pub name: String,
    /// `None` if too few calls were measured.
    pub cost: Option<Cost>,
    /// Median of each undisturbed launch, in picoseconds; empty for traces.
    pub launches_ps: Vec<f64>,
    pub cheapest_ps: Option<f64>,
    /// The machine was too noisy, or the calls too rare, for a change to be proven.
    pub is_unusable: bool,
    /// Description of the groups if the launches fall into groups.
    pub regimes: Option<String>,
}

/// A row before its verdict, which depends on the number of other rows.
struct Weighed {
    row: CompareRow,
    /// The interval of the two costs alone.
    alone: (f64, f64),
    launches: Option<LaunchPair>,
}

/// Adds rows, and notes about launches.
pub(super) fn judge(pairs: &[(Path, Path)], report: &mut CompareReport) {
    let effect = report.min_effect_percent;
    let weighed: Vec<Weighed> = pairs.iter().map(|(before, after)| weigh(before, after)).collect();
    let common = common_spread(weighed.iter().filter_map(|weighed| weighed.launches.as_ref()));
    // A row without a known change is no test that chance could affect.
    let p = weighed.iter().filter_map(|weighed| {
        let (change, ..) = weighed.row.change_percent?;
        Some(match &weighed.launches {
            Some(launches) => launches.p(change, effect, common),
            None => p_of_costs(&weighed.row.before?, &weighed.row.after?, change, effect),
        })
    });
    let mut corrected = holm::adjusted(&p.collect::<Vec<_>>()).into_iter();
    let mut disagreeing = Vec::new();
    for (Weighed { mut row, alone, launches }, (before, after)) in weighed.into_iter().zip(pairs) {
        row.p_holm = 1.0;
        if let Some((_, low, high)) = row.change_percent {
            row.p_holm = corrected.next().unwrap_or(1.0);
            if !before.is_unusable && !after.is_unusable {
                row.verdict = decide((low, high), row.p_holm, effect);
                let is_open = |interval| decide(interval, 0.0, effect) == Verdict::NotProven;
                let several = launches.is_some_and(|pair| pair.counts.0.min(pair.counts.1) > 1);
                if several && is_open((low, high)) && !is_open(alone) {
                    disagreeing.push(row.name.clone());
                }
            }
        }
        report.rows.push(row);
    }
    for (before, after) in pairs {
        for (path, file) in [(before, &report.before), (after, &report.after)] {
            if let Some(regimes) = &path.regimes {
                let regimes = regimes.trim_end_matches('.');
                report.notes.push(format!("{} in {file}: {regimes}.", path.name));
            }
        }
    }
    report.notes.extend(launch_notes(pairs, &disagreeing));
}

/// Notes on the limits of launches: they disagree, or there is only one.
fn launch_notes(pairs: &[(Path, Path)], disagreeing: &[String]) -> Vec<String> {
    let more = |count: usize| match count {
        1 => String::new(),
        2 => " and one more path".to_owned(),
        paths => format!(" and {} more paths", paths - 1),
    };
    let mut notes = Vec::new();
    if let Some(path) = disagreeing.first() {
        notes.push(format!(
            "The launches of {path}{} disagree about the change; measure again with more --launches.",
            more(disagreeing.len())
        ));
    }
    let is_single = |path: &Path| path.launches_ps.len() == 1;
    let single: Vec<_> =
        pairs.iter().filter(|(before, after)| is_single(before) || is_single(after)).collect();
    if let Some((path, _)) = single.first() {
        notes.push(format!(
            "One file has a single undisturbed launch of {}{}, so how much launches differ is not known, and only \
             large changes can be proven; measure with --launches 3 on a quiet machine.",
            path.name,
            more(single.len())
        ));
    }
    notes
}

/// The verdict. Faster or slower needs the whole interval beyond the smallest effect that matters, on one
/// side; same needs the whole interval within it.
fn decide((low, high): (f64, f64), p: f64, effect: f64) -> Verdict {
    match p < P_MAX {
        true if low > effect => Verdict::Slower,
        true if high < -effect => Verdict::Faster,
        _ if low >= -effect && high <= effect => Verdict::Same,
        _ => Verdict::NotProven,
    }
}

/// All of a row that does not depend on the other rows.
fn weigh(before: &Path, after: &Path) -> Weighed {
    let mut row = CompareRow {
        name: before.name.clone(),
        before: before.cost,
        after: after.cost,
        ..CompareRow::default()
    };
    let (Some(a), Some(b)) = (before.cost, after.cost) else {
        row.verdict = Verdict::TooFew;
        return Weighed { row, alone: (0.0, 0.0), launches: None };
    };
    if a.ps == 0 {
        return Weighed { row, alone: (0.0, 0.0), launches: None };
    }
    let alone = between_costs(&a, &b);
    let (low, high) = widened(alone, before, after);
    row.change_percent = Some(((b.ps as f64 - a.ps as f64) / a.ps as f64 * 100.0, low, high));
    let above = |path: &Path, cost: &Cost| {
        path.cheapest_ps.map_or(0.0, |cheapest| (cost.ps as f64 - cheapest) / cheapest * 100.0)
    };
    let above = (above(before, &a), above(after, &b));
    let launches = LaunchPair::of(&before.launches_ps, &after.launches_ps, above);
    Weighed { row, alone, launches }
}

/// The least and the greatest change, in percent, between any launch of one file and any of the other. If one
/// file has a single launch, the spread of its launches is unknown, and both ends move out by 3 points.
fn between_launches(base: &[f64], other: &[f64]) -> Option<(f64, f64)> {
    let changes = base
        .iter()
        .filter(|base| **base > 0.0)
        .flat_map(|base| other.iter().map(move |other| (other - base) / base * 100.0));
    let margin = if base.len().min(other.len()) == 1 { ONE_LAUNCH_MARGIN } else { 0.0 };
    changes.fold(None, |range, change| {
        let (low, high) = range.unwrap_or((change - margin, change + margin));
        Some((f64::min(low, change - margin), f64::max(high, change + margin)))
    })
}

/// The interval of the change from one cost to the other, in percent of the first: each cost's own interval,
/// the first scaled by the ratio, combined as the root of the sum of squares.
///
/// # References
///
/// Zou and Donner, Statist. Med. 27 (2008) 1693: the method of variance estimates recovery.
fn between_costs(base: &Cost, other: &Cost) -> (f64, f64) {
    let [base, other] =
        [base, other].map(|cost| [cost.ps, cost.low_ps, cost.high_ps].map(|ps| ps as f64));
    let ratio = other[0] / base[0];
    let below = (other[0] - other[1]).hypot((base[2] - base[0]) * ratio);
    let above = (other[2] - other[0]).hypot((base[0] - base[1]) * ratio);
    let percent = |value: f64| value / base[0] * 100.0;
    (percent(other[0] - base[0] - below), percent(other[0] - base[0] + above))
}

/// The p-value of a change beyond `effect`, in percent, from the costs' intervals alone: it compares the
/// second cost with the first cost moved by `effect`.
fn p_of_costs(base: &Cost, other: &Cost, change: f64, effect: f64) -> f64 {
    let limit = 1.0 + effect.copysign(change) / 100.0;
    let half = |cost: &Cost| (cost.high_ps - cost.low_ps) as f64 / 2.0;
    let beyond = (other.ps as f64 - base.ps as f64 * limit) * change.signum();
    p_of_interval(beyond, half(other).hypot(half(base) * limit))
}

/// The interval, widened to the changes between any launches and to the change of the cheapest batch: a busy
/// neighbour raises the median, but hardly the cheapest batch.
fn widened(interval: (f64, f64), base: &Path, other: &Path) -> (f64, f64) {
    let launches = between_launches(&base.launches_ps, &other.launches_ps);
    let cheapest = base.cheapest_ps.zip(other.cheapest_ps).map(|(base, other)| {
        let change = (other - base) / base * 100.0;
        (change, change)
    });
    [launches, cheapest]
        .into_iter()
        .flatten()
        .fold(interval, |(low, high), (least, most)| (low.min(least), high.max(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_interval_must_lie_beyond_the_effect() {
        let table = [
            (1.1, 9.0, Verdict::Slower),
            (0.9, 9.0, Verdict::NotProven),
            (-9.0, -1.1, Verdict::Faster),
            (-9.0, -0.9, Verdict::NotProven),
            (-9.0, 9.0, Verdict::NotProven),
            (0.2, 0.9, Verdict::Same),
            (-1.0, 1.0, Verdict::Same),
            (f64::NEG_INFINITY, 0.0, Verdict::NotProven),
        ];
        for (low, high, verdict) in table {
            assert_eq!(decide((low, high), 0.001, 1.0), verdict, "{low} {high}");
        }
        assert_eq!(decide((5.0, 6.0), 0.2, 1.0), Verdict::NotProven, "likely by chance");
    }

    #[test]
    fn an_uncertain_first_cost_makes_a_large_change_uncertain() {
        let cost = |ps, within| Cost { ps, low_ps: ps - within, high_ps: ps + within };
        let (low, high) = between_costs(&cost(24_000, 6_000), &cost(1_200_000, 0));
        assert!((low - 3650.0).abs() < 1e-9 && (high - 6150.0).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn launches_give_the_least_and_the_greatest_change() {
        let (low, high) = between_launches(&[100.0, 110.0], &[110.0, 121.0]).unwrap();
        assert!((low - 0.0).abs() < 1e-12 && (high - 21.0).abs() < 1e-12);
        assert_eq!(between_launches(&[], &[1.0]), None);
    }
}
