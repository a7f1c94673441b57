//! The scripts of `clockscope completions` in the real shells: a test types a line with Tab, and checks the words that
//! the shell passes to a program called clockscope.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::command::said;
use crate::support::running::with_input;
use crate::support::terminal::Terminal;
use crate::support::{installed_or_skip, placed};
use clap::CommandFactory as _;
use clockscope::cli::Cli;

/// Keys typed, and the words that clockscope must then be called with.
const TYPED: [(&str, &str); 8] = [
    ("clockscope doc\t", "doctor"),
    ("clockscope trace --form\tjs\t", "trace --format json"),
    ("clockscope trace -S cal\t", "trace -S calls"),
    ("clockscope trace --no-sys\t--latenc\t", "trace --no-syscalls --latency"),
    ("clockscope run --clock tsc-f\t--sta\t", "run --clock tsc-fast --stats"),
    ("clockscope compare --fail-if slo\tbefo\t", "compare --fail-if slower before.json"),
    ("clockscope view befo\t-o pa\t", "view before.json -o page.html"),
    ("clockscope doctor --expl\tx", "doctor --explain x"),
];

fn script(shell: &str) -> String {
    said(&["completions", shell]).printed()
}

/// A directory with two files to complete, and a program `clockscope` that prints its arguments.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let program = directory.path().join("clockscope");
    // zsh completes to `--format=json`, the other shells to `--format json`.
    placed::script("#!/bin/sh\necho \"given: <$*>\" | tr = ' '\n", &program, 0o755);
    for file in ["before.json", "page.html"] {
        fs::write(directory.path().join(file), "").expect("write a file");
    }
    directory
}

/// Types the lines into a shell that `start` starts in the directory, and waits for the completed words.
fn type_into(shell: &str, files: &[(&str, String)], start: &str) {
    let Some(_) = installed_or_skip(&[&format!("/usr/bin/{shell}")]) else { return };
    let directory = directory();
    for (file, text) in files {
        fs::write(directory.path().join(file), text).expect("write a file");
    }
    let place = directory.path().display();
    let start = format!(
        "env -C {place} HOME={place} PATH={place}:/usr/bin:/bin TERM=xterm INPUTRC=/dev/null {start}"
    );
    let Some(mut terminal) = Terminal::start(&start) else { return };
    for (typed, words) in TYPED {
        terminal.answer(&[("ready> ", &format!("{typed}\r"))]);
        terminal.wait_for(&format!("given: <{words}>"));
    }
    terminal.press("exit 0\r");
    assert_eq!(terminal.finish(), 0);
}

#[test]
fn bash_completes_the_words() {
    let start = format!("PS1='ready> '\n{}", script("bash"));
    type_into("bash", &[("start.bash", start)], "bash --noprofile --rcfile start.bash -i");
}

#[test]
fn zsh_completes_the_words() {
    let start = "PS1='ready> '\nfpath=($PWD $fpath)\nautoload -U compinit\ncompinit -u -D\n";
    let files = [("_clockscope", script("zsh")), (".zshrc", start.to_owned())];
    type_into("zsh", &files, "zsh -o NO_GLOBAL_RCS -i");
}

#[test]
fn fish_completes_the_words() {
    let files = [("clockscope.fish", script("fish"))];
    let start = "fish --private --no-config -i -C 'source clockscope.fish; function fish_prompt; echo -n \"ready> \"; end'";
    type_into("fish", &files, start);
}

/// The completions that a script offers for a line, from shells that can be asked without a terminal.
fn offered(shell: &str, line: &str, directory: &Path) -> Option<Vec<String>> {
    let program = installed_or_skip(&[&format!("/usr/bin/{shell}")])?;
    let file = directory.join(shell);
    fs::write(&file, script(shell)).expect("write a script");
    let ask = match shell {
        "fish" => format!("source ./fish; complete -C '{line}'"),
        _ => format!(
            "source ./bash; COMP_WORDS=({line}\"\"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _clockscope clockscope '' \"${{COMP_WORDS[COMP_CWORD - 1]}}\" 2>/dev/null; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        ),
    };
    let output = with_input(Command::new(program).args(["-c", &ask]).current_dir(directory), b"");
    let text = String::from_utf8(output.stdout).expect("words are text");
    // fish appends a tab and an explanation to a completion.
    let words = text.lines().map(|line| line.split('\t').next().unwrap_or(line).to_owned());
    Some(words.collect())
}

#[test]
fn all_subcommands_and_values_are_offered() {
    let directory = directory();
    let mut command = Cli::command();
    command.build();
    let mut subcommands: Vec<&str> =
        command.get_subcommands().map(clap::Command::get_name).collect();
    subcommands.sort_unstable();
    for shell in ["bash", "fish"] {
        for (line, expected) in [
            ("clockscope ", subcommands.as_slice()),
            ("clockscope trace --via ", &["auto", "both", "bpf", "none", "ptrace", "sites"]),
        ] {
            let Some(offered) = offered(shell, line, directory.path()) else { return };
            let mut words: Vec<&str> = offered.iter().map(String::as_str).collect();
            words.retain(|word| !word.starts_with('-'));
            words.sort_unstable();
            assert_eq!(words, expected, "{shell}: {line}");
        }
    }
}
