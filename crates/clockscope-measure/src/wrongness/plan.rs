//! What is measured, and for how long each.

use std::time::Duration;

/// What to measure, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongnessPlan {
    /// Names of the subjects, in the order in which they are shown.
    pub names: Vec<&'static str>,
    /// They were named by somebody, so what is not about them is left out.
    pub is_choice: bool,
    /// The time for all tests together.
    pub time: Duration,
}

/// How many things each test has to do, which decides its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedWork {
    /// Routes, of all subjects together, and once more for all routes of each in turn.
    pub orders: u32,
    /// Coarse clocks, whose staleness is measured.
    pub coarse: u32,
    /// Sources times pairs of CPUs.
    pub warps: u32,
    /// Pairs of CPUs whose offset is measured.
    pub offsets: u32,
}

/// Time for one piece of each test.
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

/// No piece is shorter, or it would see nothing.
const PIECE_MIN: Duration = Duration::from_millis(1);

impl Budget {
    /// Splits `time`: each test that has work gets its share of it.
    pub(crate) fn split(time: Duration, work: &PlannedWork) -> Self {
        let share = |wanted: bool, weight: u32| if wanted { weight } else { 0 };
        let order = share(work.orders > 0, 4);
        let busy = share(work.coarse > 0, 3);
        let idle = share(work.coarse > 0, 4);
        let warp = share(work.warps > 0, 4);
        let offset = share(work.offsets > 0, 1);
        let all = (order + busy + idle + warp + offset).max(1);
        let piece = |weight: u32, pieces: u32| {
            let part = time * weight / all / pieces.max(1);
            if weight == 0 { Duration::ZERO } else { part.max(PIECE_MIN) }
        };
        Self {
            order: piece(order, work.orders),
            busy: piece(busy, work.coarse),
            idle: piece(idle, 1),
            warp: piece(warp, work.warps),
            offset: piece(offset, work.offsets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pieces_together_take_the_time() {
        let work = PlannedWork { orders: 30, coarse: 2, warps: 5, offsets: 1 };
        let budget = Budget::split(Duration::from_secs(10), &work);
        let all =
            budget.order * 30 + budget.busy * 2 + budget.idle + budget.warp * 5 + budget.offset;
        assert!(all.abs_diff(Duration::from_secs(10)) < Duration::from_millis(1), "{all:?}");
    }

    #[test]
    fn what_has_no_work_gets_no_time_and_the_rest_more() {
        let work = PlannedWork { orders: 3, ..PlannedWork::default() };
        let budget = Budget::split(Duration::from_secs(3), &work);
        assert_eq!((budget.order, budget.idle), (Duration::from_secs(1), Duration::ZERO));
        assert_eq!(
            Budget::split(Duration::from_secs(3), &PlannedWork::default()),
            Budget::default()
        );
    }
}
