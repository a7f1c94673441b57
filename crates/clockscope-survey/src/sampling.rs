//! Samples all CPUs for a while, and measures the cost of a read meanwhile.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use fastclock::ClockId;

use crate::calibrate::Reader;
use crate::estimate::{Cost, period_ns};
use crate::learn::Learned;
use crate::processes;
use crate::reads::{Code, Kind};
use crate::report::{Costs, Observed, Tally};
use clockscope_sys::loops::Loop;
use clockscope_sys::vdso_call::Call;
use clockscope_sys::{access, clock_loops};
use clockscope_syscalls::BpfDecline;
use clockscope_syscalls::sampling::{CpuSampler, PlaceSamples};
use clockscope_trace::clock_reads::ReadCosts;

/// Number of samples for the cost of a read through the vDSO, and of one by system call; determines the CPU time that is
/// spent on measuring.
const SAMPLES_OF_READS: f64 = 150.0;
/// Number of samples for the cost of a read of CPU time.
const SAMPLES_OF_CPU_TIME: f64 = 40.0;
/// Each measuring thread uses at most this fraction of the survey's duration: 1 / PART.
const PART: u32 = 5;
/// Number of periods after which the periods change: each change loses a part of one.
const PERIODS: u32 = 100;
/// Maximum extension of a survey, until its own reads have been sampled often enough.
const LONGER: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
/// Interval between two looks for a wish to end.
const LOOK: Duration = Duration::from_millis(100);
/// `PROC_PID_INIT_INO` in include/linux/proc_ns.h (Linux 6.18).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Why no survey is possible; prints as a clause with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Decline {
    /// The kernel does not allow this user to sample CPUs.
    #[error("this user may not sample all CPUs; run it as root, or with CAP_BPF and CAP_PERFMON")]
    NotAllowed,
    /// eBPF cannot be used, for this reason.
    #[error(transparent)]
    Bpf(BpfDecline),
    /// The kernel refused an operation.
    #[error("the kernel refused to {what}: {reason}; Linux 5.15 or newer is needed")]
    Refused {
        /// The operation that was attempted.
        what: String,
        /// The kernel's answer.
        reason: String,
    },
    /// This process has no vDSO.
    #[error("this process has no vDSO, because the kernel was started with vdso=0 or is no Linux")]
    NoVdso,
    /// The kernel's process ids differ from those of this namespace.
    #[error(
        "this is a container with processes of its own; run it on the host, or in a container that \
         shares the host's processes (--pid host)"
    )]
    PidNamespace,
    /// The measuring threads were hardly sampled.
    #[error(
        "too few samples to measure what a read costs here; try a longer --duration or a higher \
         --freq"
    )]
    TooShort,
}

impl From<BpfDecline> for Decline {
    fn from(decline: BpfDecline) -> Self {
        match decline {
            BpfDecline::NotAllowed => Self::NotAllowed,
            BpfDecline::Refused { what, reason } => Self::Refused { what, reason },
            other => Self::Bpf(other),
        }
    }
}

/// Duration and frequency of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Duration of the survey.
    pub duration: Duration,
    /// Samples per second of each CPU.
    pub frequency_hz: u32,
}

/// A prepared survey.
#[derive(Debug)]
pub struct Survey {
    sampler: CpuSampler,
    options: Options,
    /// The clocks that the vDSO's instructions belong to.
    pub code: Code,
}

/// Id of a measuring thread, number of its reads, and their kind.
type Measured = (i32, u64, Kind);

impl Survey {
    /// Does everything that can fail, without sampling yet.
    ///
    /// # Errors
    /// The reason, as a clause.
    pub fn prepare(options: Options, learned: Option<Learned>) -> Result<Self, Decline> {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if namespace.to_str().is_some_and(|name| name != FIRST_PID_NAMESPACE && !name.is_empty()) {
            return Err(Decline::PidNamespace);
        }
        let Learned { code, bytes } = learned.ok_or(Decline::NoVdso)?;
        let sampler = CpuSampler::open(mean_period_ns(options), bytes)?;
        Ok(Self { sampler, options, code })
    }

