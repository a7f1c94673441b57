//! Buckets of a distribution as outlines of a picture.

use crate::chart::axis::{Scale, Wish};

/// Bins of a histogram, at most.
const BINS_MAX: u32 = 72;

/// Bins of equal width on a scale.
pub(super) struct Bins {
    scale: Scale,
    /// Places of the first bin's left edge and of the last one's right edge.
    edges: (f64, f64),
    bins: u32,
}

impl Bins {
    /// Bins for the values of `buckets` (lower bound, count) up to `end`.
    pub(super) fn new<'a>(
        buckets: impl Iterator<Item = &'a (u64, u64)>,
        end: f64,
        wish: Wish,
    ) -> Bins {
        let mut bounds: Vec<u64> = buckets.filter(|(_, n)| *n > 0).map(|(low, _)| *low).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let values = bounds.iter().map(|low| *low as f64).filter(|low| *low <= end).chain([end]);
        let scale = Scale::new(values, wish, 5);
        let bins = u32::try_from(bounds.len() / 2).unwrap_or(BINS_MAX).clamp(12, BINS_MAX);
        let least = bounds.first().map_or(end, |low| *low as f64);
        let low = if wish == Wish::FromZero { scale.low } else { scale.place(least) };
        let high = scale.place(end);
        let edges = if low < high { (low, high) } else { (scale.low, scale.high) };
        Bins { scale, edges, bins }
    }

    /// The outline of a histogram: for each bin its share of all values, from edge to edge.
    pub(super) fn shares(&self, buckets: &[(u64, u64)]) -> Vec<(f64, f64)> {
        let total = total(buckets);
        self.steps(buckets).map(|(x, count)| (x, count / total)).collect()
    }

    /// The outline of a histogram: for each bin its number of values.
    pub(super) fn counts(&self, buckets: &[(u64, u64)]) -> Vec<(f64, f64)> {
        self.steps(buckets).collect()
    }

    fn steps(&self, buckets: &[(u64, u64)]) -> impl Iterator<Item = (f64, f64)> {
        let width = (self.edges.1 - self.edges.0) / f64::from(self.bins);
        let spans: Vec<(f64, f64, f64)> = spans(buckets)
            .into_iter()
            .map(|(low, high, count)| (self.scale.place(low), self.scale.place(high), count))
            .filter(|(low, ..)| *low <= self.edges.1)
            .collect();
        let mut outline = Vec::new();
        for bin in 0..self.bins {
            let start = self.edges.0 + width * f64::from(bin);
            let (first, last) = (bin == 0, bin + 1 == self.bins);
            let from = if first { f64::NEG_INFINITY } else { start };
            let to = if last { f64::INFINITY } else { start + width };
            let count: f64 = spans.iter().map(|span| span.2 * inside(*span, from, to)).sum();
            outline.push((self.scale.value(start), count));
            outline.push((self.scale.value(start + width), count));
        }
        outline.into_iter()
    }
}

/// The buckets as (low end, high end, count), by low end. A bucket goes to the next one, unless that
/// is so far that there must be empty ones between.
fn spans(buckets: &[(u64, u64)]) -> Vec<(f64, f64, f64)> {
    let mut sorted: Vec<(u64, u64)> = buckets.iter().copied().filter(|b| b.1 > 0).collect();
    sorted.sort_unstable();
    let next = sorted.iter().skip(1).map(|(low, _)| *low).chain([u64::MAX]);
    let span = |((low, count), next): (&(u64, u64), u64)| {
        let width = (next - low).min(low / 16);
        (*low as f64, *low as f64 + width as f64, *count as f64)
    };
    sorted.iter().zip(next).map(span).collect()
}

/// The share of a span that lies from one place to another.
fn inside((low, high, _): (f64, f64, f64), from: f64, to: f64) -> f64 {
    if high <= low {
        return if (from..to).contains(&low) { 1.0 } else { 0.0 };
    }
    ((high.min(to) - low.max(from)) / (high - low)).clamp(0.0, 1.0)
}

/// The share of values at most as large as each bucket's lower bound, up to `end`.
pub(super) fn cumulative(buckets: &[(u64, u64)], end: f64) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(u64, u64)> = buckets.to_vec();
    sorted.sort_unstable();
    let total = total(buckets);
    let mut below = 0.0;
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for (low, count) in sorted {
        below += count as f64;
        if low as f64 <= end {
            curve.push((low as f64, below / total));
        }
    }
    // A screen shows no more points than this.
    let every = curve.len().div_ceil(200).max(1);
    let last = curve.len().saturating_sub(1);
    let kept = curve.iter().enumerate().filter(|(at, _)| at % every == 0 || *at == last);
    kept.map(|(_, point)| *point).collect()
}

/// The share of values above `limit`, by the buckets' lower bounds.
pub(super) fn share_above(buckets: &[(u64, u64)], limit: u64) -> f64 {
    let above: f64 = buckets.iter().filter(|b| b.0 > limit).map(|b| b.1 as f64).sum();
    above / total(buckets)
}

fn total(buckets: &[(u64, u64)]) -> f64 {
    buckets.iter().map(|(_, count)| *count as f64).sum::<f64>().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: [(u64, u64); 4] = [(0, 1), (10, 5), (20, 3), (1000, 1)];

    #[test]
    fn a_histogram_keeps_all_values_up_to_its_end() {
        let bins = Bins::new(BUCKETS.iter(), 1000.0, Wish::FromZero);
        let sum: f64 = bins.counts(&BUCKETS).iter().map(|(_, count)| count).sum();
        assert!((sum - 20.0).abs() < 1e-9, "each bin has two corners: {sum}");
        let bins = Bins::new(BUCKETS.iter(), 30.0, Wish::FromZero);
        let sum: f64 = bins.shares(&BUCKETS).iter().map(|(_, share)| share).sum();
        assert!((sum - 1.8).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn a_cumulative_curve_ends_at_one() {
        let curve = cumulative(&BUCKETS, 1e9);
        assert_eq!(curve.first(), Some(&(0.0, 0.1)));
        assert_eq!(curve.last(), Some(&(1000.0, 1.0)));
        assert!((share_above(&BUCKETS, 10) - 0.4).abs() < 1e-9);
        assert_eq!(share_above(&[], 10), 0.0);
        assert!(cumulative(&[], 1.0).is_empty());
    }
}
