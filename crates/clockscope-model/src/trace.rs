//! The trace report as data. This is the JSON schema (`"schema": 1`): fields are added, never
//! renamed; units are in the names; see docs/trace.md.

use clockscope_containers::place::Place;
use clockscope_text::foreign::Foreign;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

pub use crate::callers::Callers;
use crate::host::HostState;

/// The result of one `clockscope trace`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceReport {
    /// Version of this schema: 1.
    pub schema: u32,
    /// The program and its arguments.
    pub command: Vec<Foreign>,
    /// The program's exit code, or `null` if a signal killed it.
    pub exit_code: Option<i32>,
    /// The signal that killed the program, if one did.
    pub signal: Option<i32>,
    /// From the start of the program to its end, in nanoseconds.
    pub wall_ns: u64,
    /// User and system time of all processes that were counted, while they were, in nanoseconds.
    pub cpu_ns: u64,
    /// Processes seen.
    pub processes: u64,
    /// Threads seen, first threads of processes included.
    pub threads: u64,
    /// How system calls were counted; `null` if that is not known.
    #[serde(deserialize_with = "known_way")]
    pub via: Option<Way>,
    /// vDSO calls by function and clock, all processes together.
    pub vdso: Vec<VdsoRow>,
    /// System calls, all processes together.
    pub syscalls: Vec<SyscallRow>,
    /// The same calls as the program's own code counted them; with `--via both` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_sites: Vec<BySites>,
    /// The three questions about clock reads.
    pub clock_reads: ClockReads,
    /// One entry a process, with its own rows when `--per-process` or `--per-thread` is given.
    pub processes_detail: Vec<ProcessDetail>,
    /// What was not counted, and why.
    pub declines: Vec<DeclineRow>,
    /// What counting cost, by measurement at the start.
    pub overhead: Overhead,
    /// Counts over the run, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Moment>,
    /// Who makes the calls; with `--callers` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callers: Option<Callers>,
    /// How the processes were attached to; with `--attach` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// What the clock page answered; with `run --clock tsc` and `tsc-fast` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_page: Option<ClockPageReport>,
    /// The machine, at the end; in saved reports only. The rate of the TSC is not measured for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostState>,
    /// What another cost of a read would make of the program; with `trace --what-if` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
    /// What the clock that was given is worth; with `run --stats` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// What another cost of a read would make of the program's processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhatIf {
    /// True if the ratio was given and the cost computed, false if the cost was given.
    pub from_ratio: bool,
    /// Cost of a read of the clocksource, in picoseconds; `null` if no cost has this effect.
    pub read_ps: Option<u64>,
    /// Processor time at this cost, in nanoseconds; `null` if too little is known of the reads.
    pub cpu_ns: Option<u64>,
    /// As a multiple of what it was; `null` if too little is known of the reads.
    pub times_as_long: Option<f64>,
}

/// What a clock given by `clockscope run` is worth, by the reads that it answers in another way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// The clock, as `--clock` names it.
    pub clock: String,
    /// Reads that it answers, counted.
    pub reads: u64,
    /// Time that they took, measured in the program, in nanoseconds; `null` if too few were timed.
    pub time_ns: Option<u64>,
    /// Time that as many reads take by the kernel's vDSO on this host, in nanoseconds: by the cost of one,
    /// measured in a loop before the program started.
    pub by_kernel_ns: u64,
    /// Age of an answer at most, in nanoseconds: two timer ticks with `coarse`, otherwise 0.
    pub stale_ns: u64,
}

/// The calls of all processes until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Since the start, in nanoseconds.
    pub at_ns: u64,
    /// vDSO calls until then.
    pub vdso_calls: u64,
    /// Of these, reads of a clock.
    pub clock_reads: u64,
    /// System calls until then; 0 where they are not counted, or cannot be read meanwhile.
    pub syscall_calls: u64,
}

