//! Makes the field `callers` of the report from the samples.

use clockscope_stats::order;
use clockscope_text::foreign::Foreign;
use std::collections::HashMap;

use fastclock::{Scale, Ticks};
use indexmap::IndexSet;
use vdso_image::layout::Counted;

use super::collected::{Pair, Seen};
use super::sampler::Found;
use super::weights::{self, Counts};
use clockscope_callers::frames::End;
use clockscope_callers::sample::Called;
use clockscope_model::callers::{CalledRow, Callers, CutRow, FrameRow, PairRow, StackRow};
use clockscope_model::reads::clock_name;
use clockscope_model::trace::{DeclineRow, Missing, Via};
use clockscope_syscalls::filter::Filter;
use clockscope_syscalls::{Abi, SyscallTally, names};
use clockscope_tracee::processes::Processes;

/// Greatest number of pairs in the report.
const PAIRS_MAX: usize = 1_000;

/// Exact inputs, besides the samples.
pub(crate) struct Exact<'a> {
    /// The processes, with their counts of vDSO calls.
    pub processes: &'a Processes,
    /// The counts of system calls; empty if they were not counted.
    pub tallies: &'a [SyscallTally],
    /// Converts ticks to time.
    pub scale: Scale,
    /// Processor time of the program, in nanoseconds.
    pub cpu_ns: u64,
    /// Filter for the rows.
    pub filter: &'a Filter,
}

/// The calls to report, and the rate of sampling.
pub(crate) struct Wanted {
    /// Calls of the vDSO.
    pub vdso: bool,
    /// System calls.
    pub system_calls: bool,
    /// Samples a second.
    pub freq: u32,
}

/// Makes the report. `found` is `None` if sampling could not run.
pub(crate) fn callers(
    found: Option<Found>,
    mut declines: Vec<DeclineRow>,
    wanted: &Wanted,
    exact: &Exact<'_>,
) -> Callers {
    let found = found.unwrap_or_default();
    declines.extend(found.unnamed.iter().map(|(pid, why)| unnamed(*pid, why, exact.processes)));
    let counts = counts(exact);
    let (called, rows) = called_rows(&found, wanted, exact, &counts);
    let mut frames = IndexSet::new();
    let (stacks, moved) = stack_rows(&found, &called, &counts, &mut frames);
    let pairs = pair_rows(&found, &moved, exact.scale);
    Callers {
        samples: rows.iter().map(|row| row.samples).sum(),
        lost: found.lost,
        freq: wanted.freq,
        called: rows,
        frames: frames.into_iter().collect(),
        stacks,
        pairs,
        cut: cut_rows(&found),
        declines,
        stripped: found.stripped,
        waits: found.waits,
        cost_share: if exact.cpu_ns == 0 { 0.0 } else { found.spent_ns / exact.cpu_ns as f64 },
    }
}

/// The row for missing names of functions.
fn unnamed(pid: i32, why: &str, processes: &Processes) -> DeclineRow {
    let process = processes.all().iter().rev().find(|process| process.pid == pid);
    let command = process.map(|process| process.command.clone()).unwrap_or_default();
    DeclineRow { pid, command, what: Missing::Names, reason: why.to_owned() }
}

/// The exact counts by call.
fn counts(exact: &Exact<'_>) -> Counts {
    let mut counts = Counts::default();
    let called = |counter: usize| Called::Vdso(u8::try_from(counter).unwrap_or(u8::MAX));
    for (counter, calls) in exact.processes.total().iter().enumerate() {
        counts.total.insert(called(counter), *calls);
    }
    for process in exact.processes.all() {
        for (counter, calls) in process.calls.iter().enumerate() {
            *counts.by_process.entry((process.pid, called(counter))).or_default() += calls;
        }
    }
    for tally in exact.tallies.iter().filter(|tally| tally.abi == Abi::Native) {
        let called = Called::Syscall(tally.number);
        *counts.total.entry(called).or_default() += tally.calls;
        if tally.pid != 0 {
            *counts.by_process.entry((tally.pid, called)).or_default() += tally.calls;
        }
    }
    counts
}

/// A row for each call that was made and is wanted, sampled or not, and the index of each row.
fn called_rows(
    found: &Found,
    wanted: &Wanted,
    exact: &Exact<'_>,
    counts: &Counts,
) -> (HashMap<Called, usize>, Vec<CalledRow>) {
    let mut sampled: HashMap<Called, Seen> = HashMap::new();
    for (stack, seen) in &found.collected.stacks {
        let sum = sampled.entry(stack.called).or_default();
        sum.samples += seen.samples;
        sum.weight += seen.weight;
        sum.squares += seen.squares;
    }
    let mut all: HashMap<Called, u64> =
        counts.total.iter().filter(|(_, calls)| **calls > 0).map(|(c, n)| (*c, *n)).collect();
    for (called, seen) in &sampled {
        if matches!(called, Called::Syscall(_)) {
            all.entry(*called).or_insert(seen.weight);
        }
    }
    let mut rows: Vec<(Called, CalledRow)> = all
        .into_iter()
        .filter(|(called, _)| match called {
            Called::Vdso(_) => wanted.vdso,
            Called::Syscall(_) => wanted.system_calls,
        })
        .filter_map(|(called, calls)| {
            let seen = sampled.get(&called).copied().unwrap_or_default();
            let (samples, samples_effective) = (seen.samples, seen.effective());
            let row = called_row(called)?;
            Some((called, CalledRow { calls, samples, samples_effective, ..row }))
        })
        .filter(|(_, row)| exact.filter.matches(&row.name))
        .collect();
    order::by(&mut rows, |(_, a), (_, b)| {
        b.calls.cmp(&a.calls).then_with(|| (&a.name, &a.clock).cmp(&(&b.name, &b.clock)))
    });
    let index = rows.iter().enumerate().map(|(at, (called, _))| (*called, at)).collect();
    (index, rows.into_iter().map(|(_, row)| row).collect())
}

