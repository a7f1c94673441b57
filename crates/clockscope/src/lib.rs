//! The `clockscope` command as a library, so that tests and benchmarks reach its parts.
//!
//! Start at [`main`]; ARCHITECTURE.md has a map and a reading order.

use std::process::ExitCode;

use clap::Parser;

pub mod cli;
pub mod commands;
pub mod exit;
pub mod host;
pub mod measure;
pub mod report;
pub mod stats;
pub mod sys;
pub mod syscalls;
pub mod tracee;
pub mod vdso;

/// Parses the command line and runs the subcommand.
#[must_use]
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let code = match &cli.command {
        cli::Command::Vdso(args) => commands::vdso::run(args),
        cli::Command::Bench(args) => commands::bench::run(args),
        cli::Command::Compare(args) => commands::compare::run(args),
        cli::Command::Wrongness(args) => commands::wrongness::run(args),
        cli::Command::Trace(args) => commands::trace::run(args),
        cli::Command::Run(args) => commands::run::run(args),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
