//! `clockscope trace`.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use fastclock::{ClockId, Nanos, Picos};

use super::traced::{Outcome, Prepared, refused};
use super::{program, summary};
use crate::cli::{CountBy, Format, TraceArgs, Via};
use crate::exit;
use crate::report::columns::Column;
use crate::report::model::{DeclineRow, Overhead, TraceReport};
use crate::report::text::{self, TextOptions};
use crate::report::json;
use crate::sys::{signals, tsc};
use crate::syscalls::bpf::{BpfCounter, BpfOptions};
use crate::syscalls::ptrace::PtraceCounter;
use crate::syscalls::{BpfDecline, Breakdown, ProbeCost, SyscallTally};
use crate::tracee::follow::{End, SyscallObserver};
use crate::tracee::image::{Counting, Route};
use crate::tracee::session::Session;
use vdso_image::layout::INSTALL_MARK;

/// `execve` on x86-64.
const SYS_EXECVE: u32 = 59;

/// Runs the subcommand and gives its exit status.
#[must_use]
pub fn run(args: &TraceArgs) -> i32 {
    match trace(args) {
        Ok(code) => code,
        Err(error) => {
            super::complain(&error);
            exit::BEFORE_START
        }
    }
}

fn trace(args: &TraceArgs) -> anyhow::Result<i32> {
    let text_options = text_options(args)?;
    let path = match program::find(&args.command[0], std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(not_found) => {
            super::complain(&not_found.message);
            return Ok(not_found.code);
        }
    };
    let output = Output::open(args.output.as_deref())?;
    let syscall_read_ps = syscall_read_cost();
    let mask = signals::block()?;
    let prepared = Prepared::fork(&path, &args.command, &mask)?;
    let session = Session::new(counting(args.count_by), Route::Kernel)?;
    let mut counter = Counter::start(args, &prepared)?;
    session.allow_timing()?;
    let outcome = prepared.follow(&session, counter.observer(), args.wait_all)?;
    session.stop_timing();
    if let Some(error) = &outcome.failure {
        let (code, message) = refused(&path, error);
        super::complain(&message);
        return Ok(code);
    }
    let report = report(args, &session, &outcome, &counter, syscall_read_ps)?;
    let written = match args.format {
        Format::Text => text::render(&report, &text_options),
        Format::Json => json::render(&report, true)?,
    };
    if let Err(error) = output.write(&written) {
        super::complain(&format!("cannot write the summary: {error}"));
    }
    Ok(program::end_as(outcome.followed.end))
}

fn counting(by: CountBy) -> Counting {
    match by {
        CountBy::Thread if tsc::has_rdfsbase() => Counting::ByThread,
        CountBy::Thread | CountBy::Cpu => Counting::ByCpu,
    }
}

fn text_options(args: &TraceArgs) -> anyhow::Result<TextOptions> {
    let mut options = TextOptions {
        sort: args.sort,
        per_process: args.per_process,
        per_thread: args.per_thread,
        summary_only: args.summary_only,
        latency: args.latency,
        ..TextOptions::default()
    };
    if !args.columns.is_empty() {
        options.columns = Column::parse_list(&args.columns)?;
    }
    Ok(options)
}

/// The cheapest of many short batches of reads by system call, before anybody is traced.
fn syscall_read_cost() -> Picos {
    const BATCH: u64 = 50;
    (0..40)
        .map(|_| {
            let start = tsc::now(ClockId::Monotonic);
            for _ in 0..BATCH {
                std::hint::black_box(tsc::now_by_syscall(ClockId::Monotonic));
            }
            Picos::per_call(Nanos(tsc::now(ClockId::Monotonic).0 - start.0), BATCH)
        })
        .min()
        .unwrap_or_default()
}

/// Where the summary goes; a file is opened before the program starts.
enum Output {
    Stderr,
    File(File),
}

impl Output {
    fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        match path {
            None => Ok(Self::Stderr),
            Some(path) => File::create(path)
                .map(Self::File)
                .with_context(|| format!("cannot write to {}", path.display())),
        }
    }

    fn write(self, text: &str) -> std::io::Result<()> {
        match self {
            Self::Stderr => std::io::stderr().lock().write_all(text.as_bytes()),
            Self::File(mut file) => file.write_all(text.as_bytes()),
        }
    }
}

/// Who counts system calls.
enum Counter {
    Bpf(Box<BpfCounter>),
    Ptrace(Observing),
    None,
}

struct Observing(PtraceCounter);

impl SyscallObserver for Observing {
    fn stopped(&mut self, process: i32, thread: i32) {
        self.0.stopped(process, thread);
    }

    fn gone(&mut self, thread: i32) {
        self.0.gone(thread);
    }
}

