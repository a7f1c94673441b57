//! Every label and every fix that doctor knows. Their texts are in `pages.md`, and so are their consequences: see
//! `bearings`.

mod bearings;
mod names;

use std::sync::LazyLock;

use serde::Serialize;

pub use names::{Fix, Label, Says, Severity, State};

/// All fixes that make the kernel trust the TSC, or use it.
pub(crate) const TRUST: &[Fix] =
    &[Fix::TscReliable, Fix::TscNowatchdog, Fix::ClocksourceTsc, Fix::SwitchToTsc];

const TEXT: &str = include_str!("catalogue/pages.md");

/// The text about one label, fix or platform, independent of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Page {
    /// The label, with its prefix if it has one: `tsc-warp`, `fix:reboot`, `platform:kvm`.
    pub label: &'static str,
    /// The heading of its group.
    pub group: &'static str,
    /// Its usual severity; `null` if it is not a finding.
    pub severity: Option<Severity>,
    /// One line, without a full stop.
    pub title: &'static str,
    /// Paragraphs, each with its heading; the first has none.
    pub paragraphs: Vec<(&'static str, &'static str)>,
    /// Kernel files with version, man pages, threads.
    pub references: Vec<&'static str>,
    /// Lines for the program, `@KEY TEXT`: consequences of a label, or texts of an advice.
    #[serde(skip)]
    pub(crate) lines: Vec<(&'static str, &'static str)>,
}

impl Page {
    /// The paragraph under that heading (`What helps`, `But`, `Since`, `Risk`, `Reboot`); empty if there is none.
    pub fn paragraph(&self, heading: &str) -> &'static str {
        self.paragraphs.iter().find(|(name, _)| *name == heading).map_or("", |(_, text)| text)
    }

    /// The meaning and cause of a label, or the effect of a fix and its reason, in whole sentences.
    pub fn explanation(&self) -> &'static str {
        self.paragraph("")
    }

    /// Adds a line of the text below its heading.
    fn read(&mut self, line: &'static str) {
        if self.title.is_empty() {
            let rated = line.split_once(": ");
            let rated = rated.and_then(|(word, title)| Some((Severity::named(word)?, title)));
            self.severity = rated.map(|(severity, _)| severity);
            self.title = rated.map_or(line, |(_, title)| title);
        } else if let Some(line) = line.strip_prefix('@') {
            self.lines.push(line.split_once(' ').unwrap_or((line, "")));
        } else if let Some(reference) = line.strip_prefix("- ") {
            self.references.push(reference);
        } else {
            let headed = line.strip_prefix("**").and_then(|rest| rest.split_once(":** "));
            self.paragraphs.push(headed.unwrap_or(("", line)));
        }
    }
}

static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let mut pages: Vec<Page> = Vec::new();
    let mut group = "";
    // The lines for the program are in HTML comments, so that a rendered page does not show them.
    for line in TEXT.lines().filter(|line| !["", "<!--", "-->"].contains(line)) {
        if let Some(title) = line.strip_prefix("# ") {
            group = title;
        } else if let Some(label) = line.strip_prefix("## ") {
            pages.push(Page { label, group, ..Page::default() });
        } else if let Some(page) = pages.last_mut() {
            page.read(line);
        }
    }
    pages
});

/// The place of the first fix's page: the pages of the clocksources precede it.
static FIRST_FIX: LazyLock<usize> =
    LazyLock::new(|| PAGES.iter().take_while(|page| !page.label.starts_with("fix:")).count());

/// All pages: labels, clocksources, fixes, platforms.
pub fn pages() -> &'static [Page] {
    &PAGES
}

/// The page of that label, with its prefix.
pub fn page(label: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.label == label)
}

/// Words that stay in lower case at the beginning of a sentence.
const SMALL: [&str; 8] = ["tsc", "hpet", "jiffies", "xen", "clockscope", "rdtsc", "chrony", "ntpd"];

/// The text with a capital first letter, if its first word is a plain word and not a name.
pub(crate) fn capitalised(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or("").trim_end_matches(',');
    if SMALL.contains(&first) || first.contains(['=', '-', '_', ',', '.', '/']) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |letter| letter.to_uppercase().chain(letters).collect())
}

/// The text with each `{NAME}` replaced by its value.
pub(crate) fn filled(text: &str, values: &[(&str, String)]) -> String {
    let fill =
        |text: String, (name, value): &(&str, String)| text.replace(&format!("{{{name}}}"), value);
    values.iter().fold(text.to_owned(), fill)
}

impl Label {
    /// The label's page.
    pub fn page(self) -> &'static Page {
        &PAGES[self as usize]
    }

    /// A sentence about the machine for a rule, from the line `@tell:KEY`, with each `{NAME}` replaced by its value.
    pub(crate) fn sentence(self, key: &str, values: &[(&str, String)]) -> String {
        let lines = &self.page().lines;
        let line = lines.iter().find(|(name, _)| name.strip_prefix("tell:") == Some(key));
        debug_assert!(line.is_some(), "{self} has no sentence {key}");
        filled(line.map_or("", |(_, text)| text), values)
    }

    /// The label's usual severity.
    pub fn severity(self) -> Severity {
        self.page().severity.unwrap_or(Severity::Note)
    }
}

impl Fix {
    /// The fix's page.
    pub fn page(self) -> &'static Page {
        &PAGES[*FIRST_FIX + self as usize]
    }
}

#[cfg(test)]
mod completeness_tests;
