//! Options of strace, perf and hyperfine, and the clockscope options to suggest instead.

/// The reason why `-ff` is refused.
pub(crate) const ONE_FILE: &str =
    "clockscope writes one report; for a table for each process: --per-process";

/// For each subcommand (the empty name: without one), words that it does not have, and the text to suggest instead.
const HINTS: &[(&str, &str, &str)] = &[
    ("", "record", "to sample who makes the calls: clockscope trace --callers CMD"),
    ("", "stat strace count", "to count the calls of a program: clockscope trace CMD"),
    ("", "top", "for a live view of a process: clockscope trace -p PID --top"),
    ("", "attach", "to trace a process that runs: clockscope trace -p PID"),
    ("", "report script", "to make a page of a saved report: clockscope view FILE"),
    (
        "trace",
        "-t --absolute-timestamps -r --relative-timestamps -n --syscall-number -s --string-limit -v --no-abbrev --verbose -x \
         --strings-in-hex -X --const-print-style -y --decode-fds -Y --decode-pids -i --instruction-pointer -C --summary",
        "clockscope prints a summary and no line for each call; leave it out",
    ),
    (
        "trace",
        "-T --syscall-times",
        "clockscope always times calls, and --latency shows the distribution; leave it out",
    ),
    ("trace", "-k --stack-trace --call-graph", "to see who makes the calls: --callers=all"),
    ("trace", "--output-separately", ONE_FILE),
    (
        "trace",
        "-a --all-cpus",
        "clockscope counts in programs and not on whole machines; for all processes: clockscope survey; for some: -p PID,PID",
    ),
    ("trace", "-A --output-append-mode", "clockscope replaces FILE of -o; to append: 2>>FILE"),
    (
        "trace",
        "-P --trace-path -z --successful-only -Z --failed-only",
        "clockscope selects calls by name only: -e SET",
    ),
    ("trace", "-O --summary-syscall-overhead", "clockscope measures its cost itself; leave it out"),
    ("trace", "-E --env", "set it in the command: clockscope trace env NAME=VALUE CMD"),
    ("trace", "-u --user", "as root: clockscope trace runuser -u USER CMD"),
    ("trace", "-b --detach-on", "to detach after the program's start: --no-follow"),
    ("trace", "-D --daemonize", "clockscope is always the program's parent; leave it out"),
    ("trace", "-I --interval-print", "for a line each second: --top"),
    (
        "trace",
        "-U --columns --summary-columns",
        "the table has fixed columns; for percentiles: --latency, for programs: --format json",
    ),
    ("trace", "--percent-limit", "callers below 2 % are shown with --all"),
    ("trace", "--timeout", "for a time, with -p: --duration TIME"),
    (
        "run",
        "-p --pid --attach",
        "clockscope gives a clock to programs that it starts; those that run keep theirs",
    ),
    ("run", "-c --callers --top", "to count and sample calls: clockscope trace CMD"),
    ("run", "-f --follow-forks", "clockscope follows forks always; leave it out"),
    (
        "bench",
        "-w --warmup",
        "bench measures calls and no programs, and warms up by itself; leave it out",
    ),
    (
        "bench",
        "-r --runs -m --min-runs -M --max-runs",
        "bench measures until the figures are steady; for more processes: --launches K",
    ),
    ("bench", "-N --shell -S", "bench measures calls and starts no shell; leave it out"),
    ("bench", "--export-json", "to save for clockscope compare: --save FILE"),
    (
        "bench",
        "--export-csv --export-markdown --export-asciidoc --export-orgmode",
        "write it so: --format html -o FILE",
    ),
    (
        "bench",
        "-p --prepare -c --cleanup -s --setup -i --ignore-failure -L --parameter-list -P --parameter-scan -n --command-name",
        "bench measures clocks and system calls; to trace a program: clockscope trace CMD",
    ),
];

/// The text to suggest instead of a word that the subcommand does not have.
pub(crate) fn instead(subcommand: &str, word: &str) -> Option<&'static str> {
    let is_meant = |(name, words, _): &&(&str, &str, &str)| {
        *name == subcommand && words.split(' ').any(|known| known == word)
    };
    HINTS.iter().find(is_meant).map(|(_, _, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn no_hint_stands_for_what_clockscope_has_itself() {
        let cli = Cli::command();
        let mut seen = HashSet::new();
        for (name, words, _) in HINTS {
            let command = if name.is_empty() { &cli } else { cli.find_subcommand(name).unwrap() };
            for word in words.split(' ') {
                let is_own = command.find_subcommand(word).is_some()
                    || command.get_arguments().any(|argument| {
                        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                        let short = argument.get_short().map(|short| format!("-{short}"));
                        long.iter().any(|long| word.strip_prefix("--") == Some(long))
                            || short.as_deref() == Some(word)
                    });
                assert!(!is_own, "{name} {word}");
                assert!(seen.insert((name, word)), "{name} {word} twice");
            }
        }
    }
}
