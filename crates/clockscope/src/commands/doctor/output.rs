//! Writes the report to standard output, or replaces a file.

use std::path::Path;

use anyhow::Result;

use crate::printing::{colour, replace_file, streams};
use clock_doctor::report::text::TextOptions;
use clockscope_sys::terminal;

/// Options of the text: in colour and cut to the terminal's width, if standard output is one.
pub(super) fn text_options(to_file: bool) -> TextOptions {
    if to_file {
        return TextOptions::default();
    }
    TextOptions { columns: terminal::columns(), colour: colour::on_stdout() }
}

/// Prints, or writes the file.
///
/// # Errors
///
/// When standard output or the file cannot be written.
pub(super) fn write(path: Option<&Path>, text: &str) -> Result<()> {
    match path {
        None => streams::print_coloured(text),
        // node_exporter reads files that end in `.prom`; the name of the unfinished file does not.
        Some(path) => replace_file::replace_text(path, text),
    }
}
