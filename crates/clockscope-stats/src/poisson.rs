//! The confidence interval of a rate estimated from a number of events. Pure.

/// Standard errors to each side that enclose 95 %.
pub const ERRORS: f64 = 1.959_963_985;
/// The upper limit for no event at all: 2.5 % of processes with this mean have none.
pub const NONE_MOST: f64 = 3.688_879_454;

/// The 95 % interval of the mean of a Poisson distribution that gave `events` events, by Byar's approximation.
///
/// # References
///
/// Breslow and Day, Statistical Methods in Cancer Research II (1987), section 2.3
pub fn interval(events: f64) -> (f64, f64) {
    let cube =
        |n: f64, errors: f64| n * (1.0 - 1.0 / (9.0 * n) + errors / (3.0 * n.sqrt())).powi(3);
    if events > 0.0 {
        (cube(events, -ERRORS).max(0.0), cube(events + 1.0, ERRORS))
    } else {
        (0.0, NONE_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_exact_method_within_a_few_percent() {
        // Garwood's exact limits (1936).
        for (events, low, high) in [
            (0.0, 0.0, 3.689),
            (1.0, 0.025, 5.572),
            (3.0, 0.619, 8.767),
            (10.0, 4.795, 18.390),
            (100.0, 81.364, 121.627),
        ] {
            let found = interval(events);
            assert!((found.0 - low).abs() <= 0.03 + 0.002 * low, "{events}: {found:?}");
            assert!((found.1 - high).abs() <= 0.05, "{events}: {found:?}");
        }
    }
}
