//! What fingers type that know strace, perf or hyperfine, and clockscope's word for it.

/// Words of other tools, and what to type instead.
type Habits = &'static [(&'static [&'static str], &'static str)];

/// What is said of options that change how strace prints a call.
const NO_LINES: &str = "clockscope prints a summary and no line for each call; leave it out";
/// Why `-ff` is refused.
pub(crate) const ONE_FILE: &str =
    "clockscope writes one report; for a table for each process: --per-process";
/// Why a report is not given to a command.
pub(crate) const NO_PIPE: &str =
    "clockscope starts no command for its report; in bash and zsh: -o >(COMMAND)";

/// Subcommands that others have.
const COMMANDS: Habits = &[
    (&["record"], "to sample who makes the calls: clockscope trace --callers CMD"),
    (&["stat", "strace", "count"], "to count the calls of a program: clockscope trace CMD"),
    (&["top"], "for a live view of a process: clockscope trace -p PID --top"),
    (&["attach"], "to trace a process that runs: clockscope trace -p PID"),
    (&["report", "script"], "to make a page of a saved report: clockscope view FILE"),
];

/// Options of strace and perf.
const TRACE: Habits = &[
    (
        &[
            "-t",
            "--absolute-timestamps",
            "-r",
            "--relative-timestamps",
            "-n",
            "--syscall-number",
            "-s",
            "--string-limit",
            "-v",
            "--no-abbrev",
            "--verbose",
            "-x",
            "--strings-in-hex",
            "-X",
            "--const-print-style",
            "-y",
            "--decode-fds",
            "-Y",
            "--decode-pids",
            "-i",
            "--instruction-pointer",
            "-C",
            "--summary",
        ],
        NO_LINES,
    ),
    (
        &["-T", "--syscall-times"],
        "clockscope always times calls, and --latency shows the distribution; leave it out",
    ),
    (&["-k", "--stack-trace", "--call-graph"], "to see who makes the calls: --callers=all"),
    (&["--output-separately"], ONE_FILE),
    (
        &["-a", "--all-cpus"],
        "clockscope counts in programs and not on whole machines; for all processes: clockscope survey; for some: -p PID,PID",
    ),
    (&["-A", "--output-append-mode"], "clockscope replaces FILE of -o; to append: 2>>FILE"),
    (
        &["-P", "--trace-path", "-z", "--successful-only", "-Z", "--failed-only"],
        "clockscope selects calls by name only: -e SET",
    ),
    (&["-O", "--summary-syscall-overhead"], "clockscope measures its cost itself; leave it out"),
    (&["-E", "--env"], "set it in the command: clockscope trace env NAME=VALUE CMD"),
    (&["-u", "--user"], "as root: clockscope trace runuser -u USER CMD"),
    (&["-b", "--detach-on"], "to detach after the program's start: --no-follow"),
    (&["-D", "--daemonize"], "clockscope is always the program's parent; leave it out"),
    (&["-I", "--interval-print"], "for a line each second: --top"),
    (&["--timeout"], "for a time, with -p: --duration TIME"),
];

const RUN: Habits = &[
    (
        &["-p", "--pid", "--attach"],
        "clockscope gives a clock to programs that it starts; those that run keep theirs",
    ),
    (&["-c", "--callers", "--top"], "to count and sample calls: clockscope trace CMD"),
    (&["-f", "--follow-forks"], "clockscope follows forks always; leave it out"),
];

/// Options of hyperfine.
const BENCH: Habits = &[
    (
        &["-w", "--warmup"],
        "bench measures calls and no programs, and warms up by itself; leave it out",
    ),
    (
        &["-r", "--runs", "-m", "--min-runs", "-M", "--max-runs"],
        "bench measures until the figures are steady; for more processes: --launches K",
    ),
    (&["-N", "--shell", "-S"], "bench measures calls and starts no shell; leave it out"),
    (&["--export-json"], "to save for clockscope compare: --save FILE"),
    (&["--export-csv"], "write it so: --format csv -o FILE"),
    (
        &["--export-markdown", "--export-asciidoc", "--export-orgmode"],
        "write it so: --format html -o FILE",
    ),
    (
        &[
            "-p",
            "--prepare",
            "-c",
            "--cleanup",
            "-s",
            "--setup",
            "-i",
            "--ignore-failure",
            "-L",
            "--parameter-list",
            "-P",
            "--parameter-scan",
            "-n",
            "--command-name",
        ],
        "bench measures clocks and system calls; to trace a program: clockscope trace CMD",
    ),
];

fn find(habits: Habits, word: &str) -> Option<&'static str> {
    habits.iter().find(|(words, _)| words.contains(&word)).map(|(_, instead)| *instead)
}

/// What to type instead of a subcommand that clockscope does not have.
pub(crate) fn instead_of_command(word: &str) -> Option<&'static str> {
    find(COMMANDS, word)
}

/// What to type instead of an option that the subcommand does not have.
pub(crate) fn instead_of_option(subcommand: &str, option: &str) -> Option<&'static str> {
    let habits = match subcommand {
        "trace" => TRACE,
        "run" => RUN,
        "bench" => BENCH,
        _ => return None,
    };
    find(habits, option)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn no_habit_stands_for_what_clockscope_has_itself() {
        let command = Cli::command();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        for (name, habits) in [("trace", TRACE), ("run", RUN), ("bench", BENCH)] {
            let subcommand = command.find_subcommand(name).unwrap();
            let mut seen = HashSet::new();
            for word in habits.iter().flat_map(|(words, _)| *words) {
                let is_own = subcommand.get_arguments().any(|argument| {
                    let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                    let short = argument.get_short().map(|short| format!("-{short}"));
                    long.iter().any(|long| word.strip_prefix("--") == Some(long))
                        || short.as_deref() == Some(*word)
                });
                assert!(!is_own, "{name} {word}");
                assert!(seen.insert(word), "{name} {word} twice");
            }
        }
        for word in COMMANDS.iter().flat_map(|(words, _)| *words) {
            assert!(!names.contains(word), "{word}");
        }
    }
}
