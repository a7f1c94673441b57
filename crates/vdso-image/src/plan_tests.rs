//! Simulates programs that call in patterns, in bursts and in phases, many times over: on average the weights of each
//! place equal its calls.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "numbers of calls are small"
)]

extern crate std;

use std::boxed::Box;
use std::vec::Vec;

use super::*;

/// Like the image's aim for the gap between two timed calls, in ticks.
const AIM: u64 = 100_000;
const PLACES: usize = 4;

/// A call: its place in the program, its counter, and the ticks since the previous call.
type Made = (usize, usize, u64);

/// Results of a simulated run.
#[derive(Default)]
struct Run {
    truth: [f64; PLACES],
    timed: [f64; PLACES],
    shown: [f64; PLACES],
    samples: u64,
}

/// Lets a thread make `calls` calls. The tracer changes `one_in` on the way.
fn run(program: &dyn Fn(u64) -> Made, calls: u64, number: u64, by_cpu: bool) -> Run {
    let slot = Box::<Slot>::default();
    slot.random.store(seed(0x7f12_3456_7000 + number * 0x1000, number << 1 | 1), Relaxed);
    slot.countdown.iter().for_each(|countdown| countdown.store(1, Relaxed));
    let (mut seen, mut now) = (Run::default(), 1_000_000);
    for call in 0..calls {
        let (place, counter, ticks) = program(call);
        now += ticks;
        seen.truth[place] += 1.0;
        if slot.countdown[counter].fetch_sub(1, Relaxed) != 1 {
            continue;
        }
        let plan = plan(&slot, counter, now, by_cpu, AIM);
        let one_in = [1, 3, 2, 8][(call * 4 / calls) as usize];
        let weight = shown(&slot, counter, &plan, one_in) as u32;
        seen.timed[place] += f64::from(plan.weight);
        seen.shown[place] += f64::from(weight);
        seen.samples += u64::from(weight != 0);
    }
    seen
}

/// Mean of some numbers, and its standard error.
fn mean(numbers: &[f64]) -> (f64, f64) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (mean, (squares / (count * (count - 1.0))).sqrt())
}

/// Over many runs, the mean of each place's weights is its number of calls, within 4.5 standard errors (exceeded by
/// chance once in 150,000 times). The standard errors are small.
#[track_caller]
fn assert_unbiased(name: &str, by_cpu: bool, program: &dyn Fn(u64) -> Made) {
    let (calls, runs) = (60_000, 300);
    let runs: Vec<Run> = (1..=runs).map(|number| run(program, calls, number, by_cpu)).collect();
    let samples: u64 = runs.iter().map(|run| run.samples).sum();
    assert!(samples > 10_000, "{name}: {samples} samples");
    for place in 0..PLACES {
        let truth = runs[0].truth[place];
        for what in [|run: &Run| run.timed, |run: &Run| run.shown] {
            let sums: Vec<f64> = runs.iter().map(|run| what(run)[place]).collect();
            let (mean, error) = mean(&sums);
            assert!(
                (mean - truth).abs() <= 4.5 * error + 1e-9,
                "{name}, {place}: {mean} of {truth}, error {error}"
            );
            assert!(error <= 0.02 * calls as f64, "{name}, {place}: error {error}");
        }
    }
}

/// A number unrelated to the image's random numbers.
fn scattered(call: u64) -> u64 {
    let mixed = (call ^ call >> 7).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33
}

#[test]
fn calls_in_fixed_patterns_have_their_shares() {
    for period in [2, 3, 4, 5, 8, 16, 32, 64, 100] {
        for by_cpu in [false, true] {
            let three_in_four = |call: u64| (usize::from(call % period * 4 < period), 1, 700);
            assert_unbiased("pattern", by_cpu, &three_in_four);
        }
    }
}

#[test]
fn calls_at_random_have_their_shares() {
    assert_unbiased("random", false, &|call| ((scattered(call) % 4) as usize, 1, 500));
}

/// One place calls often and the other seldom, in turns: the chance changes in between.
#[test]
fn bursts_and_pauses_have_their_shares() {
    for (quick, slow) in [(100, 100), (1_000, 10), (30, 300), (2_000, 2_000)] {
        let bursts = |call: u64| match call % (quick + slow) < quick {
            true => (0, 1, 60),
            false => (1, 1, 60_000),
        };
        assert_unbiased("bursts", false, &bursts);
        assert_unbiased("bursts on a CPU", true, &bursts);
    }
}

/// The first call after a pause comes from another place than the calls that follow.
#[test]
fn the_first_of_a_burst_has_its_share() {
    let bursts = |call: u64| match call % 20 {
        0 => (0, 1, 2_000_000),
        1 => (1, 1, 50),
        _ => (2, 1, 50),
    };
    assert_unbiased("first of a burst", false, &bursts);
}

/// Two clocks in turns: a call of one is timed while the other waits for its next call.
#[test]
fn clocks_in_turns_have_their_shares() {
    let turns = |call: u64| match call % 7 {
        0 => (0, 1, 300),
        1 => (1, 2, 300),
        2 | 3 => (2, 2, 300),
        _ => (3, 1, 300),
    };
    assert_unbiased("clocks in turns", false, &turns);
}