/// The row of a call, with its name only; `None` if there is no such counter.
fn called_row(called: Called) -> Option<CalledRow> {
    Some(match called {
        Called::Vdso(counter) => {
            let counted = Counted::from_counter(counter.into())?;
            CalledRow {
                via: Via::Vdso,
                name: counted.function.name().to_owned(),
                clock: counted.clock.map(clock_name),
                ..CalledRow::default()
            }
        }
        Called::Syscall(number) => {
            CalledRow { via: Via::Syscall, name: names::name(number), ..CalledRow::default() }
        }
    })
}

/// The stacks, most calls first, and the new index of each collected stack.
fn stack_rows(
    found: &Found,
    called: &HashMap<Called, usize>,
    counts: &Counts,
    frames: &mut IndexSet<FrameRow>,
) -> (Vec<StackRow>, HashMap<usize, usize>) {
    let collected = &found.collected;
    let calls = weights::calls(&collected.stacks, counts);
    let (mut rows, mut moved) = (Vec::new(), HashMap::new());
    for index in order::places(calls.len(), |a, b| calls[b].total_cmp(&calls[a])) {
        let (stack, seen) = &collected.stacks[index];
        let Some(called) = called.get(&stack.called) else { continue };
        moved.insert(index, rows.len());
        // Of each frame, inlined functions first.
        let rows_of = stack.frames.iter().filter_map(|frame| found.names.get(frame)).flatten();
        rows.push(StackRow {
            called: *called,
            pid: stack.pid,
            frames: rows_of.map(|row| frames.insert_full(row.clone()).0).collect(),
            samples: seen.samples,
            calls: calls[index],
            complete: stack.complete,
        });
    }
    (rows, moved)
}

/// The pairs, most first.
fn pair_rows(found: &Found, moved: &HashMap<usize, usize>, scale: Scale) -> Vec<PairRow> {
    let mut followed: HashMap<usize, u64> = HashMap::new();
    for ((first, _), pair) in found.collected.pairs() {
        *followed.entry(first).or_default() += pair.samples;
    }
    let row = |((first, second), pair): ((usize, usize), &Pair)| {
        let all = followed.get(&first).copied().unwrap_or(0).max(1);
        let nanos = |ticks| u64::try_from(scale.to_nanos(Ticks(ticks)).0).unwrap_or(0);
        let gaps_ns: Vec<u64> = deciles(&pair.gaps).into_iter().map(nanos).collect();
        Some(PairRow {
            first: *moved.get(&first)?,
            second: *moved.get(&second)?,
            samples: pair.samples,
            share: pair.samples as f64 / all as f64,
            gap_ns: gaps_ns.get(DECILES / 2).copied().unwrap_or(0),
            gaps_ns,
        })
    };
    let mut rows: Vec<PairRow> = found.collected.pairs().filter_map(row).collect();
    order::by_key(&mut rows, |row| (u64::MAX - row.samples, row.first, row.second));
    rows.truncate(PAIRS_MAX);
    rows
}

/// Deciles, and the two ends.
const DECILES: usize = 10;

/// The least value, the deciles, and the greatest one.
fn deciles(values: &[u64]) -> Vec<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let at = |tenth: usize| sorted.get((last * tenth + DECILES / 2) / DECILES).copied();
    (0..=DECILES).filter_map(at).collect()
}

/// Reasons why stacks end early, most samples first.
fn cut_rows(found: &Found) -> Vec<CutRow> {
    let row = |(end, module, samples): &(End, Option<Foreign>, u64)| CutRow {
        reason: end.reason().to_owned(),
        module: module.clone(),
        samples: *samples,
    };
    let mut rows: Vec<CutRow> = found.cut.iter().map(row).collect();
    order::by(&mut rows, |a, b| {
        b.samples.cmp(&a.samples).then_with(|| (&a.reason, &a.module).cmp(&(&b.reason, &b.module)))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deciles_are_values_from_end_to_end() {
        assert_eq!(deciles(&[5, 1, 9]), [1, 1, 1, 5, 5, 5, 5, 5, 9, 9, 9]);
        assert_eq!(
            deciles(&(0..=100).rev().collect::<Vec<_>>()),
            [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
        );
        assert_eq!(deciles(&[7]), [7; 11]);
        assert!(deciles(&[]).is_empty());
    }

    #[test]
    fn calls_are_named_by_function_and_clock() {
        let row = called_row(Called::Vdso(1)).unwrap();
        assert_eq!((row.via, row.name.as_str()), (Via::Vdso, "clock_gettime"));
        assert_eq!(row.clock.as_deref(), Some("CLOCK_MONOTONIC"));
        let row = called_row(Called::Syscall(0)).unwrap();
        assert_eq!((row.via, row.name.as_str(), row.clock), (Via::Syscall, "read", None));
        assert_eq!(called_row(Called::Vdso(200)), None);
    }
}
