//! `clockscope trace`.

use std::io::{self, IsTerminal as _};

use super::{program, tsc_guard};
use crate::cli::trace::{TraceArgs, TraceFormat};
use crate::exit::{self, Failed};
use crate::printing::summary::Output;
use clock_doctor::report::model::DoctorReport;
use clock_doctor::rules;
use clockscope_measure::live;
use clockscope_model::trace::TraceReport;
use clockscope_report::options::{CallersOptions, TextOptions};
use clockscope_report::{answers, callers};
use clockscope_sys::terminal;
use clockscope_trace::plan::Plan;
use clockscope_trace::{attach, launch};

/// Callers below this share of their function's calls are shown with `--all` only.
const LEAST_SHARE: f64 = 0.02;
/// Width of lines about callers without a terminal, in columns.
const PLAIN_WIDTH: usize = 80;
/// Least width: on narrower terminals no tree can be read.
const WIDTH_LEAST: usize = 60;
/// Greatest width: longer lines are hard to follow.
const WIDTH_MOST: usize = 160;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When a group is not found, the report's file cannot be written to, or calls cannot be counted in the way
/// asked for.
pub fn run(args: &TraceArgs) -> anyhow::Result<i32> {
    let plan = args.plan(super::voice(args.quiet));
    let plan = plan.map_err(|refused| Failed::new(exit::FAILURE, refused))?;
    if args.attaches() { trace_running(args, &plan) } else { trace_program(args, &plan) }
}

fn trace_running(args: &TraceArgs, plan: &Plan) -> anyhow::Result<i32> {
    let targets = args.targets();
    let Some(prepared) = attach::prepare(plan, &targets)? else { return Ok(exit::FAILED) };
    let output = open(args)?;
    let Some(traced) = attach::trace(prepared)? else { return Ok(exit::FAILED) };
    let is_written = write(output, traced.report);
    // Leaked: without the signal handlers, another Ctrl-C would kill clockscope before its exit status.
    std::mem::forget(traced.ending);
    let code = if traced.is_complete { exit::OK } else { exit::INCOMPLETE };
    Ok(exit::reported(is_written, code))
}

fn trace_program(args: &TraceArgs, plan: &Plan) -> anyhow::Result<i32> {
    let path = program::find(&args.command[0], std::env::var_os("PATH").as_deref());
    let path = path.map_err(|failed| args.not_found(failed))?;
    let output = open(args)?;
    let launched = launch::trace(plan, &path, &args.command)?;
    let launched = launched.map_err(|error| program::refused(&path, &error))?;
    let is_written = write(output, launched.report);
    launched.notes.iter().for_each(crate::printing::warn_user);
    let code = if launched.left { exit::OK } else { program::end_as(launched.end) };
    Ok(exit::reported(is_written, code))
}

/// Opens the report's file before anything is traced, unless the report would spoil a terminal.
fn open(args: &TraceArgs) -> anyhow::Result<Output> {
    let output = Output::open(args.output.as_deref(), args.format, text_options(args))?;
    if args.format == TraceFormat::Pprof && output.is_terminal() {
        let why = "a pprof profile is not written to a terminal; try -o FILE";
        return Err(Failed::new(exit::FAILURE, why).into());
    }
    Ok(output)
}

/// Returns whether the report was written.
fn write(output: Output, mut report: TraceReport) -> bool {
    if output.has_stacks_alone() {
        // These formats have no place for the reasons of missing stacks.
        for sentence in report.callers.iter().flat_map(callers::not_sampled) {
            crate::printing::warn_user(&format!("not sampled: {sentence}"));
        }
    }
    if answers::is_slow_host(&report) {
        let facts = live::facts();
        report.slow_because = DoctorReport::new(&facts, &rules::examine(&facts)).in_a_clause();
    }
    report.counter_doubt = tsc_guard::counter_doubt(&report.counter_reads);
    output.write(&report)
}

fn text_options(args: &TraceArgs) -> TextOptions {
    // Lines about callers are as wide as the terminal: names of functions can be long.
    let on_terminal = args.output.is_none() && io::stderr().is_terminal();
    let width = terminal::columns().filter(|_| on_terminal);
    TextOptions {
        sort: args.sort,
        per_process: args.per_process,
        per_thread: args.per_thread,
        all: args.all,
        summary_only: args.summary_only,
        latency: args.latency,
        intervals: args.intervals,
        callers: CallersOptions {
            whole: args.all,
            least_share: if args.all { 0.0 } else { LEAST_SHARE },
            width: width.map_or(PLAIN_WIDTH, |columns| columns.clamp(WIDTH_LEAST, WIDTH_MOST)),
        },
        ..TextOptions::default()
    }
}
