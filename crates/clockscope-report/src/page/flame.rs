//! A flame graph: a picture for everybody, and the data from which a script draws one that can be
//! searched and zoomed into.

use serde::Serialize;

use super::super::chart::Picture;
use super::{Page, escape};

/// Data of a flame graph, for the script.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct FlameView {
    /// Names of functions, each once.
    pub names: Vec<String>,
    /// For each name, the file it is in, or a note; an index into `notes`.
    pub note_of: Vec<usize>,
    /// Files and notes.
    pub notes: Vec<String>,
    /// For each name, the number of its colour.
    pub colour_of: Vec<usize>,
    /// The frames, each after its caller: depth, name and calls.
    pub frames: Vec<(u32, usize, u64)>,
}

impl Page {
    /// The flame graph with its picture for readers without script, and its caption.
    pub(crate) fn flame(
        &mut self,
        view: &FlameView,
        picture: &Result<Picture, String>,
        conclusion: &str,
        reading: &str,
    ) {
        self.figures += 1;
        let number = self.figures.to_string();
        self.body.push_str("<figure>\n<div class=\"flame-picture\">\n");
        self.picture(picture.as_ref());
        self.push(&[
            "</div>\n<div class=\"flame\" hidden=\"\" role=\"group\" aria-label=\"",
            &escape(conclusion),
            "\"></div>\n<script type=\"application/json\" class=\"flame-data\">",
            &embedded(view),
            "</script>\n",
        ]);
        self.push(&["<figcaption><strong>Figure ", &number, ". ", &escape(conclusion)]);
        self.push(&["</strong> ", &escape(reading), "</figcaption>\n</figure>\n"]);
    }
}

/// JSON in which nothing can end the element that it stands in.
fn embedded(view: &FlameView) -> String {
    let json = clockscope_text::foreign::json(view, false).unwrap_or_else(|_| "null".to_owned());
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_its_element() {
        let name = "</script><script>alert(1)</script>&amp;<!--".to_owned();
        let view = FlameView { names: vec![name.clone()], ..FlameView::default() };
        let json = embedded(&view);
        assert!(!json.contains(['<', '>', '&']), "{json}");
        let back: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["names"][0], name);
    }
}
