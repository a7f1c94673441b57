//! Cost of a read of each clock, through the vDSO and by system call.

use fastclock::{ClockId, Nanos};

use crate::wrongness::machine::DEFAULT;
use clock_doctor::measured::ReadCost;
use clockscope_sys::loops::Loop;
use clockscope_sys::vdso_call::{self, Call, Path};
use clockscope_sys::vdso_functions::Functions;
use clockscope_sys::{clock_loops, tsc};

/// Least length of a batch, in nanoseconds, ...
const BATCH_NS: i64 = 10_000;
/// ... and in readings of the clock that times it: otherwise a clock that takes 20 us to read would make up
/// most of the batch.
const TIMER_SHARE: i64 = 16;
/// Number of batches; the median counts.
const BATCHES: usize = 9;
/// Limit for the calls of a batch, enough for the cheapest read.
const CALLS_MAX: u64 = 1 << 20;

/// Measures all clocks; takes about 0.2 ms for each clock and route, and up to five if a read takes 20 us. Missing
/// measurements are added to `unmeasured`.
pub(super) fn all(unmeasured: &mut Vec<String>) -> Vec<ReadCost> {
    let functions = Functions::own().map_err(|error| error.to_string());
    if let Err(reason) = &functions {
        unmeasured.push(format!("reads by the vDSO: {reason}"));
    }
    let paths = vdso_call::paths(|call| DEFAULT.map(Call::ClockGettime).contains(&call));
    if paths.is_none() && functions.is_ok() {
        unmeasured.push("whether the vDSO makes system calls: a filter cannot be set".to_owned());
    }
    let paths = paths.unwrap_or_default();
    let timer_ns = timer_ns();
    let cost = |clock: &ClockId| {
        let call = Call::ClockGettime(*clock);
        let by_vdso = functions.as_ref().ok().and_then(|functions| {
            clock_loops::by_vdso(call, functions).ok().map(|calling| median_ns(&calling, timer_ns))
        });
        let by_syscall = clock_loops::by_syscall(call).ok();
        ReadCost {
            clock: clock.name().to_owned(),
            vdso_ns: by_vdso,
            syscall_ns: by_syscall.map(|calling| median_ns(&calling, timer_ns)),
            falls_back: paths.iter().find(|(of, _)| *of == call).map(|of| of.1 == Path::Syscall),
        }
    };
    DEFAULT.iter().map(cost).filter(|read| read.syscall_ns.is_some()).collect()
}

/// Least cost of reading the clock that times the batches, in nanoseconds.
fn timer_ns() -> i64 {
    let readings: Vec<i64> = (0..32).map(|_| now()).collect();
    readings.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(0)
}

fn now() -> i64 {
    let Nanos(now) = tsc::now(ClockId::MonotonicRaw);
    now
}

/// The median cost of a call over the batches, in nanoseconds. If many programs want this CPU, some batches
/// are longer, but seldom most of them.
fn median_ns(calling: &Loop, timer_ns: i64) -> f64 {
    let batch = |calls: u64| {
        let start = now();
        calling.run(calls);
        now() - start - timer_ns
    };
    let enough = BATCH_NS.max(timer_ns * TIMER_SHARE);
    let mut calls = 1;
    let mut last = batch(1);
    while last < enough && calls < CALLS_MAX {
        calls = next_calls(calls, last, enough);
        last = batch(calls);
    }
    let mut costs: Vec<i64> = (0..BATCHES).map(|_| batch(calls)).collect();
    costs.sort_unstable();
    costs[BATCHES / 2].max(0) as f64 / calls as f64
}

/// The number of calls to try next, if `calls` took `last` and `enough` is wanted: the estimate, but at least
/// twice and at most 16 times as many, because a short batch gives a poor estimate.
fn next_calls(calls: u64, last: i64, enough: i64) -> u64 {
    let times = u64::try_from(enough / last.max(1)).unwrap_or(1) + 1;
    calls * times.clamp(2, 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_grows_fast_and_not_beyond_what_is_wanted() {
        assert_eq!(next_calls(1, 20_000, 320_000), 16);
        assert_eq!(next_calls(1, 25, 40_000), 16);
        assert_eq!(next_calls(256, 39_000, 40_000), 512);
        assert_eq!(next_calls(8, -3, 40_000), 128);
    }

    #[test]
    fn clocks_cost_something_and_cpu_clocks_fall_back() {
        let mut unmeasured = Vec::new();
        let reads = all(&mut unmeasured);
        assert_eq!(reads.len(), DEFAULT.len());
        for read in &reads {
            assert!(read.syscall_ns.is_some_and(|ns| ns > 0.0), "{read:?}");
        }
        if unmeasured.is_empty() {
            let thread = reads.iter().find(|read| read.clock == "CLOCK_THREAD_CPUTIME_ID").unwrap();
            assert_eq!(thread.falls_back, Some(true));
            let coarse = reads.iter().find(|read| read.clock == "CLOCK_REALTIME_COARSE").unwrap();
            assert_eq!(coarse.falls_back, Some(false));
        }
    }
}
