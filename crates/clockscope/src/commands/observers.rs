//! Who looks on while programs are traced: the sampling of callers, the timeline, the live view.

use std::ffi::OsString;

use anyhow::Context as _;

use super::top::{Stage, Top};
use crate::cli::trace::{TraceArgs, TraceFormat};
use clockscope_syscalls::filter::Filter;
use clockscope_trace::counter::Counter;
use clockscope_trace::sampling::Sampling;
use clockscope_trace::summary::Observed;
use clockscope_trace::timeline::Timeline;
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;
use clockscope_tracee::watchers::Watchers;

/// All that were asked for.
pub(crate) struct Observing<'a> {
    sampling: Option<Sampling>,
    timeline: Option<Timeline<'a>>,
    top: Option<Top<'a>>,
}

/// Where the live view is shown, if it is. To be called before the program is made.
///
/// # Errors
///
/// When the program's output cannot be kept.
pub fn stage(args: &TraceArgs) -> anyhow::Result<Option<Stage>> {
    args.top.then(Stage::new).transpose().context("cannot keep the program's output")
}

impl<'a> Observing<'a> {
    /// Starts them. `program` is what the live view names, `running` the processes that run already.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub(crate) fn start(
        args: &TraceArgs,
        stage: Option<&Stage>,
        program: &[OsString],
        running: &[i32],
        counter: &'a Counter,
        filter: &'a Filter,
        session: &'a Session,
    ) -> anyhow::Result<Self> {
        let sampling = args.callers_of().map(|of| Sampling::start(of, args.freq, session, running));
        if let Some(sampling) = sampling.as_ref().filter(|_| args.no_follow) {
            sampling.decline("--no-follow lets the program go before its callers can be watched");
        }
        let kept = matches!(args.format, TraceFormat::Json | TraceFormat::Html);
        let timeline = kept.then(|| Timeline::new(counter, filter));
        let top = stage.map(|stage| Top::start(stage, shown(program), counter, filter, session));
        let top = top.transpose().context("cannot start the live view")?;
        Ok(Self { sampling, timeline, top })
    }

    /// All of them as one.
    pub(crate) fn watchers(&mut self) -> Watchers<'_> {
        let mut watchers = Watchers::default();
        if let Some(sampling) = &mut self.sampling {
            watchers.add(sampling);
        }
        if let Some(timeline) = &mut self.timeline {
            watchers.add(timeline);
        }
        if let Some(top) = &mut self.top {
            watchers.add(top);
        }
        watchers
    }

    /// Ends the live view; what the others have is for the report.
    pub(crate) fn finish(self, processes: &Processes) -> Observed<'a> {
        if let Some(top) = self.top {
            top.finish(processes);
        }
        Observed { sampling: self.sampling, timeline: self.timeline }
    }
}

/// The program and its arguments as one line.
fn shown(command: &[OsString]) -> String {
    command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
