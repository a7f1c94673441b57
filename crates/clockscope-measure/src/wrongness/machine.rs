//! The clocks and CPUs of this machine, behind types that tests can replace.

use std::sync::Arc;

use fastclock::ClockId;

use super::source::{NANOS, Readable, TICKS, clock_by};
pub use crate::clocks::COUNTERS;
use crate::path::Route;
use clockscope_sys::clock_reads::{self, VdsoClock};
use clockscope_sys::timex::{self, Timex};
use clockscope_sys::{affinity, tsc};

/// A clock or counter.
#[derive(Clone)]
pub struct Subject {
    /// Name in C or in the CPU's manual: `CLOCK_MONOTONIC`, `rdtsc`, ...
    pub name: &'static str,
    /// Unit of the readings: `ns` or `ticks`.
    pub unit: &'static str,
    /// The routes with their readers, the fastest first; never empty.
    pub routes: Vec<(Route, Arc<Readable>)>,
    /// Resolution according to `clock_getres`, in nanoseconds.
    pub getres_ns: Option<u64>,
    /// For a coarse clock, the precise clock of its family.
    pub reference: Option<&'static str>,
    /// Whether readings of different CPUs can be compared; not for CPU time clocks.
    pub is_shared: bool,
    /// Whether it is compared across CPUs even if the user has not named it.
    pub is_compared_by_default: bool,
}

impl Subject {
    /// The reader of the fastest route.
    pub fn source(&self) -> &Readable {
        &*self.routes[0].1
    }
}

/// The clocks, counters and CPUs to measure.
#[derive(Clone)]
pub struct MachineClocks {
    /// Clocks and counters, in the order of display.
    pub subjects: Vec<Subject>,
    /// CPUs that this process may use.
    pub cpus: Vec<u32>,
    /// Reads the state of the kernel's clock discipline; `None` if the kernel does not return it.
    pub discipline: fn() -> Option<Timex>,
    /// The rate of the counter as the kernel knows it, in hertz.
    pub nominal_hz: Option<f64>,
    /// Parts that this machine lacks: name, and the reason as a clause.
    pub declines: Vec<(String, String)>,
}

/// Clocks that are shown if the user names none: clocks that programs read often, and clocks whose cost
/// explains that of others.
pub const DEFAULT: [ClockId; 9] = [
    ClockId::Realtime,
    ClockId::Monotonic,
    ClockId::MonotonicRaw,
    ClockId::Boottime,
    ClockId::Tai,
    ClockId::RealtimeCoarse,
    ClockId::MonotonicCoarse,
    ClockId::ProcessCputime,
    ClockId::ThreadCputime,
];

/// The counter whose reading the CPU may execute before earlier instructions.
pub(crate) const UNORDERED: &str = COUNTERS[0];
/// The counter whose reading stays in program order.
pub const ORDERED: &str = COUNTERS[1];

impl MachineClocks {
    /// This machine, with all its clocks and counters.
    pub fn this() -> Self {
        let vdso = VdsoClock::find();
        let mut declines = Vec::new();
        if vdso.is_none() {
            declines.push(("route vdso".to_owned(), "this process has no vDSO".to_owned()));
        }
        let mut subjects = Vec::new();
        let others = ClockId::ALL.into_iter().filter(|clock| !DEFAULT.contains(clock));
        for clock in DEFAULT.into_iter().chain(others) {
            match clock_subject(clock, vdso) {
                Some(subject) => subjects.push(subject),
                None if DEFAULT.contains(&clock) => declines.push((
                    clock.name().to_owned(),
                    "the kernel does not answer this clock".to_owned(),
                )),
                // The alarm clocks need a real-time clock that can wake the machine; few machines have one.
                None => {}
            }
        }
        subjects.extend(counter_subjects());
        Self {
            subjects,
            cpus: affinity::allowed().unwrap_or_default(),
            discipline: || timex::read().ok(),
            nominal_hz: None,
            declines,
        }
    }

    /// The subject with this name.
    pub fn subject(&self, name: &str) -> Option<&Subject> {
        self.subjects.iter().find(|subject| subject.name == name)
    }

    /// The reader of the fastest route to the subject with this name.
    pub fn source(&self, name: &str) -> Option<&Readable> {
        self.subject(name).map(Subject::source)
    }

