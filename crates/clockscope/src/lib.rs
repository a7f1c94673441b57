//! The `clockscope` command as a library, so that tests and benchmarks reach its parts.
//!
//! Start at [`main`]; ARCHITECTURE.md has a map and a reading order.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

pub mod cli;
pub mod commands;
pub mod exit;
mod printing;

/// Runs the command, unless this process lacks the resources for it.
pub fn main() -> ExitCode {
    match clockscope_sys::room::lacks() {
        None => in_room(),
        Some(words) => {
            printing::warn_user(&words);
            ExitCode::from(u8::try_from(exit::FAILED).unwrap_or(u8::MAX))
        }
    }
}

/// Parses the command line and runs the subcommand. Separate from `main`, because its stack frame may need
/// more stack than there is.
#[inline(never)]
fn in_room() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &std::env::args_os().collect::<Vec<_>>()),
    };
    printing::colour::choose(cli.color);
    let (done, failure) = match &cli.command {
        cli::Command::Vdso(args) => (commands::vdso::run(args), exit::FAILURE),
        cli::Command::Completions(args) => (commands::completions::run(args), exit::FAILURE),
        cli::Command::Bench(args) if args.as_launch => {
            (commands::bench::launch(args), exit::FAILURE)
        }
        cli::Command::Bench(args) => (commands::bench::run(args), exit::FAILURE),
        cli::Command::Compare(args) => (commands::compare::run(args), exit::FAILURE),
        cli::Command::Wrongness(args) => (commands::wrongness::run(args), exit::FAILURE),
        cli::Command::View(args) => (commands::view::run(args), exit::FAILURE),
        cli::Command::Doctor(args) => (Ok(commands::doctor::run(args)), exit::UNKNOWN),
        cli::Command::Capture(args) => (commands::capture::run(args), exit::FAILURE),
        cli::Command::Trace(args) => (commands::trace::run(args), exit::FAILED),
        cli::Command::Run(args) => (commands::run::run(args), exit::FAILED),
        cli::Command::Serve(args) => (commands::serve::run(args), exit::FAILED),
        cli::Command::Survey(args) => (commands::survey::run(args), exit::FAILURE),
    };
    let code = done.unwrap_or_else(|error| {
        printing::warn_user(&error);
        error.downcast_ref::<exit::Failed>().map_or(failure, |failed| failed.code)
    });
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Prints help, the version, or the error in the options. For `doctor`, wrong options give the status
/// "unknown", as is the convention of monitoring plugins, for which 2 would be an alarm.
fn usage(error: &clap::Error, words: &[OsString]) -> ExitCode {
    printing::colour::choose_by_words(words);
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        printing::warn_user(&cli::refusal::line(error, words));
    } else if let Err(unwritten) = error.print()
        && unwritten.kind() != std::io::ErrorKind::BrokenPipe
    {
        printing::warn_user(&format!("cannot write to standard output: {unwritten}"));
        return ExitCode::from(u8::try_from(exit::FAILURE).unwrap_or(u8::MAX));
    }
    let is_doctor = words.get(1).is_some_and(|name| name == "doctor");
    let code = if error.use_stderr() && is_doctor { exit::UNKNOWN } else { error.exit_code() };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