/// A process that was attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attached {
    /// Process id.
    pub pid: i32,
    /// Name of the program.
    pub command: Foreign,
    /// Its command line, or what the program shows in place of it (`postgres: walwriter`); empty if it shows none.
    pub title: Foreign,
    /// Threads that it had.
    pub threads: u64,
    /// How long its threads stood still for attaching, in nanoseconds: from the first stop to the
    /// last resumption.
    pub pause_ns: u64,
    /// The same for detaching; 0 if it ended before.
    pub detach_pause_ns: u64,
    /// Why counting ended.
    pub ended: Ended,
    /// Its container, pod and systemd unit.
    #[serde(flatten)]
    pub place: Place,
}

/// What the clock page answered and how it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockPageReport {
    /// Whether two threads never see time run backwards.
    pub ordered: bool,
    /// Counted reads of the clocks that the page has: `CLOCK_REALTIME`, `CLOCK_MONOTONIC`, their
    /// coarse forms, `CLOCK_BOOTTIME`, `CLOCK_TAI`, `gettimeofday` and `time`.
    pub reads: u64,
    /// Of these, answered from the page.
    pub answered: u64,
    /// The others, by the reason why the kernel answered.
    pub by_kernel: Vec<ByKernel>,
    /// Lines that were published.
    pub lines: u64,
    /// The largest bound that a read can have had, in nanoseconds.
    pub worst_bound_ns: u64,
    /// Time in which the page answered, in nanoseconds.
    pub answered_ns: u64,
    /// Times in which it did not, the start included, in their order.
    pub withdrawals: Vec<WithdrawalRow>,
}

/// Reads that the kernel answered in place of the clock page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByKernel {
    /// Number of the reason, as on a clock page.
    pub number: u32,
    /// Why, as a clause.
    pub reason: String,
    /// How many.
    pub reads: u64,
}

/// A time in which the page gave way to the kernel's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WithdrawalRow {
    /// Why, as a clause.
    pub reason: String,
    /// For how long, in nanoseconds.
    pub lasted_ns: u64,
}

/// Calls of one vDSO function, on one clock where the function takes a clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VdsoRow {
    /// `clock_gettime`, `gettimeofday`, `time`, `getcpu`, `clock_getres`, `getrandom`, ...
    pub function: String,
    /// `CLOCK_MONOTONIC` and so on; `null` for functions without a clock; `other` for clock ids
    /// without a fixed number.
    pub clock: Option<String>,
    /// Exact number of calls.
    pub calls: u64,
    /// Calls that were timed; the times below are estimated from these.
    pub timed: u64,
    /// Estimated time of all calls, in nanoseconds.
    pub time_total_ns: u64,
    /// Estimated average, in picoseconds.
    pub time_avg_ps: u64,
    /// Half of the 95 % interval of `time_avg_ps`, in picoseconds. It covers the choice of the calls that were
    /// timed and nothing else. `null` if `time_uncertain`, if no call was timed, and in older reports.
    pub time_avg_within_ps: Option<u64>,
    /// True if too few were timed, or too different ones, for these two to say anything.
    pub time_uncertain: bool,
    /// Distribution of the timed calls.
    pub latency_ns: Option<Latency>,
}

impl VdsoRow {
    /// Whether enough calls were timed to say what one costs.
    pub fn has_time(&self) -> bool {
        self.timed > 0 && !self.time_uncertain
    }
}

/// Calls of one system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyscallRow {
    /// Name, or `syscall_N` for a number without one.
    pub name: String,
    /// Number on x86-64.
    pub number: u32,
    /// Exact number of calls.
    pub calls: u64,
    /// Calls that returned an error; 0 with `--counts-only`, `null` where they are not known of all calls (`--via
    /// sites`).
    pub errors: Option<u64>,
    /// Total time in nanoseconds, less what the probe cost; 0 with `--counts-only`, and where it is not known.
    pub time_total_ns: u64,
    /// Average in picoseconds.
    pub time_avg_ps: u64,
    /// How many calls were timed, where not all were (`--via sites`): the times are estimated from these.
    pub timed: Option<u64>,
    /// With `timed`: half of the 95 % interval of `time_avg_ps`, in picoseconds; `null` if the times are not known
    /// because too few calls were timed, or too different ones.
    pub time_avg_within_ps: Option<u64>,
    /// Distribution, with `--latency`.
    pub latency_ns: Option<Latency>,
    /// Whether it is made to wait, so that its time is no cost ([`crate::waiting`]).
    pub waits: bool,
}