    /// Names of the clocks and counters that are measured if the user names none.
    pub fn default_names(&self) -> Vec<&'static str> {
        let is_default = |name: &str| {
            COUNTERS.contains(&name) || DEFAULT.iter().any(|clock| clock.name() == name)
        };
        self.subjects.iter().map(|s| s.name).filter(|name| is_default(name)).collect()
    }
}

fn clock_subject(clock: ClockId, vdso: Option<VdsoClock>) -> Option<Subject> {
    clock_reads::by_syscall(clock)?;
    let mut routes: Vec<(Route, Arc<Readable>)> = Vec::new();
    if let Some(vdso) = vdso.filter(|vdso| vdso.read(clock).is_some()) {
        routes.push((Route::Vdso, Arc::new(clock_by(move || vdso.read(clock)))));
    }
    if clock_reads::by_libc(clock).is_some() {
        routes.push((Route::Libc, Arc::new(clock_by(move || clock_reads::by_libc(clock)))));
    }
    routes.push((Route::Syscall, Arc::new(clock_by(move || clock_reads::by_syscall(clock)))));
    let reference = match clock {
        ClockId::RealtimeCoarse => Some(ClockId::Realtime.name()),
        ClockId::MonotonicCoarse => Some(ClockId::Monotonic.name()),
        _ => None,
    };
    Some(Subject {
        name: clock.name(),
        unit: NANOS,
        routes,
        getres_ns: clock_reads::resolution_ns(clock),
        reference,
        is_shared: !matches!(clock, ClockId::ThreadCputime | ClockId::ProcessCputime),
        is_compared_by_default: matches!(clock, ClockId::Realtime | ClockId::Monotonic),
    })
}

fn counter_subjects() -> Vec<Subject> {
    let mut sources: Vec<Arc<Readable>> =
        vec![Arc::new(clock_reads::counter), Arc::new(clock_reads::counter_fenced)];
    if tsc::has_rdtscp() {
        sources.push(Arc::new(|| tsc::after().0.cast_signed()));
    }
    let subject = |(name, source): (&&'static str, Arc<Readable>)| Subject {
        name,
        unit: TICKS,
        routes: vec![(Route::Tsc, source)],
        getres_ns: None,
        reference: None,
        is_shared: true,
        is_compared_by_default: true,
    };
    COUNTERS.iter().zip(sources).map(subject).collect()
}

/// Pairs of CPUs to compare: all pairs up to 16 CPUs; beyond that each other CPU with the first, and each
/// with its neighbour.
pub fn pairs(cpus: &[u32]) -> Vec<(u32, u32)> {
    const ALL_UP_TO: usize = 16;
    let mut pairs = Vec::new();
    if cpus.len() <= ALL_UP_TO {
        for (at, first) in cpus.iter().enumerate() {
            pairs.extend(cpus[at + 1..].iter().map(|second| (*first, *second)));
        }
        return pairs;
    }
    pairs.extend(cpus[1..].iter().map(|other| (cpus[0], *other)));
    pairs.extend(cpus[1..].windows(2).map(|pair| (pair[0], pair[1])));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs_of_few_cpus_and_a_star_with_a_ring_of_many() {
        assert_eq!(pairs(&[]), []);
        assert_eq!(pairs(&[4]), []);
        assert_eq!(pairs(&[0, 2, 3]), [(0, 2), (0, 3), (2, 3)]);
        let many: Vec<u32> = (0..16).collect();
        assert_eq!(pairs(&many).len(), 120);
        let more: Vec<u32> = (0..17).collect();
        assert_eq!(pairs(&more).len(), 16 + 15);
        assert!(more.iter().all(|cpu| pairs(&more).iter().any(|p| p.0 == *cpu || p.1 == *cpu)));
    }

    #[test]
    fn this_machine_has_its_clocks_by_every_route() {
        let machine = MachineClocks::this();
        let monotonic = machine.subject("CLOCK_MONOTONIC").unwrap();
        assert!(monotonic.routes.iter().any(|(route, _)| *route == Route::Syscall));
        assert!(monotonic.source()() > 0);
        assert!(!machine.default_names().contains(&"CLOCK_REALTIME_ALARM"));
        assert!(machine.source(ORDERED).is_some());
    }
}
