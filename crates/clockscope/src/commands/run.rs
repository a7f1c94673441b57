//! `clockscope run`.

use super::{program, tsc_guard};
use crate::cli::trace::TraceFormat;
use crate::cli::{Format, RunArgs};
use crate::exit;
use crate::printing::summary::Output;
use clockscope_model::trace::{Clock, TraceReport};
use clockscope_report::options::TextOptions;
use clockscope_sys::tsc;
use clockscope_trace::launch;
use clockscope_tracee::follow::End;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When the report's file cannot be written to, the clock cannot be given, or the program cannot be started or
/// followed.
pub fn run(args: &RunArgs) -> anyhow::Result<i32> {
    if let Some(contradiction) = contradiction(args) {
        return Err(exit::Failed::new(exit::FAILURE, contradiction).into());
    }
    let path = program::find(&args.command[0], std::env::var_os("PATH").as_deref())?;
    let options = TextOptions { clock: args.clock, ..TextOptions::default() };
    let format = match args.format {
        Format::Text => TraceFormat::Text,
        Format::Json => TraceFormat::Json,
    };
    let output = Output::open(args.output.as_deref(), format, options)?;
    if args.clock.is_page() {
        tsc_guard::ask(args.force)?;
    }
    anyhow::ensure!(
        args.clock != Clock::Slow || tsc::is_permitted() != Some(false),
        "--clock slow: this process may not read the time-stamp counter (PR_SET_TSC), which measures \
         how long a read takes; try without PR_SET_TSC"
    );
    let launched = launch::trace(&args.plan(super::voice(false)), &path, &args.command)?;
    let launched = launched.map_err(|error| program::refused(&path, &error))?;
    let is_written = if args.stats {
        output.write(&launched.report)
    } else {
        say_declines(&launched.report);
        true
    };
    launched.notes.iter().for_each(crate::printing::warn_user);
    say_forbidden(args.clock, launched.end);
    Ok(exit::reported(is_written, program::end_as(launched.end)))
}

/// The error for options that contradict the clock.
fn contradiction(args: &RunArgs) -> Option<&'static str> {
    if args.force && !args.clock.is_page() {
        Some("--force is for --clock tsc and tsc-fast: no other clock is ever refused")
    } else if args.read_cost.is_some() && args.clock != Clock::Slow {
        Some(
            "--read-cost is for --clock slow: what other clocks cost is not chosen; try --clock slow",
        )
    } else if args.no_follow && args.clock.is_page() {
        Some(
            "--clock tsc and tsc-fast cannot be used with --no-follow: without a tracer nobody \
             helps a program that forbids itself the counter; leave --no-follow out, or try \
             --clock coarse",
        )
    } else {
        None
    }
}

/// Names the processes that kept the kernel's clock.
fn say_declines(report: &TraceReport) {
    for decline in &report.declines {
        crate::printing::warn_user(&format!(
            "{} (process {}) kept the kernel's clock: {}",
            decline.command, decline.pid, decline.reason
        ));
    }
}

/// Explains the probable cause if the program was killed for making system calls for the time.
fn say_forbidden(clock: Clock, end: Option<End>) {
    if clock == Clock::Syscall && end == Some(End::Killed(libc::SIGSYS)) {
        crate::printing::warn_user(
            "the program was killed by SIGSYS: a seccomp filter forbids the system calls that \
             --clock syscall makes for it; try --clock coarse or --clock kernel",
        );
    }
}
