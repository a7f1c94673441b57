//! Series: one figure a round for each variant, and the tables and verdicts made of them.

use clockscope_stats::median::MedianInterval;

use crate::figure::{Target, Unit, difference, or_dash, ratio, show, typical, verdict};
use crate::page::Page;
use crate::rounds::Variant;
use crate::tracer::Tracer;

/// Largest spread of the untraced rounds that passes without remark.
const REGIME_STEP: f64 = 0.05;

/// The figures of one variant.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// One a round.
    pub(crate) values: Vec<Option<f64>>,
    /// The smallest seen in any batch.
    pub(crate) minimum: Option<f64>,
    /// Share of batches that the gate accepted, where there is a gate.
    pub(crate) accepted_share: Option<f64>,
    /// Whether so few launches were undisturbed that all were used.
    pub(crate) noisy: bool,
    pub(crate) failure: Option<String>,
}

impl Series {
    /// A series of ungated figures.
    pub(crate) fn ungated(name: String, values: Vec<Option<f64>>) -> Self {
        let minimum = values.iter().copied().flatten().reduce(f64::min);
        Self { name, values, minimum, accepted_share: None, noisy: false, failure: None }
    }

    /// A series of the ungated figures of a variant.
    pub(crate) fn of<T>(variant: &Variant<T>, value: impl Fn(&T) -> f64) -> Self {
        let values = variant.rounds.iter().map(|round| round.as_ref().map(&value)).collect();
        let series = Self::ungated(variant.tracer.name(), values);
        Self { failure: variant.failure.clone(), ..series }
    }

    fn grade(&self) -> String {
        let share = self.accepted_share.map(|share| format!("{:.0} %", share * 100.0));
        match (share, self.noisy) {
            (Some(share), true) => format!("{share}, noisy"),
            (Some(share), false) => share,
            (None, _) => String::new(),
        }
    }
}

/// The median of `name`'s figures over those of `base`, round by round.
pub(crate) fn ratio_to(all: &[Series], base: &str, name: &str) -> Option<MedianInterval> {
    ratio(&named(all, base)?.values, &named(all, name)?.values)
}

/// The median of `name`'s figures less those of `base`, round by round.
pub(crate) fn added_to(all: &[Series], base: &str, name: &str) -> Option<MedianInterval> {
    difference(&named(all, base)?.values, &named(all, name)?.values)
}

/// The median of what `name` adds to the untraced figures over what `anchor` adds, round by round.
pub(crate) fn share_of_added(all: &[Series], anchor: &str, name: &str) -> Option<MedianInterval> {
    let untraced = &named(all, "untraced")?.values;
    let added = |name: &str| {
        let both = untraced.iter().zip(&named(all, name)?.values);
        Some(both.map(|(base, value)| Some((*value)? - (*base)?)).collect::<Vec<_>>())
    };
    ratio(&added(anchor)?, &added(name)?)
}

/// Writes the verdicts on what tracers add to the untraced figures, or on the ratio to them, as the unit says.
pub(crate) fn judge(
    page: &mut Page,
    all: &[Series],
    unit: Unit,
    targets: &[(Tracer, Target)],
    what: impl Fn(&str) -> String,
) {
    let compare = if unit == Unit::Ratio { ratio_to } else { added_to };
    for (tracer, target) in targets {
        let name = tracer.name();
        let figure = compare(all, "untraced", &name);
        page.verdict(&verdict(&what(&name), *target, unit, figure));
    }
}

/// The series of this name.
pub(crate) fn named<'a>(all: &'a [Series], name: &str) -> Option<&'a Series> {
    all.iter().find(|series| series.name == name)
}

/// Writes a table of times: minimum, median, added and ratio to the first series.
pub(crate) fn time_table(page: &mut Page, all: &[Series], unit: Unit) {
    let Some(base) = all.first() else { return };
    let rows: Vec<Vec<String>> = all.iter().map(|series| time_row(base, series, unit)).collect();
    let head = match unit {
        Unit::Millis => ["variant", "min ms", "median ms", "added ms", "ratio", "gated"],
        _ => ["variant", "min ns", "median ns", "added ns", "ratio", "gated"],
    };
    page.table(&head, &rows);
    note_failures(page, all);
    note_regimes(page, base);
}

fn time_row(base: &Series, series: &Series, unit: Unit) -> Vec<String> {
    let median = typical(&series.values);
    let (Some(minimum), Some(median)) = (series.minimum, median) else {
        return failed_row(series, 6);
    };
    let is_base = base.name == series.name;
    let compared = |figure: Option<MedianInterval>, unit| {
        or_dash(figure.filter(|_| !is_base).map(|figure| show(&figure, unit)))
    };
    vec![
        series.name.clone(),
        unit.show(minimum),
        show(&median, unit),
        compared(difference(&base.values, &series.values), unit),
        compared(ratio(&base.values, &series.values), Unit::Ratio),
        series.grade(),
    ]
}

/// Says below a table why a variant was given up in the middle.
fn note_failures(page: &mut Page, all: &[Series]) {
    for series in all {
        if let Some(reason) =
            series.failure.as_deref().filter(|reason| reason.starts_with("failed"))
        {
            page.text(&format!("`{}` {reason}", series.name));
        }
    }
}

/// Says below a table when the untraced figures fall apart: a step is a regime, not noise.
pub(crate) fn note_regimes(page: &mut Page, base: &Series) {
    let values = || base.values.iter().copied().flatten();
    let (Some(low), Some(high)) = (values().reduce(f64::min), values().reduce(f64::max)) else {
        return;
    };
    if high > low * (1.0 + REGIME_STEP) {
        page.text(&format!(
            "The rounds of `{}` differ by {:.0} %: the machine was busy, or somebody else traced system calls \
             in some of them.",
            base.name,
            (high / low - 1.0) * 100.0
        ));
    }
}

/// Writes a table of rates: best, median and ratio to the first series.
pub(crate) fn rate_table(page: &mut Page, all: &[Series]) {
    let Some(base) = all.first() else { return };
    let rows: Vec<Vec<String>> = all.iter().map(|series| rate_row(base, series)).collect();
    page.table(&["variant", "best /s", "median /s", "of untraced"], &rows);
    note_failures(page, all);
}

fn rate_row(base: &Series, series: &Series) -> Vec<String> {
    let best = series.values.iter().copied().flatten().reduce(f64::max);
    let (Some(best), Some(median)) = (best, typical(&series.values)) else {
        return failed_row(series, 4);
    };
    let compared = ratio(&base.values, &series.values).filter(|_| base.name != series.name);
    vec![
        series.name.clone(),
        Unit::PerSecond.show(best),
        show(&median, Unit::PerSecond),
        or_dash(compared.map(|figure| show(&figure, Unit::Ratio))),
    ]
}

fn failed_row(series: &Series, columns: usize) -> Vec<String> {
    let reason = series.failure.as_deref().unwrap_or("no figures");
    let mut row = vec![series.name.clone(), short_reason(reason)];
    row.resize(columns, String::new());
    row
}

/// The reason without its details, which the end of the page has.
pub(crate) fn short_reason(reason: &str) -> String {
    reason.split(':').next().unwrap_or(reason).to_owned()
}
