//! The state of this host, from files, the kernel and the CPU.

pub(crate) mod files;
mod tracers;
mod tsc_rate;
mod virtualisation;

use std::path::Path;
use std::time::{Duration, Instant};

use fastclock::ClockId;

use self::tsc_rate::{hz_from_log, hz_from_scale};
use crate::wrongness::rate::{self, Anchor, Rate};
use clockscope_model::host::{HostState, VdsoState};
use clockscope_sys::loops::Loop;
use clockscope_sys::vdso_call::{self, Call};
use clockscope_sys::vdso_functions::Functions;
use clockscope_sys::{clock_loops, clock_reads, identity, loaded_vdso, perf_clock, tsc};
use clockscope_text::date;

/// Longest time over which the rate of the TSC is measured.
const BASELINE: Duration = Duration::from_millis(50);
/// A bound that is good enough for the rules, which ask for differences of 100 and 500 ppm.
pub(crate) const CLOSE_PPM: f64 = 10.0;
/// Batches of clock reads, and calls in each, for comparing reads by the vDSO and by system call. Every report waits for
/// them: half a millisecond, or ten if a read takes 2.5 us.
const BATCHES: u32 = 20;
const CALLS: u64 = 100;

/// Describes this host; takes about 60 ms, most of them for the rate of the TSC.
pub fn collect() -> HostState {
    collect_while(|| (), 0.0).0
}

/// Describes this host and does other work meanwhile. Waits only if the rate of the TSC is not known within
/// `enough_ppm` by then.
pub(crate) fn collect_while<T>(work: impl FnOnce() -> T, enough_ppm: f64) -> (HostState, T) {
    let started = Instant::now();
    let first = anchor();
    let mut state = without_tsc_rate();
    let done = work();
    let rate = || first.and_then(|first| tsc_rate(first, anchor()?));
    let mut found = rate();
    if found.is_some_and(|rate| rate.bound_ppm > enough_ppm) {
        std::thread::sleep(BASELINE.saturating_sub(started.elapsed()));
        found = rate();
    }
    if let Some(rate) = found {
        state.tsc_hz_measured = Some(rate.ratio * 1e9);
        state.tsc_bound_ppm = Some(rate.bound_ppm);
    }
    (state, done)
}

/// Describes this host without the rate of the TSC, which takes longest to measure.
pub fn without_tsc_rate() -> HostState {
    let root = Path::new("/");
    let kernel = identity::kernel();
    let mut state = files::from_files(root);
    let mut signs = files::signs_of_virtualisation(root, &kernel.release);
    signs.cpuid = identity::hypervisor();
    state.virtualisation = virtualisation::name(&signs);
    state.date = date::rfc3339(identity::unix_seconds());
    env!("CARGO_PKG_VERSION").clone_into(&mut state.clockscope);
    state.kernel = kernel.release;
    state.arch = kernel.machine;
    if state.cpus_online == 0 {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        state.cpus_online = u32::try_from(cpus).unwrap_or(u32::MAX);
    }
    state.hz = hz();
    if state.tsc_hz_kernel.is_none()
        && let Some((hertz, source)) = tsc_hz_kernel()
    {
        state.tsc_hz_kernel = Some(hertz);
        state.tsc_hz_source = Some(source.to_owned());
    }
    state.syscall_tracing = tracers::look();
    state.vdso = vdso();
    state
}

/// Timer ticks a second, from the resolution that the kernel states for the coarse clocks: one tick.
fn hz() -> Option<u32> {
    let tick = tsc::resolution(ClockId::MonotonicCoarse).0;
    let tick = u32::try_from(tick).ok().filter(|tick| *tick > 0)?;
    Some((1_000_000_000 + tick / 2) / tick)
}

/// The kernel's rate of the TSC in hertz, from the best source available, with the source's name.
fn tsc_hz_kernel() -> Option<(f64, &'static str)> {
    let by_page = || {
        let (shift, mult) = perf_clock::scale()?;
        Some((hz_from_scale(shift, mult), "perf event page"))
    };
    let log = || identity::read_kernel_log().ok();
    let by_log = || Some((hz_from_log(&String::from_utf8_lossy(&log()?))?, "kernel log"));
    by_page().or_else(by_log).or_else(identity::counter_hz)
}

