//! Cost of the clock reads on this host and elsewhere, each read by the source of its time.

use fastclock::{ClockId, Picos, Ticks};

use crate::clock_page::is_on_page;
use crate::fallback_reads::{self, FallbackReads};
use crate::tick_time::TickTime;
use clockscope_model::reads::{self, Source};
use clockscope_model::trace::{Clock, ClockReads, SyscallRow, VdsoRow};
use clockscope_stats::timed::TIMED_MIN;
use clockscope_sys::clock_loops::{self, NoLoop};
use clockscope_sys::loops::Loop;
use clockscope_sys::vdso_call::Call;
use clockscope_tracee::counts::Timings;

/// Cost of a read on a host whose clocksource is hpet, in nanoseconds: Red Hat
/// Enterprise Linux for Real Time 7, Reference Guide, 15.2.
pub const TYPICAL_HPET_NS: u64 = 1226;
/// Cost of a read on a host whose clocksource is acpi_pm, in nanoseconds; the same source.
pub const TYPICAL_ACPI_PM_NS: u64 = 2552;
/// Reads of unknown time are at most 1/10 of all reads; with more of them, no total is reported.
const UNKNOWN_MOST: u64 = 10;

/// Cost of a clock read on this host, by the source of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCosts {
    /// Cost for a precise clock.
    pub clocksource: Picos,
    /// Cost for a coarse clock.
    pub tick: Picos,
    /// Cost for the processor time of a thread.
    pub cpu_time: Picos,
}

impl ReadCosts {
    /// Cost by system call; call it while no process is traced.
    pub fn by_syscall() -> Self {
        let cost = |clock| cheapest(clock_loops::by_syscall(Call::ClockGettime(clock)), 15, 20);
        Self {
            clocksource: cost(ClockId::Monotonic),
            tick: cost(ClockId::MonotonicCoarse),
            cpu_time: cost(ClockId::ThreadCputime),
        }
    }

    /// Cost by the C library, of the clocks that the vDSO answers; call it before a process is started.
    pub(crate) fn by_libc() -> Self {
        let cost = |clock| cheapest(clock_loops::by_libc(Call::ClockGettime(clock)), 50, 200);
        let (clocksource, tick) = (cost(ClockId::Monotonic), cost(ClockId::MonotonicCoarse));
        Self { clocksource, tick, ..Self::default() }
    }

    pub(crate) fn of(&self, source: Source) -> Picos {
        match source {
            Source::Clocksource | Source::ClocksourceByKernel => self.clocksource,
            Source::Tick => self.tick,
            Source::CpuTime | Source::Unknown => self.cpu_time,
        }
    }
}

/// The cheapest of some short batches.
fn cheapest(calling: Result<Loop, NoLoop>, batches: u32, turns: u64) -> Picos {
    calling.map_or(Picos(0), |calling| calling.cheapest(batches, turns))
}

/// Inputs of [`clock_reads`] besides the rows.
pub(crate) struct Context {
    /// Time from the start to the end of the program.
    pub wall_ns: u64,
    /// Cost of reads by system call on this host.
    pub costs: ReadCosts,
    /// Length of a timer tick.
    pub tick_ns: u64,
    /// The reads that this host's vDSO passes on to the kernel.
    pub passed_on: FallbackReads,
    /// The clock that `run` gave to the program.
    pub clock: Clock,
}

impl Context {
    /// Whether a read of this row asks the kernel's clocksource, given the program's clock.
    fn asks_clocksource(&self, row: &VdsoRow) -> bool {
        let clock = row.clock.as_deref();
        let is_replaced = match self.clock {
            Clock::Kernel | Clock::Syscall | Clock::Slow => false,
            Clock::Coarse => reads::has_coarse_form(&row.function, clock),
            Clock::Tsc | Clock::TscFast => is_on_page(row),
        };
        let source = reads::source(&row.function, clock);
        source.is_some_and(Source::is_clocksource) && !is_replaced
    }
}

/// Makes the report's lines about clock reads.
pub(crate) fn clock_reads(
    vdso: &[VdsoRow],
    syscalls: &[SyscallRow],
    same_tick_share: Option<f64>,
    context: &Context,
) -> ClockReads {
    let by_vdso: Vec<&VdsoRow> =
        vdso.iter().filter(|row| fallback_reads::is_read(&row.function)).collect();
    let mut reads: u64 = by_vdso.iter().map(|row| row.calls).sum();
    let mut passed_on = 0;
    let mut time = Time::of(&by_vdso);
    for row in syscalls.iter().filter(|row| fallback_reads::is_read(&row.name)) {
        let both = by_vdso.iter().filter(|r| r.function == row.name && context.passed_on.has(r));
        // The time of a timed vDSO call includes its system call.
        let (mut counted, mut timed) = (0, 0);
        for call in both {
            counted += call.calls;
            timed += if call.has_time() { call.calls } else { 0 };
        }
        let counted = counted.min(row.calls);
        time.add_syscalls(row, row.calls.saturating_sub(timed), counted.saturating_sub(timed));
        reads = reads.saturating_add(row.calls - counted);
        passed_on += counted;
    }
    let of_clocksource = || by_vdso.iter().filter(|row| context.asks_clocksource(row));
    let clocksource_reads = of_clocksource().map(|row| row.calls).sum::<u64>()
        + syscalls_of_day(&by_vdso, syscalls, context);
    let by_kernel = of_clocksource().filter(|row| context.passed_on.has(row));
    let seconds = context.wall_ns as f64 / 1e9;
    ClockReads {
        reads,
        passed_on,
        clocksource_reads,
        clocksource_passed_on: by_kernel.map(|row| row.calls).sum(),
        reads_per_second: if seconds > 0.0 { reads as f64 / seconds } else { 0.0 },
        time_ns: time.of_all(reads),
        too_few_timed: time.some_timed && time.is_too_little(reads),
        by_syscall_ns: by_syscall_ns(&by_vdso, reads, context),
        syscall_read_ps: context.costs.clocksource.0,
        typical_hpet_ns: clocksource_reads.saturating_mul(TYPICAL_HPET_NS),
        typical_acpi_pm_ns: clocksource_reads.saturating_mul(TYPICAL_ACPI_PM_NS),
        same_tick_share,
        tick_ns: context.tick_ns,
    }
}

