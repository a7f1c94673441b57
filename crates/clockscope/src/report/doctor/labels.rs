//! The pages of labels: for the terminal, as JSON, and all together as docs/labels.md.

mod markdown;

pub use markdown::markdown;

use serde::Serialize;

use super::metrics::severity;
use super::platforms;
use super::text::indented;
use clock_doctor::rules::catalogue::{self, FixRow, LabelRow};
use clock_doctor::rules::finding::Severity;
use clockscope_stats::nearest::nearest;

/// What stands in front of the words in `labels` that are no findings.
const PREFIXES: [&str; 4] = ["state:", "source:", "platform:", "fix:"];

/// A page about one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page {
    /// The label, with its prefix if it has one.
    pub label: String,
    /// The heading it stands under.
    pub group: String,
    /// Its usual severity; `null` for what is no finding.
    pub severity: Option<Severity>,
    /// One line, without a full stop.
    pub title: String,
    /// Paragraphs, each with its heading; the first has none.
    pub paragraphs: Vec<(String, String)>,
    /// Kernel files with version, man pages, threads.
    pub references: Vec<String>,
}

/// There is no such label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchLabel {
    word: String,
    nearest: Option<String>,
}

impl std::fmt::Display for NoSuchLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "there is no label `{}`; ", self.word)?;
        match &self.nearest {
            Some(name) => write!(f, "did you mean `{name}`?"),
            None => write!(f, "clockscope doctor --list has all of them"),
        }
    }
}

/// The page of a label. The prefix may be left out where that leaves no doubt.
///
/// # Errors
///
/// If there is no such label.
pub fn page(word: &str) -> Result<Page, NoSuchLabel> {
    let word = word.trim();
    let with_prefix = PREFIXES.iter().map(|prefix| format!("{prefix}{word}"));
    let found = exact(word).or_else(|| with_prefix.into_iter().find_map(|name| exact(&name)));
    found.ok_or_else(|| {
        let names: Vec<String> = list().into_iter().map(|page| page.label).collect();
        let bare = names.iter().map(|name| name.split_once(':').map_or(name.as_str(), |(_, n)| n));
        let near = nearest(word, names.iter().map(String::as_str).chain(bare));
        NoSuchLabel { word: word.escape_debug().to_string(), nearest: near.map(str::to_owned) }
    })
}

/// All pages, in the order of docs/labels.md.
#[must_use]
pub fn list() -> Vec<Page> {
    let findings = catalogue::GROUPS
        .iter()
        .flat_map(|group| group.labels.iter().map(|row| of_label(group.title, row)));
    let fixes = catalogue::FIXES.iter().map(of_fix);
    let platforms = platforms::PLATFORMS.iter().map(of_platform);
    findings.chain(fixes).chain(platforms).collect()
}

fn exact(word: &str) -> Option<Page> {
    list().into_iter().find(|page| page.label == word)
}

fn of_label(group: &str, row: &LabelRow) -> Page {
    Page {
        label: row.label.to_string(),
        group: group.to_owned(),
        severity: Some(row.severity),
        title: row.title.to_owned(),
        paragraphs: filled([("", row.explanation), ("What helps", row.fix), ("But", row.caveat)]),
        references: strings(row.references),
    }
}

fn of_fix(row: &FixRow) -> Page {
    let reboots = if row.reboots { "It needs a reboot." } else { "" };
    Page {
        label: format!("fix:{}", row.fix),
        group: "Fixes".to_owned(),
        severity: None,
        title: row.title.to_owned(),
        paragraphs: filled([
            ("", row.what),
            ("Since", row.since),
            ("Risk", row.risk),
            ("Reboot", reboots),
        ]),
        references: strings(row.references),
    }
}

fn of_platform(platform: &platforms::Platform) -> Page {
    Page {
        label: format!("platform:{}", platform.name),
        group: "Platforms by name".to_owned(),
        severity: None,
        title: platform.title.to_owned(),
        paragraphs: filled([("", platform.about)]),
        references: Vec::new(),
    }
}

fn filled<const N: usize>(paragraphs: [(&str, &str); N]) -> Vec<(String, String)> {
    let there = paragraphs.into_iter().filter(|(_, text)| !text.is_empty());
    there.map(|(heading, text)| (heading.to_owned(), text.to_owned())).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// The page for the terminal.
#[must_use]
pub fn text(page: &Page) -> String {
    let mut out = match page.severity {
        Some(level) => format!("{} ({}): {}\n", page.label, severity(level), page.title),
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
#[must_use]
pub(crate) fn list_text() -> String {
    let pages = list();
    let widest = pages.iter().map(|page| page.label.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let mut group = "";
    for page in &pages {
        if page.group != group {
            group = &page.group;
            let gap = if out.is_empty() { "" } else { "\n" };
            out += &format!("{gap}{group}\n");
        }
        let level = page.severity.map_or("", severity);
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
        let pages = list();
        let names: HashSet<&str> = pages.iter().map(|page| page.label.as_str()).collect();
        assert_eq!(names.len(), pages.len(), "a label stands twice");
        for page in &pages {
            assert_eq!(super::page(&page.label).as_ref(), Ok(page));
            let text = text(page);
            assert!(text.starts_with(&page.label) && text.contains(&page.title), "{text}");
        }
        assert_eq!(pages.len(), list_text().lines().filter(|line| line.starts_with("  ")).count());
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
        let said = |word: &str| page(word).unwrap_err().to_string();
        assert_eq!(said("tsc-wrap"), "there is no label `tsc-wrap`; did you mean `tsc-warp`?");
        assert!(said("zebra crossing").ends_with("clockscope doctor --list has all of them"));
        assert!(!said("\u{1b}[2J").contains('\u{1b}'));
    }
}
