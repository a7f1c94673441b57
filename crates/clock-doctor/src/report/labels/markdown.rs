//! docs/labels.md.

use std::fmt::Write as _;

use crate::rules::catalogue::{Page, pages};

const HEAD: &str = "# The labels of clockscope doctor

Every word that stands in brackets in doctor's text, and in `labels` of its JSON. The same pages are in the program:
`clockscope doctor --list` and `clockscope doctor --explain LABEL`.

Severities are what a finding usually has; on a machine it may be more or less. `ok` looks bad and is not, `note` is worth knowing,
`slow` costs time or may, `wrong` makes wrong time possible.

This page is generated: `CLOCKSCOPE_WRITE_LABELS=1 cargo test -p clockscope --test quiet labels_page` writes it.
";

/// The page, from the catalogue.
pub fn markdown() -> String {
    let mut out = HEAD.to_owned();
    let mut group = "";
    for page in pages() {
        if page.group != group {
            group = page.group;
            out += &format!("\n## {group}\n");
            out += &contents(pages().iter().filter(|other| other.group == group));
        }
        out += &section(page);
    }
    out
}

/// A line of links.
fn contents<'a>(pages: impl Iterator<Item = &'a Page>) -> String {
    let links = pages.map(|page| format!("[{}](#{})", page.label, anchor(page.label)));
    format!("\n{}\n", links.collect::<Vec<_>>().join(" · "))
}

fn section(page: &Page) -> String {
    let level = page.severity.map(|level| format!("*{}*: ", level.word())).unwrap_or_default();
    let mut out = format!(
        "\n<a id=\"{}\"></a>\n### {}\n\n{level}{}.\n",
        anchor(page.label),
        page.label,
        escaped(page.title)
    );
    for (heading, text) in &page.paragraphs {
        let heading = if heading.is_empty() { String::new() } else { format!("**{heading}:** ") };
        let _ = write!(out, "\n{heading}{}\n", escaped(text));
    }
    if !page.references.is_empty() {
        let references: Vec<String> = page.references.iter().map(|text| escaped(text)).collect();
        let _ = write!(out, "\n**See:** {}\n", references.join("; "));
    }
    out
}

/// Letters, digits, `-` and `_` of a label; the rest becomes `-`.
fn anchor(label: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    label.chars().map(|c| if keep(c) { c } else { '-' }).collect()
}

/// Text as it is, where Markdown would take a part of it for markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        in_code ^= c == '`';
        if !in_code && matches!(c, '*' | '<' | '>' | '_' | '[' | ']') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_label_once_and_its_links_lead_somewhere() {
        let page = markdown();
        for label in pages().iter().map(|page| page.label) {
            let heading = format!("\n### {label}\n");
            assert_eq!(page.matches(&heading).count(), 1, "{label}");
            assert_eq!(page.matches(&format!("(#{})", anchor(label))).count(), 1, "{label}");
            assert_eq!(
                page.matches(&format!("<a id=\"{}\">", anchor(label))).count(),
                1,
                "{label}"
            );
        }
    }

    #[test]
    fn markup_in_words_is_text() {
        assert_eq!(
            escaped("hyperv_clocksource <NAME> `a_b`"),
            "hyperv\\_clocksource \\<NAME\\> `a_b`"
        );
        assert_eq!(anchor("fix:tsc=reliable"), "fix-tsc-reliable");
    }
}
