//! Wraps paragraphs and cuts evidence; commands stay whole.

use crate::facts::Evidence;
use clockscope_text::foreign::printable;
use clockscope_text::lines::{WIDTH, cut_right, width};

/// Maximum number of spaces before a time stamp of the kernel.
const GAP_MAX: usize = 5;
/// Minimum number of columns for a useful line of evidence.
const EVIDENCE_MIN: usize = 60;

/// `text` after `first`, wrapped between words; further lines are indented by `indent`. Text between backticks is one
/// word, and a word longer than a line stays whole, because users copy it.
pub(super) fn wrapped(first: &str, indent: usize, text: &str) -> String {
    let mut out = first.to_owned();
    let mut column = width(first);
    let mut is_first = true;
    let text = printable(text);
    for word in words(&text) {
        let gap = usize::from(!is_first);
        if !is_first && column + gap + width(word) > WIDTH {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if gap > 0 {
            out.push(' ');
            column += gap;
        }
        out.push_str(word);
        column += width(word);
        is_first = false;
    }
    out.trim_end().to_owned() + "\n"
}

/// The words of a text; a command in backticks is one word, including adjacent characters.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let mut in_command = false;
        let is_end = |(_, c): &(usize, char)| {
            in_command ^= *c == '`';
            c.is_whitespace() && !in_command
        };
        let end = rest.char_indices().find(is_end).map_or(rest.len(), |(at, _)| at);
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        (!word.is_empty()).then_some(word)
    })
}

/// A line of evidence, cut at its end to `columns` if given. The kernel aligns some lines with many spaces; they are
/// reduced to one.
pub(super) fn quoted(indent: usize, evidence: &Evidence, columns: Option<usize>) -> String {
    let line = printable(&close_gaps(evidence.to_string().trim_end()));
    let limit = columns.map_or(usize::MAX, |it| it.max(EVIDENCE_MIN).saturating_sub(indent));
    format!("{:indent$}{}\n", "", cut_right(&line, limit))
}

/// `text` with a single space instead of each run of more than [`GAP_MAX`].
fn close_gaps(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(' ') {
        let after = rest[at..].trim_start_matches(' ');
        let spaces = rest.len() - at - after.len();
        out += &rest[..at];
        out.extend(std::iter::repeat_n(' ', if spaces > GAP_MAX { 1 } else { spaces }));
        rest = after;
    }
    out + rest
}

/// A command, exactly as it is to be typed.
pub(super) fn command(indent: usize, command: &str) -> String {
    command.lines().map(|line| format!("{:indent$}{}\n", "", printable(line))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rules::catalogue::capitalised;

    #[test]
    fn a_paragraph_hangs_below_its_first_line_and_keeps_long_words() {
        let path = "x".repeat(90);
        let text = wrapped("1. ", 3, &format!("one {path} two"));
        assert_eq!(text, format!("1. one\n   {path}\n   two\n"));
        assert_eq!(wrapped("Never: ", 2, ""), "Never:\n");
    }

    #[test]
    fn evidence_is_cut_only_where_the_columns_are_known() {
        let evidence = Evidence { line: Some(7), ..Evidence::of("var/log/dmesg", &"y".repeat(90)) };
        assert!(quoted(4, &evidence, None).contains(&"y".repeat(90)));
        let cut = quoted(4, &evidence, Some(80));
        assert_eq!(width(cut.trim_end()), 80);
        assert!(cut.starts_with("    var/log/dmesg:7: yyy") && cut.ends_with("y…\n"));
    }

    #[test]
    fn a_command_in_backticks_is_not_broken() {
        let all: Vec<&str> = words(" run `cat /a b`, then `c").collect();
        assert_eq!(all, ["run", "`cat /a b`,", "then", "`c"]);
        let command = format!("`{} end`", "x ".repeat(30));
        let text = wrapped("Not known: ", 2, &format!("the log: {command} now"));
        assert_eq!(text, format!("Not known: the log:\n  {command} now\n"));
    }

    #[test]
    fn the_gaps_of_aligned_lines_are_closed() {
        let line = format!("[    0.5] clocksource:{}'tsc' cs_now: 7", " ".repeat(22));
        assert_eq!(close_gaps(&line), "[    0.5] clocksource: 'tsc' cs_now: 7");
        assert_eq!(close_gaps("a  b"), "a  b");
        assert_eq!(close_gaps(""), "");
    }

    #[test]
    fn a_sentence_begins_with_a_capital_unless_it_begins_with_a_name() {
        assert_eq!(capitalised("the reference was wrong"), "The reference was wrong");
        assert_eq!(capitalised("tsc is missing"), "tsc is missing");
        assert_eq!(capitalised("tsc=reliable is set"), "tsc=reliable is set");
        assert_eq!(capitalised("reboot, to get the TSC back"), "Reboot, to get the TSC back");
        assert_eq!(capitalised(""), "");
    }

    proptest! {
        #[test]
        fn no_text_of_a_machine_leaves_its_place(text: String, indent in 0_usize..12) {
            let all = wrapped(&" ".repeat(indent), indent, &text);
            let evidence = Evidence::of(&text, &text);
            let all = all + &quoted(indent, &evidence, Some(80));
            for line in all.lines() {
                let moves = line.contains(|c: char| c.is_control());
                prop_assert!(!moves, "{line:?}");
                let longest = words(line).map(width).max().unwrap_or(0);
                prop_assert!(width(line) <= WIDTH.max(indent + longest), "{line:?}");
            }
        }
    }
}
