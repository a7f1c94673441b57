//! Progress of the measurement, drawn on standard error while no launch measures.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A shorter measurement shows no progress.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// Steps of the bar of one launch.
const STEPS: u64 = 100;

/// A bar drawn only by [`Progress::show`], never by a thread of its own.
pub(crate) struct Progress {
    start: Instant,
    launches: u32,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Draws nothing yet.
    pub(crate) fn new(launches: u32) -> Self {
        Self { start: Instant::now(), launches, bar: None }
    }

    /// Draws the bar if standard error is a terminal and it is time: `share` (0 to 1) of this launch is done.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    pub(crate) fn show(&mut self, launch: u32, share: f64) {
        if self.start.elapsed() < SHOWN_AFTER || !stderr().is_terminal() {
            return;
        }
        let length = STEPS * u64::from(self.launches);
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("measuring [{bar:40}] {msg}");
            bar.set_style(
                style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "),
            );
            bar
        });
        bar.set_message(format!("launch {} of {}", launch + 1, self.launches));
        bar.set_position(STEPS * u64::from(launch) + (share.clamp(0.0, 1.0) * 100.0) as u64);
        bar.tick();
    }

    /// Takes the bar away.
    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
