//! How old the answers of clocks are.

use super::bins::{Bins, cumulative, share_above};
use crate::chart::Picture;
use crate::chart::axis::Wish;
use crate::chart::curves::{Axis, Curves, Series, Shape, Size};
use crate::chart::palette::Colour;
use crate::chart::quantity::Unit;
use crate::page::{Page, Table};
use clockscope_model::wrongness::{ClockRow, Distribution, Staleness, WrongnessReport};
use clockscope_text::units::{count, nanos, share};

/// More pictures than this make the page long; the table has all.
const FIGURES_MAX: usize = 8;

/// Clocks with ages, in the order of the report.
fn aged(report: &WrongnessReport) -> impl Iterator<Item = (&ClockRow, &Staleness)> {
    report.clocks.iter().filter_map(|clock| Some((clock, clock.staleness.as_ref()?)))
}

/// The section, if ages were measured.
pub(super) fn section(page: &mut Page, report: &WrongnessReport) {
    if aged(report).next().is_none() {
        return;
    }
    page.section("How old the answers are");
    for (clock, staleness) in aged(report).take(FIGURES_MAX) {
        let pictures = pictures(clock, staleness);
        page.figure(
            &pictures,
            &conclusion(clock, staleness),
            &reading(staleness, end(clock, staleness)),
        );
    }
    if let Some(more) = aged(report).count().checked_sub(FIGURES_MAX).filter(|more| *more > 0) {
        page.paragraph(&format!("{more} more clocks are in the table only."));
    }
    let mut table = Table::new(
        "Age of the answers",
        &[
            "clock",
            "sampled",
            "reads",
            "minimum",
            "1 %",
            "median",
            "99 %",
            "maximum",
            "clock_getres",
        ],
    )
    .words(&[1]);
    for (clock, staleness) in aged(report) {
        for (how, ages) in [("busy", &staleness.busy), ("idle", &staleness.idle)] {
            table.row(vec![
                clock.clock.clone(),
                how.to_owned(),
                count(ages.count),
                nanos(ages.min_ns),
                nanos(ages.p1_ns),
                nanos(ages.p50_ns),
                nanos(ages.p99_ns),
                nanos(ages.max_ns),
                getres(clock).map_or_else(|| "-".to_owned(), nanos),
            ]);
        }
    }
    page.table(&table);
}

fn getres(clock: &ClockRow) -> Option<u64> {
    clock.resolution.as_ref()?.getres_ns
}

/// The distribution that is worse: idle if it was sampled and its tail is clearly longer.
fn worse(staleness: &Staleness) -> &Distribution {
    let (busy, idle) = (&staleness.busy, &staleness.idle);
    if idle.count > 0 && (busy.count == 0 || idle.p99_ns / 21 > busy.p99_ns / 20) {
        idle
    } else {
        busy
    }
}

fn conclusion(clock: &ClockRow, staleness: &Staleness) -> String {
    let ages = worse(staleness);
    if ages.count == 0 {
        return format!("The age of {} was not sampled.", clock.clock);
    }
    let mut sentence = format!(
        "{} is {} old typically and {} or more in one of 100 reads",
        clock.clock,
        nanos(ages.p50_ns),
        nanos(ages.p99_ns)
    );
    if let Some(getres) = getres(clock).filter(|_| !ages.buckets.is_empty()) {
        let older = share(share_above(&ages.buckets, getres));
        sentence.push_str(&format!(
            ": {older} of the reads are older than the {} of clock_getres",
            nanos(getres)
        ));
    }
    if staleness.ahead > 0 {
        let ahead = count(staleness.ahead);
        sentence.push_str(&format!("; {ahead} reads were ahead of {}", staleness.reference));
    }
    sentence + "."
}

