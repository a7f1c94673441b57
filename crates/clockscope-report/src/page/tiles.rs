//! Figures that are to be seen first.

use super::{Page, escape};

/// A figure, large, with what it is.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    /// What it is.
    pub name: String,
    /// The figure with its unit.
    pub value: String,
    /// How it is known, or what to make of it.
    pub note: String,
}

impl Page {
    /// Figures in a row, as many as fit; nothing if there are none.
    pub(crate) fn tiles(&mut self, tiles: &[Tile]) {
        if tiles.is_empty() {
            return;
        }
        self.body.push_str("<dl class=\"tiles\">\n");
        for tile in tiles {
            let (name, value) = (escape(&tile.name), escape(&tile.value));
            self.push(&["<div><dt>", &name, "</dt><dd>", &value, "</dd>"]);
            self.push(&["<dd class=\"note\">", &escape(&tile.note), "</dd></div>\n"]);
        }
        self.body.push_str("</dl>\n");
    }
}
