//! Instructions of one call: in user mode by single-stepping; in user mode and kernel by the CPU's counters,
//! if there are any.

use std::io;
use std::ops::Range;

use super::path::Path;
use clockscope_sys::loops::Loop;
use clockscope_sys::perf_counters::PerfCounters;
use clockscope_sys::single_step::{self, Steps};

/// Limit for single-stepping one call, in instructions.
const STEPS_MAX: u64 = 20_000;
/// Calls in one run by counters.
const CALLS: u64 = 100_000;
/// Runs by counters; the least one counts.
const COUNTED_REPEATS: u32 = 5;

/// Steps of one call, less those of an empty turn, with the number of agreeing repeats and of all repeats.
pub type Stepped = (Steps, (u32, u32));

/// Counts the user-mode instructions of one call of each path, `repeats` times. `vdso` is the address range
/// of the vDSO's code.
///
/// The least of the repeats counts: an update of the clock makes the vDSO start over, which adds a pass.
pub fn step(paths: &[&Path], vdso: &Range<u64>, repeats: u32) -> Vec<Result<Stepped, String>> {
    let empty = Loop::around(|| ());
    let turn = stepped(&empty, vdso, repeats);
    let of = |path: &&Path| match (&turn, stepped(&path.calling, vdso, repeats)) {
        (Ok((turn, _)), Ok((call, agreeing))) => {
            Ok((Steps { user: call.user.saturating_sub(turn.user), ..call }, agreeing))
        }
        (Err(reason), _) => Err(reason.clone()),
        (_, Err(reason)) => Err(reason),
    };
    paths.iter().map(of).collect()
}

/// The steps of one turn of a loop: those of a run of two turns minus those of a run of one.
fn stepped(calling: &Loop, vdso: &Range<u64>, repeats: u32) -> Result<Stepped, String> {
    // Work on first use only is done before the fork.
    calling.run(2);
    let pairs = (0..repeats).flat_map(|_| [1, 2]);
    let turns: Vec<u64> = [1].into_iter().chain(pairs).collect();
    let steps = single_step::count(calling, &turns, vdso, STEPS_MAX).map_err(|e| clause(&e))?;
    one_turn(&steps[1..]).ok_or_else(|| "it was not repeated".to_owned())
}

/// The steps of one turn, from alternating runs of one and of two turns. Pure.
fn one_turn(steps: &[Steps]) -> Option<Stepped> {
    let (pairs, _) = steps.as_chunks::<2>();
    let least = |turns: usize| pairs.iter().map(|pair| pair[turns - 1]).min();
    let (one, two) = (least(1)?, least(2)?);
    let agreeing = pairs.iter().filter(|pair| **pair == [one, two]).count();
    let turn = Steps {
        user: two.user.checked_sub(one.user)?,
        in_range: two.in_range.checked_sub(one.in_range)?,
        syscalls: two.syscalls.checked_sub(one.syscalls)?,
    };
    Some((turn, (u32::try_from(agreeing).ok()?, u32::try_from(pairs.len()).ok()?)))
}

/// Reason why a call could not be single-stepped, as a clause.
fn clause(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            format!("this host forbids ptrace ({error}); allow it")
        }
        _ if error.kind() == io::ErrorKind::TimedOut => {
            format!("one call has more than {STEPS_MAX} instructions")
        }
        _ if error.kind() == io::ErrorKind::Interrupted => {
            "the process that made the call died of it".to_owned()
        }
        _ => format!("it could not be executed step by step: {error}"),
    }
}

/// Instructions and cycles of one call of each path, in user mode and in the kernel, by the CPU's counters: a
/// loop with the call minus the same loop without it, divided by the number of calls.
///
/// # Errors
///
/// The reason why there are no counts, as a clause.
pub fn count(paths: &[&Path]) -> Result<Vec<[f64; 2]>, String> {
    let counted = || -> io::Result<Vec<[f64; 2]>> {
        let counters = PerfCounters::open()?;
        let without = runs(&counters, &Loop::around(|| ()))?;
        let of = |path: &&Path| Ok(of_one_call(&runs(&counters, &path.calling)?, &without));
        paths.iter().map(of).collect()
    };
    counted().map_err(|error| no_counters(&error))
}

fn runs(counters: &PerfCounters, calling: &Loop) -> io::Result<Vec<[u64; 2]>> {
    calling.run(CALLS / 16);
    (0..COUNTED_REPEATS).map(|_| counters.count(|| calling.run(CALLS))).collect()
}

