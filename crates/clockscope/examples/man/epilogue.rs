//! What stands below the options in a help: examples, notes, exit statuses.

/// The parts of an `after_help`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Epilogue {
    /// Commands, and what each is for (which may be empty).
    pub(crate) examples: Vec<(String, String)>,
    /// Paragraphs.
    pub(crate) notes: Vec<String>,
    /// Numbers and what they mean; a line without a number introduces those below it.
    pub(crate) statuses: Vec<(Option<String>, String)>,
}

impl Epilogue {
    /// Takes the text of a help apart: paragraphs, with an empty line between them, of which one begins
    /// with `Examples:` and one with `Exit status:`.
    pub(crate) fn parse(help: &str) -> Self {
        let mut epilogue = Self::default();
        for paragraph in help.split("\n\n") {
            match paragraph.trim_start().split_once('\n') {
                Some(("Examples:", lines)) => epilogue.examples = columns(lines),
                Some(("Exit status:", lines)) => {
                    epilogue.statuses = columns(lines).into_iter().map(status).collect();
                }
                _ => epilogue.notes.push(paragraph.to_owned()),
            }
        }
        epilogue
    }
}

/// Lines in two columns, which two spaces separate. A line that is indented further than the first
/// column continues the second.
fn columns(lines: &str) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in lines.lines() {
        let indent = line.len() - line.trim_start().len();
        match rows.last_mut() {
            Some((_, second)) if indent > 2 => *second = format!("{second} {}", line.trim()),
            _ => {
                let (first, second) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
                rows.push((first.to_owned(), second.trim().to_owned()));
            }
        }
    }
    rows
}

/// `125` and what it means, or words alone.
fn status((first, second): (String, String)) -> (Option<String>, String) {
    if second.is_empty() { (None, first) } else { (Some(first), second) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_has_examples_notes_and_statuses() {
        let help = "Examples:\n  a -b  it\n        goes on\n  c\n\nCost: some.\n\nExit status:\n  \
                    the program's own\n  2    wrong\nWith -p:\n  0    ended";
        let row = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let status = |a: &str, b: &str| (Some(a.to_owned()), b.to_owned());
        let expected = Epilogue {
            examples: vec![row("a -b", "it goes on"), row("c", "")],
            notes: vec!["Cost: some.".to_owned()],
            statuses: vec![
                (None, "the program's own".to_owned()),
                status("2", "wrong"),
                (None, "With -p:".to_owned()),
                status("0", "ended"),
            ],
        };
        assert_eq!(Epilogue::parse(help), expected);
    }
}
