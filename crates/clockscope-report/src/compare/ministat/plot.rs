//! ministat's plot: a heap of symbols for each set, and a bar from mean - sd to mean + sd.

use super::{MinistatOptions, SYMBOLS};
use clockscope_stats::ministat::Set;

/// Maps values to columns.
#[derive(Clone, Copy, Debug)]
struct Axis {
    origin: f64,
    step: f64,
    width: usize,
}

impl Axis {
    /// The axis for all sets; `None` if its span is zero.
    fn new(sets: &[(String, Set)], width: usize) -> Option<Self> {
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for (_, set) in sets {
            let (mean, sd) = (set.mean(), set.standard_deviation());
            for value in [set.min(), set.max(), mean - sd, mean + sd] {
                // `min` and `max` skip NaN.
                min = min.min(value);
                max = max.max(value);
            }
        }
        let step = (max - min) / (width as f64 - 1.0);
        (max > min).then_some(Self { origin: min - 0.5 * step, step, width })
    }

    /// The column of a value; `None` for NaN, on which ministat itself crashes.
    fn column(&self, value: f64) -> Option<usize> {
        let place = (value - self.origin) / self.step;
        if place.is_nan() {
            return None;
        }
        // The place is within the axis, from 0 to its width.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some((place as usize).min(self.width - 1))
    }
}

/// The cells above the axis, from row 1 upward: each is the sum of the bits of the sets in it.
struct Cells {
    cells: Vec<u8>,
    width: usize,
    height: usize,
}

impl Cells {
    fn add(&mut self, set: &Set, bits: u8, axis: &Axis) {
        let columns: Vec<usize> =
            set.values().iter().filter_map(|value| axis.column(*value)).collect();
        let tallest = columns.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0);
        let height = tallest + 1;
        if height > self.height {
            // When a taller set comes, rows that a smaller set had cut off are lost, as by ministat's memset.
            self.cells.truncate(self.height * self.width);
            self.cells.resize(height * self.width, 0);
        }
        // As in ministat, the last set decides the height, and taller heaps are cut.
        self.height = height;
        for heap in columns.chunk_by(|a, b| a == b) {
            for row in 1..=heap.len() {
                self.cells[row * self.width + heap[0]] |= bits;
            }
        }
    }
}

fn bar(set: &Set, axis: &Axis, bar: &mut [char]) {
    let (mean, sd) = (set.mean(), set.standard_deviation());
    if let (Some(from), Some(to)) = (axis.column(mean - sd), axis.column(mean + sd)) {
        bar[to] = '|';
        bar[from] = '|';
        for cell in bar.iter_mut().take(to).skip(from + 1).filter(|cell| **cell == ' ') {
            *cell = '_';
        }
    }
    for (value, letter) in [(set.median(), 'M'), (mean, 'A')] {
        if let Some(column) = axis.column(value) {
            bar[column] = letter;
        }
    }
}

/// The plot, or the line with the reason why there is none.
pub(super) fn draw(sets: &[(String, Set)], options: &MinistatOptions) -> String {
    let width = options.width.max(2);
    let Some(axis) = Axis::new(sets, width) else {
        return "[no plot, span is zero width]\n".to_owned();
    };
    let mut cells = Cells { cells: Vec::new(), width, height: 0 };
    let mut bars = vec![vec![' '; width]; if options.separate_bars { sets.len() } else { 1 }];
    for (index, ((_, set), bits)) in sets.iter().zip(1..).enumerate() {
        cells.add(set, bits, &axis);
        bar(set, &axis, &mut bars[if options.separate_bars { index } else { 0 }]);
    }
    let edge = format!("+{}+\n", "-".repeat(width));
    let mut text = edge.clone();
    for row in (1..cells.height).rev() {
        let row = &cells.cells[row * width..(row + 1) * width];
        push_row(&mut text, row.iter().map(|bits| SYMBOLS[usize::from(*bits)]));
    }
    for bar in bars {
        push_row(&mut text, bar.into_iter());
    }
    text + &edge
}

fn push_row(text: &mut String, cells: impl Iterator<Item = char>) {
    text.push('|');
    text.extend(cells);
    text.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use super::super::WIDTH;
    use super::*;

    fn draw_sets(sets: &[&[f64]], width: usize) -> String {
        let set = |values: &&[f64]| (String::new(), Set::new(values.to_vec()).unwrap());
        let sets: Vec<_> = sets.iter().map(set).collect();
        let options =
            MinistatOptions { level: 2, plot: true, compare: true, separate_bars: false, width };
        draw(&sets, &options)
    }

    #[test]
    fn a_standard_deviation_that_is_no_number_does_not_crash_it() {
        let text = draw_sets(&[&[0.1, 0.1, 0.1], &[1.0, 2.0, 3.0]], WIDTH);
        assert!(text.lines().all(|line| line.len() == WIDTH + 2), "{text}");
    }

    #[test]
    fn seven_sets_share_a_cell() {
        let set: &[f64] = &[1.0, 2.0, 3.0];
        assert!(draw_sets(&[set; 7], 20).contains("|O         O        O|"));
    }

    #[test]
    fn the_last_set_decides_the_height() {
        let tall: &[f64] = &[1.0, 1.0, 1.0, 1.0, 9.0];
        let low: &[f64] = &[2.0, 3.0, 4.0];
        assert_eq!(draw_sets(&[low, tall], 20).lines().count(), 7);
        assert_eq!(draw_sets(&[tall, low], 20).lines().count(), 4);
    }
}
