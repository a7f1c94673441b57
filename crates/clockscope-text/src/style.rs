//! Emphasis for a finished report, without any change of its characters or columns.

const BOLD: &str = "\x1b[1m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";
/// All sequences that this module makes.
pub const SEQUENCES: [&str; 3] = [BOLD, CYAN, PLAIN];
/// Maximum length of a label, so that its text starts in the common column.
const LABEL_MOST: usize = 13;

/// `report` with its labels and table heads in bold, and the lines for which `matters` is true in cyan (ECMA-48, SGR).
/// Without these sequences the result is `report`, byte for byte.
pub fn emphasized(report: &str, matters: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(report.len() + 256);
    let mut lines = report.split_inclusive('\n').peekable();
    let mut in_table = false;
    while let Some(line) = lines.next() {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let is_head = !in_table && lines.peek().is_some_and(|next| is_rule(next));
        in_table = is_head || (in_table && !text.is_empty());
        let (style, styled, rest) = match label(text) {
            _ if text.is_empty() => ("", "", ""),
            _ if is_head => (BOLD, text, ""),
            // The line has a colour already.
            _ if text.starts_with('\x1b') => ("", "", text),
            _ if matters(text) => (CYAN, text, ""),
            Some(length) if !in_table => (BOLD, &text[..length], &text[length..]),
            _ => ("", "", text),
        };
        if style.is_empty() {
            out += rest;
        } else {
            out.extend([style, styled, PLAIN, rest]);
        }
        out += end;
    }
    out
}

/// A line in the colour of important lines.
pub fn standing_out(line: &str) -> String {
    let text = line.trim_end_matches('\n');
    format!("{CYAN}{text}{PLAIN}{}", &line[text.len()..])
}

/// Whether a line is the rule below the head of a table.
fn is_rule(line: &str) -> bool {
    let line = line.trim_end();
    line.contains("--") && line.bytes().all(|byte| matches!(byte, b'-' | b' '))
}

/// The length of a paragraph's label, including its colon.
fn label(line: &str) -> Option<usize> {
    let (label, text) = line.split_once(':')?;
    let is_word = label.contains(|c: char| c.is_ascii_uppercase())
        && label.len() <= LABEL_MOST
        && label.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' ');
    (is_word && text.starts_with(' ')).then_some(label.len() + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `text` without the sequences of this file.
    fn without(text: &str) -> String {
        SEQUENCES.iter().fold(text.to_owned(), |text, style| text.replace(style, ""))
    }

    #[test]
    fn labels_heads_and_the_rows_that_matter_stand_out() {
        let report = "date: exit code 0\n\nHere:         1 us: x\n              Not: a label\n\n\
                      calls via\n----- -------\n    1 vdso\n    2 syscall\n----- -------\n    3\n\
                      Overhead:     none\n\nvDSO: fast\n";
        let expected = "date: exit code 0\n\n\x1b[1mHere:\x1b[0m         1 us: x\n              Not: a label\n\n\
                        \x1b[1mcalls via\x1b[0m\n----- -------\n\x1b[36m    1 vdso\x1b[0m\n    2 syscall\n\
                        ----- -------\n    3\nOverhead:     none\n\n\x1b[1mvDSO:\x1b[0m fast\n";
        assert_eq!(emphasized(report, |row| row.contains(" vdso")), expected);
        assert_eq!(without(expected), report);
    }

    #[test]
    fn a_line_that_has_a_colour_keeps_it_alone() {
        let row = standing_out("    1 vdso: x\n");
        let labelled = standing_out("Here: x\n");
        let report = format!("{row}{labelled}Here: y\n");
        let expected = format!("{row}{labelled}{BOLD}Here:{PLAIN} y\n");
        assert_eq!(emphasized(&report, |text| text.contains('x')), expected);
    }

    proptest! {
        #[test]
        fn nothing_but_sequences_is_added(text in "([A-Z][a-z ]{0,14}:? ?|[-é ]{0,4}\n|[ a-z]{0,9}\n?){0,12}") {
            prop_assert_eq!(without(&emphasized(&text, |row| row.contains('a'))), text);
        }
    }
}
