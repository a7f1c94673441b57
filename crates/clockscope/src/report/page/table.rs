//! Tables of the pages.

use super::escape;

/// Words of more letters are broken into lines.
const LONG: usize = 40;

/// A table: the first column names its rows; the others are numbers unless said otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    caption: String,
    columns: Vec<String>,
    words: Vec<usize>,
    rows: Vec<Vec<String>>,
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
        }
    }

    /// Columns (from 0) that hold words.
    #[must_use]
    pub(crate) fn words(mut self, columns: &[usize]) -> Table {
        self.words.extend(columns);
        self
    }

    /// Adds a row; cells that are missing are empty.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in a box that scrolls by itself where the window is narrow.
    #[must_use]
    pub(super) fn html(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let caption = escape(&self.caption);
        let mut html = format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n\
             <table>\n<caption>{caption}</caption>\n<thead><tr>"
        );
        let classes: Vec<&str> = (0..self.columns.len()).map(|index| self.class(index)).collect();
        for (class, column) in classes.iter().copied().zip(&self.columns) {
            let column = escape(column);
            html.extend(["<th scope=\"col\"", class, ">", column.as_str(), "</th>"]);
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for (index, class) in classes.iter().copied().enumerate() {
                let cell = row.get(index).map_or_else(String::new, |cell| escape(cell));
                if index == 0 {
                    html.extend(["<th scope=\"row\"", class, ">", cell.as_str(), "</th>"]);
                } else {
                    html.extend(["<td", class, ">", cell.as_str(), "</td>"]);
                }
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n</div>\n");
        html
    }

    /// Columns of words stand left; long words are broken.
    fn class(&self, column: usize) -> &'static str {
        let length = |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
        let longest = self.rows.iter().map(length).max().unwrap_or(0);
        match (self.words.contains(&column), longest > LONG) {
            (true, true) => " class=\"l\"",
            (true, false) => " class=\"w\"",
            (false, _) => "",
        }
    }
}