impl SyscallRow {
    /// Whether its times say something, where system calls were timed.
    pub fn has_time(&self) -> bool {
        self.timed.is_none() || self.time_avg_within_ps.is_some()
    }
}

/// Calls of one system call, counted in two ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BySites {
    /// Name, or `other` for all numbers that code in the program does not tell apart.
    pub name: String,
    /// By code in the program.
    pub sites: u64,
    /// By the kernel.
    pub kernel: u64,
    /// Those of `sites` that returned an error; `null` where it was not seen of all, and with `--counts-only`.
    pub errors: Option<u64>,
    /// Those of `kernel`; 0 with `--counts-only`, too.
    pub kernel_errors: u64,
}

/// A distribution of call times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The longest of the timed calls.
    pub max: u64,
    /// `[lower bound in ns, calls]` of each bucket that is not empty.
    pub buckets: Vec<(u64, u64)>,
}

/// The lines below the table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockReads {
    /// Reads of a clock: `clock_gettime`, `gettimeofday` and `time`, through the vDSO and by
    /// system call. A read that the vDSO passed on to the kernel is one read.
    pub reads: u64,
    /// Reads through the vDSO that it passed on to the kernel, so that each is in the table of
    /// system calls too; 0 if system calls were not counted.
    pub passed_on: u64,
    /// Reads a second of wall time.
    #[serde(deserialize_with = "null_is_no_number")]
    pub reads_per_second: f64,
    /// Of these, reads known to ask the kernel's clocksource: not those of coarse clocks, of processor
    /// time, and by system call of a clock that is not known.
    pub clocksource_reads: u64,
    /// Of those, reads through the vDSO that it passed on to the kernel: all where the kernel fell back.
    pub clocksource_passed_on: u64,
    /// Time they took here, measured, in nanoseconds; 0 if too few were timed.
    pub time_ns: u64,
    /// True if reads were timed, but too few to say what one costs.
    pub too_few_timed: bool,
    /// All reads by system call, in nanoseconds: those that were system calls already at what they took, the
    /// others at what a read of their kind costs on this host.
    pub by_syscall_ns: u64,
    /// Cost of one read of a precise clock by system call, measured on this host, in picoseconds.
    pub syscall_read_ps: u64,
    /// `clocksource_reads` on a host that fell back to `hpet`, at a typical cost, in nanoseconds.
    pub typical_hpet_ns: u64,
    /// `clocksource_reads` on a host that fell back to `acpi_pm`, at a typical cost, in nanoseconds.
    pub typical_acpi_pm_ns: u64,
    /// Share (0 to 1) of the reads by the vDSO of `CLOCK_REALTIME`, `CLOCK_MONOTONIC` and
    /// `gettimeofday` that came within the same timer tick as the thread's read before: a coarse clock
    /// would have returned the same. Estimated from timed calls; `null` if there were no such reads, or
    /// too few.
    pub same_tick_share: Option<f64>,
    /// Length of a timer tick, in nanoseconds.
    pub tick_ns: u64,
}

/// One process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessDetail {
    /// Process id.
    pub pid: i32,
    /// Process that made it; `null` for the first, and where that was not seen.
    pub parent: Option<i32>,
    /// Name of the last program it executed.
    pub command: Foreign,
    /// Its command line, or what the program shows in place of it, at the end of counting; empty if it had ended.
    pub title: Foreign,
    /// Calls through the vDSO.
    pub vdso_calls: u64,
    /// System calls; `null` unless processes were told apart (`--per-process`, `--per-thread`).
    pub syscall_calls: Option<u64>,
    /// Its vDSO calls; with `--per-process` and `--per-thread`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vdso: Vec<VdsoRow>,
    /// Its system calls; with `--per-process` and `--per-thread`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub syscalls: Vec<SyscallRow>,
    /// Its threads; with `--per-thread`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadDetail>,
    /// Container, pod and systemd unit of it, or of the process that was attached to and that it descends from.
    #[serde(flatten)]
    pub place: Place,
}

