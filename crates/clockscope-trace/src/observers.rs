//! Observers of a traced program: caller sampling, the timeline, the live view, the search for counter reads.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context as _;

use crate::counter::Counter;
use crate::counter_reads;
use crate::plan::Plan;
use crate::sampling::Sampling;
use crate::timeline::{Moments, Timeline};
use crate::top::{Stage, Top};
use clockscope_model::trace::CounterReads;
use clockscope_tracee::counter_search::{CounterSearch, Others};
use clockscope_tracee::follow::Following;
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;
use clockscope_tracee::watchers::Watchers;

/// The observers that the plan asks for.
pub(crate) struct Observing<'a> {
    sampling: Option<Sampling>,
    timeline: Option<Timeline<'a>>,
    top: Option<Top<'a>>,
    counters: Option<CounterSearch>,
}

/// Results of the observers.
#[derive(Default)]
pub(crate) struct Observed {
    /// The sampling of callers.
    pub sampling: Option<Sampling>,
    /// Counts over the run.
    pub timeline: Option<Moments>,
    /// Files with instructions that read the CPU's counter.
    pub counters: Vec<CounterReads>,
}

/// Prepares the output of the live view, if the plan has one. Call it before the program's process is created.
pub(crate) fn stage(plan: &Plan) -> anyhow::Result<Option<Stage>> {
    plan.top.then(Stage::new).transpose().context("cannot keep the program's output")
}

impl<'a> Observing<'a> {
    /// Starts the observers. The live view names `shown`; `running` are the processes that run already.
    pub(crate) fn start(
        plan: &'a Plan,
        stage: Option<&Stage>,
        shown: &[OsString],
        running: &[i32],
        counter: &'a Counter,
        session: &'a Session,
    ) -> anyhow::Result<Self> {
        let sampling = plan.callers.map(|(of, freq)| Sampling::start(of, freq, session, running));
        if let Some(sampling) = sampling.as_ref().filter(|_| plan.following == Following::Start) {
            sampling.decline("--no-follow lets the program go before its callers can be watched");
        }
        let timeline = plan.timeline.then(|| Timeline::new(counter, &plan.filter));
        let top = stage.map(|stage| Top::start(plan, stage, shown, counter, session));
        let top = top.transpose().context("cannot start the live view")?;
        Ok(Self { sampling, timeline, top, counters: None })
    }

    /// Looks for reads of the CPU's counter in a program to be launched and all that comes from it, or in running processes
    /// and their traced descendants.
    pub(crate) fn search(&mut self, plan: &Plan, program: Option<&Path>, processes: &[i32]) {
        let others = if program.is_some() { Others::Descendants } else { Others::Traced };
        let search = || CounterSearch::start(program, processes.to_vec(), others);
        self.counters = plan.count_by.and_then(|_| search());
    }

    /// All observers as one watcher.
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

    /// Ends the live view, and returns the results of the other observers.
    pub(crate) fn finish(self, processes: &Processes) -> Observed {
        if let Some(top) = self.top {
            top.finish(processes);
        }
        Observed {
            sampling: self.sampling,
            timeline: self.timeline.map(|timeline| timeline.moments),
            counters: counter_reads::rows(self.counters),
        }
    }
}
