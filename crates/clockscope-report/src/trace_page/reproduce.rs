//! The commands that make such a page.

use clockscope_model::trace::TraceReport;
use clockscope_text::foreign::printable;

/// Commands to type: this page, the same as text, and as JSON.
pub(super) fn commands(report: &TraceReport) -> Vec<String> {
    // The command of what was attached to is its name, which is nothing to type.
    let what = if !report.attached.is_empty() {
        let pids: Vec<String> = report.attached.iter().map(|a| a.pid.to_string()).collect();
        let seconds = (report.wall_ns / 1_000_000_000).max(1);
        format!("-p {} --duration {seconds}", pids.join(","))
    } else {
        let words: Vec<String> =
            report.command.iter().map(|word| quoted(word.verbatim())).collect();
        format!("-- {}", words.join(" "))
    };
    let what = what.trim_end();
    let mut details = report.processes_detail.iter();
    let told_apart =
        details.any(|process| process.syscall_calls.is_some() || !process.vdso.is_empty());
    let per_process = if told_apart { " --per-process" } else { "" };
    vec![
        format!("clockscope trace --format html -o report.html{per_process} {what}"),
        format!("clockscope trace --callers{per_process} {what}"),
        format!("clockscope trace --format json -o report.json --latency{per_process} {what}"),
    ]
}

/// A word as a POSIX shell reads it back; what cannot be printed is replaced.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", printable(word).replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::trace::Attached;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        for (word, text) in [
            ("a-b.c", "a-b.c"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$x", "'$x'"),
        ] {
            assert_eq!(quoted(word), text);
        }
    }

    #[test]
    fn what_was_attached_to_is_attached_to_again() {
        let process = |pid| Attached { pid, ..Attached::default() };
        let report = TraceReport {
            command: vec!["uvicorn (7)".into(), "uvicorn (8)".into()],
            attached: vec![process(7), process(8)],
            wall_ns: 10_400_000_000,
            ..TraceReport::default()
        };
        let expected = "clockscope trace --format html -o report.html -p 7,8 --duration 10";
        assert_eq!(commands(&report)[0], expected);
    }
}
