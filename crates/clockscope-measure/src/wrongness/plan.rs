//! The clocks to measure, and the time for each test.

use std::time::Duration;

/// The clocks to measure, and the total time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongnessPlan {
    /// Names of the subjects, in the order of display.
    pub names: Vec<&'static str>,
    /// Whether the user has named the subjects; tests of other subjects are then left out.
    pub is_choice: bool,
    /// The time for all tests together.
    pub time: Duration,
}

/// Time for one part of each test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Order of one subject by one route.
    pub order: Duration,
    /// One coarse clock without pause.
    pub busy: Duration,
    /// All coarse clocks with sleeps.
    pub idle: Duration,
    /// One source on one pair of CPUs.
    pub warp: Duration,
    /// One pair of CPUs.
    pub offset: Duration,
}

/// Shortest time for a part; a shorter one would show nothing.
const PIECE_MIN: Duration = Duration::from_millis(1);

impl Budget {
    /// Splits `time`: each test that has parts gets its share.
    pub(crate) fn split(
        time: Duration,
        orders: usize,
        coarse: usize,
        warps: usize,
        offsets: usize,
    ) -> Self {
        let tests = [(orders, 4), (coarse, 3), (coarse.min(1), 4), (warps, 4), (offsets, 1)];
        let all: u32 = tests.iter().filter(|test| test.0 > 0).map(|test| test.1).sum();
        let [order, busy, idle, warp, offset] = tests.map(|(pieces, weight)| {
            let pieces = u32::try_from(pieces).expect("some routes times some CPUs");
            let part = (time * weight / all.max(1)).checked_div(pieces);
            part.map_or(Duration::ZERO, |part| part.max(PIECE_MIN))
        });
        Self { order, busy, idle, warp, offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pieces_together_take_the_time() {
        let budget = Budget::split(Duration::from_secs(10), 30, 2, 5, 1);
        let all =
            budget.order * 30 + budget.busy * 2 + budget.idle + budget.warp * 5 + budget.offset;
        assert!(all.abs_diff(Duration::from_secs(10)) < Duration::from_millis(1), "{all:?}");
    }

    #[test]
    fn what_has_no_work_gets_no_time_and_the_rest_more() {
        let budget = Budget::split(Duration::from_secs(3), 3, 0, 0, 0);
        assert_eq!((budget.order, budget.idle), (Duration::from_secs(1), Duration::ZERO));
        assert_eq!(Budget::split(Duration::from_secs(3), 0, 0, 0, 0), Budget::default());
    }
}
