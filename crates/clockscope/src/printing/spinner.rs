//! A line on the terminal while something is being measured.

use std::io::{self, IsTerminal as _};

use indicatif::ProgressBar;

/// What is being done, on standard error if that is a terminal.
pub(crate) struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Starts it.
    pub(crate) fn start() -> Self {
        Self(io::stderr().is_terminal().then(ProgressBar::new_spinner))
    }

    /// Says what is being done.
    pub(crate) fn tell(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }

    /// Takes it off the screen.
    pub(crate) fn end(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}
