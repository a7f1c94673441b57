//! Exit statuses of `clockscope`; scripts may depend on them.

use std::fmt::Display;

pub use clock_doctor::report::status::{NOTHING_TO_MEND, UNKNOWN, WRONG as WRONG_TIME};

/// Everything went well.
pub(crate) const OK: i32 = 0;
/// A check has found a fault or a change (`compare --fail-if`, `wrongness`, `serve --status`).
pub(crate) const FOUND: i32 = 1;
/// `trace -p`: clockscope could not attach to some of the processes.
pub(crate) const INCOMPLETE: i32 = 1;
/// The command line was wrong, or the tool failed in a command that runs no program.
pub const FAILURE: i32 = 2;
/// `trace` and `run`: clockscope itself failed before the program started, or could not write the report.
pub(crate) const FAILED: i32 = 125;
/// `trace` and `run`: the program was found but could not be executed, as in a shell.
pub(crate) const NOT_EXECUTABLE: i32 = 126;
/// `trace` and `run`: the program was not found, as in a shell.
pub(crate) const NOT_FOUND: i32 = 127;
/// Added to the signal's number when a signal killed the program, as in a shell.
pub(crate) const SIGNAL_BASE: i32 = 128;

/// The exit status of `trace` and `run`: `code`, but never that of a success if the report was not written.
pub(crate) const fn reported(is_written: bool, code: i32) -> i32 {
    if code == OK && !is_written { FAILED } else { code }
}

/// An error that leads to another exit status than other errors of its subcommand.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    pub(crate) code: i32,
    message: String,
}

impl Failed {
    pub(crate) fn new(code: i32, what: impl Display) -> Self {
        Self { code, message: format!("{what:#}") }
    }
}
