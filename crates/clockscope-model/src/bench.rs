//! The bench report as data. This is the JSON schema (`"schema": 2`): fields are added, never
//! renamed; units are in the names; see docs/measuring.md.

use serde::{Deserialize, Serialize};

use crate::host::HostState;
use crate::trace::null_is_no_number;

/// Version of the schema.
pub const SCHEMA: u32 = 2;

/// The result of one `clockscope bench`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Version of this schema: 2.
    pub schema: u32,
    /// The machine.
    pub host: HostState,
    /// Method of the measurement.
    #[serde(default)]
    pub method: Method,
    /// One entry a path: a clock by a route, or a system call.
    pub paths: Vec<PathRow>,
    /// Costs of two paths divided, from the same rounds.
    #[serde(default)]
    pub ratios: Vec<RatioRow>,
    /// Paths that were not measured, with the reason.
    #[serde(default)]
    pub declines: Vec<PathDecline>,
    /// Instructions of one call, with `--instructions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
    /// Sentences about the whole: regimes, noise, tracing.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Method of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Method {
    /// Fresh processes that measured.
    pub launches: u32,
    /// Rounds of each launch.
    pub rounds: Vec<u32>,
    /// CPU that the measurement was pinned to; `null` if pinning was refused.
    pub cpu: Option<u32>,
    /// Limit for control loops: how much slower than their level of speed they may be for a batch to count, in percent.
    #[serde(deserialize_with = "null_is_no_number")]
    pub gate_percent: f64,
    /// That level, the one in which most batches ran: its speed as a share of the CPU's best (1); `null` if unknown.
    pub speed: Option<f64>,
    /// Confidence of the intervals, in percent.
    #[serde(deserialize_with = "null_is_no_number")]
    pub confidence_percent: f64,
    /// The control loop that one in a hundred does not exceed, in nanoseconds: the best speed of this machine for pure user
    /// code, but for moments.
    pub control_ns_min: u64,
    /// Cost of one turn of the empty loop, in picoseconds.
    pub empty_loop_ps: u64,
    /// True if the empty loop was subtracted from all costs.
    pub net: bool,
    /// Duration of the measurement, in milliseconds.
    pub elapsed_ms: u64,
}

/// Name of a path: a clock (or counter) by a route, or a system call. Exactly one of `clock` and `call` is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathName {
    /// `CLOCK_MONOTONIC`, `gettimeofday`, `rdtsc`, `std::time::Instant`, `empty loop`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Name of a system call: `read`, `getppid`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// `libc`, `vdso`, `syscall`, `tsc`.
    pub route: String,
}

/// One path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathRow {
    /// Name of the path.
    #[serde(flatten)]
    pub name: PathName,
    /// The cheapest batch, in picoseconds a call.
    pub cost_ps_min: u64,
    /// Median of the accepted batches, in picoseconds a call.
    pub cost_ps_median: u64,
    /// Lower end of the median's interval.
    pub cost_ps_ci_low: u64,
    /// Upper end of the median's interval.
    pub cost_ps_ci_high: u64,
    /// 5th percentile of all batches, accepted or not, in picoseconds a call.
    #[serde(default)]
    pub cost_ps_p5: u64,
    /// 95th percentile of all batches, accepted or not, in picoseconds a call.
    #[serde(default)]
    pub cost_ps_p95: u64,
    /// Batches made.
    pub batches: u64,
    /// Batches between two undisturbed control loops.
    pub accepted: u64,
    /// `quiet`, `noisy` or `unusable`.
    pub grade: String,
    /// Calls in one batch.
    #[serde(default)]
    pub calls_per_batch: u64,
    /// Each launch separately.
    #[serde(default)]
    pub launches: Vec<LaunchRow>,
    /// Description of the groups if the launches fall into groups that differ by more than 5 percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regimes: Option<String>,
    /// Cost of the batches behind the median (the accepted ones; all if the path is unusable), in picoseconds
    /// a call; at most 1,000, evenly chosen. `compare` reads them.
    #[serde(default)]
    pub samples_ps: Vec<u64>,
    /// Cost of the other batches, in picoseconds a call; at most 300. The pictures show them.
    #[serde(default)]
    pub rejected_ps: Vec<u64>,
}

/// One launch of one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchRow {
    /// The cheapest batch, in picoseconds a call.
    pub cost_ps_min: u64,
    /// Median of the accepted batches, in picoseconds a call.
    pub cost_ps_median: u64,
    /// Batches made.
    pub batches: u64,
    /// Batches accepted.
    pub accepted: u64,
}

/// Cost of one path divided by that of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatioRow {
    /// The dividend, such as `CLOCK_MONOTONIC` by `syscall`.
    pub of: PathName,
    /// The divisor, such as `CLOCK_MONOTONIC` by `vdso`.
    pub to: PathName,
    /// Quotient of the medians of the same rounds.
    #[serde(deserialize_with = "null_is_no_number")]
    pub ratio: f64,
    /// Lower end of its interval.
    #[serde(deserialize_with = "null_is_no_number")]
    pub ci_low: f64,
    /// Upper end of its interval.
    #[serde(deserialize_with = "null_is_no_number")]
    pub ci_high: f64,
}

/// A path that was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDecline {
    /// Name of the path.
    #[serde(flatten)]
    pub name: PathName,
    /// Reason, as a clause.
    pub reason: String,
}

/// Instructions of one call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    /// Reason why there are no hardware counters; `null` if there are.
    pub no_counters: Option<String>,
    /// One row a path.
    pub rows: Vec<InstructionsRow>,
}

/// Instructions of one call of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstructionsRow {
    /// Name of the path.
    #[serde(flatten)]
    pub name: PathName,
    /// User-mode instructions, by single-stepping, less one empty turn of the loop; `null` if the path could
    /// not be stepped.
    pub user: Option<u64>,
    /// Part of `user` that lies in the vDSO.
    pub in_vdso: Option<u64>,
    /// System call instructions in `user`. 0 proves that the call does not enter the kernel.
    pub syscalls: Option<u64>,
    /// Repeats that gave the same count, and repeats made.
    pub agreeing: Option<(u32, u32)>,
    /// User and kernel instructions by hardware counters: a loop with the call minus a loop without it.
    pub counted: Option<f64>,
    /// Cycles by hardware counters.
    pub cycles: Option<f64>,
}
