//! Sets drawn over each other on one axis, in ASCII: a box of the quartiles with the median, whiskers
//! to the farthest value within 1.5 box lengths, outliers beyond.

use super::numbers::{number, sign};
use clockscope_model::compare::{CompareReport, SetRow};
use clockscope_stats::summary::Sorted;

/// The narrowest plot that shows anything.
pub const WIDTH_MIN: usize = 10;

/// What is drawn of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    whisker_low: f64,
    q1: f64,
    median: f64,
    q3: f64,
    whisker_high: f64,
}

impl Figure {
    fn of(row: &SetRow) -> Option<Self> {
        let values = Sorted::new(row.values.clone())?;
        let (q1, q3) = (values.quantile(0.25), values.quantile(0.75));
        let fence = 1.5 * (q3 - q1);
        let within = |value: &&f64| **value >= q1 - fence && **value <= q3 + fence;
        Some(Self {
            whisker_low: values.values().iter().find(within).copied().unwrap_or(q1),
            q1,
            median: row.median,
            q3,
            whisker_high: values.values().iter().rev().find(within).copied().unwrap_or(q3),
        })
    }
}

/// The axis: from the least to the greatest whisker, so that one outlier does not squeeze all.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    width: usize,
}

impl Axis {
    fn of(figures: &[Option<Figure>], width: usize) -> Option<Self> {
        let mut axis = Self { low: f64::INFINITY, high: f64::NEG_INFINITY, width };
        for figure in figures.iter().flatten() {
            axis.low = axis.low.min(figure.whisker_low);
            axis.high = axis.high.max(figure.whisker_high);
        }
        (axis.high > axis.low && (axis.high - axis.low).is_finite()).then_some(axis)
    }

    /// The column of a value; outside of the axis the one at its end.
    fn column(&self, value: f64) -> usize {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        // From 0 to width - 1.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let column = (share * (self.width - 1) as f64).round() as usize;
        column.min(self.width - 1)
    }

    fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The plot of all sets, `width` columns between its borders; a line that says why if there is none.
pub fn draw(report: &CompareReport, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let figures: Vec<Option<Figure>> = report.sets.iter().map(Figure::of).collect();
    let Some(axis) = Axis::of(&figures, width) else {
        return "(no plot: all values are equal)\n".to_owned();
    };
    let edge = format!("  +{}+\n", "-".repeat(width));
    let mut text = edge.clone();
    for (index, (set, figure)) in report.sets.iter().zip(&figures).enumerate() {
        let Some(figure) = figure else { continue };
        let row: String = row(set, figure, &axis).into_iter().collect();
        text.push_str(&format!("{} |{row}|\n", sign(index)));
    }
    text.push_str(&edge);
    let (low, high) = (ends(axis.low, report), ends(axis.high, report));
    let gap = (width + 2).saturating_sub(low.len() + high.len()).max(1);
    text.push_str(&format!("  {low}{}{high}\n", " ".repeat(gap)));
    text
}

fn ends(value: f64, report: &CompareReport) -> String {
    number(value, &report.unit, 6)
}

fn row(set: &SetRow, figure: &Figure, axis: &Axis) -> Vec<char> {
    let mut cells = vec![' '; axis.width];
    let column = |value: f64| axis.column(value);
    for value in &set.values {
        if *value < figure.whisker_low || *value > figure.whisker_high {
            let is_inside = axis.contains(*value);
            cells[column(*value)] = match (is_inside, *value < axis.low) {
                (true, _) => 'o',
                (false, true) => '<',
                (false, false) => '>',
            };
        }
    }
    let mut fill = |from: f64, to: f64, sign: char| {
        for cell in &mut cells[column(from)..=column(to)] {
            *cell = sign;
        }
    };
    fill(figure.whisker_low, figure.whisker_high, '-');
    fill(figure.q1, figure.q3, '=');
    cells[column(figure.whisker_low)] = '|';
    cells[column(figure.whisker_high)] = '|';
    let (left, right) = (column(figure.q1), column(figure.q3));
    if right > left {
        cells[left] = '[';
        cells[right] = ']';
    }
    cells[column(figure.median)] = 'M';
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sets: &[&[f64]]) -> CompareReport {
        let row = |values: &&[f64]| {
            let sorted = Sorted::new(values.to_vec()).unwrap();
            SetRow {
                n: values.len() as u64,
                median: sorted.quantile(0.5),
                values: sorted.values().to_vec(),
                ..SetRow::default()
            }
        };
        CompareReport { sets: sets.iter().map(row).collect(), ..CompareReport::default() }
    }

    #[test]
    fn boxes_share_an_axis_and_outliers_stay_at_its_end() {
        let a: Vec<f64> = (0..=20).map(f64::from).collect();
        let mut b: Vec<f64> = (10..=30).map(f64::from).collect();
        b.push(500.0);
        let text = draw(&report(&[&a, &b]), 31);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "x ||----[====M====]----|          |");
        assert_eq!(lines[2], "+ |          |----[=====M====]---||");
        assert_eq!(lines[4], "  0                              30");
    }

    #[test]
    fn equal_values_have_no_plot_and_say_so() {
        assert_eq!(draw(&report(&[&[5.0; 4]]), 40), "(no plot: all values are equal)\n");
    }

    proptest::proptest! {
        #[test]
        fn every_line_is_as_wide_as_asked(
            a in proptest::collection::vec(-1e149..1e149_f64, 1..50),
            b in proptest::collection::vec(0.0..1.0_f64, 1..50),
            width in 10_usize..120,
        ) {
            let text = draw(&report(&[&a, &b]), width);
            for line in text.lines().take(3) {
                proptest::prop_assert!(line.len() == width + 4 || line.starts_with('('), "{}", line);
            }
            proptest::prop_assert!(text.is_ascii());
        }
    }
}
