//! `--color`, `NO_COLOR` and `CLICOLOR_FORCE`: which reports have colours, and that without colours the text is equal.

use std::process::{Command, Stdio};

use crate::support::command::root;
use crate::support::terminal::Terminal;

/// Reports that are the same each time, and a coloured part of each.
const REPORTS: [(&str, &str); 3] = [
    ("compare fixtures/bench/before.json fixtures/bench/after.json", "\x1b[36mgetppid by syscall"),
    ("doctor --root fixtures/doctor-cases/vbox-seed-deb7-3.2", "\x1b[1"),
    ("compare --ministat fixtures/ministat/c1_smp_gtod.txt fixtures/ministat/c1_up_gtod.txt", ""),
];
/// Variables that choose colours, removed unless a test sets them; in `CI` even `TERM=dumb` has colours.
const VARIABLES: [&str; 5] = ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "CI"];

/// A report that clockscope writes to a pipe.
fn printed(line: &str, options: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.args(line.split(' ')).args(options).envs(variables.iter().copied());
    let output = command.current_dir(root()).stdin(Stdio::null()).output().expect("run clockscope");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("a report is text")
}

/// `text` without sequences `ESC [ ... m`.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').expect("ends with m").1)
}

#[test]
fn colours_change_no_byte_of_the_text() {
    for (line, stands_out) in REPORTS {
        let plain = printed(line, &["--color", "never"], &[]);
        let coloured = printed(line, &["--color=always"], &[]);
        assert!(!plain.contains('\x1b') && plain.lines().count() > 5, "{plain}");
        assert_eq!(without_colours(&coloured), plain);
        assert_eq!(coloured.contains('\x1b'), !stands_out.is_empty(), "{coloured}");
        assert!(coloured.contains(stands_out), "{coloured}");
    }
}

#[test]
fn a_pipe_has_colours_only_if_they_are_forced() {
    let line = REPORTS[0].0;
    for (options, variables, is_coloured) in [
        (&[] as &[&str], &[] as &[(&str, &str)], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&["--color=never"], &[("CLICOLOR_FORCE", "1")], false),
        (&["--color=always"], &[("NO_COLOR", "1")], true),
        (&["--color=always", "--format", "json"], &[], false),
        (&["--color=always", "--format", "json"], &[("CLICOLOR_FORCE", "1")], false),
    ] {
        let text = printed(line, options, variables);
        assert_eq!(text.contains('\x1b'), is_coloured, "{options:?} {variables:?}");
    }
}

#[test]
fn a_terminal_has_colours_unless_they_are_refused() {
    for (words, is_coloured) in [
        ("TERM=xterm clockscope", true),
        ("TERM=dumb clockscope", false),
        ("TERM=xterm NO_COLOR=1 clockscope", false),
        ("TERM=xterm clockscope --color never", false),
    ] {
        let tool = env!("CARGO_BIN_EXE_clockscope");
        let line = format!("{} {}", words.replace("clockscope", tool), REPORTS[0].0);
        let forget: String = VARIABLES.iter().map(|name| format!("-u {name} ")).collect();
        let command = format!("env {forget}-C {} {line}", root().display());
        let Some(mut terminal) = Terminal::start(&command) else { return };
        let (bold, plain) = ("\x1b[1mHost:\x1b[0m", "\nHost: ");
        terminal.wait_for(if is_coloured { bold } else { plain });
        assert_eq!(terminal.finish(), 0);
    }
}