/// The sentence for the top of the page: the clock whose answers are oldest.
pub(super) fn worst(report: &WrongnessReport) -> Option<String> {
    let (clock, staleness) = aged(report).max_by_key(|(_, staleness)| worse(staleness).p99_ns)?;
    Some(format!("The oldest answers: {}", conclusion(clock, staleness)))
}

/// Where pictures end: the longest ages may be so rare and so long that they would squeeze the rest.
fn end(clock: &ClockRow, staleness: &Staleness) -> f64 {
    let most = staleness.busy.max_ns.max(staleness.idle.max_ns);
    let p99 = staleness.busy.p99_ns.max(staleness.idle.p99_ns);
    let wanted = (p99 as f64 * 1.4).max(getres(clock).unwrap_or(0) as f64 * 1.2);
    wanted.min(most as f64).max(1.0)
}

fn reading(staleness: &Staleness, end: f64) -> String {
    let beyond = |ages: &Distribution| {
        let beyond = ages.buckets.iter().filter(|bucket| bucket.0 as f64 > end);
        beyond.fold(0_u64, |sum, bucket| sum.saturating_add(bucket.1))
    };
    let beyond = beyond(&staleness.busy).saturating_add(beyond(&staleness.idle));
    let mut text = format!(
        "Age against {}: above, how many reads have it; below, how many are at most that old. Busy: \
         read without pause. Idle: read at random moments with sleeps between them, when the tick \
         may have been stopped.",
        staleness.reference
    );
    if beyond > 0 {
        let most = nanos(staleness.busy.max_ns.max(staleness.idle.max_ns));
        text.push_str(&format!(" {} older reads, up to {most}, are not shown.", count(beyond)));
    }
    text
}

fn pictures(clock: &ClockRow, staleness: &Staleness) -> Vec<Result<Picture, String>> {
    let end = end(clock, staleness);
    let both = [("busy", Colour::Blue, &staleness.busy), ("idle", Colour::Orange, &staleness.idle)];
    let buckets = || both.iter().flat_map(|(_, _, ages)| &ages.buckets);
    if buckets().next().is_none() {
        return vec![Err("There are no buckets to draw.".to_owned())];
    }
    let bins = Bins::new(buckets(), end, Wish::FromZero);
    let series = |shape, points: &dyn Fn(&Distribution) -> Vec<(f64, f64)>| {
        let one = |(name, colour, ages): &(&str, Colour, &Distribution)| Series {
            name: (*name).to_owned(),
            colour: *colour,
            shape,
            points: points(ages),
        };
        both.iter().filter(|(_, _, ages)| ages.count > 0).map(one).collect::<Vec<_>>()
    };
    let axis = |name: &str, unit| Axis { name: name.to_owned(), unit, wish: Wish::FromZero };
    let limit = getres(clock).map(|ns| (ns as f64, format!("clock_getres: {}", nanos(ns))));
    let p99 = worse(staleness).p99_ns;
    let histogram = Curves {
        title: format!("Histogram of the age of {}", clock.clock),
        x: axis("age of the answer", Unit::Nanos),
        y: axis("share of the reads", Unit::Share),
        series: series(Shape::Area, &|ages| bins.shares(&ages.buckets)),
        markers: limit.into_iter().collect(),
        size: Size::Low,
    };
    let cumulative = Curves {
        title: format!("Share of reads of {} that are at most so old", clock.clock),
        x: axis("age of the answer", Unit::Nanos),
        y: axis("share of the reads that are at most this old", Unit::Share),
        series: series(Shape::Line, &|ages| {
            let mut curve = vec![(0.0, 0.0)];
            let risen = cumulative(&ages.buckets, end);
            curve.extend(risen.first().map(|(low, _)| (*low, 0.0)));
            curve.extend(risen);
            curve.push((end, curve.last().map_or(0.0, |(_, share)| *share)));
            curve
        }),
        markers: vec![(p99 as f64, format!("99 %: {}", nanos(p99)))],
        size: Size::Low,
    };
    vec![histogram.draw(), cumulative.draw()]
}
