//! The addresses whose names are wanted, and the last name that a file gives each of them.
//!
//! A file can hold any number of names, and each can cover any address. So only the names of the
//! wanted addresses are kept: one step in a tree gives a name to a range of addresses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Addresses, and their names so far.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Addresses in ascending order.
    places: Vec<u64>,
    /// The name of the places from each key up to the next key. At most one entry per place.
    runs: BTreeMap<usize, Option<Rc<str>>>,
}

impl Wanted {
    pub(super) fn new(mut places: Vec<u64>) -> Wanted {
        places.sort_unstable();
        places.dedup();
        Wanted { places, runs: BTreeMap::from([(0, None)]) }
    }

    /// The indexes of the places in code of `size` bytes from `start` on; `None` if there are none.
    pub(super) fn within(&self, start: u64, size: u64) -> Option<Range<usize>> {
        let first = self.places.partition_point(|at| *at < start);
        let end = start.saturating_add(size);
        let count = self.places[first..].partition_point(|at| *at < end);
        (count > 0).then_some(first..first + count)
    }

    /// Gives these places a name instead of their last one.
    pub(super) fn give(&mut self, range: Range<usize>, name: Rc<str>) {
        let after = self.runs.range(..=range.end).next_back().and_then(|(_, name)| name.clone());
        if range.end < self.places.len() {
            self.runs.insert(range.end, after);
        }
        while let Some(covered) = self.runs.range(range.clone()).next().map(|(at, _)| *at) {
            self.runs.remove(&covered);
        }
        self.runs.insert(range.start, Some(name));
    }

    /// Each address with its name.
    pub(super) fn names(&self) -> impl Iterator<Item = (u64, Option<Rc<str>>)> {
        self.places.iter().enumerate().map(|(index, at)| {
            let name = self.runs.range(..=index).next_back().and_then(|(_, name)| name.clone());
            (*at, name)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_name_counts_and_no_more_is_kept_than_was_asked_for(
            places in prop::collection::vec(0_u64..60, 0..20),
            names in prop::collection::vec((0_u64..60, 0_u64..30), 0..300),
        ) {
            let mut wanted = Wanted::new(places.clone());
            for (number, (start, size)) in names.iter().enumerate() {
                if let Some(range) = wanted.within(*start, *size) {
                    wanted.give(range, number.to_string().into());
                }
                prop_assert!(wanted.runs.len() <= places.len().max(1));
            }
            for (at, name) in wanted.names() {
                let covers = |(_, (start, size)): &(usize, &(u64, u64))| {
                    (*start..start + size).contains(&at)
                };
                let expected = names.iter().enumerate().rev().find(covers);
                let expected = expected.map(|(number, _)| number.to_string());
                prop_assert_eq!(name.as_deref(), expected.as_deref());
            }
        }
    }
}