impl Counter {
    fn start(args: &TraceArgs, prepared: &Prepared) -> anyhow::Result<Self> {
        let wanted = if args.no_syscalls { Via::None } else { args.via };
        match wanted {
            Via::None => Ok(Self::None),
            Via::Ptrace => Ok(Self::by_ptrace(args, prepared)),
            Via::Bpf => Ok(Self::by_bpf(args, prepared)?),
            Via::Auto => match Self::by_bpf(args, prepared) {
                Ok(counter) => Ok(counter),
                Err(why) => {
                    super::complain(&format!(
                        "counting system calls by ptrace, about 20 us each, because eBPF is not possible: {why}; \
                         --via none counts vDSO calls only and costs almost nothing"
                    ));
                    Ok(Self::by_ptrace(args, prepared))
                }
            },
        }
    }

    fn by_ptrace(args: &TraceArgs, prepared: &Prepared) -> Self {
        let mut counter = PtraceCounter::new(breakdown(args), INSTALL_MARK);
        counter.begun(prepared.pid(), prepared.pid(), SYS_EXECVE);
        Self::Ptrace(Observing(counter))
    }

    fn by_bpf(args: &TraceArgs, prepared: &Prepared) -> Result<Self, BpfDecline> {
        let mut counter = BpfCounter::start(&BpfOptions {
            time: !args.counts_only,
            latency: args.latency,
            breakdown: breakdown(args),
            mark: INSTALL_MARK,
            numbers: None,
        })?;
        counter.follow(prepared.pid()).map_err(|error| BpfDecline::Refused { what: "following the program".to_owned(), reason: error.to_string() })?;
        Ok(Self::Bpf(Box::new(counter)))
    }

    fn observer(&mut self) -> Option<&mut dyn SyscallObserver> {
        match self {
            Self::Ptrace(counter) => Some(counter),
            Self::Bpf(_) | Self::None => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Bpf(_) => "bpf",
            Self::Ptrace(_) => "ptrace",
            Self::None => "none",
        }
    }

    fn read(&self) -> anyhow::Result<(Vec<SyscallTally>, ProbeCost)> {
        Ok(match self {
            Self::Bpf(counter) => (
                counter.read().context("cannot read the counts of system calls")?,
                counter.calibration(),
            ),
            Self::Ptrace(Observing(counter)) => (counter.read(), counter.cost()),
            Self::None => (Vec::new(), ProbeCost::default()),
        })
    }
}

fn breakdown(args: &TraceArgs) -> Breakdown {
    match (args.per_thread, args.per_process) {
        (true, _) => Breakdown::Thread,
        (false, true) => Breakdown::Process,
        (false, false) => Breakdown::Total,
    }
}

fn report(
    args: &TraceArgs,
    session: &Session,
    outcome: &Outcome,
    counter: &Counter,
    syscall_read: Picos,
) -> anyhow::Result<TraceReport> {
    let (tallies, cost) = counter.read()?;
    let time = summary::TickTime::of(session);
    let (processes, spares) = (&outcome.processes, &session.ready().spares);
    let wanted = |_: &str| true;
    let vdso =
        summary::vdso_rows(&processes.total(), Some(processes.timings()), &time, spares);
    let syscalls = summary::syscall_rows(&tallies, &cost, args.latency);
    let wall = outcome.followed.ended.duration_since(outcome.started);
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    let tick_ns = u64::try_from(tsc::resolution(ClockId::MonotonicCoarse).0).unwrap_or(0);
    let context = summary::Context { wall_ns, syscall_read_ps: syscall_read.0, tick_ns };
    let same_tick = summary::same_tick_share(processes.timings(), &time, tick_ns);
    let clock_reads = summary::clock_reads(&vdso, &syscalls, same_tick, &context);
    let details = summary::Details {
        tallies: &tallies,
        cost: &cost,
        rows: args.per_process || args.per_thread,
        threads: args.per_thread,
        spares,
        wanted: &wanted,
    };
    let (exit_code, signal) = match outcome.followed.end {
        Some(End::Exited(code)) => (Some(code), None),
        Some(End::Killed(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    Ok(TraceReport {
        schema: 1,
        command: program::words(&args.command),
        exit_code,
        signal,
        wall_ns,
        cpu_ns: u64::try_from(outcome.followed.cpu.as_nanos()).unwrap_or(u64::MAX),
        processes: processes.all().len() as u64,
        threads: processes.threads(),
        via: counter.name().to_owned(),
        clock_reads,
        processes_detail: summary::processes_detail(processes, &time, &details),
        declines: declines(processes, counter),
        overhead: Overhead {
            syscall_probe_ps: cost.per_call_ps(),
            syscall_subtracted_ps: u64::try_from(cost.bias_ps()).unwrap_or(0),
            vdso_bracket_ps: time.bracket_ps(),
        },
        vdso,
        syscalls,
    })
}

fn declines(
    processes: &crate::tracee::processes::Processes,
    counter: &Counter,
) -> Vec<DeclineRow> {
    let mut rows = summary::declines(processes);
    if let Counter::Bpf(counter) = counter
        && let Ok(losses) = counter.losses()
        && losses.threads > 0
    {
        rows.push(DeclineRow {
            pid: 0,
            command: String::new(),
            what: "syscalls".to_owned(),
            reason: format!("{} threads could not be followed for want of memory", losses.threads),
        });
    }
    rows
}
