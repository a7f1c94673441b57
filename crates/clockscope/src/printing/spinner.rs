//! A line on the terminal during a measurement.

use std::io::{self, IsTerminal as _};

use indicatif::ProgressBar;

/// The present step, on standard error if that is a terminal.
pub(crate) struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Starts the line.
    pub(crate) fn start() -> Self {
        Self(io::stderr().is_terminal().then(ProgressBar::new_spinner))
    }

    /// Shows the present step.
    pub(crate) fn tell(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }

    /// Removes the line from the screen.
    pub(crate) fn end(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}
