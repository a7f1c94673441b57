//! Counters of system calls: eBPF, ptrace, code in the program, or none.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::Context;
use vdso_image::layout::INSTALL_MARK;

use crate::options::CountOptions;
use crate::plan::Plan;
use clockscope_model::trace::{DeclineRow, Missing, Way};
use clockscope_syscalls::bpf::{BpfCounter, BpfLosses, BpfOptions};
use clockscope_syscalls::ptrace::PtraceCounter;
use clockscope_syscalls::{BpfDecline, ProbeCost, SyscallTally};
use clockscope_text::units;
use clockscope_tracee::observers::SyscallObserver;

/// Limit above every system call number.
const NUMBERS: u32 = 512;

/// A running count of system calls.
pub(crate) enum Counter {
    /// eBPF in the kernel.
    Bpf(Box<RefCell<BpfCounter>>),
    /// ptrace at every stop; shared with the observer of the stops.
    Ptrace(Rc<RefCell<PtraceCounter>>),
    /// Code in the program; the tracer that follows the program reads the counts.
    Sites,
    /// System calls are not counted.
    None,
}

/// The counts up to a moment.
pub(crate) struct Counted {
    /// The way that system calls were counted.
    pub via: Way,
    /// The counts; empty if code in the program keeps them.
    pub tallies: Vec<SyscallTally>,
    /// Cost of counting.
    pub cost: ProbeCost,
    /// Calls that were not counted, or not attributed.
    pub losses: Vec<DeclineRow>,
}

/// Passes stops on to the counter.
pub(crate) struct Observing(Rc<RefCell<PtraceCounter>>);

impl SyscallObserver for Observing {
    fn stopped(&mut self, process: i32, thread: i32) {
        self.0.borrow_mut().stopped(process, thread);
    }

    fn gone(&mut self, thread: i32) {
        self.0.borrow_mut().gone(thread);
    }
}

fn ptrace_counter(options: &CountOptions, program: Option<i32>) -> Rc<RefCell<PtraceCounter>> {
    let mut counter = PtraceCounter::new(options.breakdown, INSTALL_MARK);
    if let Some(program) = program {
        let execve = u32::try_from(libc::SYS_execve).expect("numbers of system calls are small");
        counter.begun(program, program, execve);
    }
    Rc::new(RefCell::new(counter))
}

/// The note for the user about the way chosen instead of eBPF.
fn without_bpf(options: &CountOptions, way: Way, why: &BpfDecline) -> String {
    if way == Way::Ptrace {
        return format!(
            "counting system calls by ptrace, about 20 us each, because {why}; \
             --via none counts vDSO calls only and costs almost nothing"
        );
    }
    let ptrace = if options.follows { ", or use --via ptrace, about 20 us each" } else { "" };
    let sites = if options.sites_answer {
        ", or --via sites, which changes the program's code and can kill it"
    } else {
        ""
    };
    format!("counting vDSO calls only, not system calls, because {why}{ptrace}{sites}")
}

impl Counter {
    /// Starts to count the system calls of a process that waits before its `execve`, or of no process yet,
    /// see [`Self::follow`]. Tells the user about the chosen way by `plan.voice`.
    ///
    /// # Errors
    ///
    /// When the way was asked for by name and is not possible.
    pub(crate) fn start(plan: &Plan, program: impl Into<Option<i32>>) -> anyhow::Result<Self> {
        let options = &plan.syscalls;
        let program = program.into();
        let mut way = options.way(true);
        if way == Some(Way::Bpf) {
            let why = match Self::by_bpf(plan, program) {
                Ok(counter) => return Ok(counter),
                Err(why) => why,
            };
            way = options.way(false);
            let Some(way) = way else {
                anyhow::bail!("cannot count by eBPF: {why}, or use --via ptrace")
            };
            (plan.voice.note)(&without_bpf(options, way, &why));
        }
        Ok(match way {
            Some(Way::Ptrace) => Self::Ptrace(ptrace_counter(options, program)),
            Some(Way::Sites) => Self::Sites,
            Some(Way::None | Way::Bpf) | None => Self::None,
        })
    }

