//! How wrong each clock is, as data. This is the JSON schema (`"schema": 2`): fields are added,
//! never renamed; units are in the names; see docs/measuring.md.

use serde::{Deserialize, Serialize};

use crate::host::HostState;
use crate::trace::null_is_no_number;

/// Version of the schema.
pub const SCHEMA: u32 = 2;

/// The result of one `clockscope wrongness`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WrongnessReport {
    /// Version of this schema: 2.
    pub schema: u32,
    /// The machine.
    pub host: HostState,
    /// Duration of the run, in milliseconds.
    pub elapsed_ms: u64,
    /// The CPU that the tests on one CPU ran on.
    #[serde(default)]
    pub cpu: u32,
    /// One entry a clock.
    pub clocks: Vec<ClockRow>,
    /// Warp between pairs of CPUs.
    pub warps: Vec<WarpRow>,
    /// Offset between counters of pairs of CPUs.
    pub offsets: Vec<OffsetRow>,
    /// Rate and offset between pairs of clocks.
    pub rates: Vec<RateRow>,
    /// The kernel's own account of its synchronisation (`adjtimex`).
    pub discipline: Option<Discipline>,
    /// Faults found; empty if there are none.
    pub faults: Vec<Fault>,
    /// Measurements left out: name, and the reason as a clause.
    pub declines: Vec<(String, String)>,
}

/// A clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockRow {
    /// `CLOCK_REALTIME`, `rdtsc`, ...
    pub clock: String,
    /// The unit of its readings: `ns` or `ticks`.
    pub unit: String,
    /// Readings taken on one CPU, by each route and by all routes in turn.
    pub reads: u64,
    /// Readings less than the previous reading on the same CPU.
    pub backward: u64,
    /// The largest step back, in the clock's unit.
    pub worst_backward: u64,
    /// Those steps back that were seen between readings by different routes.
    pub backward_between_routes: u64,
    /// The readings around the largest step back; empty if there was no step back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub burst: Vec<i64>,
    /// Age of the answers, against a precise clock; `null` if not measured.
    pub staleness: Option<Staleness>,
    /// Steps of the readings.
    pub resolution: Option<Resolution>,
}

/// Age of the answers of a clock, against the precise clock of its family.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Staleness {
    /// The precise clock.
    pub reference: String,
    /// Ages of readings in a loop without pause.
    pub busy: Distribution,
    /// Ages of readings at random moments, with sleeps between them.
    pub idle: Distribution,
    /// Readings that were ahead of the reference.
    pub ahead: u64,
    /// The most that a reading was ahead of the reference, in nanoseconds.
    #[serde(default)]
    pub ahead_max_ns: u64,
}

/// A distribution in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Values.
    pub count: u64,
    /// Least.
    pub min_ns: u64,
    /// 1st percentile.
    pub p1_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Greatest.
    pub max_ns: u64,
    /// Mean.
    #[serde(deserialize_with = "null_is_no_number")]
    pub mean_ns: f64,
    /// `[lower bound in ns, values]` of each bucket that is not empty.
    pub buckets: Vec<(u64, u64)>,
}

/// Steps of the readings of a clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// Resolution according to `clock_getres`, in nanoseconds; `null` for counters.
    pub getres_ns: Option<u64>,
    /// Least step that is not zero, in the clock's unit.
    pub min_step: u64,
    /// Greatest common divisor of all steps.
    pub gcd: u64,
    /// Largest step.
    pub max_step: u64,
    /// Share (0 to 1) of zero steps.
    #[serde(deserialize_with = "null_is_no_number")]
    pub zero_share: f64,
    /// Number of steps.
    pub steps: u64,
}

/// Warp of one source between two CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarpRow {
    /// `rdtsc`, `CLOCK_MONOTONIC`, ...
    pub source: String,
    /// `ticks` or `ns`.
    pub unit: String,
    /// The two CPUs.
    pub cpus: (u32, u32),
    /// Hand-overs between the CPUs.
    pub handovers: u64,
    /// Readings less than the other CPU's previous reading.
    pub warps: u64,
    /// The largest warp, in `unit`.
    pub max_warp: u64,
    /// Which CPU is behind; `null` if none or both.
    pub behind: Option<u32>,
    /// Warps were seen in both directions: the counter is not usable at all.
    pub random: bool,
    /// The least positive difference seen at a hand-over: a smaller warp cannot be seen.
    pub floor: Option<u64>,
    /// The source is not ordered: a CPU may read it before its turn, and a warp is then no evidence against
    /// the counter.
    #[serde(default)]
    pub unordered: bool,
}

/// Offset of one CPU's counter to another's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OffsetRow {
    /// `rdtsc`, ...
    pub source: String,
    /// `ticks` or `ns`.
    pub unit: String,
    /// The two CPUs.
    pub cpus: (u32, u32),
    /// Offset of the second to the first, from the shortest exchange.
    pub offset: i64,
    /// Bound on the error of `offset`.
    pub error: u64,
    /// Interval that holds the offset, from all exchanges.
    pub interval: (i64, i64),
    /// Exchanges.
    pub exchanges: u64,
    /// The interval does not hold zero: skew is proven.
    pub proven: bool,
}

/// Rate of one clock against another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateRow {
    /// The clock.
    pub clock: String,
    /// The clock that it is compared with.
    pub reference: String,
    /// Rate of `clock` minus rate of `reference`, in parts per million. A counter is compared with its
    /// nominal rate, or, if `expected_ppm` is `null`, with its rate in the first half of the run.
    #[serde(deserialize_with = "null_is_no_number")]
    pub ppm: f64,
    /// Bound on the error of `ppm`, in parts per million.
    #[serde(deserialize_with = "null_is_no_number")]
    pub bound_ppm: f64,
    /// The kernel's own figure for `ppm`, in parts per million; `null` if the kernel gives none.
    pub expected_ppm: Option<f64>,
    /// Clock minus reference at the end, in nanoseconds.
    pub offset_ns: Option<i64>,
    /// Time between the two readings, in milliseconds.
    pub baseline_ms: u64,
    /// For a counter: its rate in hertz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hz: Option<f64>,
}

/// The answer of a read-only `adjtimex`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Discipline {
    /// The kernel changed the rate of its clock during the run, or was about to.
    #[serde(default)]
    pub slewing: bool,
    /// False if the status has `STA_UNSYNC`.
    pub synchronised: bool,
    /// Frequency correction in parts per million.
    #[serde(deserialize_with = "null_is_no_number")]
    pub frequency_ppm: f64,
    /// Maximum error in microseconds.
    pub max_error_us: u64,
    /// Estimated error in microseconds.
    pub est_error_us: u64,
    /// TAI minus UTC in seconds as the kernel knows it; 0 if it was never set.
    pub tai_offset_s: i64,
}

/// A fault of a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// `backward`, `ahead`, `stale`, `warp`, `offset`, `rate`, `step`.
    pub kind: String,
    /// The clock.
    pub clock: String,
    /// The fault as a sentence.
    pub sentence: String,
}