/// One thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadDetail {
    /// Thread id.
    pub tid: i32,
    /// Its name at the end of counting, as the kernel keeps it (15 bytes); empty if it had ended.
    pub name: Foreign,
    /// Its vDSO calls.
    pub vdso: Vec<VdsoRow>,
    /// Its system calls.
    pub syscalls: Vec<SyscallRow>,
}

/// Something that was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeclineRow {
    /// Process id.
    pub pid: i32,
    /// Name of the program.
    pub command: Foreign,
    /// What was not counted.
    pub what: Missing,
    /// Why, as a clause.
    pub reason: String,
}

/// What counting cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Cost of the eBPF probes on one system call, in picoseconds, measured at the start; part of
    /// it lies inside the timed span and has been subtracted.
    pub syscall_probe_ps: u64,
    /// What the probes add to every system call of every other process of this host while they are
    /// there, in picoseconds, measured at the start.
    pub bystander_tax_ps: u64,
    /// Part of it that was subtracted from every timed system call, in picoseconds.
    pub syscall_subtracted_ps: u64,
    /// Cost of timing one vDSO call, subtracted from it, in picoseconds.
    pub vdso_bracket_ps: u64,
}

/// How system calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// By eBPF in the kernel.
    Bpf,
    /// By ptrace, at each stop.
    Ptrace,
    /// By code in the program.
    Sites,
    /// Not at all: vDSO calls alone are counted.
    None,
}

impl Way {
    /// Its name in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Ptrace => "ptrace",
            Self::Sites => "sites",
            Self::None => "none",
        }
    }
}

/// Reads a word that this version does not know as `null`.
fn known_way<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Way>, D::Error> {
    let word = Option::<String>::deserialize(from)?;
    Ok(word.and_then(|word| Way::deserialize(StrDeserializer::<Error>::new(&word)).ok()))
}

/// How a call is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// By a system call.
    Syscall,
    /// Through the vDSO.
    Vdso,
    /// Missing in the report, or a word that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Via {
    /// Its name in tables and in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syscall => "syscall",
            Self::Vdso => "vdso",
            Self::Unknown => "unknown",
        }
    }
}

/// What a report lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// vDSO calls, which were not counted.
    Vdso,
    /// System calls, which were not counted.
    Syscalls,
    /// Callers, who were not sampled.
    Callers,
    /// Names of functions.
    Names,
    /// Missing in the report, or a word that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Why counting in a process that was attached to ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// The time was over.
    Duration,
    /// The user asked for it.
    Interrupted,
    /// The process exited.
    Exited,
    /// A signal killed the process.
    Killed,
    /// Missing in the report, or a word that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Clocks that a program can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Clock {
    /// the kernel's vDSO, as without clockscope
    Kernel,
    /// a real system call for every read
    Syscall,
    /// the time of the last timer tick, from the coarse clock of the same family
    Coarse,
    /// the kernel's vDSO, each read taking as long as on a host with a slow clocksource
    Slow,
    /// the CPU's counter, kept to the kernel's clock by clockscope
    #[cfg_attr(feature = "clap", value(alias = "counter"))]
    Tsc,
    /// the same, read whenever the CPU likes: order between threads is not guaranteed
    #[cfg_attr(feature = "clap", value(alias = "counter-fast"))]
    TscFast,
}

impl Clock {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Syscall => "syscall",
            Self::Coarse => "coarse",
            Self::Slow => "slow",
            Self::Tsc => "tsc",
            Self::TscFast => "tsc-fast",
        }
    }

    /// Whether the answers come from the clock page.
    pub fn is_page(self) -> bool {
        matches!(self, Self::Tsc | Self::TscFast)
    }
}

