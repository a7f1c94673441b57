//! `clockscope run`.

use super::counter::Counter;
use super::output::Output;
use super::traced::{self, Outcome, Prepared};
use super::{program, summary};
use crate::cli::{Clock, CountBy, RunArgs};
use crate::exit;
use crate::report::text::TextOptions;
use crate::sys::signals;
use crate::tracee::follow::{End, Following};
use crate::tracee::image::{Counting, Route};
use crate::tracee::session::Session;

/// Runs the subcommand and gives its exit status.
#[must_use]
pub fn run(args: &RunArgs) -> i32 {
    run_with_clock(args).unwrap_or_else(|error| {
        super::complain(&format!("{error:#}"));
        exit::BEFORE_START
    })
}

fn run_with_clock(args: &RunArgs) -> anyhow::Result<i32> {
    let path = match program::find(&args.command[0], std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(not_found) => {
            super::complain(&not_found.message);
            return Ok(not_found.code);
        }
    };
    let output = Output::open(args.output.as_deref())?;
    let syscall_read = if args.stats { traced::syscall_read_cost() } else { Default::default() };
    let mask = signals::block()?;
    let prepared = Prepared::fork(&path, &args.command, &mask)?;
    let counting = if args.stats { traced::counting(CountBy::Thread) } else { Counting::No };
    let session = Session::new(counting, route(args.clock))?;
    if args.stats {
        session.allow_timing()?;
    }
    let how = if args.no_follow { Following::Start } else { Following::Program };
    let outcome = prepared.follow(&session, None, how)?;
    session.stop_timing();
    if let Some(error) = &outcome.failure {
        let (code, message) = traced::refused(&path, error);
        super::complain(&message);
        return Ok(code);
    }
    if args.stats {
        let report = summary::report(&summary::Source {
            command: &args.command,
            session: &session,
            outcome: &outcome,
            counter: &Counter::None,
            syscall_read,
            latency: false,
            per_process: false,
            per_thread: false,
            wanted: &|_| true,
        })?;
        let options = TextOptions { clock: args.clock, ..TextOptions::default() };
        output.write(&report, args.format, &options);
    } else {
        say_declines(&outcome);
    }
    say_forbidden(args.clock, outcome.followed.end);
    Ok(program::end_as(outcome.followed.end))
}

fn route(clock: Clock) -> Route {
    match clock {
        Clock::Kernel => Route::Kernel,
        Clock::Syscall => Route::Syscall,
        Clock::Coarse => Route::Coarse,
    }
}

/// Says which processes kept the kernel's clock.
fn say_declines(outcome: &Outcome) {
    for decline in summary::declines(&outcome.processes) {
        super::complain(&format!(
            "{} (process {}) kept the kernel's clock: {}",
            decline.command, decline.pid, decline.reason
        ));
    }
}

/// Says what probably killed a program that may not make system calls for the time.
fn say_forbidden(clock: Clock, end: Option<End>) {
    if clock == Clock::Syscall && end == Some(End::Killed(libc::SIGSYS)) {
        super::complain(
            "the program was killed by SIGSYS: a seccomp filter forbids the system calls that \
             --clock syscall makes for it; try --clock coarse or --clock kernel",
        );
    }
}
