//! Steps of one clock against another, told from slews.

/// The difference of two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// When, in nanoseconds, by the clock that is not doubted.
    pub at_ns: i64,
    /// Clock minus the other, in nanoseconds.
    pub difference_ns: i64,
    /// How wrong that can be, in nanoseconds: half of the bracket.
    pub error_ns: i64,
}

/// A clock is slewed by at most this rate, in parts per million: `MAXFREQ` of the kernel.
///
/// # References
///
/// - `MAXFREQ` in `include/linux/timex.h` (Linux 6.18)
pub(crate) const SLEW_PPM_MAX: i64 = 500;

/// The steps between differences in a row, in nanoseconds.
///
/// A change is a step if it exceeds what a slew and the brackets explain, and also what the
/// neighbouring changes show: a clock that is slewed, however fast, changes about as much in the next
/// interval. A change that the next one takes back was a bad reading.
pub fn steps(differences: &[Difference]) -> Vec<i64> {
    let changes: Vec<Change> =
        differences.windows(2).map(|pair| Change::between(pair[0], pair[1])).collect();
    let is_taken_back = |first: usize| {
        let second = changes.get(first + 1);
        second.is_some_and(|second| {
            let rest = (changes[first].change_ns + second.change_ns).abs();
            rest as f64 <= changes[first].explained_ns() + second.explained_ns()
        })
    };
    let rate = |at: Option<&Change>| at.map_or(0.0, Change::rate);
    let is_step = |(at, change): &(usize, &Change)| {
        let beside = [at.checked_sub(1).and_then(|at| changes.get(at)), changes.get(at + 1)];
        let slewed = beside.map(|change| rate(change) * change_ns(differences, *at));
        slewed.iter().all(|slewed| {
            (change.change_ns as f64 - slewed).abs() > change.explained_ns() + slewed.abs() / 2.0
        }) && change.change_ns.abs() as f64 > change.explained_ns()
            && !is_taken_back(*at)
            && !at.checked_sub(1).is_some_and(is_taken_back)
    };
    changes.iter().enumerate().filter(is_step).map(|(_, change)| change.change_ns).collect()
}

fn change_ns(differences: &[Difference], at: usize) -> f64 {
    (differences[at + 1].at_ns - differences[at].at_ns) as f64
}

struct Change {
    change_ns: i64,
    elapsed_ns: i64,
    error_ns: i64,
}

impl Change {
    fn between(first: Difference, second: Difference) -> Self {
        Self {
            change_ns: second.difference_ns - first.difference_ns,
            elapsed_ns: (second.at_ns - first.at_ns).max(1),
            error_ns: first.error_ns + second.error_ns,
        }
    }

    fn rate(&self) -> f64 {
        self.change_ns as f64 / self.elapsed_ns as f64
    }

    /// What the brackets and the fastest slew of the kernel explain.
    fn explained_ns(&self) -> f64 {
        self.error_ns as f64 + self.elapsed_ns as f64 * SLEW_PPM_MAX as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL_NS: i64 = 20_000_000;

    fn series(difference: impl Fn(i64) -> i64) -> Vec<Difference> {
        let at = |turn: i64| Difference {
            at_ns: turn * POLL_NS,
            difference_ns: difference(turn),
            error_ns: 40,
        };
        (0..50).map(at).collect()
    }

    #[test]
    fn a_constant_difference_has_no_steps() {
        assert_eq!(steps(&series(|turn| 1_000_000 + turn % 3 * 30)), [0; 0]);
        assert_eq!(steps(&[]), [0; 0]);
        assert_eq!(steps(&series(|_| 0)[..1]), [0; 0]);
    }

    #[test]
    fn steps_both_ways_are_found_with_their_size() {
        let stepped = series(|turn| match turn {
            0..10 => 0,
            10..30 => 2_000_000,
            _ => -500_000_000,
        });
        assert_eq!(steps(&stepped), [2_000_000, -502_000_000]);
    }

    #[test]
    fn a_step_in_the_last_interval_is_found() {
        assert_eq!(steps(&series(|turn| if turn == 49 { 90_000 } else { 0 })), [90_000]);
    }

    #[test]
    fn a_slew_is_no_step_however_fast() {
        for ppm in [50, 500, 5_000, 100_000] {
            let per_poll = POLL_NS / 1_000_000 * ppm;
            let slewed = series(|turn| if turn < 20 { 0 } else { (turn - 20).min(10) * per_poll });
            assert_eq!(steps(&slewed), [0; 0], "{ppm} ppm");
        }
    }

    #[test]
    fn a_wide_bracket_excuses_what_it_may_have_made() {
        let mut stepped = series(|turn| if turn == 7 { 60_000 } else { 0 });
        stepped[7].error_ns = 70_000;
        assert_eq!(steps(&stepped), [0; 0]);
    }

    #[test]
    fn a_reading_that_is_wrong_once_is_no_step() {
        assert_eq!(steps(&series(|turn| if turn == 7 { -5_000_000 } else { 0 })), [0; 0]);
    }

    #[test]
    fn a_step_during_a_slew_is_found() {
        let both = series(|turn| turn * 10_000 + if turn > 30 { 1_000_000 } else { 0 });
        assert_eq!(steps(&both), [1_010_000]);
    }
}