/// JSON has `null` for what is no number, such as a rate over no time.
pub(crate) fn null_is_no_number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::FrameKind;
    use clockscope_text::foreign::json;

    fn report() -> TraceReport {
        TraceReport {
            schema: 1,
            command: vec!["date".into(), "-u\n".into()],
            exit_code: Some(0),
            vdso: vec![VdsoRow {
                function: "clock_gettime".into(),
                clock: Some("CLOCK_MONOTONIC".into()),
                calls: u64::MAX,
                timed: 3,
                time_total_ns: 60,
                time_avg_ps: 20_500,
                time_avg_within_ps: Some(300),
                time_uncertain: false,
                latency_ns: Some(Latency { p50: 20, buckets: vec![(16, 3)], ..Latency::default() }),
            }],
            ..TraceReport::default()
        }
    }

    #[test]
    fn keys_and_values_are_those_of_the_schema() {
        let json: serde_json::Value =
            serde_json::from_str(&json(&report(), false).unwrap()).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["command"][1], "-u\n");
        assert_eq!(json["signal"], serde_json::Value::Null);
        assert_eq!(json["vdso"][0]["clock"], "CLOCK_MONOTONIC");
        assert_eq!(json["vdso"][0]["calls"], u64::MAX);
        assert_eq!(json["vdso"][0]["time_avg_ps"], 20_500);
        assert_eq!(json["vdso"][0]["latency_ns"]["buckets"][0][1], 3);
    }

    #[test]
    fn words_of_other_versions_are_unknown() {
        let given = r#"{"schema": 1, "via": "x", "attached": [{"ended": "x"}, {}, {"ended": "killed"}],
            "declines": [{"what": "x"}, {}, {"what": "callers"}],
            "callers": {"called": [{"via": "x"}, {}, {"via": "vdso"}], "frames": [{"kind": "x"}]}}"#;
        let report: TraceReport = serde_json::from_str(given).unwrap();
        assert_eq!(report.via, None);
        let ended: Vec<_> = report.attached.iter().map(|row| row.ended).collect();
        assert_eq!(ended, [Ended::Unknown, Ended::Unknown, Ended::Killed]);
        let missing: Vec<_> = report.declines.iter().map(|row| row.what).collect();
        assert_eq!(missing, [Missing::Unknown, Missing::Unknown, Missing::Callers]);
        let callers = report.callers.as_ref().unwrap();
        let via: Vec<_> = callers.called.iter().map(|row| row.via).collect();
        assert_eq!(via, [Via::Unknown, Via::Unknown, Via::Vdso]);
        assert_eq!(callers.frames[0].kind, FrameKind::Unknown);
        let json: serde_json::Value = serde_json::from_str(&json(&report, false).unwrap()).unwrap();
        assert_eq!(json["via"], serde_json::Value::Null);
        assert_eq!(json["attached"][0]["ended"], "unknown");
        assert_eq!(json["declines"][0]["what"], "unknown");
        assert_eq!(json["callers"]["called"][0]["via"], Via::Unknown.name());
        for (word, way) in [("sites", Some(Way::Sites)), ("none", Some(Way::None))] {
            let report = format!(r#"{{"via": "{word}"}}"#);
            assert_eq!(serde_json::from_str::<TraceReport>(&report).unwrap().via, way);
        }
        assert_eq!(serde_json::from_str::<TraceReport>(r#"{"via": null}"#).unwrap().via, None);
    }

    #[test]
    fn a_rate_that_is_no_number_becomes_null() {
        let mut report = report();
        report.clock_reads.reads_per_second = f64::INFINITY;
        let json: serde_json::Value = serde_json::from_str(&json(&report, false).unwrap()).unwrap();
        assert_eq!(json["clock_reads"]["reads_per_second"], serde_json::Value::Null);
    }
}
