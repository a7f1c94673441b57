//! `clockscope run`.

use std::time::Duration;

use fastclock::Nanos;

use super::output::Output;
use super::{program, tsc_guard};
use crate::cli::RunArgs;
use crate::exit;
use clockscope_model::trace::Clock;
use clockscope_report::options::TextOptions;
use clockscope_sys::{signals, tsc};
use clockscope_timekeeper::Timekeeper;
use clockscope_trace::clock_page;
use clockscope_trace::clock_reads::{SyscallCosts, TYPICAL_HPET_NS};
use clockscope_trace::counter::Counter;
use clockscope_trace::launch::{self, Outcome, Prepared};
use clockscope_trace::options::CountBy;
use clockscope_trace::summary::{self, Observed};
use clockscope_trace::verdict::{self, VdsoCosts};
use clockscope_tracee::follow::{End, Following};
use clockscope_tracee::image::{Counting, Route};
use clockscope_tracee::session::Session;

/// Runs the subcommand and gives its exit status.
pub fn run(args: &RunArgs) -> i32 {
    run_with_clock(args).unwrap_or_else(|error| {
        super::warn_user(&format!("{error:#}"));
        exit::BEFORE_START
    })
}

/// Why reads cannot be made slow, if that was asked for.
fn no_slow_reads(args: &RunArgs) -> Option<&'static str> {
    (args.clock == Clock::Slow && tsc::is_permitted() == Some(false)).then_some(
        "--clock slow: this process may not read the time-stamp counter (PR_SET_TSC), which measures \
         how long a read takes; try without PR_SET_TSC",
    )
}

fn run_with_clock(args: &RunArgs) -> anyhow::Result<i32> {
    if let Some(contradiction) = contradiction(args) {
        super::warn_user(contradiction);
        return Ok(exit::FAILURE);
    }
    let path = match program::find(&args.command[0], std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(not_found) => {
            super::warn_user(&not_found.message);
            return Ok(not_found.code);
        }
    };
    let output = Output::open(args.output.as_deref())?;
    if args.clock.is_page() {
        tsc_guard::ask(args.force)?;
    }
    if let Some(why) = no_slow_reads(args) {
        super::warn_user(why);
        return Ok(exit::BEFORE_START);
    }
    let by_vdso = if args.stats { VdsoCosts::here() } else { VdsoCosts::default() };
    let costs = if args.stats { SyscallCosts::here() } else { SyscallCosts::default() };
    let mask = signals::block()?;
    let prepared = Prepared::fork(&path, &args.command, &mask)?;
    let counting = if args.stats { launch::counting(CountBy::Thread) } else { Counting::No };
    let session = Session::new(counting, route(args))?;
    if args.stats {
        session.allow_timing()?;
    }
    let keeper = clock_page::keep(&session, args.force)?;
    let how = if args.no_follow { Following::Start } else { Following::Program };
    let outcome = prepared.follow(&session, None, None, how)?;
    session.stop_timing();
    let kept = keeper.map(Timekeeper::stop);
    if let Some(error) = &outcome.failure {
        let (code, message) = program::refused(&path, error);
        super::warn_user(&message);
        return Ok(code);
    }
    if args.stats {
        let source = summary::Source {
            command: &args.command,
            session: &session,
            outcome: &outcome,
            counter: &Counter::None,
            costs,
            clock: args.clock,
            latency: false,
            per_process: false,
            per_thread: false,
            wanted: &|_| true,
        };
        let mut report = summary::report(&source, Observed::default())?;
        let timings = outcome.processes.timings();
        let ordered = args.clock == Clock::Tsc;
        report.clock_page =
            kept.as_ref().map(|kept| clock_page::report(kept, &report.vdso, timings, ordered));
        report.verdict = Some(verdict::verdict(&report, args.clock, &by_vdso));
        let options = TextOptions { clock: args.clock, ..TextOptions::default() };
        output.write(&mut report, args.format.into(), &options);
    } else {
        say_declines(&outcome);
    }
    if let Some(sentence) = kept.as_ref().and_then(clock_page::gave_way) {
        super::warn_user(&sentence);
    }
    say_forbidden(args.clock, outcome.followed.end);
    Ok(program::end_as(outcome.followed.end))
}

/// Options that do not go together with the clock.
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

fn route(args: &RunArgs) -> Route {
    match args.clock {
        Clock::Kernel => Route::Kernel,
        Clock::Syscall => Route::Syscall,
        Clock::Coarse => Route::Coarse,
        Clock::Slow => Route::Slow { read_cost: read_cost(args.read_cost) },
        Clock::Tsc => Route::Tsc { fast: false },
        Clock::TscFast => Route::Tsc { fast: true },
    }
}

/// What a read takes at least: as said, or typical of hpet.
fn read_cost(said: Option<Duration>) -> Nanos {
    let nanos = said.map_or(u128::from(TYPICAL_HPET_NS), |cost| cost.as_nanos());
    Nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Says which processes kept the kernel's clock.
fn say_declines(outcome: &Outcome) {
    for decline in summary::declines(&outcome.processes) {
        super::warn_user(&format!(
            "{} (process {}) kept the kernel's clock: {}",
            decline.command, decline.pid, decline.reason
        ));
    }
}

/// Says what probably killed a program that may not make system calls for the time.
fn say_forbidden(clock: Clock, end: Option<End>) {
    if clock == Clock::Syscall && end == Some(End::Killed(libc::SIGSYS)) {
        super::warn_user(
            "the program was killed by SIGSYS: a seccomp filter forbids the system calls that \
             --clock syscall makes for it; try --clock coarse or --clock kernel",
        );
    }
}
