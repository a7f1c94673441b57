//! The error in a command line, as one line.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};

use super::{Cli, hints};

/// The line for an error of `clap`, without the name of the tool. `words` is the command line.
pub(crate) fn line(error: &clap::Error, words: &[OsString]) -> String {
    let cli = Cli::command();
    // Global options may precede the subcommand.
    let mut typed = words.iter().skip(1).filter_map(|word| word.to_str());
    let command = typed.find(|word| cli.find_subcommand(word).is_some()).unwrap_or_default();
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        if let Some(ContextValue::String(word)) = error.get(kind)
            && let Some(hint) = hints::instead(command, word)
        {
            return format!("{word}: {hint}");
        }
    }
    let said = error.render().to_string();
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    // After these, `clap` prints the usage and a pointer to the help.
    let said = ["\n\nUsage: ", "\n\nFor more "]
        .iter()
        .fold(said, |said, end| said.split(end).next().unwrap_or(said));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ").replace(" tip: ", "; tip: ");
    let name = format!("clockscope {command}");
    format!("{said}; see {} --help", name.trim_end())
}