/// Calls of `gettimeofday` made by system call past the vDSO. Their source is known without a clock's name.
fn syscalls_of_day(by_vdso: &[&VdsoRow], syscalls: &[SyscallRow], context: &Context) -> u64 {
    let day = |name: &str| name == "gettimeofday";
    let all: u64 = syscalls.iter().filter(|row| day(&row.name)).map(|row| row.calls).sum();
    let passed = by_vdso.iter().filter(|row| day(&row.function) && context.passed_on.has(row));
    all.saturating_sub(passed.map(|row| row.calls).sum())
}

/// Time of all reads if each were a system call. Reads that already were system calls count with their
/// measured time, if known, all other reads with the cost of their source.
fn by_syscall_ns(by_vdso: &[&VdsoRow], reads: u64, context: &Context) -> u64 {
    let mut others = reads;
    let mut sum = 0_u128;
    for row in by_vdso {
        others = others.saturating_sub(row.calls);
        let source = reads::source(&row.function, row.clock.as_deref());
        let each = context.costs.of(source.unwrap_or(Source::Unknown)).0;
        sum += if row.has_time() && context.passed_on.has(row) {
            u128::from(row.time_total_ns) * 1_000
        } else {
            u128::from(row.calls) * u128::from(each)
        };
    }
    // These system calls were made past the vDSO, and their clock is unknown.
    sum += u128::from(others) * u128::from(context.costs.clocksource.0);
    u64::try_from(sum / 1_000).unwrap_or(u64::MAX)
}

/// Time of the reads, as far as known.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    /// Total time of the reads with a known time, in nanoseconds.
    known_ns: u64,
    /// Number of reads with a known time.
    known: u64,
    /// Part of `known` that was timed one by one.
    timed: u64,
    /// Number of reads without a known time.
    unknown: u64,
    /// Whether any read was timed at all.
    some_timed: bool,
}

impl Time {
    fn of(by_vdso: &[&VdsoRow]) -> Self {
        let mut time = Self::default();
        for row in by_vdso {
            time.some_timed |= row.timed > 0;
            if row.has_time() {
                time.known_ns = time.known_ns.saturating_add(row.time_total_ns);
                time.known += row.calls;
                time.timed += row.timed;
            } else {
                time.unknown += row.calls;
            }
        }
        time
    }

    /// Adds `new` of the system calls of a row; `untimed` of them are vDSO reads that have no time of their own.
    fn add_syscalls(&mut self, row: &SyscallRow, new: u64, untimed: u64) {
        if row.time_total_ns == 0 {
            self.unknown += new - untimed.min(new);
            return;
        }
        let part = u128::from(row.time_total_ns) * u128::from(new) / u128::from(row.calls.max(1));
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        self.known_ns = self.known_ns.saturating_add(part);
        self.known += new;
        self.timed += row.timed.map_or(new, |timed| timed.min(new));
        self.some_timed |= new > 0;
        self.unknown = self.unknown.saturating_sub(untimed);
    }

    /// True if too few reads were timed to estimate the rest.
    fn is_too_little(&self, reads: u64) -> bool {
        self.timed < TIMED_MIN || self.unknown > reads / UNKNOWN_MOST
    }

    /// Time of all reads, in nanoseconds; 0 if too little is known.
    fn of_all(&self, reads: u64) -> u64 {
        if self.known == 0 || self.is_too_little(reads) {
            return 0;
        }
        let all = u128::from(self.known_ns) * u128::from(self.known + self.unknown);
        u64::try_from(all / u128::from(self.known)).unwrap_or(u64::MAX)
    }
}

/// The share of reads that came within the same tick as the thread's previous read, estimated from the
/// distances: a read at distance `d`, with ticks of length `T`, falls into the same tick with probability
/// `1 - d / T`.
pub(crate) fn same_tick_share(timings: &Timings, time: &TickTime, tick_ns: u64) -> Option<f64> {
    let total: u64 = timings.intervals.iter().sum();
    if timings.interval_samples < TIMED_MIN || total == 0 || tick_ns == 0 {
        return None;
    }
    let mut same = 0.0;
    for (power, weight) in timings.intervals.iter().enumerate() {
        let middle = (1_u64 << power).saturating_add(1_u64 << power >> 1);
        let distance = time.distance_ns(Ticks(middle));
        same += *weight as f64 * (1.0 - distance / tick_ns as f64).max(0.0);
    }
    Some(same / total as f64)
}

#[cfg(test)]
#[path = "clock_reads_tests.rs"]
mod tests;
