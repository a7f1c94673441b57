//! Rounds the calls of each stack to whole numbers.

use clockscope_model::callers::Callers;
use clockscope_stats::order;

/// Calls as whole numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WholeCalls {
    /// Calls of each stack.
    pub(super) of_stacks: Vec<u64>,
    /// Calls without a known stack, for each row of `called`.
    pub(super) without_stack: Vec<u64>,
}

/// Rounds the calls of the stacks by largest remainder: for each row of `called`, they add up to its exact
/// number of calls, together with those without a stack.
pub(super) fn whole_calls(callers: &Callers) -> WholeCalls {
    let mut of_stacks = vec![0; callers.stacks.len()];
    let mut by_row: Vec<Vec<usize>> = vec![Vec::new(); callers.called.len()];
    for (index, stack) in callers.stacks.iter().enumerate() {
        if let Some(stacks) = by_row.get_mut(stack.called) {
            stacks.push(index);
        }
    }
    let mut without_stack = Vec::with_capacity(callers.called.len());
    for (row, stacks) in callers.called.iter().zip(&by_row) {
        let weights: Vec<f64> = stacks.iter().map(|index| callers.stacks[*index].calls).collect();
        let whole = apportion(row.calls, &weights);
        without_stack.push(row.calls - whole.iter().sum::<u64>());
        for (index, calls) in stacks.iter().zip(whole) {
            of_stacks[*index] = calls;
        }
    }
    WholeCalls { of_stacks, without_stack }
}

/// Divides `total` in proportion to the weights; all zero if no weight is positive.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of a total")]
fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let weight = |w: &f64| if w.is_finite() { w.max(0.0) } else { 0.0 };
    let sum: f64 = weights.iter().map(weight).sum();
    if sum <= 0.0 || !sum.is_finite() {
        return vec![0; weights.len()];
    }
    let ideal: Vec<f64> = weights.iter().map(|w| total as f64 * (weight(w) / sum)).collect();
    let mut left = total;
    let mut whole: Vec<u64> = Vec::with_capacity(weights.len());
    for part in &ideal {
        let part = (part.floor() as u64).min(left);
        left -= part;
        whole.push(part);
    }
    let mut order =
        order::places(weights.len(), |a, b| ideal[b].fract().total_cmp(&ideal[a].fract()));
    order.retain(|place| weight(&weights[*place]) > 0.0);
    // Above 2^53 calls the fractions are lost, and the remainder may exceed the number of stacks.
    let each = left / order.len() as u64;
    let once_more = usize::try_from(left % order.len() as u64).unwrap_or(0);
    for (place, index) in order.into_iter().enumerate() {
        whole[index] += each + u64::from(place < once_more);
    }
    whole
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use clockscope_model::callers::{CalledRow, StackRow};

    #[test]
    fn the_largest_remainders_get_what_is_left() {
        assert_eq!(apportion(10, &[1.0, 1.0, 1.0]), [4, 3, 3]);
        assert_eq!(apportion(100, &[33.4, 33.3, 33.3]), [34, 33, 33]);
        assert_eq!(apportion(3, &[0.6, 0.6, 1.8]), [1, 0, 2]);
        assert_eq!(apportion(7, &[0.0, 5.0, f64::NAN, -1.0]), [0, 7, 0, 0]);
        assert_eq!(apportion(7, &[0.0]), [0]);
        assert_eq!(apportion(7, &[]), [0; 0]);
    }

    #[test]
    fn calls_without_a_stack_are_kept() {
        let row = |calls| CalledRow { calls, ..CalledRow::default() };
        let stack = |called, calls| StackRow { called, calls, ..StackRow::default() };
        let callers = Callers {
            called: vec![row(10), row(3)],
            stacks: vec![stack(0, 5.5), stack(0, 4.5), stack(7, 1.0)],
            ..Callers::default()
        };
        let whole = whole_calls(&callers);
        assert_eq!(whole.of_stacks, [6, 4, 0]);
        assert_eq!(whole.without_stack, [0, 3]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(total: u64, weights in proptest::collection::vec(0.001..1e9_f64, 1..50)) {
            let whole = apportion(total, &weights);
            prop_assert_eq!(whole.iter().map(|w| u128::from(*w)).sum::<u128>(), u128::from(total));
            if total < 1 << 40 {
                let sum: f64 = weights.iter().sum();
                for (calls, weight) in whole.iter().zip(&weights) {
                    let off = *calls as f64 - total as f64 * weight / sum;
                    prop_assert!(off.abs() < 1.01, "{calls} off by {off}");
                }
            }
        }
    }
}