/// A clock that is read once among thousands of reads of another clock is not timed at every read, although its reads
/// are never adjacent.
#[test]
fn rare_clocks_take_no_more_than_others() {
    let rare = |call: u64| match call % 1_000 {
        0 => (0, 1, 100),
        1 => (1, 2, 100),
        _ => (2, 3, 100),
    };
    let seen = run(&rare, 2_000_000, 5, false);
    assert!(seen.samples < 2_000, "{} samples", seen.samples);
    let slot = Box::<Slot>::default();
    slot.random.store(seed(1, 1), Relaxed);
    slot.countdown.iter().for_each(|countdown| countdown.store(1, Relaxed));
    let mut timed = [0; PLACES];
    for call in 0..2_000_000 {
        let (place, counter, ticks) = rare(call);
        if slot.countdown[counter].fetch_sub(1, Relaxed) == 1 {
            let plan = plan(&slot, counter, 1_000_000 + call * ticks, false, AIM);
            timed[place] += u32::from(plan.weight != 0);
        }
    }
    let rarely = |timed: u32| timed < EAGER_SAMPLES + 60;
    assert!(rarely(timed[0]) && rarely(timed[1]) && timed[2] > 100, "{timed:?}");
}

/// Distances between drawn calls follow the geometric distribution (chi-square with twelve degrees of freedom; chance
/// exceeds 45 once in 90,000 times).
#[test]
fn gaps_are_geometric() {
    let slot = Box::<Slot>::default();
    slot.random.store(seed(0x7f00_0000_1000, 3), Relaxed);
    for power in [1, 2, 3, 5, 8, 12, 16] {
        let chance = 0.5_f64.powi(power as i32);
        let draws = 200_000;
        // Boundaries that 12/13, 11/13, ... of the distances exceed.
        let mut bounds: Vec<f64> = (1..13)
            .map(|k| ((1.0 - f64::from(k) / 13.0).ln() / (1.0 - chance).ln()).floor())
            .collect();
        bounds.dedup();
        bounds.retain(|bound| *bound > 0.0);
        let left = |bound: f64| (1.0 - chance).powf(bound);
        let mut seen = std::vec![0.0_f64; bounds.len() + 1];
        let mut sum = 0.0;
        for _ in 0..draws {
            let gap = f64::from(gap(next(&slot), power));
            sum += gap;
            seen[bounds.iter().filter(|bound| gap > **bound).count()] += 1.0;
        }
        let edges: Vec<f64> = std::iter::once(1.0)
            .chain(bounds.iter().map(|bound| left(*bound)))
            .chain(std::iter::once(0.0))
            .collect();
        let expected = edges.windows(2).map(|pair| (pair[0] - pair[1]) * f64::from(draws));
        let chi: f64 =
            seen.iter().zip(expected).map(|(seen, truth)| (seen - truth).powi(2) / truth).sum();
        assert!(chi < 45.0, "{power}: {chi}");
        let mean = sum / f64::from(draws) * chance;
        assert!((mean - 1.0).abs() < 4.5 / f64::from(draws).sqrt(), "{power}: {mean}");
    }
    assert_eq!((gap(0, 0), gap(u64::MAX, 0), gap(u64::MAX, 5)), (1, 1, 1));
}

#[test]
fn logarithms_are_right() {
    for random in [1, 3, (1 << 20) + 1, 0x1234_5678_9abc_def1, u64::MAX / 3, u64::MAX] {
        let truth = 64.0 - (random as f64).log2();
        let found = minus_log2(random) as f64 / 2_f64.powi(24);
        assert!((found - truth).abs() < 1e-6, "{random:#x}: {found}, truly {truth}");
    }
}

#[test]
fn one_call_waits_at_a_time_and_nobody_waits_for_one_that_never_comes_back() {
    const LONGEST: u64 = 100;
    assert_eq!(wait(0, 0, 0, 5_000, LONGEST), Some(5_100), "the first");
    assert_eq!(wait(5_100, 0, 0, 5_001, LONGEST), None, "another one waits");
    assert_eq!(wait(5_100, 0, 0, 5_000, LONGEST), None, "on a CPU whose counter is behind");
    assert_eq!(wait(5_100, 5_100, 0, 5_001, LONGEST), Some(5_101), "it was released");
    assert_eq!(wait(5_100, 0, 0, 5_100, LONGEST), Some(5_200), "its time is over");
    assert_eq!(wait(5_100, 0, 0, 9_000, LONGEST), Some(9_100), "long ago");
    assert_eq!(wait(5_100, 0, 0, 10, LONGEST), Some(110), "the counter was set back");
    assert_eq!(wait(5_100, 0, 5_100, 6_099, LONGEST), None, "the tracer reads it");
    assert_eq!(wait(5_100, 0, 5_100, 6_100, LONGEST), Some(6_200), "and does not come back");
    for (is_read, end) in [(false, 5_100), (true, 6_100)] {
        assert!(!wait_is_over(5_100, is_read, end - 1, LONGEST));
        assert!(wait_is_over(5_100, is_read, end, LONGEST));
        assert!(wait_is_over(5_100, is_read, 10, LONGEST));
    }
}