    /// Samples; calls `tell` with the elapsed time now and then, and ends early if it says that no more is wanted.
    ///
    /// # Errors
    /// Why there is nothing to report, as a clause.
    pub fn run(&self, tell: &dyn Fn(Duration) -> bool) -> Result<Observed, Decline> {
        let failed = |error: io::Error| Decline::Refused {
            what: "sample CPUs".to_owned(),
            reason: error.to_string(),
        };
        let whole_syscall_ns = ReadCosts::by_syscall().clocksource.0 as f64 / 1e3;
        let Options { duration, frequency_hz } = self.options;
        self.sampler.start().map_err(failed)?;
        let started = Instant::now();
        let measuring = self.start_measuring();
        let mut until = duration;
        while self.wait(started, until, tell).map_err(failed)? {
            // On a busy host the measuring threads get little time.
            let places = self.sampler.places().map_err(failed)?;
            let is_seen = |(reader, kind): &(Reader, Kind)| {
                *kind != Kind::Clocksource || self.cost(&places, (reader.tid, 1, *kind)).is_some()
            };
            if measuring.iter().all(is_seen) || until > duration + LONGER {
                break;
            }
            // Each wait restarts the periods, which loses a part of one.
            let mean = Duration::from_nanos(mean_period_ns(self.options));
            until = started.elapsed() + mean * (PERIODS / PART);
        }
        let ended = measuring.into_iter().map(|(reader, kind)| (reader.tid, reader.end(), kind));
        let readers: Vec<Measured> = ended.collect();
        let elapsed = started.elapsed();
        self.sampler.stop().map_err(failed)?;
        let mut places = self.sampler.places().map_err(failed)?;
        let mut sampled = self.sampler.processes().map_err(failed)?;
        let cost = |of: &Measured| self.cost(&places, *of);
        let find = |kind: Kind| readers.iter().find(|reader| reader.2 == kind);
        let vdso = find(Kind::Clocksource);
        let costs = Costs {
            clocksource: vdso.and_then(cost).ok_or(Decline::TooShort)?,
            by_syscall: find(Kind::ClocksourceBySyscall).and_then(cost),
            cpu_time: find(Kind::CpuTime).and_then(cost),
            whole_syscall_ns,
            has_fallen_back: vdso.is_some_and(|reader| {
                self.tally(&places, reader.0).of_kind(Kind::Clocksource).has_fallen_back()
            }),
        };
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        let is_own =
            |process: i32| process == pid || readers.iter().any(|reader| reader.0 == process);
        places.retain(|samples| !is_own(samples.process));
        let seen = |process: i32| places.iter().any(|samples| samples.process == process);
        sampled.retain(|one| seen(one.process));
        Ok(Observed {
            elapsed_ns: nanos(elapsed),
            frequency_hz,
            cpus: self.sampler.cpus() as u64,
            samples: self.sampler.samples().map_err(failed)?,
            own_cpu_ns: access::cpu_time(pid).map_or(0, nanos),
            processes: processes::known(sampled),
            places,
            costs,
        })
    }

    /// Waits until the time is over, and changes the periods meanwhile. Returns whether more is wanted.
    fn wait(
        &self,
        started: Instant,
        until: Duration,
        tell: &dyn Fn(Duration) -> bool,
    ) -> io::Result<bool> {
        let mean = mean_period_ns(self.options);
        let step = Duration::from_nanos(mean) * PERIODS;
        let mut random = RandomState::new().hash_one(mean) | 1;
        loop {
            let mut left = until.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(true);
            }
            self.sampler.set_periods(|| period_ns(mean, &mut random))?;
            // The last change comes early enough for the new periods to elapse many times.
            let pause_until = if left < step * 2 { until } else { started.elapsed() + step };
            while !left.is_zero() {
                if !tell(started.elapsed()) {
                    return Ok(false);
                }
                thread::sleep(left.min(LOOK));
                left = pause_until.saturating_sub(started.elapsed());
            }
        }
    }

    /// Starts one thread for each kind of read.
    fn start_measuring(&self) -> Vec<(Reader, Kind)> {
        let Options { duration, frequency_hz, .. } = self.options;
        let start = |(calling, samples, kind): (Result<Loop, clock_loops::NoLoop>, f64, Kind)| {
            let cpu =
                Duration::from_secs_f64(samples / f64::from(frequency_hz)).min(duration / PART);
            Some((Reader::start(calling.ok()?, cpu, duration)?, kind))
        };
        let [monotonic, cpu_time] =
            [ClockId::Monotonic, ClockId::ProcessCputime].map(Call::ClockGettime);
        let all = [
            (clock_loops::by_libc(monotonic), SAMPLES_OF_READS, Kind::Clocksource),
            (clock_loops::by_syscall(monotonic), SAMPLES_OF_READS, Kind::ClocksourceBySyscall),
            (clock_loops::by_libc(cpu_time), SAMPLES_OF_CPU_TIME, Kind::CpuTime),
        ];
        all.into_iter().filter_map(start).collect()
    }

    /// The cost of a read for the thread that made `reads` reads of a kind.
    fn cost(&self, places: &[PlaceSamples], (tid, reads, kind): Measured) -> Option<Cost> {
        let found = self.tally(places, tid).of_kind(kind);
        Cost::measured(found.samples, found.time_ns, reads)
    }

    fn tally(&self, places: &[PlaceSamples], process: i32) -> Tally {
        Tally::of(places.iter().filter(|samples| samples.process == process), &self.code)
    }
}

fn mean_period_ns(options: Options) -> u64 {
    nanos(SECOND / options.frequency_hz.max(1))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decline_says_what_to_try() {
        let said = |decline: BpfDecline| Decline::from(decline).to_string();
        assert_eq!(
            said(BpfDecline::NotAllowed),
            "this user may not sample all CPUs; run it as root, or with CAP_BPF and CAP_PERFMON"
        );
        let (what, reason) = ("load it".to_owned(), "why".to_owned());
        assert_eq!(
            said(BpfDecline::Refused { what, reason }),
            "the kernel refused to load it: why; Linux 5.15 or newer is needed"
        );
        assert_eq!(said(BpfDecline::NoBtf), BpfDecline::NoBtf.to_string());
    }
}
