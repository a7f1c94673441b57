//! Instructions of one call: in user mode by executing them one at a time, and by the CPU's counters
//! where there are some.

use std::io;
use std::ops::Range;

use super::path::Path;
use clockscope_sys::loops::Loop;
use clockscope_sys::perf_counters::Counters;
use clockscope_sys::single_step::{self, Steps};

/// A call of more instructions than this is not executed to its end.
const STEPS_MAX: u64 = 20_000;
/// Calls that the counters count at once.
const CALLS: u64 = 100_000;
/// Repeats by counters, of which the least counts.
const COUNTED_REPEATS: u32 = 5;

/// What stepping found of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepped {
    /// User-mode instructions; of a call and the way to it, without those of an empty turn.
    pub user: u64,
    /// Of those, in the vDSO.
    pub in_vdso: u64,
    /// Of those, instructions that enter the kernel.
    pub syscalls: u64,
    /// Repeats that gave these counts.
    pub agreeing: u32,
    /// How many repeats were made.
    pub repeats: u32,
}

/// What the counters found of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedPerCall {
    /// Instructions in user mode and in the kernel.
    pub instructions: f64,
    /// Instructions in user mode.
    pub user: f64,
    /// Cycles in user mode and in the kernel.
    pub cycles: f64,
}

impl CountedPerCall {
    /// Instructions a cycle; `None` if no cycle was counted.
    pub(crate) fn per_cycle(&self) -> Option<f64> {
        (self.cycles > 0.0).then_some(self.instructions / self.cycles)
    }
}

/// Counts the user-mode instructions of one call of each path, `repeats` times. `vdso` is where the
/// vDSO's code is mapped.
///
/// The least of the repeats is taken: a clock that is set meanwhile makes the vDSO start over,
/// which adds a pass.
pub fn step(paths: &[&Path], vdso: &Range<u64>, repeats: u32) -> Vec<Result<Stepped, String>> {
    let empty = Loop::around(|| ());
    let turn = stepped(&empty, vdso, repeats);
    let of = |path: &&Path| match (&turn, stepped(&path.calling, vdso, repeats)) {
        (Ok(turn), Ok(call)) => Ok(Stepped { user: call.user.saturating_sub(turn.user), ..call }),
        (Err(reason), _) => Err(reason.clone()),
        (_, Err(reason)) => Err(reason),
    };
    paths.iter().map(of).collect()
}

/// One turn of a loop, by the difference of a run of two turns and a run of one.
fn stepped(calling: &Loop, vdso: &Range<u64>, repeats: u32) -> Result<Stepped, String> {
    // What happens on first use only has happened before the fork.
    calling.run(2);
    let pairs = (0..repeats).flat_map(|_| [1, 2]);
    let turns: Vec<u64> = [1].into_iter().chain(pairs).collect();
    let steps = single_step::count(calling, &turns, vdso, STEPS_MAX).map_err(|e| clause(&e))?;
    one_turn(&steps[1..]).ok_or_else(|| "it was not repeated".to_owned())
}

/// From runs of one and of two turns in turn, what one turn has. Pure.
fn one_turn(steps: &[Steps]) -> Option<Stepped> {
    let (pairs, _) = steps.as_chunks::<2>();
    let least = |turns: usize| pairs.iter().map(|pair| pair[turns - 1]).min();
    let (one, two) = (least(1)?, least(2)?);
    let agreeing = pairs.iter().filter(|pair| **pair == [one, two]).count();
    Some(Stepped {
        user: two.user.checked_sub(one.user)?,
        in_vdso: two.in_range.checked_sub(one.in_range)?,
        syscalls: two.syscalls.checked_sub(one.syscalls)?,
        agreeing: u32::try_from(agreeing).ok()?,
        repeats: u32::try_from(pairs.len()).ok()?,
    })
}

