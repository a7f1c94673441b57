//! `clockscope trace`.

use super::counter::Counter;
use super::output::Output;
use super::traced::{self, Prepared};
use super::{program, summary};
use crate::cli::TraceArgs;
use crate::exit;
use crate::report::columns::Column;
use crate::report::text::TextOptions;
use crate::sys::signals;
use crate::syscalls::filter::Filter;
use crate::tracee::follow::Following;
use crate::tracee::image::Route;
use crate::tracee::session::Session;

/// Runs the subcommand and gives its exit status.
#[must_use]
pub fn run(args: &TraceArgs) -> i32 {
    trace(args).unwrap_or_else(|error| {
        super::complain(&format!("{error:#}"));
        exit::BEFORE_START
    })
}

fn trace(args: &TraceArgs) -> anyhow::Result<i32> {
    let options = text_options(args)?;
    let filter = Filter::parse(&args.filter)?;
    let path = match program::find(&args.command[0], std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(not_found) => {
            super::complain(&not_found.message);
            return Ok(not_found.code);
        }
    };
    let output = Output::open(args.output.as_deref())?;
    let syscall_read = traced::syscall_read_cost();
    let mask = signals::block()?;
    let prepared = Prepared::fork(&path, &args.command, &mask)?;
    let session = Session::new(traced::counting(args.count_by), Route::Kernel)?;
    let mut counter = Counter::start(args, &filter, prepared.pid())?;
    let how = following(args);
    if how != Following::Start {
        session.allow_timing()?;
    }
    let outcome = prepared.follow(&session, counter.observer(), how)?;
    session.stop_timing();
    if let Some(error) = &outcome.failure {
        let (code, message) = traced::refused(&path, error);
        super::complain(&message);
        return Ok(code);
    }
    let report = summary::report(&summary::Source {
        command: &args.command,
        session: &session,
        outcome: &outcome,
        counter: &counter,
        syscall_read,
        latency: args.latency,
        per_process: args.per_process,
        per_thread: args.per_thread,
        wanted: &|name| filter.matches(name),
    })?;
    drop(counter);
    output.write(&report, args.format, &options);
    Ok(program::end_as(outcome.followed.end))
}

fn following(args: &TraceArgs) -> Following {
    match (args.no_follow, args.wait_all) {
        (true, _) => Following::Start,
        (false, true) => Following::All,
        (false, false) => Following::Program,
    }
}

fn text_options(args: &TraceArgs) -> anyhow::Result<TextOptions> {
    Ok(TextOptions {
        sort: args.sort,
        columns: Column::parse_list(&args.columns)?,
        per_process: args.per_process,
        per_thread: args.per_thread,
        summary_only: args.summary_only,
        latency: args.latency,
        ..TextOptions::default()
    })
}
