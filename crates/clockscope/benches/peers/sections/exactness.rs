//! Exactness: what a tracer counted, beside what the loop says it did.

use crate::counted::Counted;
use crate::figure::{Unit, exact_verdict, or_dash, show, typical};
use crate::loops::Launch;
use crate::page::Page;
use crate::rounds::Variant;
use crate::tracer::Tracer;

/// What one tracer counted in all its launches.
pub(crate) struct Tally {
    tracer: Tracer,
    made: u64,
    counted: Option<u64>,
    averages_ns: Vec<Option<f64>>,
}

impl Tally {
    /// Adds up the launches; `read` finds the call in a summary.
    pub(crate) fn of(
        variant: &Variant<Launch>,
        read: impl Fn(Tracer, &str) -> Option<Counted>,
    ) -> Option<Self> {
        let launches = || variant.rounds.iter().flatten();
        if launches().next().is_none() || variant.tracer == Tracer::Untraced {
            return None;
        }
        let report = |launch: &Launch| read(variant.tracer, &launch.summary);
        let reports: Vec<Option<Counted>> =
            variant.rounds.iter().map(|launch| report(launch.as_ref()?)).collect();
        let counted = reports.iter().flatten().map(|report| report.calls).sum();
        Some(Self {
            tracer: variant.tracer,
            made: launches().map(|launch| launch.calls).sum(),
            counted: reports.iter().any(Option::is_some).then_some(counted),
            averages_ns: reports.iter().map(|report| report.as_ref()?.average_ns).collect(),
        })
    }

    fn difference(&self) -> Option<i128> {
        Some(i128::from(self.counted?) - i128::from(self.made))
    }

    fn row(&self) -> Vec<String> {
        let share =
            |difference: i128| format!("{:+.3} %", difference as f64 * 100.0 / self.made as f64);
        let difference = self.difference();
        vec![
            self.tracer.name(),
            self.made.to_string(),
            self.counted.map_or_else(|| "none".to_owned(), |calls| calls.to_string()),
            or_dash(difference.map(|difference| difference.to_string())),
            or_dash(difference.map(share)),
            or_dash(typical(&self.averages_ns).map(|figure| show(&figure, Unit::Nanos))),
        ]
    }

    /// The averages that it reported, one a round.
    pub(crate) fn averages_ns(&self) -> &[Option<f64>] {
        &self.averages_ns
    }

    /// The tracer.
    pub(crate) fn tracer(&self) -> Tracer {
        self.tracer
    }

    /// The verdict on exactness.
    pub(crate) fn verdict(&self, what: &str) -> String {
        let what = format!("{}: {what}", self.tracer.name());
        let Some(difference) = self.difference() else {
            return format!("{what}: target nothing lost: not measured");
        };
        let found = match difference {
            0 => format!("{} of {}", self.made, self.made),
            _ => format!("off by {difference}"),
        };
        exact_verdict(&what, "nothing lost", &found, difference == 0)
    }
}

/// Writes the table of tallies.
pub(crate) fn table(page: &mut Page, tallies: &[Tally]) {
    let rows: Vec<Vec<String>> = tallies.iter().map(Tally::row).collect();
    page.table(
        &["tracer", "calls made", "counted", "off by", "share", "average reported ns"],
        &rows,
    );
}
