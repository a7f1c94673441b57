//! The page that the suite writes: to standard output as it goes, and to a Markdown file at the end.

use std::io::Write;

/// The page so far.
#[derive(Default)]
pub(crate) struct Page {
    markdown: String,
    verdicts: Vec<String>,
}

impl Page {
    /// A heading.
    pub(crate) fn heading(&mut self, level: usize, text: &str) {
        self.text(&format!("{} {text}", "#".repeat(level)));
    }

    /// A table with aligned columns: the first to the left, the others to the right.
    pub(crate) fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        self.text(&aligned_table(head, rows));
    }

    /// A verdict on a target; also repeated at the end of the page.
    pub(crate) fn verdict(&mut self, text: &str) {
        self.verdicts.push(text.to_owned());
        self.text(&format!("- {text}"));
    }

    /// The verdicts so far.
    pub(crate) fn verdicts(&self) -> &[String] {
        &self.verdicts
    }

    /// The page as Markdown.
    pub(crate) fn markdown(&self) -> &str {
        &self.markdown
    }

    /// The page `old` with the sections of this page in place of its own of the same names, and with
    /// their verdicts. Sections that `old` does not have go before its lists at the end.
    pub(crate) fn updated(&self, old: &str) -> String {
        let mut parts = split_at_headings(old);
        for part in split_at_headings(&self.markdown).into_iter().skip(1) {
            if ENDING.contains(&title(&part)) {
                continue;
            }
            match parts.iter().position(|old| title(old) == title(&part)) {
                Some(at) => parts[at] = part,
                None => {
                    let end = parts.iter().position(|old| ENDING.contains(&title(old)));
                    parts.insert(end.unwrap_or(parts.len()), part);
                }
            }
        }
        let mut page = parts.concat();
        for verdict in &self.verdicts {
            page = with_verdict(&page, verdict);
        }
        page
    }

    /// A paragraph, or another block.
    pub(crate) fn text(&mut self, text: &str) {
        self.markdown.push_str(text);
        self.markdown.push_str("\n\n");
        // The page is still whole if nobody reads standard output any more.
        let _ = writeln!(std::io::stdout().lock(), "{text}\n");
    }
}

/// Headings of the lists at the end of the page.
const ENDING: [&str; 2] = ["Not compared on this machine", "All verdicts"];

/// Cuts a page before each heading of the second level.
fn split_at_headings(page: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in page.split_inclusive('\n') {
        if line.starts_with("## ") {
            parts.push(String::new());
        }
        parts.last_mut().expect("never empty").push_str(line);
    }
    parts
}

fn title(part: &str) -> &str {
    part.lines().next().unwrap_or("").trim_start_matches("## ")
}

/// Puts a verdict into the list of all, in place of the one on the same target.
fn with_verdict(page: &str, verdict: &str) -> String {
    let what = |line: &str| line.split(": target").next().unwrap_or(line).to_owned();
    let new = format!("- {verdict}");
    let Some(list) = page.find("## All verdicts\n") else { return page.to_owned() };
    let (before, list) = page.split_at(list);
    let mut lines: Vec<&str> = list.lines().collect();
    if let Some(at) = lines.iter().position(|line| what(line) == what(&new)) {
        lines[at] = &new;
    } else {
        let last = lines.iter().rposition(|line| line.starts_with("- "));
        lines.insert(last.map_or(lines.len(), |last| last + 1), &new);
    }
    format!("{before}{}\n", lines.join("\n").trim_end())
}

fn aligned_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = std::iter::once(&head).chain(rows).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        })
        .collect();
    let mut rule: Vec<String> = widths.iter().map(|width| "-".repeat(width - 1) + ":").collect();
    rule[0] = "-".repeat(widths[0]);
    let mut lines = vec![table_line(&head, &widths), table_line(&rule, &widths)];
    lines.extend(rows.iter().map(|row| table_line(row, &widths)));
    lines.join("\n")
}

fn table_line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, &width))| {
        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
}
