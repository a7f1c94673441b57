//! Gaps in which this CPU did not run us, and stability.

use super::bins::Bins;
use crate::chart::axis::Wish;
use crate::chart::curves::{Axis, Curves, Series, Shape, Size};
use crate::chart::palette::Colour;
use crate::chart::quantity::{Unit, digits};
use crate::page::{Page, Table};
use clockscope_model::wrongness::{Gaps, StabilityRow, WrongnessReport};
use clockscope_text::units::{counted, nanos, share};

fn axis(name: &str, unit: Unit, wish: Wish) -> Axis {
    Axis { name: name.to_owned(), unit, wish }
}

/// The section about gaps, if they were looked for.
pub(super) fn gaps(page: &mut Page, report: &WrongnessReport) {
    let Some(gaps) = &report.gaps else { return };
    page.section("Gaps");
    if gaps.count == 0 {
        page.paragraph(&format!(
            "CPU {} ran the loop without a gap above {}.",
            gaps.cpu,
            nanos(gaps.threshold_ns)
        ));
        return;
    }
    let buckets = &gaps.lengths.buckets;
    let end = gaps.lengths.max_ns.max(1) as f64;
    let bins = Bins::new(buckets.iter(), end, Wish::Logarithmic);
    let curves = Curves {
        title: format!("Histogram of the lengths of gaps on CPU {}", gaps.cpu),
        x: axis("length of the gap", Unit::Nanos, Wish::Logarithmic),
        y: axis("gaps", Unit::Plain(String::new()), Wish::Logarithmic),
        series: vec![Series {
            name: String::new(),
            colour: Colour::Blue,
            shape: Shape::Area,
            points: if buckets.is_empty() { Vec::new() } else { bins.counts(buckets) },
        }],
        markers: vec![(
            gaps.threshold_ns as f64,
            format!("threshold: {}", nanos(gaps.threshold_ns)),
        )],
        size: Size::Low,
    };
    let reading = "A gap is a step of a tight loop of counter reads above the threshold: an \
        interrupt, another program, or the hypervisor.";
    page.figure(&[curves.draw()], &lost(gaps), reading);
}

fn lost(gaps: &Gaps) -> String {
    let mut sentence = format!(
        "CPU {} was away from this program for {} of the time: {}, half of them shorter than {}, \
         the longest {}",
        gaps.cpu,
        share(gaps.share),
        counted(gaps.count, "gap", "gaps"),
        nanos(gaps.lengths.p50_ns),
        nanos(gaps.lengths.max_ns)
    );
    if let Some(foreign) = gaps.foreign {
        let part = share(foreign as f64 / (gaps.count as f64).max(1.0));
        sentence.push_str(&format!(
            "; {part} of them without an interrupt or switch of this kernel, so the hypervisor's or \
             the hardware's"
        ));
    }
    sentence + "."
}

/// The section about stability, with `--stability`.
pub(super) fn stability(page: &mut Page, report: &WrongnessReport) {
    let rows = &report.stability;
    if rows.is_empty() {
        return;
    }
    page.section("Stability");
    let series = |name: &str, colour, value: fn(&StabilityRow) -> Option<f64>| {
        let points = rows.iter().filter_map(|row| Some((row.tau_s, value(row)?)));
        let points = points.filter(|(tau, deviation)| *tau > 0.0 && *deviation > 0.0);
        Series { name: name.to_owned(), colour, shape: Shape::Dotted, points: points.collect() }
    };
    let curves = Curves {
        title: "Allan deviation against averaging time".to_owned(),
        x: axis("averaging time", Unit::Seconds, Wish::Logarithmic),
        y: axis("deviation of the rate", Unit::Plain(String::new()), Wish::Logarithmic),
        series: vec![
            series("Allan", Colour::Orange, |row| row.adev),
            series("overlapping Allan", Colour::Blue, |row| row.oadev),
            series("modified Allan", Colour::Vermillion, |row| row.mdev),
        ],
        markers: Vec::new(),
        size: Size::Full,
    };
    let reading = "CLOCK_MONOTONIC against the counter. A slope of -1 is the noise of reading; -1/2 \
        is white noise of the rate; a rise is drift.";
    page.figure(&[curves.draw()], &slope(rows), reading);
    let mut table = Table::new(
        "Deviations by averaging time",
        &["averaging time", "ADEV", "OADEV", "MDEV", "TDEV", "MTIE"],
    );
    let number = |value: Option<f64>| match value.filter(|value| value.is_finite()) {
        Some(value) => format!("{value:.3e}"),
        None => "-".to_owned(),
    };
    let time = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |s| Unit::Seconds.text(s));
    for row in rows {
        table.row(vec![
            Unit::Seconds.text(row.tau_s),
            number(row.adev),
            number(row.oadev),
            number(row.mdev),
            time(row.tdev_s),
            time(row.mtie_s),
        ]);
    }
    page.table(&table);
}

/// How the overlapping deviation goes from the shortest to the longest averaging time.
fn slope(rows: &[StabilityRow]) -> String {
    let points = rows.iter().filter_map(|row| Some((row.tau_s, row.oadev?)));
    let mut points: Vec<(f64, f64)> = points
        .filter(|(tau, oadev)| *tau > 0.0 && *oadev > 0.0 && tau.is_finite() && oadev.is_finite())
        .collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return "No deviation could be computed.".to_owned();
    };
    if first.0 >= last.0 {
        return format!(
            "The overlapping Allan deviation is {:.1e} at {}.",
            first.1,
            Unit::Seconds.text(first.0)
        );
    }
    let slope = (last.1 / first.1).log10() / (last.0 / first.0).log10();
    let meaning = if slope < -0.8 {
        "only the noise of reading the clock is left in it"
    } else if slope < -0.3 {
        "white noise of the rate"
    } else if slope < 0.3 {
        "a floor: longer averaging does not help"
    } else {
        "the rate drifts"
    };
    format!(
        "The overlapping Allan deviation goes from {:.1e} at {} to {:.1e} at {}, a slope of {}: \
         {meaning}.",
        first.1,
        Unit::Seconds.text(first.0),
        last.1,
        Unit::Seconds.text(last.0),
        digits(slope)
    )
}
