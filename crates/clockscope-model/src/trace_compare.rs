//! The comparison of two reports of `trace` as data. This is the JSON schema (`"schema": 1`): fields are added,
//! never renamed; see docs/compare.md.

use clockscope_text::foreign::Foreign;
use serde::{Deserialize, Serialize};

use crate::trace::null_is_no_number;

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// The result of `clockscope compare` of two reports of `trace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceCompareReport {
    /// Version of this schema: 1.
    pub schema: u32,
    /// The smallest change that matters, in percent of the first.
    #[serde(deserialize_with = "null_is_no_number")]
    pub min_effect_percent: f64,
    /// The first report.
    pub before: TraceSide,
    /// The second one.
    pub after: TraceSide,
    /// Calls of functions of the vDSO and system calls, reads of clocks first, then those that take most time.
    pub rows: Vec<CallChange>,
    /// Places that read a clock, most reads first; `null` unless callers were sampled in both.
    pub callers: Option<Vec<CallerChange>>,
    /// What differs between the hosts, one clause each.
    pub host_changes: Vec<String>,
    /// What to bear in mind, one sentence each.
    pub notes: Vec<String>,
    /// What changed, one sentence each.
    pub conclusion: Vec<String>,
}

/// One report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceSide {
    /// File it is from, `-` for standard input.
    pub file: String,
    /// The program and its arguments.
    pub command: Vec<Foreign>,
    /// Time that was counted, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of the program meanwhile, in nanoseconds.
    pub cpu_ns: u64,
    /// Reads of clocks.
    pub reads: u64,
    /// These a second.
    #[serde(deserialize_with = "null_is_no_number")]
    pub reads_per_second: f64,
    /// What one read costs.
    pub read_cost: Option<Cost>,
    /// Share (0 to 1) of the processor time that the reads take; more where a read waits.
    pub cpu_share: Option<f64>,
    /// Whether most reads that ask the clocksource are passed on to the kernel by the vDSO; `null` if system
    /// calls were not counted, or no read asks the clocksource.
    pub falls_back: Option<bool>,
}

/// What a call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Average of a call, in picoseconds.
    pub average_ps: u64,
    /// How far it may be off either way, in picoseconds; `null` if that is not known. Of calls of the vDSO: half of
    /// the interval of 95 % that the choice of the timed calls leaves, and half of what timing a call costs. Of
    /// system calls that read a clock a third of the average; of others it is not known.
    pub within_ps: Option<u64>,
}

/// How calls changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// There are such calls in the second report only.
    Came,
    /// There are such calls in the first report only.
    Went,
    /// More calls, and more a second.
    More,
    /// Fewer calls, and fewer a second.
    Fewer,
    /// More calls and fewer a second, or the reverse.
    Mixed,
    /// No change in the number of calls or in calls a second is as large as what matters.
    #[default]
    Same,
}

/// How the cost of a call changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostChange {
    /// It costs more.
    Dearer,
    /// It costs less.
    Cheaper,
    /// No change as large as what matters was found.
    Same,
    /// It is not known in one of the reports, or cannot be compared.
    #[default]
    NotKnown,
}

/// Calls of one function on one clock, or one system call, in both reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallChange {
    /// `vdso` or `syscall`.
    pub via: String,
    /// Function or system call.
    pub name: String,
    /// Clock, for functions that take one.
    pub clock: Option<String>,
    /// Whether it is a read of a clock.
    pub is_read: bool,
    /// In the first report.
    pub before: CallSide,
    /// In the second one.
    pub after: CallSide,
    /// How the number of calls changed.
    pub change: Change,
    /// How the cost of a call changed.
    pub cost_change: CostChange,
}

/// Calls in one report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallSide {
    /// Exact number of calls.
    pub calls: u64,
    /// Calls a second of the time that was counted.
    #[serde(deserialize_with = "null_is_no_number")]
    pub per_second: f64,
    /// What one costs; `null` if that is not known.
    pub cost: Option<Cost>,
}

/// A place that reads a clock, in both reports. It is the same place if function and file of the program or library
/// have the same names; without the function's name, if that file and the offset in it are the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallerChange {
    /// Name of the function; the file in brackets where none is known; `null` for reads whose callers are not
    /// known.
    pub function: Option<String>,
    /// `file:line`, or file and offset, as in the second report; as in the first if it is not in the second.
    pub place: String,
    /// In the first report.
    pub before: CallerSide,
    /// In the second one.
    pub after: CallerSide,
    /// How the reads changed.
    pub change: Change,
}

/// Reads of one place in one report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallerSide {
    /// Whether any stack of this place was sampled.
    pub is_seen: bool,
    /// Reads, estimated from the samples, and the ends of the interval of 95 %.
    pub reads: (f64, f64, f64),
    /// These a second of the time that was counted.
    pub per_second: (f64, f64, f64),
    /// Share (0 to 1) of all reads.
    pub share: (f64, f64, f64),
}
