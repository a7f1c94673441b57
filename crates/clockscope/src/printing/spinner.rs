//! A line on the terminal during a measurement.

use std::io::{self, IsTerminal as _};

use super::streams;

/// The present step, on standard error if that is a terminal.
pub(crate) struct Spinner {
    is_shown: bool,
}

impl Spinner {
    /// Starts the line.
    pub(crate) fn start() -> Self {
        Self { is_shown: io::stderr().is_terminal() }
    }

    /// Shows the present step.
    pub(crate) fn tell(&self, what: &str) {
        if self.is_shown {
            streams::replace_line(what);
        }
    }

    /// Removes the line from the screen.
    pub(crate) fn end(self) {
        self.tell("");
    }
}
