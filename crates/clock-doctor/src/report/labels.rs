//! Pages of labels, as text for the terminal.

use super::text::indented;
use crate::rules::catalogue::{self, Page, pages};
use crate::rules::finding::Severity;
use clockscope_text::names::nearest;

/// Prefixes of the words in `labels` that are no findings.
const PREFIXES: [&str; 4] = ["state:", "source:", "platform:", "fix:"];

/// The page of a label. The prefix may be omitted if the rest is unambiguous.
///
/// # Errors
///
/// If there is no such label: a clause that names the nearest one.
pub fn page(word: &str) -> Result<&'static Page, String> {
    let word = word.trim();
    let with_prefix =
        PREFIXES.iter().find_map(|prefix| catalogue::page(&format!("{prefix}{word}")));
    catalogue::page(word).or(with_prefix).ok_or_else(|| {
        let names = pages().iter().map(|page| page.label);
        let bare = names.clone().map(|name| name.split_once(':').map_or(name, |(_, bare)| bare));
        let hint = match nearest(word, names.chain(bare)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "clockscope doctor --list has all of them".to_owned(),
        };
        format!("there is no label `{}`; {hint}", word.escape_debug())
    })
}

/// The page as text.
pub fn text(page: &Page) -> String {
    let mut out = match page.severity {
        Some(level) => format!("{} ({}): {}\n", page.label, level.name(), page.title),
        None => format!("{}: {}\n", page.label, page.title),
    };
    for (heading, text) in &page.paragraphs {
        out.push('\n');
        let gap = if heading.is_empty() { "" } else { ": " };
        out += &indented(2, &format!("{heading}{gap}{text}"));
    }
    if !page.references.is_empty() {
        out += "\n  See:\n";
        out.extend(page.references.iter().map(|reference| indented(4, reference)));
    }
    out
}

/// All labels with their titles, by group.
pub fn list_text() -> String {
    let widest = pages().iter().map(|page| page.label.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let mut group = "";
    for page in pages() {
        if page.group != group {
            group = page.group;
            let gap = if out.is_empty() { "" } else { "\n" };
            out += &format!("{gap}{group}\n");
        }
        let level = page.severity.map_or("", Severity::name);
        out += format!("  {:<widest$}  {level:<5}  {}", page.label, page.title).trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_label_has_one_page_and_it_is_found() {
        let all = pages();
        let names: HashSet<&str> = all.iter().map(|page| page.label).collect();
        assert_eq!(names.len(), all.len(), "a label stands twice");
        for page in all {
            assert_eq!(super::page(page.label), Ok(page));
            let text = text(page);
            assert!(text.starts_with(page.label) && text.contains(page.title), "{text}");
        }
        assert_eq!(all.len(), list_text().lines().filter(|line| line.starts_with("  ")).count());
    }

    #[test]
    fn a_prefix_may_be_left_out() {
        assert_eq!(page("tsc=reliable").unwrap().label, "fix:tsc=reliable");
        assert_eq!(page("hpet").unwrap().label, "source:hpet");
        assert_eq!(page(" xen ").unwrap().label, "source:xen");
        assert_eq!(page("slow").unwrap().label, "state:slow");
    }

    #[test]
    fn a_slip_finds_its_label() {
        let said = |word: &str| page(word).unwrap_err();
        assert_eq!(said("tsc-wrap"), "there is no label `tsc-wrap`; did you mean `tsc-warp`?");
        assert!(said("zebra crossing").ends_with("clockscope doctor --list has all of them"));
        assert!(!said("\u{1b}[2J").contains('\u{1b}'));
    }
}
