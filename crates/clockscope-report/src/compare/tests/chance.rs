//! Simulations with fixed seeds: the rate of false verdicts for equal measurements, and the rate of real
//! changes found.

use super::*;

/// Paths of a file, as `bench` measures them.
const PATHS: usize = 44;
/// Pairs of files.
const PAIRS: u64 = 200;
/// Launches of a file.
const LAUNCHES: usize = 3;
/// Batches of a launch.
const BATCHES: usize = 4;

/// Random numbers: Marsaglia's xorshift with Vigna's multiplication.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normal: the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Disturbances of a machine.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Spread of the launches, in percent.
    launches: f64,
    /// Batches in 100 that a neighbour lengthens, by up to many times the cost.
    tail: f64,
    /// Launches of a path in 100 that are in a second regime, 15 percent dearer.
    regime: f64,
}

const NOISES: [Noise; 4] = [
    Noise { launches: 0.2, tail: 0.0, regime: 0.0 },
    Noise { launches: 2.0, tail: 0.0, regime: 0.0 },
    Noise { launches: 0.5, tail: 40.0, regime: 0.0 },
    Noise { launches: 0.5, tail: 5.0, regime: 30.0 },
];

fn file(
    name_of_file: &str,
    random: &mut Random,
    noise: Noise,
    cost: impl Fn(usize) -> f64,
) -> Source {
    let path = |number: usize| {
        let mut batches = Vec::new();
        let mut launches = Vec::new();
        for _ in 0..LAUNCHES {
            let regime = if random.unit() * 100.0 < noise.regime { 1.15 } else { 1.0 };
            let launch = cost(number) * regime * (1.0 + noise.launches / 100.0 * random.normal());
            let batch = |_| {
                let tail =
                    if random.unit() * 100.0 < noise.tail { 0.02 / random.unit() } else { 0.0 };
                launch * (1.0 + 0.002 * random.normal().abs() + tail)
            };
            let of_launch: Vec<f64> = (0..BATCHES).map(batch).collect();
            launches.push(clockscope_stats::median::median(&of_launch).unwrap());
            batches.extend(of_launch);
        }
        let median = clockscope_stats::median::median_interval(&batches, 0.95).unwrap();
        let ps = |value: f64| format!("{value:.0}").parse::<u64>().unwrap();
        let launch =
            |of: &f64| LaunchRow { cost_ps_median: ps(*of), accepted: 4, ..LaunchRow::default() };
        PathRow {
            name: name(&format!("path {number}")),
            cost_ps_min: batches.iter().copied().map(ps).min().unwrap(),
            cost_ps_median: ps(median.median),
            cost_ps_ci_low: ps(median.low),
            cost_ps_ci_high: ps(median.high),
            samples_ps: batches.into_iter().map(ps).collect(),
            launches: launches.iter().map(launch).collect(),
            grade: "quiet".to_owned(),
            ..PathRow::default()
        }
    };
    bench(name_of_file, (0..PATHS).map(path).collect())
}

fn has_changed(comparison: &CompareRow) -> bool {
    matches!(comparison.verdict, Verdict::Slower | Verdict::Faster)
}

#[test]
fn of_200_pairs_of_equal_measurements_at_most_one_in_twenty_shows_any_change() {
    let cost = |number: usize| 20_000.0 + 3_000.0 * number as f64;
    for noise in NOISES {
        let mut random = Random(0x5eed_0019);
        let changed = (0..PAIRS)
            .filter(|_| {
                let a = file("a", &mut random, noise, cost);
                let b = file("b", &mut random, noise, cost);
                compare(&a, &b, None).unwrap().rows.iter().any(has_changed)
            })
            .count() as u64;
        assert!(changed * 20 <= PAIRS, "{changed} of {PAIRS} pairs with {noise:?}");
    }
}

#[test]
fn five_percent_in_a_few_paths_are_found_and_nothing_else_is() {
    let cost = |number: usize| 20_000.0 + 3_000.0 * number as f64;
    let dearer = |number: usize| cost(number) * if number % 11 == 3 { 1.05 } else { 1.0 };
    let mut random = Random(0x5eed_0020);
    let (mut found, mut wrong) = (0, 0);
    for _ in 0..20 {
        let a = file("a", &mut random, NOISES[0], cost);
        let b = file("b", &mut random, NOISES[0], dearer);
        for (number, comparison) in compare(&a, &b, None).unwrap().rows.iter().enumerate() {
            let is_real = number % 11 == 3;
            found += u32::from(is_real && comparison.verdict == Verdict::Slower);
            wrong += u32::from(!is_real && has_changed(comparison));
        }
    }
    assert_eq!((found, wrong), (80, 0), "of 80 real changes in 20 pairs");
}
