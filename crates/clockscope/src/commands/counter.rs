//! Who counts system calls: eBPF, ptrace, or nobody.

use anyhow::Context;
use vdso_image::layout::INSTALL_MARK;

use crate::cli::{TraceArgs, Via};
use crate::report::model::DeclineRow;
use crate::report::units;
use crate::syscalls::bpf::{BpfCounter, BpfOptions};
use crate::syscalls::filter::Filter;
use crate::syscalls::ptrace::PtraceCounter;
use crate::syscalls::{BpfDecline, Breakdown, ProbeCost, SyscallTally};
use crate::tracee::follow::SyscallObserver;

/// `execve` on x86-64.
const SYS_EXECVE: u32 = 59;
/// Above every number of a system call on x86-64.
const NUMBERS: u32 = 512;

/// A running count of system calls.
pub enum Counter {
    /// In the kernel.
    Bpf(Box<BpfCounter>),
    /// At every stop.
    Ptrace(Observing),
    /// Not at all.
    None,
}

/// Passes stops on to the counter.
pub struct Observing(PtraceCounter);

impl SyscallObserver for Observing {
    fn stopped(&mut self, process: i32, thread: i32) {
        self.0.stopped(process, thread);
    }

    fn gone(&mut self, thread: i32) {
        self.0.gone(thread);
    }
}

impl Counter {
    /// Starts to count the system calls of a process that waits to execute the program.
    ///
    /// # Errors
    ///
    /// When eBPF was asked for by name and is not possible.
    pub fn start(args: &TraceArgs, filter: &Filter, program: i32) -> anyhow::Result<Self> {
        let wanted = if args.no_syscalls { Via::None } else { args.via };
        match wanted {
            Via::None => Ok(Self::None),
            Via::Ptrace => Ok(Self::by_ptrace(args, program)),
            Via::Bpf => Self::by_bpf(args, filter, program).context("cannot count by eBPF"),
            Via::Auto => Self::by_bpf(args, filter, program).or_else(|why| {
                super::complain(&format!(
                    "counting system calls by ptrace, about 20 us each, because {why}; \
                     --via none counts vDSO calls only and costs almost nothing"
                ));
                Ok(Self::by_ptrace(args, program))
            }),
        }
    }

    fn by_ptrace(args: &TraceArgs, program: i32) -> Self {
        let mut counter = PtraceCounter::new(breakdown(args), INSTALL_MARK);
        counter.begun(program, program, SYS_EXECVE);
        Self::Ptrace(Observing(counter))
    }

    fn by_bpf(args: &TraceArgs, filter: &Filter, program: i32) -> Result<Self, BpfDecline> {
        let mut counter = BpfCounter::start(&BpfOptions {
            time: !args.counts_only,
            latency: args.latency,
            breakdown: breakdown(args),
            mark: INSTALL_MARK,
            numbers: filter.numbers(NUMBERS),
            ..BpfOptions::default()
        })?;
        counter.follow(program).map_err(|error| BpfDecline::Refused {
            what: "following the program".to_owned(),
            reason: error.to_string(),
        })?;
        crate::sys::heap::trim();
        let tax = counter.calibration().bystander_tax_ps();
        super::complain(&format!(
            "counting system calls by eBPF adds {} to each of every process of this host while \
             this runs; --via none adds nothing to others",
            units::picos(tax)
        ));
        Ok(Self::Bpf(Box::new(counter)))
    }

    /// Who must see every system call, if anybody.
    pub fn observer(&mut self) -> Option<&mut dyn SyscallObserver> {
        match self {
            Self::Ptrace(counter) => Some(counter),
            Self::Bpf(_) | Self::None => None,
        }
    }

    /// `bpf`, `ptrace` or `none`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bpf(_) => "bpf",
            Self::Ptrace(_) => "ptrace",
            Self::None => "none",
        }
    }

    /// The counts so far, and what counting costs.
    ///
    /// # Errors
    ///
    /// When the kernel does not give them.
    pub fn read(&self) -> anyhow::Result<(Vec<SyscallTally>, ProbeCost)> {
        Ok(match self {
            Self::Bpf(counter) => (
                counter.read().context("cannot read the counts of system calls")?,
                counter.calibration(),
            ),
            Self::Ptrace(Observing(counter)) => (counter.read(), counter.cost()),
            Self::None => (Vec::new(), ProbeCost::default()),
        })
    }

    /// What could not be counted or told apart.
    #[must_use]
    pub fn losses(&self) -> Vec<DeclineRow> {
        let Self::Bpf(counter) = self else { return Vec::new() };
        let losses = counter.losses().unwrap_or_default();
        let row = |reason: String| DeclineRow {
            pid: 0,
            command: String::new(),
            what: "syscalls".to_owned(),
            reason,
        };
        let mut rows = Vec::new();
        if losses.threads > 0 {
            rows.push(row(format!("{} threads could not be followed: no memory", losses.threads)));
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

fn breakdown(args: &TraceArgs) -> Breakdown {
    match (args.per_thread, args.per_process) {
        (true, _) => Breakdown::Thread,
        (false, true) => Breakdown::Process,
        (false, false) => Breakdown::Total,
    }
}
