//! Where the report goes: standard output, or a file that is replaced at once.

use std::path::Path;

use anyhow::Result;

use crate::printing::{colour, replace_file, streams};
use clock_doctor::report::text::TextOptions;
use clockscope_sys::terminal;

/// How text is printed: in colour and cut to the terminal, if it goes to one.
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
/// When it cannot be written.
pub(super) fn write(path: Option<&Path>, text: &str) -> Result<()> {
    match path {
        None => streams::print_coloured(text),
        // node_exporter reads what ends in `.prom`; the unfinished file does not.
        Some(path) => replace_file::replace_text(path, text),
    }
}
