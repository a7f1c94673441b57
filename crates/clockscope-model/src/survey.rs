//! The estimated clock reads of a host's processes, as data. This is the JSON schema (`"schema": 2`): fields
//! are added, never renamed; units are in the names; see docs/survey.md.

use serde::{Deserialize, Serialize};

use crate::host::HostState;
use crate::trace::CounterReads;
use clockscope_containers::place::Place;
use clockscope_text::foreign::Foreign;

/// Version of the schema.
pub const SCHEMA: u32 = 2;

/// The result of one `clockscope survey`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurveyReport {
    /// Version of this schema: 2.
    pub schema: u32,
    /// How long the CPUs were sampled, in nanoseconds.
    pub elapsed_ns: u64,
    /// Samples a second of each busy CPU that were asked for.
    pub frequency_hz: u32,
    /// CPUs that were sampled.
    pub cpus: u64,
    /// Samples of all processes and of the kernel.
    pub samples: u64,
    /// Samples that are missing because there were too many processes or places.
    pub lost_samples: u64,
    /// Measured cost of each kind of read on this host during the survey.
    pub costs: Vec<ReadCost>,
    /// True if a read of the clocksource is a system call on this host, because the kernel fell back to a clocksource
    /// that programs cannot read.
    pub has_fallen_back: bool,
    /// Reads of the clocksource by all processes except clockscope.
    pub reads: Option<Estimate>,
    /// CPU time that all reads took, in CPUs.
    pub cores: f64,
    /// The same reads on other clocksources.
    pub elsewhere: Vec<Elsewhere>,
    /// Rate from which a process is seen with 97.5 % probability, in reads a second. Processes that read less
    /// often may be missing.
    pub visible_from_per_second: f64,
    /// CPU time of clockscope itself, in nanoseconds.
    pub own_cpu_ns: u64,
    /// Processes seen reading a clock, the most costly first. Ended processes with the same name and place
    /// share a row.
    pub processes: Vec<SurveyRow>,
    /// systemd units and containers, the most costly first.
    pub groups: Vec<SurveyGroup>,
    /// Files that the sampled processes execute, with instructions that read the CPU's counter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counter_reads: Vec<CounterReads>,
    /// Why programs may measure wrongly with the counter on this host, as in `TraceReport`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter_doubt: Option<String>,
    /// The machine.
    pub host: Option<HostState>,
}

/// A number of reads a second that was estimated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Estimate {
    /// Reads a second.
    pub per_second: f64,
    /// Lower limit of the 95 % interval, widened by the possible error of the method.
    pub low_per_second: f64,
    /// Upper limit of the same interval.
    pub high_per_second: f64,
}

impl Estimate {
    /// The sum of independent estimates; `None` if there are none. The interval follows the method of
    /// variance estimates recovery (Donner and Zou, 2002), which keeps the sum of many wide intervals from
    /// becoming even wider.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let (mut sum, mut below, mut above) = (None, 0.0, 0.0);
        for one in all {
            *sum.get_or_insert(0.0) += one.per_second;
            below += (one.per_second - one.low_per_second).powi(2);
            above += (one.high_per_second - one.per_second).powi(2);
        }
        let per_second = sum?;
        Some(Self {
            per_second,
            low_per_second: (per_second - below.sqrt()).max(0.0),
            high_per_second: per_second + above.sqrt(),
        })
    }
}

/// Confidence in an estimate, by the number of its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// One or two samples, or a kind of read whose rate cannot be estimated.
    #[default]
    Seen,
    /// Three or more samples.
    About,
    /// Ten or more samples.
    Estimated,
}

impl Certainty {
    /// Confidence from the number of samples.
    pub const fn of(samples: u64) -> Self {
        match samples {
            0..=2 => Self::Seen,
            3..=9 => Self::About,
            _ => Self::Estimated,
        }
    }
}

/// Route of a read.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// By a function of the vDSO, in user space.
    #[default]
    Vdso,
    /// By a function of the vDSO that made a system call.
    FellBack,
    /// By a system call of the program.
    Syscall,
}

