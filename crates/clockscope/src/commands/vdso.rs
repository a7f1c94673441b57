//! `clockscope vdso`.

use crate::cli::VdsoArgs;

/// Runs the subcommand and gives its exit status.
#[must_use]
pub fn run(_args: &VdsoArgs) -> i32 {
    crate::exit::OK
}