/// Instructions and cycles of one call, from runs of [`CALLS`] turns with and without the call: the least of
/// each. Pure.
fn of_one_call(with: &[[u64; 2]], without: &[[u64; 2]]) -> [f64; 2] {
    let least = |runs: &[[u64; 2]], what: usize| runs.iter().map(|run| run[what]).min();
    [0, 1].map(|what| {
        let (with, without) = (least(with, what), least(without, what));
        with.unwrap_or(0).saturating_sub(without.unwrap_or(0)) as f64 / CALLS as f64
    })
}

/// Reason why there are no hardware counters, as a clause.
fn no_counters(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this host has no hardware counters, like most virtual machines".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "this user may not count them; try as root, or set kernel.perf_event_paranoid to 1 or \
             less"
                .to_owned()
        }
        _ => format!("the hardware counters cannot be used: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Route, of_clock};
    use clockscope_sys::own_vdso;

    fn steps(user: u64, in_range: u64, syscalls: u64) -> Steps {
        Steps { user, in_range, syscalls }
    }

    fn path(call: impl Fn() + Send + Sync + Clone + 'static) -> Path {
        let calling = Loop::around(call);
        Path { name: of_clock("planted", Route::Libc), calling }
    }

    #[test]
    fn a_retried_pass_in_either_run_changes_the_agreement_and_not_the_count() {
        let (one, two) = (steps(90, 61, 0), steps(168, 122, 0));
        let retried = [one, two, steps(118, 89, 0), two, one, steps(196, 150, 0), one, two];
        let found = one_turn(&retried).unwrap();
        assert_eq!(found, (steps(78, 61, 0), (2, 4)));
        assert_eq!(one_turn(&[]), None);
        assert_eq!(one_turn(&[two, one]), None, "fewer turns have fewer instructions");
    }

    /// A path with known instructions: the table's system call moves its number into a register and enters
    /// the kernel.
    #[test]
    fn a_call_has_the_instructions_that_its_path_is_made_of() {
        let calls = crate::system_calls::paths(&["getppid".to_owned()]).unwrap();
        let (found, _) = step(&[&calls.paths[0]], &own_vdso::code(), 5).remove(0).unwrap();
        assert_eq!((found.syscalls, found.in_range), (1, 0));
        // In an unoptimised build, the closure around the call is a function with a frame.
        let most = if cfg!(debug_assertions) { 60 } else { 3 };
        assert!((2..=most).contains(&found.user), "{found:?}");
    }

    #[test]
    fn a_call_that_cannot_be_stepped_is_a_clause() {
        let endless = path(|| {
            for turn in 0..STEPS_MAX {
                std::hint::black_box(turn);
            }
        });
        let reason = step(&[&endless], &(0..0), 1).remove(0).unwrap_err();
        assert_eq!(reason, format!("one call has more than {STEPS_MAX} instructions"));
        let forbidden = clause(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(forbidden.starts_with("this host forbids ptrace"), "{forbidden}");
    }

    /// The experiment with a loop of reads: 1,008,492,870 and 3,359,090 instructions, 600,644,444
    /// and 7,616,703 cycles for 1,000,000 calls, here for a tenth of them. Some runs are disturbed.
    #[test]
    fn the_difference_of_the_least_runs_is_divided_by_the_calls() {
        let with = [[100_850_064, 60_064_444], [100_849_287, 60_065_221]];
        let without = [[335_909, 761_670], [336_686, 762_447]];
        let [instructions, cycles] = of_one_call(&with, &without);
        assert!((instructions - 1_005.133_78).abs() < 1e-9, "{instructions}");
        assert!((cycles - 593.027_74).abs() < 1e-9, "{cycles}");
        assert_eq!(of_one_call(&without, &with), [0.0; 2]);
    }

    #[test]
    fn each_reason_for_no_counters_is_a_clause() {
        for (number, start) in [
            (libc::ENOENT, "this host has no hardware counters"),
            (libc::EOPNOTSUPP, "this host has no hardware counters"),
            (libc::EACCES, "this user may not count them"),
            (libc::ENOSYS, "the hardware counters cannot be used"),
        ] {
            let clause = no_counters(&io::Error::from_raw_os_error(number));
            assert!(clause.starts_with(start), "{clause}");
        }
    }
}
