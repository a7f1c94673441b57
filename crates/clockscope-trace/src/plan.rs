//! The plan of a trace: how programs are traced, and the content of the report.

use std::io;
use std::time::Duration;

use fastclock::Nanos;

use crate::clock_reads::TYPICAL_HPET_NS;
use crate::options::{CallersOf, CountBy, CountOptions};
use clockscope_model::trace::Clock;
use clockscope_report::what_if::Question;
use clockscope_sys::tsc;
use clockscope_syscalls::Breakdown;
use clockscope_syscalls::filter::Filter;
use clockscope_tracee::follow::Following;
use clockscope_tracee::image::{Counting, Route};
use clockscope_tracee::session::Session;
use clockscope_tracee::sites::Ahead;

/// All choices made before tracing starts. A command makes one plan, from its options.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The clock that answers the program's reads.
    pub clock: Clock,
    /// With [`Clock::Slow`]: the least time of a read; `None`: the time of a read of hpet.
    pub read_cost: Option<Duration>,
    /// Use the counter for the clock page even if the kernel does not use it as its clocksource.
    pub force: bool,
    /// How vDSO calls are counted; `None`: not at all.
    pub count_by: Option<CountBy>,
    /// How system calls are counted.
    pub syscalls: CountOptions,
    /// The calls to report.
    pub filter: Filter,
    /// How far a launched program is followed.
    pub following: Following,
    /// Calls whose callers are sampled, and the most samples a second.
    pub callers: Option<(CallersOf, u32)>,
    /// Keep the counts over the run.
    pub timeline: bool,
    /// Show rates while programs run.
    pub top: bool,
    /// Report the processor time at another cost of a read.
    pub what_if: Option<Question>,
    /// Report the gain or loss by the chosen clock.
    pub verdict: bool,
    /// Describe the machine in the report.
    pub host: bool,
    /// Sinks for messages to the user.
    pub voice: Voice,
}

/// Sinks for messages to the user during a trace.
#[derive(Clone, Copy, Debug)]
pub struct Voice {
    /// Notes: the cost of counting, and attached processes.
    pub note: fn(&str),
    /// Warnings.
    pub warn: fn(&str),
    /// Lines of the live view without a terminal; an error if the reader has closed the pipe.
    pub line: fn(&str) -> io::Result<()>,
}

impl Default for Plan {
    /// Counts vDSO calls of a program and of the processes that it starts, without messages.
    fn default() -> Self {
        Self {
            clock: Clock::Kernel,
            read_cost: None,
            force: false,
            count_by: Some(CountBy::Thread),
            syscalls: CountOptions::default(),
            filter: Filter::default(),
            following: Following::Program,
            callers: None,
            timeline: false,
            top: false,
            what_if: None,
            verdict: false,
            host: false,
            voice: Voice { note: |_| (), warn: |_| (), line: |_| Ok(()) },
        }
    }
}

impl Plan {
    /// Whether the report has the rows of each process.
    pub(crate) fn by_process(&self) -> bool {
        self.syscalls.breakdown != Breakdown::Total
    }

    /// Whether the report has the rows of each thread.
    pub(crate) fn by_thread(&self) -> bool {
        self.syscalls.breakdown == Breakdown::Thread
    }

    /// Looks for system calls in the C library while the session is being made. Call it when the program's process exists,
    /// because it starts a thread.
    pub(crate) fn look_ahead(&self) -> Option<Ahead> {
        let counts_sites = self.count_by.is_some() && self.syscalls.via.has_sites();
        counts_sites.then(|| Ahead::begin(self.syscalls.counters)).flatten()
    }

    /// Creates the image and its memory.
    pub(crate) fn session(&self) -> anyhow::Result<Session> {
        let counting = match self.count_by {
            None => Counting::No,
            Some(CountBy::Thread) if tsc::has_thread_pointer() => Counting::ByThread,
            Some(CountBy::Thread | CountBy::Cpu) => Counting::ByCpu,
        };
        let mut session = Session::new(counting, self.route())?;
        if self.syscalls.via.has_sites() {
            session.count_sites(self.syscalls.time, self.syscalls.counters);
        }
        if self.following != Following::Start {
            session.follow();
        }
        Ok(session)
    }

    fn route(&self) -> Route {
        match self.clock {
            Clock::Kernel => Route::Kernel,
            Clock::Syscall => Route::Syscall,
            Clock::Coarse => Route::Coarse,
            Clock::Slow => {
                let nanos = self.read_cost.map_or(u128::from(TYPICAL_HPET_NS), |it| it.as_nanos());
                Route::Slow { read_cost: Nanos(i64::try_from(nanos).unwrap_or(i64::MAX)) }
            }
            Clock::Tsc => Route::Tsc { fast: false },
            Clock::TscFast => Route::Tsc { fast: true },
        }
    }
}