/// A reading of the counter between readings of `CLOCK_MONOTONIC_RAW`, which no clock discipline steers.
///
/// If the TSC is the clocksource, this clock is the TSC at the kernel's rate. Both rates must then agree, and
/// the measurement tests that.
fn anchor() -> Option<Anchor> {
    let clock = || tsc::now(ClockId::MonotonicRaw).0;
    tsc::has_read_after().then(|| rate::anchor(&clock, &clock_reads::counter_fenced))
}

/// Ticks a nanosecond between two anchors; `None` if the counter or the clock did not go forwards.
fn tsc_rate(first: Anchor, last: Anchor) -> Option<Rate> {
    rate::between(first, last, 1).filter(|rate| rate.ratio > 0.0)
}

fn vdso() -> VdsoState {
    if loaded_vdso::own_base().is_none() {
        return VdsoState::default();
    }
    let monotonic = Call::ClockGettime(ClockId::Monotonic);
    let paths = vdso_call::paths(|call| call == monotonic).unwrap_or_default();
    let cost = |calling: Loop| calling.cheapest(BATCHES, CALLS).0 as f64;
    let by_vdso = Functions::own().ok().and_then(|own| clock_loops::by_vdso(monotonic, &own).ok());
    let by_vdso = by_vdso.map(cost).filter(|ps| *ps > 0.0);
    let by_syscall = clock_loops::by_syscall(monotonic).ok().map(cost);
    VdsoState {
        present: true,
        falls_back: paths.first().map(|(_, path)| *path == vdso_call::Path::Syscall),
        ratio: by_syscall.zip(by_vdso).map(|(by_syscall, by_vdso)| by_syscall / by_vdso),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_seen_as_it_is() {
        let state = collect();
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        assert!(state.date.ends_with('Z') && state.date.len() == 20, "{}", state.date);
        assert_eq!(state.kernel, file("/proc/sys/kernel/osrelease").trim());
        assert!(state.cpus_online > 0);
        assert!(state.hz.is_some_and(|hz| (24..=10_000).contains(&hz)), "{:?}", state.hz);
        assert!(state.vdso.present);
        assert_eq!(state.traced_by, None);
        let current = file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        assert_eq!(state.clocksource.as_deref(), Some(current.trim()));
    }

    #[test]
    fn the_rate_is_close_or_as_close_as_the_longest_time_makes_it() {
        let started = Instant::now();
        let (state, seven) = collect_while(|| 7, CLOSE_PPM);
        let is_close = state.tsc_bound_ppm.is_none_or(|bound| bound <= CLOSE_PPM);
        assert!(seven == 7 && (is_close || started.elapsed() >= BASELINE), "{state:?}");
    }

    #[test]
    fn both_rates_of_the_tsc_agree_where_it_is_the_clocksource() {
        let state = collect();
        let rates = (state.tsc_hz_kernel, state.tsc_hz_measured, state.tsc_bound_ppm);
        if let (Some(kernel), Some(measured), Some(bound)) = rates {
            let ppm = ((measured / kernel - 1.0) * 1e6).abs();
            // The log rounds to 1 kHz; clock discipline does not steer the raw clock.
            let allowed =
                bound + if state.clocksource.as_deref() == Some("tsc") { 2.0 } else { 500.0 };
            assert!(ppm <= allowed, "{ppm} ppm, bound {bound}: {state:?}");
        }
    }

    #[test]
    fn a_tsc_that_stands_still_or_goes_back_has_no_rate() {
        let first = Anchor { reference: 0, clock: 1_000, width: 100 };
        let last = Anchor { reference: 50_000_000, clock: 125_001_000, width: 100 };
        assert_eq!(tsc_rate(first, last).map(|rate| rate.ratio), Some(2.5));
        for (first, last) in [
            (first, first),
            (last, first),
            (last, Anchor { reference: 60_000_000, ..first }),
            (last, Anchor { reference: 60_000_000, ..last }),
        ] {
            assert_eq!(tsc_rate(first, last), None, "{first:?} {last:?}");
        }
    }

    #[test]
    fn the_vdso_answers_by_itself_if_the_clocksource_is_the_tsc() {
        let state = collect();
        if state.clocksource.as_deref() == Some("tsc") {
            assert_eq!(state.vdso.falls_back, Some(false));
        }
    }
}
