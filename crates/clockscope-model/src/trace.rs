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
    /// Time that their threads waited for a CPU on which something else ran, in nanoseconds. The waits of attached
    /// processes' threads that ended meanwhile are not in it. 0 if the kernel does not tell (`/proc/PID/schedstat`).
    pub queued_ns: u64,
    /// Time that their control groups held them back because a quota of CPU time was used up, in nanoseconds: of all
    /// groups, processes and CPUs together. 0 without a quota, or if the kernel does not tell (`cpu.stat`).
    pub throttled_ns: u64,
    /// Processes seen.
    pub processes: u64,
    /// Threads seen, first threads of processes included.
    pub threads: u64,
    /// How system calls were counted; `null` if unknown.
    #[serde(deserialize_with = "known_way")]
    pub via: Option<Way>,
    /// vDSO calls by function and clock, all processes together.
    pub vdso: Vec<VdsoRow>,
    /// System calls, all processes together.
    pub syscalls: Vec<SyscallRow>,
    /// The same system calls as counted by code in the program; with `--via both` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_sites: Vec<BySites>,
    /// Clock reads: how many, at which cost, and answered from where.
    pub clock_reads: ClockReads,
    /// One entry a process; its rows are filled with `--per-process` and `--per-thread`.
    pub processes_detail: Vec<ProcessDetail>,
    /// Calls that were not counted, with the reason.
    pub declines: Vec<DeclineRow>,
    /// Reads of the CPU's counter by instructions of the program, which code in the program has counted; with
    /// `trace --counters` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// Files of the program with instructions that read the CPU's counter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counter_reads: Vec<CounterReads>,
    /// Why programs may measure wrongly with the counter on this host, as `clockscope doctor` has it; only if a file of
    /// the program can read it, and the kernel's clock is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter_doubt: Option<String>,
    /// Cost of counting, measured at the start.
    pub overhead: Overhead,
    /// Counts over the run, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Moment>,
    /// Callers, from sampled stacks; with `--callers` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callers: Option<Callers>,
    /// Processes that clockscope attached to; with `--attach` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// Answers and upkeep of the clock page; with `run --clock tsc` and `tsc-fast` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_page: Option<ClockPageReport>,
    /// The machine, at the end; in saved reports only. The rate of the TSC is not measured for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostState>,
    /// Why this host's clock is slow and the first advice, as `clockscope doctor` has them; only if reads were slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_because: Option<String>,
    /// Processor time of the program at another cost of a read; with `trace --what-if` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
    /// Gain or loss by the clock that `run` gave to the program; with `run --stats` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// Reads of the CPU's counter that were counted. What was not counted is in `declines`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Reads by `rdtsc`.
    pub rdtsc: u64,
    /// Reads by `rdtscp`.
    pub rdtscp: u64,
    /// What these reads take at least, in picoseconds: as many in a loop of nothing else. `null` if clockscope itself may
    /// not use the instruction.
    pub least_ps: Option<u64>,
    /// The reads by function, most reads first.
    pub by_function: Vec<CountedReads>,
}

/// Reads of the CPU's counter by one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountedReads {
    /// `rdtsc` or `rdtscp`.
    pub instruction: Foreign,
    /// Path of the file, as the program sees it; `null` for all further places together.
    pub file: Option<Foreign>,
    /// The function; `null` without a symbol.
    pub function: Option<Foreign>,
    /// Address of the instruction in the file's own numbers, if its function is not known.
    pub address: Option<u64>,
    /// How many.
    pub reads: u64,
}

/// A file with instructions that read the CPU's counter: `rdtsc` and `rdtscp`, `mrs` of `CNTVCT_EL0` and
/// `CNTVCTSS_EL0` on arm64. How often the program executes them is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterReads {
    /// Path of the file, as the program sees it.
    pub file: Foreign,
    /// Number of the instructions; `null` if the program ended before the file had been searched.
    pub places: Option<u64>,
    /// Functions that contain them; those without a symbol are left out.
    pub functions: Vec<Foreign>,
    /// Whether it is a library in one of the dynamic loader's directories (`ld.so(8)`).
    pub of_system: bool,
}

