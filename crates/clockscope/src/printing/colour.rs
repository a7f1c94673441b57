//! Decides whether reports are printed in colour, by `--color`, the environment and the destination.
//!
//! `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM=dumb` have their usual meaning (<https://no-color.org>,
//! <https://bixense.com/clicolors>). Files have no colours.

use std::ffi::OsString;
use std::io;

use anstream::{AutoStream, ColorChoice};

use super::streams::{self, coloured};
use crate::cli::Color;
use clockscope_sys::terminal;
use clockscope_text::foreign::printable_lines;
use clockscope_text::style::{SEQUENCES, emphasized};

/// Sets the command line's choice for all output.
pub(crate) fn choose(color: Color) {
    match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
    .write_global();
}

/// Sets the choice for a command line that `clap` did not parse, or that asks for help.
pub(crate) fn choose_by_words(words: &[OsString]) {
    let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let given = text.iter().any(|word| word == "--color=never")
        || text.windows(2).any(|pair| pair[0] == "--color" && pair[1] == "never");
    choose(if given { Color::Never } else { Color::Auto });
}

/// Whether standard output gets colours.
pub(crate) fn on_stdout() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// Whether standard error gets colours.
pub(crate) fn on_stderr() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

/// A report in text for standard output; the lines that `matter` stand out.
pub(crate) fn for_stdout(text: &str, matters: impl Fn(&str) -> bool) -> String {
    let text = in_locale(printable_lines(text));
    if on_stdout() { emphasized(&text, matters) } else { text }
}

/// Prints a report in text to standard output.
///
/// # Errors
///
/// Those of [`streams::print()`].
pub(crate) fn print_report(text: &str) -> anyhow::Result<()> {
    streams::print_bytes(for_stdout(text, |_| false).as_bytes())
}

/// A report for standard error; its rows already have their colours.
pub(crate) fn for_stderr(text: &str) -> String {
    in_locale(if on_stderr() { with_colours(text) } else { printable_lines(text) })
}

/// The text without our characters beyond ASCII if the locale is not one of UTF-8.
fn in_locale(text: String) -> String {
    if terminal::has_utf_8() { text } else { text.replace('…', "~").replace('±', "+-") }
}

fn with_colours(text: &str) -> String {
    emphasized(&coloured(text, |sequence| SEQUENCES.contains(&sequence)), |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_text::style::standing_out;

    #[test]
    fn a_report_has_no_colours_but_ours() {
        assert_eq!(with_colours("x\x1b[8my\x1b[1;36m\x1b[m\n"), "x?[8my?[1;36m?[m\n");
        let row = standing_out("a row\n");
        assert_eq!(with_colours(&row), row);
        assert_eq!(with_colours("Here: x\n"), "\x1b[1mHere:\x1b[0m x\n");
    }
}
