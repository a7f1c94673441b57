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

    /// A paragraph, or another block.
    pub(crate) fn text(&mut self, text: &str) {
        self.markdown.push_str(text);
        self.markdown.push_str("\n\n");
        // The page is still whole if standard output has no reader any more.
        let _ = writeln!(std::io::stdout().lock(), "{text}\n");
    }
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
