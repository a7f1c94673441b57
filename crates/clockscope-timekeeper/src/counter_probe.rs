//! Data about a machine's counter, collected from the running host.

use std::time::Duration;

use fastclock::{ClockId, sys};

use clockscope_sys::vdso_call::{self, Call, Path};
use clockscope_sys::warp::{self, Warp};
use clockscope_sys::{affinity, clock_reads, tsc};

/// Time for which the CPUs' counters are compared.
const WARP_BUDGET: Duration = Duration::from_millis(60);
/// The same if the kernel's clocksource is the counter: the kernel has compared the counters when it started each CPU,
/// and its own clock would go back, too. Still some ten thousand hand-overs.
const WARP_BUDGET_TRUSTED: Duration = Duration::from_millis(4);

/// Maximum number of CPUs that are compared with the first; if there are more, some spread evenly. Offsets of the
/// others show while the timekeeper rotates over all CPUs.
const OTHERS_MAX: usize = 16;

/// The comparison of the first CPU that this thread may use with other CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarpOfAll {
    /// CPUs that were compared with the first.
    pub others: usize,
    /// The results of all pairs together.
    pub warp: Warp,
}

impl WarpOfAll {
    /// Takes `budget` for all pairs together; `None` if there is only one CPU, or the threads cannot be started.
    fn measure(budget: Duration) -> Option<Self> {
        let cpus = affinity::allowed().ok()?;
        let (first, others) = cpus.split_first()?;
        let others = spread(others, OTHERS_MAX);
        let time = budget.checked_div(u32::try_from(others.len()).ok()?)?;
        let mut all = Self { others: others.len(), ..Self::default() };
        for other in others {
            let one = warp::measure(clock_reads::counter_fenced, (*first, other), &(time..=time));
            all.warp = all.warp.and(one.ok()?);
        }
        Some(all)
    }
}

/// At most `most` of the CPUs, evenly spread, the last one included.
fn spread(all: &[u32], most: usize) -> Vec<u32> {
    let count = all.len().min(most);
    (1..=count).map(|index| all[index * all.len() / count - 1]).collect()
}

/// Data about the counter. A field is `None` if it could not be determined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterProbe {
    /// Whether this process may read it.
    pub may_read: Option<bool>,
    /// Flags of a constant-rate counter that CPU and kernel should report, but do not.
    pub missing_flags: Vec<&'static str>,
    /// The kernel's clocksource.
    pub clocksource: Option<String>,
    /// Whether the vDSO reads `CLOCK_MONOTONIC` without a system call; tested only if the clocksource is not the
    /// counter itself.
    pub vdso_answers: Option<bool>,
    /// The comparison of the CPUs' counters.
    pub warp: Option<WarpOfAll>,
}

impl CounterProbe {
    /// Collects the data of this machine; takes up to 100 ms.
    pub fn collect() -> Self {
        let may_read = tsc::is_permitted();
        let clocksource = sys::clocksource().map(|source| source.name().to_owned());
        let is_counter = clocksource.as_deref().is_some_and(is_the_counter);
        let budget = if is_counter { WARP_BUDGET_TRUSTED } else { WARP_BUDGET };
        Self {
            may_read,
            missing_flags: missing_flags(),
            vdso_answers: if is_counter { None } else { vdso_answers() },
            clocksource,
            warp: if may_read == Some(false) { None } else { WarpOfAll::measure(budget) },
        }
    }
}

fn missing_flags() -> Vec<&'static str> {
    if fastclock::sys::is_invariant() {
        return Vec::new();
    }
    let missing = missing_in(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    if missing.is_empty() { vec!["invariant TSC by CPUID"] } else { missing }
}

/// Flags that are missing on at least one CPU in `/proc/cpuinfo`.
fn missing_in(cpuinfo: &str) -> Vec<&'static str> {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags")).peekable();
    if flags.peek().is_none() {
        return vec!["the flags in /proc/cpuinfo"];
    }
    let lines: Vec<Vec<&str>> = flags.map(|line| line.split_whitespace().collect()).collect();
    ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(|flag| !lines.iter().all(|line| line.contains(flag)))
        .collect()
}

/// Whether the vDSO answers without a system call; `None` if that cannot be tested.
fn vdso_answers() -> Option<bool> {
    let paths = vdso_call::paths(|call| call == Call::ClockGettime(ClockId::Monotonic))?;
    paths.first().map(|(_, path)| *path == Path::Fast)
}

/// Clocksources that are the counter itself.
pub(crate) fn is_the_counter(clocksource: &str) -> bool {
    matches!(clocksource, "tsc" | "arch_sys_counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_must_be_there_on_each_cpu() {
        let both = "flags\t\t: fpu constant_tsc nonstop_tsc\n";
        assert_eq!(missing_in(both), [""; 0]);
        let one = format!("{both}flags\t\t: fpu constant_tsc\n");
        assert_eq!(missing_in(&one), ["nonstop_tsc"]);
        assert_eq!(missing_in("processor : 0\n").len(), 1);
    }

    #[test]
    fn some_are_taken_evenly_and_the_last_among_them() {
        assert_eq!(spread(&[1, 2, 3], 16), [1, 2, 3]);
        assert_eq!(spread(&[], 16), [0; 0]);
        let cpus: Vec<u32> = (1..256).collect();
        let some = spread(&cpus, 16);
        assert_eq!((some.len(), some[15]), (16, 255));
        assert!(some.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_first_is_compared_with_each() {
        let cpus = affinity::allowed().unwrap();
        let warp = WarpOfAll::measure(Duration::from_millis(60));
        assert_eq!(warp.map_or(0, |warp| warp.others), (cpus.len() - 1).min(OTHERS_MAX));
    }

    #[test]
    fn this_machine_is_seen_as_it_is() {
        let probe = CounterProbe::collect();
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let current = std::fs::read_to_string(path).ok();
        assert_eq!(probe.clocksource.as_deref(), current.as_deref().map(str::trim));
        assert_ne!(probe.may_read, Some(false));
        assert_eq!(vdso_answers(), Some(true), "no test machine has lost its vDSO");
    }
}
