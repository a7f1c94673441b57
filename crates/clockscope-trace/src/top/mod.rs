//! `trace --top`: rates once a second, on the terminal or as lines.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the watcher: reads the counts, and passes them on |
//! | `readings.rs` | makes a reading of counts |
//! | `display.rs` | the thread that draws and reads keys |
//!
//! The tracer never waits for the terminal, which may be slow or stopped (Ctrl-S): a thread of its own draws.
//! Programs wait for the tracer.

mod display;
mod readings;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use crate::counter::Counter;
use crate::plan::Plan;
use clockscope_report::top::plain::PlainLines;
use clockscope_report::top::screen::Screen;
use clockscope_sys::terminal::{self, SetAside};
use clockscope_sys::{ending, identity, signals};
use clockscope_tracee::observers::{Watcher, Wish};
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;
use display::Display;

/// Time between two readings.
const REFRESH: Duration = Duration::from_secs(1);
/// Longest time until a key takes effect.
const PROMPT: Duration = Duration::from_millis(100);

/// Output of the live view.
pub(crate) enum Stage {
    /// On the controlling terminal, with the program's output out of the way.
    Screen { _streams: SetAside },
    /// On standard output, a line a second.
    Lines,
}

impl Stage {
    /// Prepares the output: the terminal if standard output is one, otherwise lines. Call it before the
    /// program's process is created, because that process inherits the standard streams.
    ///
    /// # Errors
    ///
    /// When there is no room to keep the program's output.
    pub(crate) fn new() -> io::Result<Self> {
        if io::stdout().is_terminal() && terminal::controlling().is_ok() {
            SetAside::streams().map(|_streams| Self::Screen { _streams })
        } else {
            Ok(Self::Lines)
        }
    }
}

enum Output {
    Screen(Display),
    Lines(PlainLines),
}

/// Reads the counts each second and shows them.
pub(crate) struct Top<'a> {
    plan: &'a Plan,
    output: Output,
    counter: &'a Counter,
    session: &'a Session,
    start: Instant,
    /// When the next reading is due.
    due: Instant,
    /// Whether writing has failed; no more lines are written then.
    closed: bool,
}

impl<'a> Top<'a> {
    /// Starts the view. `program` is shown in the first line.
    ///
    /// # Errors
    ///
    /// When there is no terminal, or the thread cannot be started.
    pub(crate) fn start(
        plan: &'a Plan,
        stage: &Stage,
        program: &[OsString],
        counter: &'a Counter,
        session: &'a Session,
    ) -> io::Result<Self> {
        let words: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
        let screen = Screen::new(words.join(" "), !terminal::has_utf_8());
        let output = match stage {
            Stage::Screen { .. } => Output::Screen(Display::start(screen)?),
            Stage::Lines => Output::Lines(PlainLines::default()),
        };
        let start = Instant::now();
        Ok(Self {
            // The screen has its first reading at once; a line covers the second before it.
            due: if matches!(output, Output::Lines(_)) { start + REFRESH } else { start },
            plan,
            output,
            counter,
            session,
            start,
            closed: false,
        })
    }

    /// Ends the view. Dropping the screen restores the terminal; in line mode a last line covers the time
    /// since the line before.
    pub(crate) fn finish(mut self, processes: &Processes) {
        if let Output::Lines(_) = self.output {
            self.read(processes);
        }
    }

    fn read(&mut self, processes: &Processes) {
        let Ok((tallies, cost)) = self.counter.read() else { return };
        let mut reading = readings::of(processes, &tallies, &cost, self.session, &self.plan.filter);
        reading.at = self.start.elapsed();
        match &mut self.output {
            Output::Screen(display) => display.show(reading),
            Output::Lines(plain) if !self.closed => {
                let line = plain.next(&reading, identity::unix_seconds());
                // The reader may close the pipe; the program goes on.
                self.closed = (self.plan.voice.line)(&line).is_err();
            }
            Output::Lines(_) => {}
        }
    }
}

impl Watcher for Top<'_> {
    fn tick(&mut self, processes: &Processes) -> Wish {
        if ending::take_stop() {
            self.stopping();
            signals::stop_self();
            self.continued();
        }
        let now = Instant::now();
        if now + self.interval() / 2 >= self.due {
            self.read(processes);
            self.due = (self.due + REFRESH).max(now);
        }
        match &self.output {
            Output::Screen(display) if display.wants_to_leave() => Wish::Leave,
            Output::Screen(_) | Output::Lines(_) => Wish::GoOn,
        }
    }

    fn interval(&self) -> Duration {
        match self.output {
            Output::Screen(_) => PROMPT,
            Output::Lines(_) => REFRESH,
        }
    }

    fn stopping(&mut self) {
        if let Output::Screen(display) = &mut self.output {
            display.leave_for_a_while();
        }
    }

    fn continued(&mut self) {
        if let Output::Screen(display) = &mut self.output {
            display.come_back();
        }
    }
}
