//! `clockscope completions`.

use clap::builder::PossibleValue;
use clap::{Command, CommandFactory as _};
use clap_complete::aot::{Bash, Fish, Zsh, generate};

use super::streams;
use crate::cli::{Cli, CompletionsArgs, Shell};
use crate::exit;

/// Runs the subcommand; gives the exit status.
pub fn run(args: &CompletionsArgs) -> i32 {
    // Half a script is none, so a reader that leaves early is an error here.
    match streams::print_all(&script(args.shell)) {
        Ok(()) => exit::OK,
        Err(error) => {
            super::warn_user(&format!("{error:#}"));
            exit::FAILURE
        }
    }
}

/// The script for a shell.
fn script(shell: Shell) -> Vec<u8> {
    let mut command = Cli::command();
    let mut script = Vec::new();
    match shell {
        Shell::Bash => generate(Bash, &mut command, "clockscope", &mut script),
        Shell::Zsh => generate(Zsh, &mut command, "clockscope", &mut script),
        Shell::Fish => {
            generate(Fish, &mut command, "clockscope", &mut script);
            script.extend(fish_words(&command).bytes());
        }
    }
    script
}

/// Lines for fish about words that are no options, of which `clap_complete` says nothing to it.
fn fish_words(command: &Command) -> String {
    let mut lines = String::new();
    for subcommand in command.get_subcommands() {
        for word in subcommand.get_positionals() {
            let values = word.get_possible_values();
            let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            if !names.is_empty() {
                lines += &format!(
                    "complete -c clockscope -n '__fish_clockscope_using_subcommand {}' -f -a '{}'\n",
                    subcommand.get_name(),
                    names.join(" ")
                );
            }
        }
    }
    lines
}