    fn by_bpf(plan: &Plan, program: Option<i32>) -> Result<Self, BpfDecline> {
        let options = &plan.syscalls;
        let mut counter = BpfCounter::start(&BpfOptions {
            time: options.time,
            latency: options.latency,
            breakdown: options.breakdown,
            mark: INSTALL_MARK,
            numbers: plan.filter.numbers(NUMBERS),
            ..BpfOptions::default()
        })?;
        if let Some(program) = program {
            counter.follow(program).map_err(|error| BpfDecline::Refused {
                what: "following the program".to_owned(),
                reason: error.to_string(),
            })?;
        }
        let tax = counter.cost.bystander_tax_ps();
        (plan.voice.note)(&format!(
            "while this runs, each system call of every process on this host takes {} longer (counting by eBPF); \
             --via none avoids that",
            units::picos(tax)
        ));
        Ok(Self::Bpf(Box::new(RefCell::new(counter))))
    }

    /// The observer of every system call stop, if counting needs one.
    pub(crate) fn observer(&self) -> Option<Observing> {
        match self {
            Self::Ptrace(counter) => Some(Observing(Rc::clone(counter))),
            Self::Bpf(_) | Self::Sites | Self::None => None,
        }
    }

    /// Counts the system calls of a process's present threads and of their children from now on. Only eBPF
    /// needs this call: ptrace sees every stop.
    ///
    /// # Errors
    ///
    /// When there is no such process, or the kernel refuses.
    pub(crate) fn follow(&self, process: i32) -> std::io::Result<()> {
        let Self::Bpf(counter) = self else { return Ok(()) };
        let mut counter = counter.borrow_mut();
        // The second pass finds threads created during the first pass by threads that were not yet followed.
        counter.follow(process).and_then(|()| counter.follow(process))
    }

    /// The counts up to now. Later calls of the traced processes are caused by detaching.
    ///
    /// # Errors
    ///
    /// When the kernel does not give the counts.
    pub(crate) fn counted(&self) -> anyhow::Result<Counted> {
        let via = match self {
            Self::Bpf(_) => Way::Bpf,
            Self::Ptrace(_) => Way::Ptrace,
            Self::Sites => Way::Sites,
            Self::None => Way::None,
        };
        let (tallies, cost) = self.read()?;
        Ok(Counted { via, tallies, cost, losses: self.losses() })
    }

    /// The counts so far, and the cost of counting.
    ///
    /// # Errors
    ///
    /// When the kernel does not supply the counts.
    pub(crate) fn read(&self) -> anyhow::Result<(Vec<SyscallTally>, ProbeCost)> {
        Ok(match self {
            Self::Bpf(counter) => (
                counter.borrow().read().context("cannot read the counts of system calls")?,
                counter.borrow().cost,
            ),
            // The cost is not measured, because it is mostly scheduling.
            Self::Ptrace(counter) => (counter.borrow().read(), ProbeCost::default()),
            Self::Sites | Self::None => (Vec::new(), ProbeCost::default()),
        })
    }

    fn losses(&self) -> Vec<DeclineRow> {
        let Self::Bpf(counter) = self else { return Vec::new() };
        let losses = counter.borrow().losses().unwrap_or_default();
        let row = |reason: String| DeclineRow {
            what: Missing::Syscalls,
            reason,
            ..DeclineRow::default()
        };
        reasons(&losses).into_iter().map(row).collect()
    }
}

/// A clause for each kind of loss.
fn reasons(losses: &BpfLosses) -> Vec<String> {
    let BpfLosses { threads, probes_left_out, unattributed_calls, undistributed_calls } = *losses;
    [
        (threads, "threads could not be followed: no memory"),
        (
            probes_left_out,
            "times the kernel left out a probe, for these processes or for others, because the CPU was at another eBPF \
             program: up to so many calls are missing",
        ),
        (unattributed_calls, "calls are counted, but for no process: too many rows"),
        (undistributed_calls, "calls are counted, but in no distribution: too many"),
    ]
    .into_iter()
    .filter(|(lost, _)| *lost > 0)
    .map(|(lost, clause)| format!("{lost} {clause}"))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_told_and_nothing_else() {
        assert_eq!(reasons(&BpfLosses::default()), [""; 0]);
        let losses = BpfLosses { probes_left_out: 33, threads: 2, ..BpfLosses::default() };
        let told = reasons(&losses);
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("2 threads could not be followed"));
        assert!(told[1].starts_with("33 times the kernel left out a probe"));
        assert!(told[1].ends_with("up to so many calls are missing"));
    }
}
