//! Tables of the pages.

use super::escape;

/// Words of more letters are broken into lines.
const LONG: usize = 40;

/// A table with more columns than this needs the width of a desk's window.
const MANY: usize = 8;

/// A table: the first column names its rows; the others are numbers unless said otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    caption: String,
    columns: Vec<String>,
    words: Vec<usize>,
    rows: Vec<Vec<Cell>>,
    /// Column that the rows are in the descending order of, if a reader may choose another.
    sorted_by: Option<usize>,
}

/// A cell: what it says, and what it is sorted by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// What it says.
    pub text: String,
    /// The number that it is sorted by; its text if there is none.
    pub key: Option<f64>,
}

impl Cell {
    /// A cell that says `text` and is sorted by `key`.
    #[must_use]
    pub(crate) fn number(text: String, key: f64) -> Cell {
        Cell { text, key: Some(key).filter(|key| key.is_finite()) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, key: None }
    }
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub(crate) fn new(caption: &str, columns: &[&str]) -> Table {
        Table {
            caption: caption.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            words: vec![0],
            rows: Vec::new(),
            sorted_by: None,
        }
    }

    /// Lets a reader sort it. Its rows are in the descending order of `column`, from 0.
    #[must_use]
    pub(crate) fn sorted_by(mut self, column: usize) -> Table {
        self.sorted_by = Some(column);
        self
    }

    /// Columns (from 0) that hold words.
    #[must_use]
    pub(crate) fn words(mut self, columns: &[usize]) -> Table {
        self.words.extend(columns);
        self
    }

    /// Adds a row; cells that are missing are empty.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.cells(cells.into_iter().map(Cell::from).collect());
    }

    /// [`Table::row`] with what to sort it by.
    pub(crate) fn cells(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in a box that scrolls by itself if a single word is wider than the window.
    #[must_use]
    pub(super) fn html(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let caption = escape(&self.caption);
        let mut html = format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n\
             <table{sortable}>\n<caption>{caption}</caption>\n<thead><tr>",
            sortable = self.classes(),
        );
        let classes: Vec<&str> = (0..self.columns.len()).map(|index| self.class(index)).collect();
        for (index, (class, column)) in classes.iter().copied().zip(&self.columns).enumerate() {
            let column = escape(column);
            let order = match self.sorted_by {
                Some(sorted) if sorted == index => " aria-sort=\"descending\"",
                _ => "",
            };
            html.extend(["<th scope=\"col\"", class, order, ">", column.as_str(), "</th>"]);
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for (index, class) in classes.iter().copied().enumerate() {
                let cell = row.get(index).cloned().unwrap_or_default();
                let key = cell.key.map_or_else(String::new, |key| format!(" data-key=\"{key}\""));
                let text = escape(&cell.text);
                if index == 0 {
                    html.extend(["<th scope=\"row\"", class, &key, ">", &text, "</th>"]);
                } else {
                    let label = escape(self.columns.get(index).map_or("", String::as_str));
                    html.extend(["<td", class, &key, " data-label=\"", &label, "\">", &text]);
                    html.push_str("</td>");
                }
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n</div>\n");
        html
    }

    /// Where the window is too narrow for all columns, each row becomes a paragraph.
    fn classes(&self) -> &'static str {
        match (self.sorted_by.is_some(), self.columns.len() > MANY) {
            (true, true) => " class=\"sortable many\"",
            (true, false) => " class=\"sortable\"",
            (false, true) => " class=\"many\"",
            (false, false) => "",
        }
    }

    /// Columns of words stand left; long words are broken.
    fn class(&self, column: usize) -> &'static str {
        let length = |row: &Vec<Cell>| row.get(column).map_or(0, |cell| cell.text.chars().count());
        let longest = self.rows.iter().map(length).max().unwrap_or(0);
        match (self.words.contains(&column), longest > LONG) {
            (true, true) => " class=\"l\"",
            (true, false) => " class=\"w\"",
            (false, _) => "",
        }
    }
}
