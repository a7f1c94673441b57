//! `clockscope trace`.

use std::io::{self, IsTerminal as _};

use super::observers::{Observing, stage};
use super::output::Output;
use super::program;
use crate::cli::trace::{TraceArgs, TraceFormat};
use crate::exit;
use clockscope_model::trace::Clock;
use clockscope_model::trace::TraceReport;
use clockscope_report::callers;
use clockscope_report::columns::Column;
use clockscope_report::options::CallersOptions;
use clockscope_report::options::TextOptions;
use clockscope_report::what_if;
use clockscope_sys::{signals, terminal};
use clockscope_syscalls::filter::Filter;
use clockscope_trace::clock_reads::SyscallCosts;
use clockscope_trace::counter::Counter;
use clockscope_trace::launch::{self, Prepared};
use clockscope_trace::summary;
use clockscope_tracee::follow::Following;
use clockscope_tracee::image::Route;
use clockscope_tracee::observers::SyscallObserver;
use clockscope_tracee::processes::Process;
use clockscope_tracee::session::Session;

/// Columns of lines about callers where there is no terminal.
const PLAIN_WIDTH: usize = 80;
/// Narrower than this no tree can be read.
const WIDTH_LEAST: usize = 60;
/// Wider than this lines are hard to follow.
const WIDTH_MOST: usize = 160;

/// Runs the subcommand and gives its exit status.
pub fn run(args: &TraceArgs) -> i32 {
    trace(args).unwrap_or_else(|error| {
        super::warn_user(&format!("{error:#}"));
        exit::BEFORE_START
    })
}

fn trace(args: &TraceArgs) -> anyhow::Result<i32> {
    if let Some(refused) = args.refused() {
        super::warn_user(&refused);
        return Ok(exit::FAILURE);
    }
    if args.attaches() {
        return super::attach::trace(args);
    }
    let options = text_options(args)?;
    let filter = Filter::parse(&args.filter)?;
    let path = match program::find(&args.command[0], std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(not_found) => {
            super::warn_user(&args.not_found(&not_found.message));
            return Ok(not_found.code);
        }
    };
    let Some(outputs) = Outputs::open(args)? else { return Ok(exit::FAILURE) };
    let costs = SyscallCosts::here();
    let stage = stage(args)?;
    let mask = signals::block()?;
    let mut prepared = Prepared::fork(&path, &args.command, &mask)?;
    let mut session = Session::new(launch::counting(args.count_by), Route::Kernel)?;
    let counting = args.counting();
    prepared.until_ready()?;
    let counter = Counter::start(&counting, &filter, prepared.pid(), say(args))?;
    if counting.via.has_sites() {
        session.count_sites(!args.counts_only);
    }
    let how = following(args);
    if how != Following::Start {
        session.allow_timing()?;
    }
    let mut observer = counter.observer();
    let observing = observer.as_mut().map(|observer| observer as &mut dyn SyscallObserver);
    let mut observers =
        Observing::start(args, stage.as_ref(), &args.command, &[], &counter, &filter, &session)?;
    let outcome = prepared.follow(&session, observing, observers.watchers().watcher(), how)?;
    session.stop_timing();
    let seen = observers.finish(&outcome.processes);
    drop(stage);
    if let Some(error) = &outcome.failure {
        let (code, message) = program::refused(&path, error);
        super::warn_user(&message);
        return Ok(code);
    }
    let mut report = summary::report(
        &summary::Source {
            command: &args.command,
            session: &session,
            outcome: &outcome,
            counter: &counter,
            costs,
            clock: Clock::Kernel,
            latency: args.keeps_latency(),
            per_process: args.per_process,
            per_thread: args.per_thread,
            wanted: &|name| filter.matches(name),
        },
        seen,
    )?;
    report.what_if = args.what_if.map(|question| what_if::answer(&report, question));
    drop((observer, counter));
    outputs.write(&mut report, args, &options);
    outcome.processes.with_code().for_each(say_code);
    if outcome.followed.left {
        let pid = outcome.processes.get(0).pid;
        super::warn_user(&format!("process {pid} goes on, and is counted no more"));
        return Ok(exit::OK);
    }
    Ok(program::end_as(outcome.followed.end))
}

/// Says that a process goes on with code in it, and how it gets rid of that.
fn say_code(process: &Process) {
    let (name, pid) = (&process.command, process.pid);
    super::warn_user(&format!(
        "{name} ({pid}) goes on with clockscope's code, which counts no more and does no harm; `clockscope \
         trace --via sites -p {pid} --duration 0.1` takes it out"
    ));
}

/// Who is told what counting costs, and to which processes clockscope has attached.
pub(super) fn say(args: &TraceArgs) -> &'static dyn Fn(&str) {
    if args.quiet { &|_| () } else { &super::warn_user }
}

/// Where the report goes.
pub(super) struct Outputs(Output);

impl Outputs {
    /// Opens the files before anything is traced. `None` if the report would spoil a terminal, which
    /// has been said.
    pub(super) fn open(args: &TraceArgs) -> anyhow::Result<Option<Self>> {
        let report = Output::open(args.output.as_deref())?;
        if args.format == TraceFormat::Pprof && report.is_terminal() {
            super::warn_user("a pprof profile is not written to a terminal; try -o FILE");
            return Ok(None);
        }
        Ok(Some(Self(report)))
    }

    /// Writes the report.
    pub(super) fn write(self, report: &mut TraceReport, args: &TraceArgs, options: &TextOptions) {
        if matches!(args.format, TraceFormat::Folded | TraceFormat::Pprof) {
            say_not_sampled(report);
        }
        self.0.write(report, args.format, options);
    }
}

/// Stacks have no words for what is missing in them.
fn say_not_sampled(report: &TraceReport) {
    for sentence in report.callers.iter().flat_map(callers::not_sampled) {
        super::warn_user(&format!("not sampled: {sentence}"));
    }
}

fn following(args: &TraceArgs) -> Following {
    match (args.no_follow, args.wait_all) {
        (true, _) => Following::Start,
        (false, true) => Following::All,
        (false, false) => Following::Program,
    }
}

pub(super) fn text_options(args: &TraceArgs) -> anyhow::Result<TextOptions> {
    Ok(TextOptions {
        sort: args.sort,
        columns: Column::parse_list(&args.columns)?,
        per_process: args.per_process,
        per_thread: args.per_thread,
        all: args.all,
        summary_only: args.summary_only,
        latency: args.latency,
        callers: callers_options(args),
        ..TextOptions::default()
    })
}

/// Callers are printed as wide as the terminal: names of functions can be long.
fn callers_options(args: &TraceArgs) -> CallersOptions {
    let on_terminal = args.output.is_none() && io::stderr().is_terminal();
    let width = terminal::columns().filter(|_| on_terminal);
    CallersOptions {
        whole: args.all,
        least_share: args.percent_limit / 100.0,
        width: width.map_or(PLAIN_WIDTH, |columns| columns.clamp(WIDTH_LEAST, WIDTH_MOST)),
    }
}
