//! `clockscope serve`: a clock page for every program of this host.

mod status;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::tsc_guard;
use crate::cli::serve::{PAGE, ServeArgs};
use crate::exit::{self, Failed};
use clockscope_sys::detach::{self, Side, Word};
use clockscope_sys::poll::{self, EndSignals};
use clockscope_sys::privileges;
use clockscope_text::foreign::printable;
use clockscope_text::units;
use clockscope_timekeeper::served::holder;
use clockscope_timekeeper::served::opened::Opened;
use clockscope_timekeeper::served::supervisor::Supervisor;
use clockscope_timekeeper::{Options, Pulse, Report, Timekeeper, Withdrawal, guards};
use fastclock::Decline;

/// Wait for the counter to prove itself; then serve reports readiness even without an answering page.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of checks whether the page answers, before readiness and after.
const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_secs(1);

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When the page cannot be served or read, or its timekeeper cannot be ended.
pub fn run(args: &ServeArgs) -> Result<i32> {
    if args.status.is_some() {
        return status::run(args);
    }
    if let Some(page) = &args.stop {
        return stop(page.as_ref().unwrap_or(&args.page));
    }
    serve(args)
}

/// Runs `--stop`; returns the exit status.
fn stop(page: &Path) -> Result<i32> {
    let name = page.display();
    let stopped = holder::stop(page).map_err(|error| Failed::new(exit::FAILURE, error))?;
    let nobody = || Failed::new(exit::FOUND, format!("nobody serves {name}"));
    print(&format!("process {} serves {name} no more\n", stopped.ok_or_else(nobody)?));
    Ok(exit::OK)
}

fn serve(args: &ServeArgs) -> Result<i32> {
    if args.foreground {
        return keep(args, None);
    }
    match detach::fork().context("cannot go to the background")? {
        Side::Parent(waiting) => Ok(waiting.wait()?),
        Side::Child(word) => keep(args, Some(word)),
    }
}

/// Keeps the page until a signal ends it.
fn keep(args: &ServeArgs, mut word: Option<Word>) -> Result<i32> {
    // Signals are caught first: an early one must end the page in order, too.
    let signals = EndSignals::catch().context("cannot wait for signals")?;
    let user = args
        .user
        .as_deref()
        .map(|name| privileges::user(name).with_context(|| format!("cannot become user {name}")));
    let user = user.transpose()?;
    match guards::check(args.force) {
        Ok(overridden) if overridden.is_empty() => {}
        Ok(overridden) => {
            crate::printing::warn_user(&format!("uses the TSC although {}", overridden.join("; ")))
        }
        Err(refusal) => anyhow::bail!(tsc_guard::explained(&refusal)),
    }
    let opened = Opened::open(&args.page)?;
    opened.replaced.iter().for_each(crate::printing::warn_user);
    if let Some(user) = user {
        privileges::become_user(user)
            .with_context(|| format!("cannot become user {}; try as root", user.uid))?;
    }
    let options = Options {
        force: args.force,
        period: args.period,
        valid: args.valid,
        early: false,
        owned: false,
        resume: true,
        bridge: !args.withdraw_on_exit,
    };
    let keeper = Timekeeper::start(opened.page, options).context("cannot start the timekeeper")?;
    let supervisor = Supervisor::from_env();
    watch(&keeper, &signals, &supervisor, &args.page, &mut word)?;
    supervisor.stopping();
    let report = keeper.stop();
    if args.foreground {
        crate::printing::warn_user(&summary(&report));
    }
    // From here on another timekeeper may take the page.
    drop(opened);
    Ok(exit::OK)
}

/// Reports the timekeeper's state to the supervisor and the waiting parent process, until a signal comes.
fn watch(
    keeper: &Timekeeper,
    signals: &EndSignals,
    supervisor: &Supervisor,
    page: &Path,
    word: &mut Option<Word>,
) -> Result<()> {
    let start = Instant::now();
    let mut is_ready = false;
    let mut told = None;
    let mut interval = SOON;
    loop {
        poll::wait(&[std::os::fd::AsFd::as_fd(signals)], interval)?;
        if signals.came() {
            return Ok(());
        }
        anyhow::ensure!(keeper.is_alive(), "the timekeeper has died; this is a bug of clockscope");
        let Some(pulse) = keeper.pulse() else { continue };
        supervisor.alive(pulse.looks);
        let answers = pulse.declined.is_none();
        if !is_ready && (answers || start.elapsed() > PATIENCE) {
            is_ready = true;
            supervisor.ready();
            interval = supervisor.interval().map_or(LATER, |watchdog| watchdog.min(LATER));
            // A relative path is valid only until this process changes to the root directory.
            print(&format!("{}\n", served(page, pulse)));
            if let Some(word) = word.take() {
                word.give().context("cannot go to the background")?;
            }
            told = Some(pulse.declined);
            supervisor.status(&state(pulse));
        } else if is_ready && told != Some(pulse.declined) {
            told = Some(pulse.declined);
            // In the background standard error leads nowhere.
            crate::printing::warn_user(&state(pulse));
            supervisor.status(&state(pulse));
        }
    }
}

/// The line about the page: its path, its bound, and the command that ends it.
fn served(page: &Path, pulse: Pulse) -> String {
    let name = page.display();
    let how_well = match (pulse.declined, status::bound(page)) {
        (None, Some(bound)) => {
            let bound = units::nanos(bound);
            format!("serves the time through {name}, now within {bound} of the kernel's clock")
        }
        (None, None) => format!("serves the time through {name}"),
        (Some(_), _) => format!("serves {name}, but {}", state(pulse)),
    };
    let stop = match page == Path::new(PAGE) {
        true => "clockscope serve --stop".to_owned(),
        false => format!("clockscope serve --stop {name}"),
    };
    printable(&format!("process {} {how_well}; to end it: {stop}", std::process::id()))
}

fn state(pulse: Pulse) -> String {
    match pulse.declined {
        None => "the page answers".to_owned(),
        Some(reason) => format!("the page does not answer, the kernel's clock does: {reason}"),
    }
}

/// A summary of the page's life, in one line.
fn summary(report: &Report) -> String {
    let mut line = format!(
        "the page answered for {:.1} s by {} lines; worst bound {} ns; {:.3} s of CPU time",
        report.answered.as_secs_f64(),
        report.lines,
        report.worst_bound,
        report.cpu_time.as_secs_f64(),
    );
    // The start, before the first line, is no withdrawal.
    let start = |one: &&Withdrawal| one.reason == Decline::Starting;
    for withdrawal in report.withdrawals.iter().skip_while(start) {
        line +=
            &format!("; not for {:.1} s: {}", withdrawal.lasted.as_secs_f64(), withdrawal.reason);
    }
    line
}

/// Prints to standard output; false if that is closed.
fn print(text: &str) -> bool {
    crate::printing::streams::print_line(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_went_wrong() {
        let seconds = Duration::from_secs_f64;
        let withdrawal = |reason, lasted| Withdrawal { reason, lasted: seconds(lasted) };
        let report = Report {
            lines: 9,
            answered: seconds(12.34),
            withdrawals: vec![
                withdrawal(Decline::Starting, 0.2),
                withdrawal(Decline::Suspended, 1.26),
            ],
            worst_bound: 77,
            cpu_time: seconds(0.0123),
            ..Report::default()
        };
        assert_eq!(
            summary(&report),
            "the page answered for 12.3 s by 9 lines; worst bound 77 ns; 0.012 s of CPU time; \
             not for 1.3 s: the machine was suspended"
        );
    }
}
