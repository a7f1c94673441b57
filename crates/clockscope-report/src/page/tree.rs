//! A tree of lines that open and close without a script.

use super::{Page, escape};

/// A line with what hangs below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    /// What the line is of.
    pub name: String,
    /// Its figures.
    pub figures: String,
    /// Lines of text below it, before its branches.
    pub lines: Vec<String>,
    /// Whether it is open at first.
    pub open: bool,
    /// What hangs below.
    pub branches: Vec<Branch>,
}

impl Page {
    /// A tree; nothing if it has no branches. `label` names it for who cannot see it.
    pub(crate) fn tree(&mut self, label: &str, branches: &[Branch]) {
        if branches.is_empty() {
            return;
        }
        let label = escape(label);
        self.push(&["<nav class=\"tree\" aria-label=\"", &label, "\">\n"]);
        self.branches(branches);
        self.body.push_str("</nav>\n");
    }

    fn branches(&mut self, branches: &[Branch]) {
        self.body.push_str("<ul>\n");
        for branch in branches {
            self.branch(branch);
        }
        self.body.push_str("</ul>\n");
    }

    fn branch(&mut self, branch: &Branch) {
        let (name, figures) = (escape(&branch.name), escape(&branch.figures));
        let line = ["<b>", &name, "</b> <span>", &figures, "</span>"].concat();
        if branch.branches.is_empty() && branch.lines.is_empty() {
            self.push(&["<li class=\"leaf\">", &line, "</li>\n"]);
            return;
        }
        let open = if branch.open { " open=\"\"" } else { "" };
        self.push(&["<li><details", open, "><summary>", &line, "</summary>\n"]);
        for text in &branch.lines {
            self.push(&["<p>", &escape(text), "</p>\n"]);
        }
        if !branch.branches.is_empty() {
            self.branches(&branch.branches);
        }
        self.body.push_str("</details></li>\n");
    }
}