/// Processor time of the program if a read had another cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhatIf {
    /// True if the ratio was given and the cost computed, false if the cost was given.
    pub from_ratio: bool,
    /// Cost of a read of the clocksource, in picoseconds; `null` if no cost has this effect.
    pub read_ps: Option<u64>,
    /// Processor time at this cost, in nanoseconds; `null` if too little is known of the reads.
    pub cpu_ns: Option<u64>,
    /// `cpu_ns` divided by the program's actual processor time; `null` if too little is known of the reads.
    pub times_as_long: Option<f64>,
}

/// Gain or loss by a clock that `clockscope run` gave to a program, over the reads that this clock answers in
/// another way than the kernel's vDSO.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// The clock, as `--clock` names it.
    pub clock: String,
    /// Number of reads that this clock answers.
    pub reads: u64,
    /// Time of these reads, measured in the program, in nanoseconds; `null` if too few were timed.
    pub time_ns: Option<u64>,
    /// Time of as many reads through the kernel's vDSO on this host, in nanoseconds, from the cost of one
    /// read in a loop before the program started.
    pub by_kernel_ns: u64,
    /// Greatest age of an answer, in nanoseconds: two timer ticks with `coarse`, otherwise 0.
    pub stale_ns: u64,
}

/// The calls of all processes up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Time since the start, in nanoseconds.
    pub at_ns: u64,
    /// vDSO calls so far.
    pub vdso_calls: u64,
    /// Clock reads among `vdso_calls`.
    pub clock_reads: u64,
    /// System calls so far; 0 if they are not counted or cannot be read during the run.
    pub syscall_calls: u64,
}

/// A process that clockscope attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attached {
    /// Process id.
    pub pid: i32,
    /// Name of the program.
    pub command: Foreign,
    /// Its command line, or the title that the program shows instead (`postgres: walwriter`); empty if there
    /// is none.
    pub title: Foreign,
    /// Number of threads when clockscope attached.
    pub threads: u64,
    /// Pause of its threads for attaching, in nanoseconds: from the first stop to the last resumption.
    pub pause_ns: u64,
    /// Pause of its threads for detaching, in nanoseconds; 0 if the process ended before.
    pub detach_pause_ns: u64,
    /// Why counting ended.
    pub ended: Ended,
    /// Its children that run at the end and were not traced, because they ran before clockscope attached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<i32>,
    /// Its container, pod and systemd unit.
    #[serde(flatten)]
    pub place: Place,
}

/// Answers and upkeep of a clock page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockPageReport {
    /// Whether two threads never see time run backwards.
    pub ordered: bool,
    /// Reads of the clocks that the page answers: `CLOCK_REALTIME`, `CLOCK_MONOTONIC`, `CLOCK_BOOTTIME` and
    /// `CLOCK_TAI` by `clock_gettime`, and `gettimeofday`.
    pub reads: u64,
    /// Reads answered from the page.
    pub answered: u64,
    /// Reads answered by the kernel, by reason.
    pub by_kernel: Vec<ByKernel>,
    /// Number of lines published on the page.
    pub lines: u64,
    /// The largest error bound that any read can have had, in nanoseconds.
    pub worst_bound_ns: u64,
    /// Time in which the page answered, in nanoseconds.
    pub answered_ns: u64,
    /// Periods without answers from the page, the start included, in the order of time.
    pub withdrawals: Vec<WithdrawalRow>,
}

/// Reads that the kernel answered instead of the clock page, for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByKernel {
    /// Number of the reason, as on a clock page.
    pub number: u32,
    /// Reason, as a clause.
    pub reason: String,
    /// Number of reads.
    pub reads: u64,
}

