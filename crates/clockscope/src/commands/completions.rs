//! `clockscope completions`.

use clap::CommandFactory as _;
use clap_complete::aot;

use crate::cli::{Cli, CompletionsArgs, Shell};
use crate::exit;
use crate::printing::streams;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<i32> {
    let shell = match args.shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut script = Vec::new();
    aot::generate(shell, &mut Cli::command(), "clockscope", &mut script);
    // Half a script is useless, so a reader that closes the pipe early is an error here.
    streams::print_all(&script).map(|()| exit::OK)
}
