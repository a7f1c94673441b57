//! `clockscope run`.

use crate::cli::RunArgs;

/// Runs the subcommand and gives its exit status.
#[must_use]
pub fn run(_args: &RunArgs) -> i32 {
    0
}