/// A period in which the kernel's clock answered instead of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WithdrawalRow {
    /// Reason, as a clause.
    pub reason: String,
    /// Length of the period, in nanoseconds.
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
    /// Number of timed calls; the times below are estimated from these.
    pub timed: u64,
    /// Estimated time of all calls, in nanoseconds.
    pub time_total_ns: u64,
    /// Estimated average, in picoseconds.
    pub time_avg_ps: u64,
    /// Half of the 95 % interval of `time_avg_ps`, in picoseconds, for the choice of the timed calls and for the
    /// error of the cost of timing, which is subtracted. `null` if `time_uncertain`, if no call was timed, and in older reports.
    pub time_avg_within_ps: Option<u64>,
    /// True if the timed calls are too few, or differ too much, for `time_total_ns` and `time_avg_ps` to mean
    /// anything.
    pub time_uncertain: bool,
    /// Distribution of the timed calls.
    pub latency_ns: Option<Latency>,
}

impl VdsoRow {
    /// Whether enough calls were timed to state the cost of one.
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
    /// Calls that returned an error; 0 with `--counts-only`; `null` with `--via sites` if the results of some
    /// calls were not seen.
    pub errors: Option<u64>,
    /// Total time less the cost of the probe, in nanoseconds; 0 with `--counts-only`, or if unknown.
    pub time_total_ns: u64,
    /// Average in picoseconds.
    pub time_avg_ps: u64,
    /// Number of timed calls if not all were timed (`--via sites`): the times are estimated from these.
    pub timed: Option<u64>,
    /// With `timed`: half of the 95 % interval of `time_avg_ps`, in picoseconds; `null` if the times are
    /// unknown because the timed calls are too few or differ too much.
    pub time_avg_within_ps: Option<u64>,
    /// Distribution, with `--latency`.
    pub latency_ns: Option<Latency>,
    /// Whether the purpose of the call is to wait, so its time is no cost ([`crate::waiting`]).
    pub waits: bool,
}

impl SyscallRow {
    /// Whether the times are known, if system calls were timed at all.
    pub fn has_time(&self) -> bool {
        self.timed.is_none() || self.time_avg_within_ps.is_some()
    }
}

/// Calls of one system call, counted in two ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BySites {
    /// Name, or `other` for all numbers that the code in the program does not tell apart.
    pub name: String,
    /// Count by code in the program.
    pub sites: u64,
    /// Count by the kernel.
    pub kernel: u64,
    /// Errors among `sites`; `null` if the results of some calls were not seen, and with `--counts-only`.
    pub errors: Option<u64>,
    /// Errors among `kernel`; also 0 with `--counts-only`.
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

