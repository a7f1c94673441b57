//! Rates over the run.

use super::super::chart::axis::Wish;
use super::super::chart::curves::{Axis, Curves, Series, Shape, Size};
use super::super::chart::palette::Colour;
use super::super::chart::quantity::{Unit, digits};
use super::super::page::Page;
use clockscope_model::trace::{Moment, TraceReport};

/// Points of a curve; of more, neighbours are taken together.
const POINTS_MAX: usize = 300;

/// The figure; nothing if nobody looked while it ran.
pub(super) fn section(page: &mut Page, report: &TraceReport) {
    let moments = thinned(&report.timeline);
    if moments.len() < 2 {
        return;
    }
    page.section("Rates over the run");
    let kinds: [(&str, Colour, Count); 3] = [
        ("clock reads", Colour::Blue, |moment| moment.clock_reads),
        ("all vDSO calls", Colour::Green, |moment| moment.vdso_calls),
        ("system calls", Colour::Vermillion, |moment| moment.syscall_calls),
    ];
    let all = kinds.map(|(name, colour, count)| (name, colour, rates(&moments, count)));
    let reads = all[0].2.clone();
    let mut series = Vec::new();
    for (index, (name, colour, points)) in all.into_iter().enumerate() {
        // Nearly the same curve twice would hide one.
        let is_new = index != 1 || is_apart(&points, &reads);
        if is_new && (index == 0 || points.iter().any(|(_, rate)| *rate > 0.0)) {
            let shape = if index == 0 { Shape::Area } else { Shape::Line };
            series.push(Series { name: name.to_owned(), colour, shape, points });
        }
    }
    let conclusion = conclusion(&reads);
    let curves = Curves {
        title: "Clock reads and other calls a second, over the run".to_owned(),
        x: Axis {
            name: "since the start".to_owned(),
            unit: Unit::Plain("s".to_owned()),
            wish: Wish::FromZero,
        },
        y: Axis { name: "calls a second".to_owned(), unit: Unit::PerSecond, wish: Wish::FromZero },
        series,
        markers: Vec::new(),
        size: Size::Full,
    };
    let reading = "Each point is the exact number of calls between two looks at the counters, \
                   divided by the time between them.";
    page.figure(&[curves.draw()], &conclusion, reading);
}

type Count = fn(&Moment) -> u64;

/// The moments in their order, so few that a picture can show them.
fn thinned(timeline: &[Moment]) -> Vec<Moment> {
    let start = Moment::default();
    let mut moments: Vec<Moment> = Vec::new();
    let every = timeline.len().div_ceil(POINTS_MAX).max(1);
    // Counted from the end, so that the last moment stays.
    let kept = timeline.iter().rev().step_by(every).rev();
    for moment in std::iter::once(&start).chain(kept) {
        if moments.last().is_none_or(|last| moment.at_ns > last.at_ns) {
            moments.push(*moment);
        }
    }
    if timeline.is_empty() { Vec::new() } else { moments }
}

/// Calls a second between moments, at the middle of each two, in seconds.
#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn rates(moments: &[Moment], count: Count) -> Vec<(f64, f64)> {
    moments
        .windows(2)
        .map(|pair| {
            let (from, to) = (pair[0].at_ns as f64 / 1e9, pair[1].at_ns as f64 / 1e9);
            let calls = count(&pair[1]).saturating_sub(count(&pair[0]));
            (f64::midpoint(from, to), calls as f64 / (to - from))
        })
        .collect()
}

/// Whether two curves can be told apart in a picture.
fn is_apart(a: &[(f64, f64)], b: &[(f64, f64)]) -> bool {
    let highest = a.iter().chain(b).map(|point| point.1).fold(0.0, f64::max);
    a.iter().zip(b).any(|(a, b)| (a.1 - b.1).abs() > 0.02 * highest)
}

fn conclusion(reads: &[(f64, f64)]) -> String {
    let highest = reads.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    let mut sorted: Vec<f64> = reads.iter().map(|point| point.1).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    if highest.1 <= 0.0 {
        return "No clock was read at any time.".to_owned();
    }
    format!(
        "Half of the time there were {} clock reads or fewer; {} at most, {} s after the start.",
        Unit::PerSecond.text(median),
        Unit::PerSecond.text(highest.1),
        digits(highest.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: u64, clock_reads: u64) -> Moment {
        Moment { at_ns: second * 1_000_000_000, clock_reads, ..Moment::default() }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let moments = thinned(&[moment(2, 100), moment(2, 100), moment(4, 500)]);
        let found = rates(&moments, |moment| moment.clock_reads);
        assert_eq!(found, [(1.0, 50.0), (3.0, 200.0)]);
        let expected = "Half of the time there were 200/s clock reads or fewer; 200/s at most, 3 s after \
                        the start.";
        assert_eq!(conclusion(&found), expected);
    }

    #[test]
    fn long_runs_keep_their_end_and_no_run_makes_a_figure_of_nothing() {
        let timeline: Vec<Moment> = (1..=1_001).map(|n| moment(n, n * n)).collect();
        let moments = thinned(&timeline);
        assert!(moments.len() <= POINTS_MAX + 1, "{}", moments.len());
        assert_eq!(moments.last(), timeline.last());
        assert!(thinned(&[]).is_empty());
    }
}
