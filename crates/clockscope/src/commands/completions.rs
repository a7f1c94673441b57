//! `clockscope completions`.

use std::collections::BTreeSet;

use clap::builder::{PossibleValue, ValueHint};
use clap::{Arg, Command, CommandFactory as _};
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

/// The script for a shell: what `clap_complete` writes, and what it leaves out.
fn script(shell: Shell) -> Vec<u8> {
    let mut command = Cli::command();
    let mut script = Vec::new();
    match shell {
        Shell::Bash => {
            generate(Bash, &mut command, NAME, &mut script);
            script.extend(bash_programs(&options_with_values(&command)).bytes());
            script
        }
        Shell::Zsh => {
            generate(Zsh, &mut command, NAME, &mut script);
            script
        }
        Shell::Fish => {
            generate(Fish, &mut command, NAME, &mut script);
            let script = String::from_utf8_lossy(&script);
            fish_programs(&script, &command, &options_with_values(&command)).into_bytes()
        }
    }
}

const NAME: &str = "clockscope";

/// The subcommands whose words end with a program and its own words.
fn starters(command: &Command) -> impl Iterator<Item = &Command> {
    let starts = |word: &Arg| word.get_value_hint() == ValueHint::CommandWithArguments;
    command.get_subcommands().filter(move |subcommand| subcommand.get_positionals().any(starts))
}

/// The options of these subcommands behind which a word stands that is no program.
fn options_with_values(command: &Command) -> String {
    let options = starters(command).flat_map(Command::get_arguments);
    let takes_word = |option: &&Arg| {
        !option.is_positional()
            && option.get_action().takes_values()
            && !option.is_require_equals_set()
    };
    let names = options.filter(takes_word).flat_map(|option| {
        let long = option.get_long().map(|long| format!("--{long}"));
        long.into_iter().chain(option.get_short().map(|short| format!("-{short}")))
    });
    names.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join(" ")
}

/// bash completes the program and its words as it does without clockscope, where bash-completion is
/// installed; otherwise names of programs and files.
fn bash_programs(options_with_values: &str) -> String {
    format!(
        r#"
# The program that clockscope starts is completed as it is without clockscope.
_clockscope_or_program() {{
    local at word takes=" {options_with_values} "
    case ${{COMP_WORDS[1]}} in
        trace | run) ;;
        *)
            _clockscope "$@"
            return
            ;;
    esac
    for ((at = 2; at < COMP_CWORD; at++)); do
        word=${{COMP_WORDS[at]}}
        case $word in
            --)
                ((at++))
                break
                ;;
            =) ((at++)) ;;
            -*) [[ $takes == *" $word "* && ${{COMP_WORDS[at + 1]}} != "=" ]] && ((at++)) ;;
            *) break ;;
        esac
    done
    if ((at > COMP_CWORD)) || [[ $at == "$COMP_CWORD" && $2 == -* ]]; then
        _clockscope "$@"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$at"
    elif ((at == COMP_CWORD)); then
        COMPREPLY=($(compgen -c -- "$2"))
    fi
}}
complete -F _clockscope_or_program -o nosort -o bashdefault -o default clockscope
"#
    )
}

/// fish completes the program and its words as it does without clockscope. Other words that are no options
/// have their values.
fn fish_programs(script: &str, command: &Command, options_with_values: &str) -> String {
    let mut script = format!(
        "{script}
# Whether the program that clockscope starts has been named.
function __fish_clockscope_has_program
    set -l words (commandline -opc)[3..-1]
    while set -q words[1]
        switch $words[1]
            case '--'
                return 0
            case '-*'
                contains -- $words[1] {options_with_values}
                and set -e words[1]
            case '*'
                return 0
        end
        set -e words[1]
    end
    return 1
end

"
    );
    for name in starters(command).map(Command::get_name) {
        let using = format!("\"__fish_clockscope_using_subcommand {name}\"");
        let before =
            format!("{}; and not __fish_clockscope_has_program\"", using.trim_end_matches('"'));
        script = script.replace(&using, &before);
        script += &format!(
            "complete -c clockscope -n {using} -xa \
             '(__fish_complete_subcommand --fcs-skip=2 {options_with_values})'\n"
        );
    }
    for subcommand in command.get_subcommands() {
        for word in subcommand.get_positionals() {
            let values = word.get_possible_values();
            let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            if !names.is_empty() {
                script += &format!(
                    "complete -c clockscope -n '__fish_clockscope_using_subcommand {}' -f -a '{}'\n",
                    subcommand.get_name(),
                    names.join(" ")
                );
            }
        }
    }
    script
}
