//! Figures with intervals, and verdicts on targets. Pure.

use clockscope_stats::median::{MedianInterval, median_interval};

const CONFIDENCE: f64 = 0.95;

/// What is compared and how: per call, per run, as a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Milliseconds.
    Millis,
    /// Requests, transactions or statements a second.
    PerSecond,
    /// A ratio of two figures of the same round.
    Ratio,
}

impl Unit {
    /// A figure with enough digits for its size.
    pub(crate) fn show(self, value: f64) -> String {
        let digits = match self {
            Self::Ratio if value.abs() < 10.0 => 2,
            Self::Ratio if value.abs() < 100.0 => 1,
            Self::PerSecond | Self::Ratio => 0,
            Self::Nanos | Self::Millis if value.abs() < 100.0 => 2,
            Self::Nanos | Self::Millis if value.abs() < 10_000.0 => 1,
            Self::Nanos | Self::Millis => 0,
        };
        let number = format!("{value:.digits$}");
        if number.trim_start_matches('-').chars().all(|c| matches!(c, '0' | '.')) {
            number.trim_start_matches('-').to_owned()
        } else {
            number
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Nanos => " ns",
            Self::Millis => " ms",
            Self::PerSecond => "/s",
            Self::Ratio => "x",
        }
    }
}

/// A figure with its interval, as `3.20 [2.90, 3.40]`.
pub(crate) fn show(figure: &MedianInterval, unit: Unit) -> String {
    let text = format!(
        "{} [{}, {}]",
        unit.show(figure.median),
        unit.show(figure.low),
        unit.show(figure.high)
    );
    if figure.confidence < CONFIDENCE {
        format!("{text} ({:.0} %)", figure.confidence * 100.0)
    } else {
        text
    }
}

/// A cell of a table, which is a dash if there is nothing to show.
pub(crate) fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

/// The median of a series, with its interval.
pub(crate) fn typical(values: &[Option<f64>]) -> Option<MedianInterval> {
    let values: Vec<f64> = values.iter().copied().flatten().collect();
    median_interval(&values, CONFIDENCE)
}

/// The median of `value / base` over the rounds that have both.
pub(crate) fn ratio(base: &[Option<f64>], values: &[Option<f64>]) -> Option<MedianInterval> {
    paired(base, values, |base, value| value / base)
}

/// The median of `value - base` over the rounds that have both.
pub(crate) fn difference(base: &[Option<f64>], values: &[Option<f64>]) -> Option<MedianInterval> {
    paired(base, values, |base, value| value - base)
}

fn paired(
    base: &[Option<f64>],
    values: &[Option<f64>],
    combine: impl Fn(f64, f64) -> f64,
) -> Option<MedianInterval> {
    let pairs =
        base.iter().zip(values).filter_map(|(base, value)| Some(combine((*base)?, (*value)?)));
    median_interval(&pairs.collect::<Vec<_>>(), CONFIDENCE)
}

/// A limit that a figure should keep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The figure should not be above this.
    AtMost(f64),
    /// The figure should not be below this.
    AtLeast(f64),
}

/// A subject with its upper limit.
pub(crate) fn at_most<T>((subject, limit): (T, f64)) -> (T, Target) {
    (subject, Target::AtMost(limit))
}

impl Target {
    fn keeps(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    fn show(self, unit: Unit) -> String {
        let (sign, limit) = match self {
            Self::AtMost(limit) => ("<=", limit),
            Self::AtLeast(limit) => (">=", limit),
        };
        format!("{sign} {limit}{}", unit.suffix())
    }
}

/// The verdict on a figure: `WHAT: target <= 5 ns: 3.20 ns [2.90, 3.40] reached`.
pub(crate) fn verdict(
    what: &str,
    target: Target,
    unit: Unit,
    figure: Option<MedianInterval>,
) -> String {
    let target_text = target.show(unit);
    let Some(figure) = figure else {
        return format!("{what}: target {target_text}: not measured");
    };
    let reached = if target.keeps(figure.median) { "reached" } else { "not reached" };
    let certain = target.keeps(figure.low) == target.keeps(figure.high);
    let doubt = if certain { "" } else { " (the interval crosses the target)" };
    format!("{what}: target {target_text}: {} {reached}{doubt}", show_with_unit(&figure, unit))
}

/// The verdict on a figure that is exact, such as a size or a number of lost calls.
pub(crate) fn exact_verdict(what: &str, target: &str, found: &str, reached: bool) -> String {
    let word = if reached { "reached" } else { "not reached" };
    format!("{what}: target {target}: {found} {word}")
}

fn show_with_unit(figure: &MedianInterval, unit: Unit) -> String {
    show(figure, unit).replacen(" [", &format!("{} [", unit.suffix()), 1)
}
