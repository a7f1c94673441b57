//! Turns samples into calls: the samples of each call add up to its exact count. Pure.

use std::collections::HashMap;

use super::collected::{Seen, Stack};
use clockscope_callers::sample::Called;

/// The exact counts, as far as known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Counts of all processes together.
    pub total: HashMap<Called, u64>,
    /// Counts by process.
    pub by_process: HashMap<(i32, Called), u64>,
}

/// The calls that each stack stands for. A process's count is divided among its stacks by the weights of
/// their samples. The counts of processes without samples are divided among all stacks.
pub(crate) fn calls(stacks: &[(Stack, Seen)], counts: &Counts) -> Vec<f64> {
    let mut weight_of_process: HashMap<(i32, Called), f64> = HashMap::new();
    let mut weight_of_all: HashMap<Called, f64> = HashMap::new();
    for (stack, seen) in stacks {
        let weight = seen.weight as f64;
        *weight_of_process.entry((stack.pid, stack.called)).or_default() += weight;
        *weight_of_all.entry(stack.called).or_default() += weight;
    }
    let estimates: Vec<f64> = stacks
        .iter()
        .map(|(stack, seen)| {
            let own = (stack.pid, stack.called);
            let (of, among) = match counts.by_process.get(&own) {
                Some(calls) if *calls > 0 => (*calls, weight_of_process.get(&own)),
                _ => {
                    (total(counts, stack.called, &weight_of_all), weight_of_all.get(&stack.called))
                }
            };
            let among = among.copied().filter(|weight| *weight > 0.0).unwrap_or(1.0);
            seen.weight as f64 / among * of as f64
        })
        .collect();
    let mut sums: HashMap<Called, f64> = HashMap::new();
    for ((stack, _), calls) in stacks.iter().zip(&estimates) {
        *sums.entry(stack.called).or_default() += calls;
    }
    stacks
        .iter()
        .zip(&estimates)
        .map(|((stack, _), calls)| {
            let sum = sums.get(&stack.called).copied().filter(|sum| *sum > 0.0).unwrap_or(1.0);
            calls / sum * total(counts, stack.called, &weight_of_all) as f64
        })
        .collect()
}

/// The exact count of a call; for uncounted system calls, the estimate from the samples.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate")]
fn total(counts: &Counts, called: Called, weights: &HashMap<Called, f64>) -> u64 {
    match (counts.total.get(&called), called) {
        (Some(calls), _) => *calls,
        (None, Called::Vdso(_)) => 0,
        (None, Called::Syscall(_)) => weights.get(&called).map_or(0, |weight| *weight as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_callers::frames::FrameAddress;

    fn stack(pid: i32, called: Called, at: u64, samples: u64, weight: u64) -> (Stack, Seen) {
        let frames = vec![FrameAddress::Unknown { at }];
        (Stack { called, pid, frames, complete: true }, Seen { samples, weight, ..Seen::default() })
    }

    const GETTIME: Called = Called::Vdso(1);

    #[test]
    fn the_calls_of_a_process_are_shared_out_by_weight() {
        let stacks = [
            stack(1, GETTIME, 10, 3, 30),
            stack(1, GETTIME, 11, 1, 10),
            stack(2, GETTIME, 12, 1, 4000),
        ];
        let counts = Counts {
            total: [(GETTIME, 1_000)].into(),
            by_process: [((1, GETTIME), 800), ((2, GETTIME), 200)].into(),
        };
        assert_eq!(calls(&stacks, &counts), [600.0, 200.0, 200.0]);
    }

    #[test]
    fn what_belongs_to_nobody_with_samples_is_shared_out_among_all() {
        let stacks = [stack(1, GETTIME, 10, 1, 3), stack(1, GETTIME, 11, 1, 1)];
        let counts =
            Counts { total: [(GETTIME, 100)].into(), by_process: [((1, GETTIME), 40)].into() };
        assert_eq!(calls(&stacks, &counts), [75.0, 25.0]);
        let unknown = Counts { total: [(GETTIME, 100)].into(), ..Counts::default() };
        assert_eq!(calls(&stacks, &unknown), [75.0, 25.0]);
    }

    #[test]
    fn a_second_of_a_pair_alone_stands_for_no_call() {
        let stacks = [stack(1, GETTIME, 10, 0, 0), stack(1, GETTIME, 11, 1, 1)];
        let counts = Counts { total: [(GETTIME, 100)].into(), ..Counts::default() };
        assert_eq!(calls(&stacks, &counts), [0.0, 100.0]);
        assert_eq!(calls(&stacks[..1], &counts), [0.0]);
    }

    #[test]
    fn system_calls_that_nobody_counts_are_estimated() {
        let read = Called::Syscall(0);
        let stacks = [stack(1, read, 10, 1, 30), stack(1, read, 11, 1, 10)];
        assert_eq!(calls(&stacks, &Counts::default()), [30.0, 10.0]);
    }
}
