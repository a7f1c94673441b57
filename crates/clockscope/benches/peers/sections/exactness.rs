//! Exactness: what a tracer counted, beside what the loop says it did.

use clockscope::stats::median::{MedianInterval, median_interval};

use crate::counted::Counted;
use crate::figure::{Unit, exact_verdict, show};
use crate::loops::Launch;
use crate::page::Page;
use crate::rounds::Variant;
use crate::tracer::Tracer;

/// What one tracer counted in all its launches.
pub(crate) struct Tally {
    tracer: Tracer,
    made: u64,
    counted: Option<u64>,
    average_ns: Option<MedianInterval>,
}

impl Tally {
    /// Adds up the launches; `read` finds the call in a summary.
    pub(crate) fn of(
        variant: &Variant<Launch>,
        read: impl Fn(Tracer, &str) -> Option<Counted>,
    ) -> Option<Self> {
        let launches: Vec<&Launch> = variant.rounds.iter().flatten().collect();
        if launches.is_empty() || variant.tracer == Tracer::Untraced {
            return None;
        }
        let reports: Vec<Option<Counted>> =
            launches.iter().map(|launch| read(variant.tracer, &launch.summary)).collect();
        let averages: Vec<f64> =
            reports.iter().flatten().filter_map(|report| report.average_ns).collect();
        let counted = reports.iter().flatten().map(|report| report.calls).sum();
        Some(Self {
            tracer: variant.tracer,
            made: launches.iter().map(|launch| launch.calls).sum(),
            counted: reports.iter().any(Option::is_some).then_some(counted),
            average_ns: median_interval(&averages, 0.95),
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
            difference.map_or_else(|| "-".to_owned(), |difference| difference.to_string()),
            difference.map_or_else(|| "-".to_owned(), share),
            self.average_ns.map_or_else(|| "-".to_owned(), |figure| show(&figure, Unit::Nanos)),
        ]
    }

    /// The median of the averages that it reported.
    pub(crate) fn average_ns(&self) -> Option<MedianInterval> {
        self.average_ns
    }

    /// The tracer.
    pub(crate) fn tracer(&self) -> Tracer {
        self.tracer
    }

    /// The verdict on exactness.
    pub(crate) fn verdict(&self, what: &str) -> String {
        let what = format!("{}: {what}", self.tracer.name());
        match self.difference() {
            Some(0) => exact_verdict(
                &what,
                "nothing lost",
                &format!("{} of {}", self.made, self.made),
                true,
            ),
            Some(difference) => {
                exact_verdict(&what, "nothing lost", &format!("off by {difference}"), false)
            }
            None => format!("{what}: target nothing lost: not measured"),
        }
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
