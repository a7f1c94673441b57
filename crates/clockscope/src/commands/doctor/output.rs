//! Writes the report to standard output, or replaces a file.

use std::path::Path;

use anyhow::Result;

use crate::cli::explain::DoctorArgs;
use crate::printing::{colour, replace_file, streams};
use clock_doctor::report::text::TextOptions;
use clockscope_sys::terminal;

/// Options of the text: in colour and cut to the terminal's width, if standard output is one.
pub(super) fn text_options(args: &DoctorArgs) -> TextOptions {
    // A user who names processes wants to know what was found in them.
    let all = args.all || !args.pid.is_empty() || !args.container.is_empty();
    if args.output.is_some() {
        return TextOptions { all, ..TextOptions::default() };
    }
    TextOptions { columns: terminal::columns(), colour: colour::on_stdout(), all }
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