/// Clock reads: the lines below the tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockReads {
    /// Reads of a clock: `clock_gettime`, `gettimeofday` and `time`, through the vDSO and by
    /// system call. A read that the vDSO passed on to the kernel is one read.
    pub reads: u64,
    /// Reads that the vDSO passed on to the kernel. Each is in the table of system calls, too; 0 if system calls
    /// were not counted.
    pub passed_on: u64,
    /// Reads a second of wall time.
    #[serde(deserialize_with = "null_is_no_number")]
    pub reads_per_second: f64,
    /// Part of `reads` known to ask the kernel's clocksource. Left out are reads of coarse clocks, of
    /// processor time, and by system call of an unknown clock.
    pub clocksource_reads: u64,
    /// Part of `clocksource_reads` that the vDSO passed on to the kernel: all of its reads if the kernel fell back.
    pub clocksource_passed_on: u64,
    /// Measured time of these reads on this host, in nanoseconds; 0 if too few were timed.
    pub time_ns: u64,
    /// True if reads were timed, but too few to state the cost of one.
    pub too_few_timed: bool,
    /// Time of all reads if each were a system call, in nanoseconds: reads that already were system calls
    /// count with their measured time, all other reads with the cost of their kind on this host.
    pub by_syscall_ns: u64,
    /// Cost of one system call that reads a precise clock, measured on this host, in picoseconds.
    pub syscall_read_ps: u64,
    /// Time of `clocksource_reads` on a host that fell back to `hpet`, at a typical cost, in nanoseconds.
    pub typical_hpet_ns: u64,
    /// Time of `clocksource_reads` on a host that fell back to `acpi_pm`, at a typical cost, in nanoseconds.
    pub typical_acpi_pm_ns: u64,
    /// Share (0 to 1) of the vDSO's reads of `CLOCK_REALTIME`, `CLOCK_MONOTONIC` and `gettimeofday` that came
    /// within the same timer tick as the same thread's previous read: a coarse clock would have returned the
    /// same time. Estimated from timed calls; `null` if there were too few such reads.
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
    /// Process that made this one; `null` for the first process, and if the start was not seen.
    pub parent: Option<i32>,
    /// Name of the last program it executed.
    pub command: Foreign,
    /// Its command line, or the title that the program shows instead, at the end of counting; empty if the
    /// process had ended.
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
    /// Container, pod and systemd unit of the process, or of its ancestor that clockscope attached to.
    #[serde(flatten)]
    pub place: Place,
}

/// One thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadDetail {
    /// Thread id.
    pub tid: i32,
    /// Name of the thread at the end of counting, as the kernel keeps it (15 bytes); empty if the thread had ended.
    pub name: Foreign,
    /// Its vDSO calls.
    pub vdso: Vec<VdsoRow>,
    /// Its system calls.
    pub syscalls: Vec<SyscallRow>,
}

/// A part of the report that is missing for a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeclineRow {
    /// Process id.
    pub pid: i32,
    /// Name of the program.
    pub command: Foreign,
    /// The missing part.
    pub what: Missing,
    /// Reason, as a clause.
    pub reason: String,
}

/// Cost of counting.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Cost of the eBPF probes on one system call, in picoseconds, measured at the start;
    /// `syscall_subtracted_ps` is the part inside the timed span.
    pub syscall_probe_ps: u64,
    /// Time that the probes add to every system call of every other process of this host while they are
    /// loaded, in picoseconds, measured at the start.
    pub bystander_tax_ps: u64,
    /// Part of the probes' cost that was subtracted from every timed system call, in picoseconds.
    pub syscall_subtracted_ps: u64,
    /// Cost of timing one vDSO call, subtracted from every timed call, in picoseconds.
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
    /// Name in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Ptrace => "ptrace",
            Self::Sites => "sites",
            Self::None => "none",
        }
    }
}

/// Reads an unknown word as `null`.
fn known_way<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Way>, D::Error> {
    let word = Option::<String>::deserialize(from)?;
    Ok(word.and_then(|word| Way::deserialize(StrDeserializer::<Error>::new(&word)).ok()))
}

/// Route of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// By a system call.
    Syscall,
    /// Through the vDSO.
    Vdso,
    /// Missing in the report, or a word unknown to this version.
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

/// Parts that a report can lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// vDSO calls, which were not counted.
    Vdso,
    /// System calls, which were not counted.
    Syscalls,
    /// Reads of the CPU's counter by the program's own instructions, which were not counted.
    Counter,
    /// Callers, because stacks were not sampled.
    Callers,
    /// Names of functions.
    Names,
    /// Missing in the report, or a word unknown to this version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Why counting in a process that was attached to ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// The given duration had passed.
    Duration,
    /// The user ended counting.
    Interrupted,
    /// The process exited.
    Exited,
    /// A signal killed the process.
    Killed,
    /// Missing in the report, or a word unknown to this version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Clocks that a program can be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Clock {
    /// the kernel's vDSO, as without clockscope
    #[default]
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
    /// Name on the command line.
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

/// Reads `null` as NaN: JSON has no other form for a number such as a rate over no time.
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
