//! Holm's correction for many comparisons: some give a small p by chance.

use crate::order;

/// The corrected p of each comparison of a family, in the order of `p`. If all comparisons below a level are accepted,
/// the probability of at least one false one is at most that level.
///
/// # References
///
/// Holm, Scand. J. Statist. 6 (1979) 65: the k-th smallest of m is multiplied by m - k + 1.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p.len()];
    let mut largest: f64 = 0.0;
    for (place, index) in
        order::places(p.len(), |a, b| p[a].total_cmp(&p[b])).into_iter().enumerate()
    {
        largest = largest.max(p[index] * (p.len() - place) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_r_come_out() {
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") of R 4.
        let found = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(adjusted(&[0.04]), [0.04], "one comparison is none of many");
        assert_eq!(adjusted(&[0.6, 0.7]), [1.0, 1.0]);
        assert!(adjusted(&[]).is_empty());
    }
}
