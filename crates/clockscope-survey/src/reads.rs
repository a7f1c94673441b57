//! Maps the place of a sample to a clock read. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fastclock::ClockId;

use clockscope_model::reads::{self, Source};
use clockscope_model::survey::Route;
use clockscope_syscalls::names;
use clockscope_syscalls::sampling::Place;

/// The clock read that a sample was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Read {
    /// `clock_gettime`, `gettimeofday` or `time`.
    pub function: &'static str,
    /// The clock; `None` if the function takes none, or if it is unknown.
    pub clock: Option<ClockId>,
    /// How the read was answered.
    pub route: Route,
    /// The cost class of the read.
    pub kind: Kind,
}

/// Kinds of reads, by their cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A read of the clocksource, through the vDSO.
    Clocksource,
    /// A read of the clocksource, by a system call of the program.
    ClocksourceBySyscall,
    /// CPU time, or a clock that no vDSO answers: a system call on every host.
    CpuTime,
    /// The time of the last tick: nearly free.
    Coarse,
    /// In code that reads of several kinds share, with no clock id in the register.
    Shared,
}

impl Kind {
    /// Whether the read costs more after the kernel fell back to a slow clocksource.
    pub const fn is_clocksource(self) -> bool {
        matches!(self, Self::Clocksource | Self::ClocksourceBySyscall)
    }
}

/// The vDSO's instructions, by offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Functions by their names without prefix, with their range of offsets.
    functions: Vec<(Range<u32>, &'static str)>,
    /// Findings about the instructions of `clock_gettime`, by offset.
    known: BTreeMap<u32, Known>,
}

/// The clocks whose reads executed an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    clocks: BTreeSet<ClockId>,
    /// Whether the register of the first argument still held the clock's id.
    has_id: bool,
}

/// One read of a clock, executed step by step: each offset, and the value of the first argument's register there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The clock that was read.
    pub clock: ClockId,
    /// Offset and register.
    pub visits: Vec<(u32, u64)>,
}

/// The functions that are distinguished; all others are no reads.
const FUNCTIONS: [&str; 7] = [
    "clock_gettime64",
    "clock_gettime",
    "gettimeofday",
    "time",
    "clock_getres",
    "getcpu",
    "getrandom",
];
/// Prefixes of the names of vDSO functions: on x86, and elsewhere.
const PREFIXES: [&str; 2] = ["__vdso_", "__kernel_"];

impl Code {
    /// From the functions of the image and from reads that were executed step by step.
    pub fn new<'a>(
        symbols: impl IntoIterator<Item = (&'a str, Range<u32>)>,
        steps: &[Steps],
    ) -> Self {
        let named = |name: &str| {
            let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
            FUNCTIONS.into_iter().find(|known| *known == name)
        };
        let functions =
            symbols.into_iter().filter_map(|(name, range)| Some((range, named(name)?))).collect();
        let mut known: BTreeMap<u32, Known> = BTreeMap::new();
        for one in steps {
            let id = u64::from(one.clock.as_raw().cast_unsigned());
            for (offset, register) in &one.visits {
                let known = known
                    .entry(*offset)
                    .or_insert_with(|| Known { has_id: true, ..Known::default() });
                known.clocks.insert(one.clock);
                known.has_id &= *register == id;
            }
        }
        Self { functions, known }
    }

    /// The read that a sample was taken in; `None` if it was outside of reads.
    pub fn read(&self, place: Place) -> Option<Read> {
        match place {
            Place::User | Place::Kernel => None,
            Place::Vdso { offset, clock } => self.in_vdso(offset, clock),
            // This image is a different one, and its registers hold no argument.
            Place::Vdso32 { .. } => Some(Read {
                function: "clock_gettime",
                clock: None,
                route: Route::Vdso,
                kind: Kind::Clocksource,
            }),
            Place::Call { from_vdso, number, clock } => Some(in_kernel(from_vdso, number, clock)),
        }
    }

    fn in_vdso(&self, offset: u32, register: Option<u8>) -> Option<Read> {
        let function = self.functions.iter().find(|(range, _)| range.contains(&offset));
        // Code outside of the functions is shared by them: it reads the clocksource.
        let function = function.map_or("clock_gettime", |(_, name)| *name);
        let read = |function, clock, kind| Some(Read { function, clock, route: Route::Vdso, kind });
        match function {
            "clock_gettime" | "clock_gettime64" => {
                let known = self.known.get(&offset);
                let named = register.and_then(|id| ClockId::from_raw(id.into()));
                let named = named.filter(|_| known.is_none_or(|known| known.has_id));
                let kind = match (named, known) {
                    (Some(clock), _) => kind(clock),
                    (None, Some(known)) => common_kind(&known.clocks),
                    (None, None) => Kind::Shared,
                };
                read("clock_gettime", named, kind)
            }
            "gettimeofday" => read("gettimeofday", None, Kind::Clocksource),
            "time" => read("time", None, Kind::Coarse),
            _ => None,
        }
    }
}

fn in_kernel(from_vdso: bool, number: u32, clock: Option<u8>) -> Read {
    let clock = clock.and_then(|id| ClockId::from_raw(id.into()));
    let (function, without_clock) = match names::name(number).as_str() {
        "gettimeofday" => ("gettimeofday", Kind::Clocksource),
        "time" => ("time", Kind::Coarse),
        // CPU time of other processes, and devices.
        _ => ("clock_gettime", Kind::CpuTime),
    };
    let of_clock = clock.map_or(without_clock, kind);
    let kind = match (from_vdso, of_clock) {
        (true, kind) => kind,
        // By system call no read is cheap: a coarse one costs as much as the others.
        (false, Kind::Clocksource | Kind::Coarse) => Kind::ClocksourceBySyscall,
        (false, other) => other,
    };
    let route = if from_vdso { Route::FellBack } else { Route::Syscall };
    Read { function, clock, route, kind }
}

