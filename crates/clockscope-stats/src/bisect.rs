//! Solving by halving a bracket: slow, and cannot go wrong.

/// The least value between `low` and `high`, to the last bit, at which `is_below` is no longer true;
/// `is_below` is true up to some point of the bracket and false from there on.
pub(super) fn first_not_below(low: f64, high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (low, high);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return high;
        }
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_found_to_the_last_bit() {
        let root = first_not_below(0.0, 2.0, |x| x * x < 2.0);
        assert!(root * root >= 2.0 && root.next_down().powi(2) < 2.0);
        assert_eq!(first_not_below(-1.0, 1.0, |_| true), 1.0);
    }
}