/// Why a call could not be executed step by step.
fn clause(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            format!("this host forbids ptrace ({error}); allow it, or use perf counters")
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

/// Counts one call of each path by the CPU's counters: a loop with the call minus the same loop
/// without it, divided by the calls.
///
/// # Errors
///
/// Why the counters cannot be believed, as a clause: they stand still, or were shared.
pub fn count(paths: &[&Path], counters: &mut dyn Counters) -> Result<Vec<CountedPerCall>, String> {
    let empty = Loop::around(|| ());
    let without = least(&empty, counters)?;
    paths
        .iter()
        .map(|path| {
            let with = least(&path.calling, counters)?;
            let a_call =
                |with: u64, without: u64| with.saturating_sub(without) as f64 / CALLS as f64;
            Ok(CountedPerCall {
                instructions: a_call(with[0], without[0]),
                user: a_call(with[1], without[1]),
                cycles: a_call(with[2], without[2]),
            })
        })
        .collect()
}

/// The least instructions, instructions in user mode and cycles of a run of [`CALLS`].
fn least(calling: &Loop, counters: &mut dyn Counters) -> Result<[u64; 3], String> {
    let mut least = [u64::MAX; 3];
    calling.run(CALLS / 16);
    for _ in 0..COUNTED_REPEATS {
        let counts = counters
            .count(&|| calling.run(CALLS))
            .map_err(|error| format!("the counters cannot be read: {error}"))?;
        let values = [counts.instructions, counts.instructions_user, counts.cycles];
        if values[0] < CALLS || values[1] < CALLS || values[2] == 0 {
            return Err(format!("they stand still: less than {CALLS} for as many turns of a loop"));
        }
        if !counts.is_complete {
            return Err("somebody else uses them for a part of the time".to_owned());
        }
        for (least, value) in least.iter_mut().zip(values) {
            *least = value.min(*least);
        }
    }
    Ok(least)
}

/// Why there are no hardware counters, from the error of opening them; a clause.
pub fn no_counters(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "the kernel finds none in this CPU, as in most virtual machines".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "this user may not count the kernel; try as root, or set kernel.perf_event_paranoid \
             to 1 or less"
                .to_owned()
        }
        Some(libc::ENOSYS) => "perf_event_open is not available here".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::path::{Route, Subject};
    use clockscope_sys::own_vdso;
    use clockscope_sys::perf_counters::WorkCounts;

    fn steps(user: u64, in_range: u64, syscalls: u64) -> Steps {
        Steps { user, in_range, syscalls }
    }

    fn path(call: impl Fn() + Send + Sync + Clone + 'static) -> Path {
        let calling = Loop::around(call);
        Path { subject: Subject::Clock("planted"), route: Route::Libc, calling }
    }

    #[test]
    fn a_retried_pass_in_either_run_changes_the_agreement_and_not_the_count() {
        let (one, two) = (steps(90, 61, 0), steps(168, 122, 0));
        let retried = [one, two, steps(118, 89, 0), two, one, steps(196, 150, 0), one, two];
        let found = one_turn(&retried).unwrap();
        let expected = Stepped { user: 78, in_vdso: 61, syscalls: 0, agreeing: 2, repeats: 4 };
        assert_eq!(found, expected);
        assert_eq!(one_turn(&[]), None);
        assert_eq!(one_turn(&[two, one]), None, "fewer turns have fewer instructions");
    }

    /// Instructions that are known because they stand there: the system call of the table moves its
    /// number into a register and enters the kernel.
    #[test]
    fn a_call_has_the_instructions_that_its_path_is_made_of() {
        let calls = crate::system_calls::paths(&["getppid".to_owned()]).unwrap();
        let found = step(&[&calls.paths[0]], &own_vdso::code(), 5).remove(0).unwrap();
        assert_eq!((found.syscalls, found.in_vdso), (1, 0));
        // Not optimised, the closure around it is called and sets up a frame.
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

    /// Counters that count `a_call` for a run of a call and `a_turn` for an empty one: the runs
    /// come in that order, first the empty one.
    struct Planted {
        runs: Cell<u32>,
        a_turn: WorkCounts,
        a_call: WorkCounts,
    }

    impl Counters for Planted {
        fn count(&mut self, work: &dyn Fn()) -> io::Result<WorkCounts> {
            work();
            self.runs.set(self.runs.get() + 1);
            // Every run but one is disturbed.
            let extra = u64::from(!self.runs.get().is_multiple_of(COUNTED_REPEATS)) * 777;
            let of = if self.runs.get() <= COUNTED_REPEATS { self.a_turn } else { self.a_call };
            Ok(WorkCounts {
                instructions: of.instructions + extra,
                instructions_user: of.instructions_user + extra,
                cycles: of.cycles + extra,
                ..of
            })
        }
    }

    fn counts(instructions: u64, instructions_user: u64, cycles: u64) -> WorkCounts {
        WorkCounts { instructions, instructions_user, cycles, is_complete: true }
    }

    /// The experiment with a loop of reads: 1,008,492,870 and 3,359,090 instructions, 600,644,444
    /// and 7,616,703 cycles for 1,000,000 calls, here for a tenth of them.
    #[test]
    fn the_difference_of_the_loops_is_divided_by_the_calls() {
        let mut counters = Planted {
            runs: Cell::new(0),
            a_turn: counts(335_909, 300_000, 761_670),
            a_call: counts(100_849_287, 1_300_000, 60_064_444),
        };
        let found = count(&[&path(|| ())], &mut counters).unwrap()[0];
        assert!((found.instructions - 1_005.133_78).abs() < 1e-9, "{found:?}");
        assert_eq!(found.user, 10.0);
        assert!((found.per_cycle().unwrap() - 1.6949).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn counters_that_stand_still_or_are_shared_are_no_counters() {
        let planted = |a_turn: WorkCounts| Planted { runs: Cell::new(0), a_turn, a_call: a_turn };
        let error = count(&[&path(|| ())], &mut planted(counts(0, 0, 0))).unwrap_err();
        assert!(error.starts_with("they stand still"), "{error}");
        let shared = WorkCounts { is_complete: false, ..counts(500_000, 400_000, 300_000) };
        let error = count(&[&path(|| ())], &mut planted(shared)).unwrap_err();
        assert!(error.starts_with("somebody else uses them"), "{error}");
    }

    #[test]
    fn counters_that_cannot_be_read_say_why() {
        struct Broken;
        impl Counters for Broken {
            fn count(&mut self, _work: &dyn Fn()) -> io::Result<WorkCounts> {
                Err(io::Error::from_raw_os_error(libc::EBADF))
            }
        }
        let error = count(&[&path(|| ())], &mut Broken).unwrap_err();
        assert!(error.starts_with("the counters cannot be read: "), "{error}");
    }

    #[test]
    fn each_reason_for_no_counters_is_a_clause() {
        for (number, start) in [
            (libc::ENOENT, "the kernel finds none in this CPU"),
            (libc::EOPNOTSUPP, "the kernel finds none in this CPU"),
            (libc::EACCES, "this user may not count the kernel"),
            (libc::ENOSYS, "perf_event_open is not available here"),
        ] {
            let clause = no_counters(&io::Error::from_raw_os_error(number));
            assert!(clause.starts_with(start), "{clause}");
        }
    }
}
