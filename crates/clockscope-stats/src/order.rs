//! Stable sorts of rows, like those of `slice`. A program contains this code once; it contains 4 KB of the standard
//! library's for each type and order of rows.

use std::cmp::Ordering;
use std::mem;

/// The places from 0 to `count`, sorted.
pub fn places(count: usize, mut compare: impl FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    sorted(count, &mut compare)
}

fn sorted(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

/// Sorts rows by comparing them.
pub fn by<T>(rows: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut places = places(rows.len(), |a, b| compare(&rows[a], &rows[b]));
    // Each cycle of the permutation is moved on by one place.
    for start in 0..places.len() {
        let mut at = start;
        while places[at] != start {
            let from = mem::replace(&mut places[at], at);
            rows.swap(at, from);
            at = from;
        }
        places[at] = at;
    }
}

/// Sorts rows by a key.
pub fn by_key<T, K: Ord>(rows: &mut [T], key: impl Fn(&T) -> K) {
    by(rows, |a, b| key(a).cmp(&key(b)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_sorted_as_by_the_standard_library(keys in proptest::collection::vec(0_u8..20, 0..60)) {
            let rows: Vec<(usize, u8)> = keys.into_iter().enumerate().collect();
            let (mut ours, mut theirs) = (rows.clone(), rows);
            by_key(&mut ours, |(_, key)| *key);
            theirs.sort_by_key(|(_, key)| *key);
            prop_assert_eq!(ours, theirs);
        }
    }
}