/// The cost class of a read through the vDSO, by its clock.
fn kind(clock: ClockId) -> Kind {
    match reads::source("clock_gettime", Some(clock.name())) {
        Some(Source::Clocksource) => Kind::Clocksource,
        Some(Source::Tick) => Kind::Coarse,
        _ => Kind::CpuTime,
    }
}

/// The cost class of reads of these clocks, if all have the same.
fn common_kind(clocks: &BTreeSet<ClockId>) -> Kind {
    let mut kinds = clocks.iter().copied().map(kind);
    let first = kinds.next().unwrap_or(Kind::Shared);
    if kinds.all(|kind| kind == first) { first } else { Kind::Shared }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `clock_gettime` at 0x100 with its coarse part at 0x180, a `time` and a `getcpu`.
    fn code() -> Code {
        let symbols = [
            ("__vdso_clock_gettime", 0x100..0x200),
            ("__vdso_time", 0x200..0x240),
            ("__vdso_gettimeofday", 0x240..0x280),
            ("__vdso_getcpu", 0x280..0x2a0),
            ("__vdso_sgx_enter_enclave", 0x2a0..0x2c0),
        ];
        let steps =
            |clock: ClockId, visits: &[(u32, u64)]| Steps { clock, visits: visits.to_vec() };
        Code::new(
            symbols,
            &[
                steps(ClockId::Realtime, &[(0x100, 0), (0x140, 0), (0x150, 77)]),
                steps(ClockId::Monotonic, &[(0x100, 1), (0x140, 1), (0x150, 77)]),
                steps(ClockId::MonotonicCoarse, &[(0x100, 6), (0x180, 6), (0x188, 3)]),
                steps(ClockId::ProcessCputime, &[(0x100, 2), (0x1f0, 2)]),
            ],
        )
    }

    fn told(place: Place) -> Option<(&'static str, Option<&'static str>, Route, Kind)> {
        let read = code().read(place)?;
        Some((read.function, read.clock.map(ClockId::name), read.route, read.kind))
    }

    fn vdso(offset: u32, clock: Option<u8>) -> Place {
        Place::Vdso { offset, clock }
    }

    #[test]
    fn the_register_names_the_clock_where_it_still_holds_it() {
        let monotonic =
            Some(("clock_gettime", Some("CLOCK_MONOTONIC"), Route::Vdso, Kind::Clocksource));
        assert_eq!(told(vdso(0x140, Some(1))), monotonic);
        // Here the register held another value when the steps were recorded.
        let nameless = Some(("clock_gettime", None, Route::Vdso, Kind::Clocksource));
        assert_eq!(told(vdso(0x150, Some(6))), nameless);
        // Never recorded: a retry, or a time namespace.
        assert_eq!(told(vdso(0x160, Some(1))), monotonic);
        let shared = Some(("clock_gettime", None, Route::Vdso, Kind::Shared));
        assert_eq!(told(vdso(0x160, None)), shared);
        assert_eq!(told(vdso(0x160, Some(23))), shared, "no clock has this id");
        assert_eq!(told(vdso(0x100, None)), shared, "all clocks come by here");
    }

    #[test]
    fn what_only_coarse_reads_execute_is_coarse() {
        let coarse = |clock| Some(("clock_gettime", clock, Route::Vdso, Kind::Coarse));
        assert_eq!(told(vdso(0x180, Some(6))), coarse(Some("CLOCK_MONOTONIC_COARSE")));
        assert_eq!(told(vdso(0x188, None)), coarse(None));
        assert_eq!(told(vdso(0x210, None)).map(|told| told.3), Some(Kind::Coarse), "time");
    }

    #[test]
    fn other_functions_are_no_reads_and_shared_code_is_one() {
        assert_eq!(told(vdso(0x288, Some(1))), None);
        assert_eq!(told(Place::User), None);
        assert_eq!(told(Place::Kernel), None);
        assert_eq!(told(vdso(0x80, None)).map(|told| told.3), Some(Kind::Shared));
        assert_eq!(told(vdso(0x250, Some(1))).map(|told| told.0), Some("gettimeofday"));
        let of_32_bits = told(Place::Vdso32 { offset: 0x288 });
        assert_eq!(of_32_bits.map(|told| told.3), Some(Kind::Clocksource));
    }

    #[test]
    fn a_system_call_is_a_fallback_or_the_programs_own() {
        let [read, day] =
            ["clock_gettime", "gettimeofday"].map(|name| names::number(name).unwrap());
        let call =
            |from_vdso, number, clock| told(Place::Call { from_vdso, number, clock }).unwrap();
        let gettime = |clock, route, kind| ("clock_gettime", Some(clock), route, kind);
        let fell_back = gettime("CLOCK_MONOTONIC", Route::FellBack, Kind::Clocksource);
        assert_eq!(call(true, read, Some(1)), fell_back);
        assert_eq!(call(true, read, Some(2)).3, Kind::CpuTime);
        assert_eq!(call(true, read, None).3, Kind::CpuTime, "of another process");
        let kind = Kind::ClocksourceBySyscall;
        let own = gettime("CLOCK_MONOTONIC_COARSE", Route::Syscall, kind);
        assert_eq!(call(false, read, Some(6)), own);
        assert_eq!(call(false, day, None).0, "gettimeofday");
    }
}