/// Cost of one kind of read on this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadCost {
    /// The kind of read: `clocksource`, `clocksource by system call`, `cpu time`.
    pub of: String,
    /// Part of one read's time in which samples see the read, in picoseconds.
    pub read_ps: u64,
    /// Number of samples behind `read_ps`.
    pub samples: u64,
}

/// The reads of this host with another clocksource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Elsewhere {
    /// The clocksource: `tsc`, `hpet`, `acpi_pm`. `any that needs a system call` gives the least cost of a
    /// read on a clocksource that programs cannot read.
    pub clocksource: String,
    /// Cost of a read, in picoseconds.
    pub read_ps: u64,
    /// True if the cost was measured on this host, false if it is typical of bare metal.
    pub is_measured: bool,
    /// CPU time of the same reads, in CPUs.
    pub cores: f64,
    /// Difference from the CPU time on this host, in CPUs; less than 0 for a gain.
    pub more_cores: f64,
}

/// A process, or several ended processes with the same name and place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurveyRow {
    /// Process id; `null` if the process has ended.
    pub pid: Option<i32>,
    /// Number of processes in this row.
    pub processes: u64,
    /// Name of the process.
    pub command: Foreign,
    /// Container, pod and systemd unit.
    #[serde(flatten)]
    pub place: Place,
    /// Samples of the process, in reads or elsewhere.
    pub samples: u64,
    /// CPU time that `samples` stand for, in nanoseconds.
    pub cpu_ns: u64,
    /// Samples in reads of a clock, other than coarse ones.
    pub read_samples: u64,
    /// CPU time that `read_samples` stand for, in nanoseconds.
    pub read_ns: u64,
    /// CPU time of the reads, in CPUs.
    pub cores: f64,
    /// Share of the process's CPU time that reads take (0 to 1).
    pub share: f64,
    /// Confidence in the estimate.
    pub certainty: Certainty,
    /// Reads a second; `null` if only coarse reads were seen.
    pub reads: Option<Estimate>,
    /// Part of `reads` that reads the clocksource; a rate, too.
    pub clocksource_reads: Option<Estimate>,
    /// True if coarse reads were seen. They are too cheap for a rate.
    pub has_coarse_reads: bool,
    /// Reads by clock, the most costly first.
    pub clocks: Vec<ClockRow>,
}

/// Reads of one clock by one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockRow {
    /// The function: `clock_gettime`, `gettimeofday`, `time`.
    pub function: String,
    /// The clock; `null` if the function takes none or the clock is unknown.
    pub clock: Option<String>,
    /// Route of these reads.
    pub route: Route,
    /// Samples.
    pub samples: u64,
    /// CPU time that `samples` stand for, in nanoseconds.
    pub time_ns: u64,
    /// Reads a second; `null` for coarse reads.
    pub reads: Option<Estimate>,
}

/// A unit or a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurveyGroup {
    /// `unit` or `container`.
    pub kind: String,
    /// Name of the unit or container.
    pub name: String,
    /// Processes of the unit or container that were seen reading a clock.
    pub processes: u64,
    /// CPU time of these processes, in nanoseconds.
    pub cpu_ns: u64,
    /// Samples in reads of a clock.
    pub read_samples: u64,
    /// CPU time that reads took, in CPUs.
    pub cores: f64,
    /// Share of these processes' CPU time that reads take (0 to 1).
    pub share: f64,
    /// Confidence in the estimate.
    pub certainty: Certainty,
    /// Reads a second.
    pub reads: Option<Estimate>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_surer_than_its_parts() {
        let one = Estimate { per_second: 100.0, low_per_second: 60.0, high_per_second: 150.0 };
        let sum = Estimate::sum([one; 4]).unwrap();
        let whole = Estimate { per_second: 400.0, low_per_second: 320.0, high_per_second: 500.0 };
        assert_eq!(sum, whole);
        assert_eq!(Estimate::sum([one]), Some(one));
        assert_eq!(Estimate::sum([]), None);
    }

    #[test]
    fn an_estimate_is_worth_what_its_samples_are() {
        let all = [0, 1, 2, 3, 9, 10, 1_000].map(Certainty::of);
        use Certainty::{About, Estimated, Seen};
        assert_eq!(all, [Seen, Seen, Seen, About, About, Estimated, Estimated]);
    }
}
