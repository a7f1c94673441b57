//! Who counts system calls: eBPF, ptrace, or nobody.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::Context;
use vdso_image::layout::INSTALL_MARK;

use crate::options::CountOptions;
use crate::plan::Plan;
use clockscope_model::trace::{DeclineRow, Missing, Way};
use clockscope_syscalls::bpf::{BpfCounter, BpfOptions};
use clockscope_syscalls::ptrace::PtraceCounter;
use clockscope_syscalls::{BpfDecline, ProbeCost, SyscallTally};
use clockscope_text::foreign::Foreign;
use clockscope_text::units;
use clockscope_tracee::observers::SyscallObserver;

/// Above every number of a system call.
const NUMBERS: u32 = 512;

/// A running count of system calls.
pub(crate) enum Counter {
    /// In the kernel.
    Bpf(Box<RefCell<BpfCounter>>),
    /// At every stop; the counts are shared with who sees the stops.
    Ptrace(Rc<RefCell<PtraceCounter>>),
    /// In the program; who follows it has the counts.
    Sites,
    /// Not at all.
    None,
}

/// What a counter has counted until a moment.
pub(crate) struct Counted {
    /// What counted system calls.
    pub via: Way,
    /// The counts; none where code in the program has them.
    pub tallies: Vec<SyscallTally>,
    /// What counting costs.
    pub cost: ProbeCost,
    /// What could not be counted or told apart.
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
        counter.begun(program, program, execve());
    }
    Rc::new(RefCell::new(counter))
}

/// The number of `execve`.
fn execve() -> u32 {
    u32::try_from(libc::SYS_execve).expect("numbers of system calls are small")
}

/// What the user should know of the way that is taken instead of eBPF.
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
    /// Starts to count the system calls of a process that waits to execute the program, or of nobody
    /// yet, see [`Self::follow`]. `warn` is told what the user should know of the way that was taken.
    ///
    /// # Errors
    ///
    /// When a way was asked for by name that is not possible.
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
        let tax = counter.calibration().bystander_tax_ps();
        (plan.voice.note)(&format!(
            "while this runs, each system call of every process on this host takes {} longer (counting by eBPF); \
             --via none avoids that",
            units::picos(tax)
        ));
        Ok(Self::Bpf(Box::new(RefCell::new(counter))))
    }

    /// Who must see every system call, if anybody.
    pub(crate) fn observer(&self) -> Option<Observing> {
        match self {
            Self::Ptrace(counter) => Some(Observing(Rc::clone(counter))),
            Self::Bpf(_) | Self::Sites | Self::None => None,
        }
    }

    /// Counts what the threads that a process has call from now on, and their children. Whoever
    /// sees every stop need not be told.
    ///
    /// # Errors
    ///
    /// When there is no such process, or the kernel refuses.
    pub(crate) fn follow(&self, process: i32) -> std::io::Result<()> {
        let Self::Bpf(counter) = self else { return Ok(()) };
        let mut counter = counter.borrow_mut();
        // Twice: a thread that one made meanwhile that was not followed yet is found then.
        counter.follow(process).and_then(|()| counter.follow(process))
    }

    /// What has been counted until now: what the traced processes do from here on is not their own.
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

    /// The counts so far, and what counting costs.
    ///
    /// # Errors
    ///
    /// When the kernel does not give them.
    pub(crate) fn read(&self) -> anyhow::Result<(Vec<SyscallTally>, ProbeCost)> {
        Ok(match self {
            Self::Bpf(counter) => (
                counter.borrow().read().context("cannot read the counts of system calls")?,
                counter.borrow().calibration(),
            ),
            Self::Ptrace(counter) => (counter.borrow().read(), counter.borrow().cost()),
            Self::Sites | Self::None => (Vec::new(), ProbeCost::default()),
        })
    }

    fn losses(&self) -> Vec<DeclineRow> {
        let Self::Bpf(counter) = self else { return Vec::new() };
        let losses = counter.borrow().losses().unwrap_or_default();
        let row = |reason: String| DeclineRow {
            pid: 0,
            command: Foreign::default(),
            what: Missing::Syscalls,
            reason,
        };
        let mut rows = Vec::new();
        if losses.threads > 0 {
            rows.push(row(format!("{} threads could not be followed: no memory", losses.threads)));
        }
        if losses.probes_left_out > 0 {
            let calls = losses.probes_left_out;
            rows.push(row(format!(
                "the kernel did not see {calls} calls, of these processes or of others: a CPU was at another eBPF program"
            )));
        }
        if losses.unattributed_calls > 0 {
            let calls = losses.unattributed_calls;
            rows.push(row(format!("{calls} calls are counted, but for no process: too many rows")));
        }
        if losses.undistributed_calls > 0 {
            let calls = losses.undistributed_calls;
            rows.push(row(format!("{calls} calls are counted, but in no distribution: too many")));
        }
        rows
    }
}
