//! Who reads the clock on a host, as data. This is the JSON schema (`"schema": 2`): fields are added,
//! never renamed; units are in the names; see docs/survey.md.

use serde::{Deserialize, Serialize};

use crate::host::HostState;
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
    /// What a read costs here, measured meanwhile.
    pub costs: Vec<ReadCost>,
    /// True if a read of the clocksource is a system call on this host, because the kernel fell back to a clocksource
    /// that programs cannot read.
    pub has_fallen_back: bool,
    /// All reads of the clocksource by all processes, but clockscope's own.
    pub reads: Option<Estimate>,
    /// CPU time that all reads took, in CPUs.
    pub cores: f64,
    /// The same reads on other clocksources.
    pub elsewhere: Vec<Elsewhere>,
    /// A process that reads the clock more seldom may be missing: 97.5 % of those at this rate are seen. Reads a second.
    pub visible_from_per_second: f64,
    /// CPU time of clockscope itself, in nanoseconds.
    pub own_cpu_ns: u64,
    /// Processes that were seen reading a clock, the most costly first. Those that have ended are together if they had
    /// the same name and place.
    pub processes: Vec<SurveyRow>,
    /// systemd units and containers, the most costly first.
    pub groups: Vec<SurveyGroup>,
    /// The machine.
    pub host: Option<HostState>,
}

/// A number of reads a second that was estimated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Estimate {
    /// Reads a second.
    pub per_second: f64,
    /// Lower limit of the interval of 95 %, widened by what the method can be wrong by.
    pub low_per_second: f64,
    /// The upper limit.
    pub high_per_second: f64,
}

impl Estimate {
    /// The sum of independent estimates; its interval is that of the method of variance estimates recovery (Donner and
    /// Zou, 2002), so that many wide intervals do not add up to an even wider one. `None` of none.
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

/// How many samples an estimate is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// One or two, or a kind of read of which the rate cannot be told.
    #[default]
    Seen,
    /// Three or more.
    About,
    /// Ten or more.
    Estimated,
}

impl Certainty {
    /// By the number of samples.
    pub const fn of(samples: u64) -> Self {
        match samples {
            0..=2 => Self::Seen,
            3..=9 => Self::About,
            _ => Self::Estimated,
        }
    }
}

/// How a read is answered.
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

/// What a read of one kind costs here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadCost {
    /// What is read: `clocksource`, `clocksource by system call`, `cpu time`.
    pub of: String,
    /// Time of one read in which samples see it, in picoseconds.
    pub read_ps: u64,
    /// Samples that this is made from.
    pub samples: u64,
}

/// The reads of this host with another clocksource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Elsewhere {
    /// The clocksource: `tsc`, `hpet`, `acpi_pm`; `any that needs a system call` is what each such read costs at least.
    pub clocksource: String,
    /// Cost of a read, in picoseconds.
    pub read_ps: u64,
    /// True if the cost was measured on this host, false if it is typical of bare metal.
    pub is_measured: bool,
    /// CPU time of the same reads, in CPUs.
    pub cores: f64,
    /// How much more that is than here, in CPUs; less than 0 for a gain.
    pub more_cores: f64,
}

/// A process, or several with the same name and place that have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurveyRow {
    /// Its number; `null` if it has ended.
    pub pid: Option<i32>,
    /// How many processes this row stands for.
    pub processes: u64,
    /// Its name.
    pub command: Foreign,
    /// Container, pod and systemd unit.
    #[serde(flatten)]
    pub place: Place,
    /// Samples of it, wherever it was.
    pub samples: u64,
    /// CPU time that they stand for, in nanoseconds.
    pub cpu_ns: u64,
    /// Samples in reads of a clock, other than coarse ones.
    pub read_samples: u64,
    /// CPU time that these stand for, in nanoseconds.
    pub read_ns: u64,
    /// The same in CPUs.
    pub cores: f64,
    /// Share of its CPU time that reads take (0 to 1).
    pub share: f64,
    /// What the estimate is worth.
    pub certainty: Certainty,
    /// Reads a second; `null` if only coarse reads were seen.
    pub reads: Option<Estimate>,
    /// Of these, reads of the clocksource.
    pub clocksource_reads: Option<Estimate>,
    /// True if coarse reads were seen. They are too cheap for a rate.
    pub has_coarse_reads: bool,
    /// By clock, the most costly first.
    pub clocks: Vec<ClockRow>,
}

/// Reads of one clock by one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockRow {
    /// The function: `clock_gettime`, `gettimeofday`, `time`.
    pub function: String,
    /// The clock; `null` if the function takes none, or none was told.
    pub clock: Option<String>,
    /// How they were answered.
    pub route: Route,
    /// Samples.
    pub samples: u64,
    /// CPU time that they stand for, in nanoseconds.
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
    /// Its name.
    pub name: String,
    /// Processes of it that were seen reading a clock.
    pub processes: u64,
    /// CPU time of these processes, in nanoseconds.
    pub cpu_ns: u64,
    /// Samples in reads of a clock.
    pub read_samples: u64,
    /// CPU time that reads took, in CPUs.
    pub cores: f64,
    /// Share of the CPU time of these processes (0 to 1).
    pub share: f64,
    /// What the estimate is worth.
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
        assert_eq!(
            (sum.per_second, sum.low_per_second, sum.high_per_second),
            (400.0, 320.0, 500.0)
        );
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
