//! How programs are to be traced, and what their report is to hold.

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

/// All that is chosen before anything is traced. A command makes it once, from its options.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What answers the program's reads of a clock.
    pub clock: Clock,
    /// With [`Clock::Slow`]: the least time of a read; as long as with hpet if `None`.
    pub read_cost: Option<Duration>,
    /// Use the counter for the clock page although the kernel does not use it.
    pub force: bool,
    /// How vDSO calls are counted; not at all if `None`.
    pub count_by: Option<CountBy>,
    /// How system calls are counted.
    pub syscalls: CountOptions,
    /// The calls that the report has.
    pub filter: Filter,
    /// How far a launched program is followed.
    pub following: Following,
    /// Calls whose callers are sampled, and the most samples a second.
    pub callers: Option<(CallersOf, u32)>,
    /// Keep the counts over the run.
    pub timeline: bool,
    /// Show rates while programs run.
    pub top: bool,
    /// What another cost of a read would make of the program.
    pub what_if: Option<Question>,
    /// Say what the clock is worth.
    pub verdict: bool,
    /// Describe the machine, too.
    pub host: bool,
    /// Tells the user what goes on.
    pub voice: Voice,
}

/// Where sentences for the user go while programs are traced.
#[derive(Clone, Copy, Debug)]
pub struct Voice {
    /// What counting costs, and what was attached to.
    pub note: fn(&str),
    /// What went wrong.
    pub warn: fn(&str),
    /// Lines of the live view that is no screen; fails when nobody reads them any more.
    pub line: fn(&str) -> io::Result<()>,
}

impl Default for Plan {
    /// Counts vDSO calls of a program and what it starts, and says nothing meanwhile.
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

    /// The image and its memory.
    pub(crate) fn session(&self) -> anyhow::Result<Session> {
        let counting = match self.count_by {
            None => Counting::No,
            Some(CountBy::Thread) if tsc::has_thread_pointer() => Counting::ByThread,
            Some(CountBy::Thread | CountBy::Cpu) => Counting::ByCpu,
        };
        let mut session = Session::new(counting, self.route())?;
        if self.syscalls.via.has_sites() {
            session.count_sites(self.syscalls.time);
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
