//! The Allan family of deviations: how stable a clock is at each averaging time.
//!
//! All take `phases`, the difference of two clocks in seconds at even spacing `spacing_s`, and the
//! averaging factor `m`; the averaging time is `m * spacing_s`. `None` if there are too few phases.
//!
//! # References
//!
//! Riley, Handbook of Frequency Stability Analysis, NIST Special Publication 1065, section 5.

/// Allan deviation, not overlapping.
pub fn adev(phases: &[f64], spacing_s: f64, m: usize) -> Option<f64> {
    if m == 0 {
        return None;
    }
    let thinned: Vec<f64> = phases.iter().copied().step_by(m).collect();
    oadev(&thinned, spacing_s * m as f64, 1)
}

/// Overlapping Allan deviation, without a unit.
pub fn oadev(phases: &[f64], spacing_s: f64, m: usize) -> Option<f64> {
    let terms = second_differences(phases, m)?;
    let squares: f64 = terms.iter().map(|term| term * term).sum();
    Some((squares / (2.0 * terms.len() as f64)).sqrt() / (m as f64 * spacing_s))
}

/// Modified Allan deviation, without a unit.
pub fn mdev(phases: &[f64], spacing_s: f64, m: usize) -> Option<f64> {
    let terms = second_differences(phases, m)?;
    if terms.len() < m {
        return None;
    }
    let mut window: f64 = terms[..m].iter().sum();
    let mut squares = window * window;
    for end in m..terms.len() {
        window += terms[end] - terms[end - m];
        squares += window * window;
    }
    let windows = (terms.len() - m + 1) as f64;
    let m = m as f64;
    Some((squares / (2.0 * m.powi(4) * windows)).sqrt() / spacing_s)
}

/// Time deviation in seconds.
pub fn tdev(phases: &[f64], spacing_s: f64, m: usize) -> Option<f64> {
    mdev(phases, spacing_s, m).map(|mdev| m as f64 * spacing_s * mdev / 3.0_f64.sqrt())
}

/// Maximum time interval error in seconds: the largest peak-to-peak of the phases in any window of
/// `m` intervals.
pub fn mtie(phases: &[f64], m: usize) -> Option<f64> {
    if m == 0 || phases.len() <= m {
        return None;
    }
    let highest = extremes(phases, m + 1, |a, b| a >= b);
    let lowest = extremes(phases, m + 1, |a, b| a <= b);
    highest.zip(lowest).map(|(high, low)| high - low).reduce(f64::max)
}

/// The extreme of each window, by a queue of candidates: linear time.
fn extremes(
    values: &[f64],
    width: usize,
    beats: impl Fn(f64, f64) -> bool,
) -> impl Iterator<Item = f64> {
    let mut candidates: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    (0..values.len()).filter_map(move |at| {
        while candidates.back().is_some_and(|last| beats(values[at], values[*last])) {
            candidates.pop_back();
        }
        candidates.push_back(at);
        while candidates.front().is_some_and(|first| first + width <= at) {
            candidates.pop_front();
        }
        let first = candidates.front().filter(|_| at + 1 >= width)?;
        Some(values[*first])
    })
}

/// `x[i + 2m] - 2 x[i + m] + x[i]` for all `i`; `None` if there is none.
fn second_differences(phases: &[f64], m: usize) -> Option<Vec<f64>> {
    if m == 0 || phases.len() <= 2 * m {
        return None;
    }
    let terms =
        (0..phases.len() - 2 * m).map(|at| phases[at + 2 * m] - 2.0 * phases[at + m] + phases[at]);
    Some(terms.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The 1,000-point test set of NBS Monograph 140 as extended by Riley, as phases.
    fn nbs14() -> Vec<f64> {
        let mut number = 1_234_567_890_u64;
        let mut phase = 0.0;
        let mut phases = vec![phase];
        for _ in 0..1000 {
            phase += number as f64 / 2_147_483_647.0;
            phases.push(phase);
            number = number * 16_807 % 2_147_483_647;
        }
        phases
    }

    fn shown(value: Option<f64>) -> String {
        format!("{:.6e}", value.unwrap())
    }

    #[test]
    fn the_published_values_come_out_to_all_digits() {
        let phases = nbs14();
        let table = [
            (1, ["2.922319e-1", "2.922319e-1", "2.922319e-1", "1.687202e-1"]),
            (10, ["9.965736e-2", "9.159953e-2", "6.172376e-2", "3.563623e-1"]),
            (100, ["3.897804e-2", "3.241343e-2", "2.170921e-2", "1.253382e0"]),
        ];
        for (m, expected) in table {
            let found = [adev, oadev, mdev, tdev].map(|family| shown(family(&phases, 1.0, m)));
            assert_eq!(found, expected, "m = {m}");
        }
    }

    #[test]
    fn too_few_phases_have_no_deviation() {
        for family in [adev, oadev, mdev, tdev] {
            assert_eq!(family(&[0.0, 1.0], 1.0, 1), None);
            assert_eq!(family(&[0.0; 30], 1.0, 0), None);
            assert_eq!(family(&[0.0; 20], 1.0, 10), None);
        }
        assert_eq!(mtie(&[1.0, 2.0], 2), None);
        assert_eq!(mtie(&[1.0, 2.0], 0), None);
        assert_eq!(mdev(&[0.0; 24], 1.0, 10), None);
    }

    #[test]
    fn the_time_interval_error_is_the_largest_swing_of_a_window() {
        let phases = [0.0, 3.0, 1.0, -1.0, 0.0, 0.5];
        assert_eq!([1, 2, 5].map(|m| mtie(&phases, m).unwrap()), [3.0, 4.0, 4.0]);
    }

    proptest! {
        #[test]
        fn a_constant_frequency_offset_changes_nothing(
            phases in prop::collection::vec(-1e-6..1e-6_f64, 40..80),
            slope in -1e-6..1e-6_f64,
        ) {
            let tilted: Vec<f64> =
                phases.iter().enumerate().map(|(i, x)| x + slope * i as f64).collect();
            for family in [adev, oadev, mdev, tdev] {
                let (a, b) = (family(&phases, 1.0, 4).unwrap(), family(&tilted, 1.0, 4).unwrap());
                prop_assert!((a - b).abs() < 1e-12, "{} {}", a, b);
            }
        }

        #[test]
        fn the_fast_window_agrees_with_the_plain_one(
            phases in prop::collection::vec(-1.0..1.0_f64, 3..60), m in 1_usize..20,
        ) {
            let swing = |window: &[f64]| {
                window.iter().copied().fold(f64::MIN, f64::max)
                    - window.iter().copied().fold(f64::MAX, f64::min)
            };
            let plain = phases.windows(m + 1).map(swing).reduce(f64::max);
            prop_assert_eq!(mtie(&phases, m), plain);
        }
    }
}
