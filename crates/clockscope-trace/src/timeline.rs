//! Counts over the run, for pictures: `timeline` of the JSON schema.
//!
//! Only made for `--format json` and `html`; other formats skip the cost. Readings start at an interval of
//! ten milliseconds. When there are as many as a picture can show, every second one is dropped and the
//! interval doubles: the file stays small, and the program's first milliseconds stay visible however long it
//! runs.

use std::time::{Duration, Instant};

use vdso_image::layout::{COUNTERS, Counted};

use crate::counter::Counter;
use crate::{fallback_reads, nanos};
use clockscope_model::trace::{Moment, SyscallRow, VdsoRow};
use clockscope_syscalls::filter::Filter;
use clockscope_tracee::observers::{Watcher, Wish};
use clockscope_tracee::processes::Processes;

/// Moments kept, at most.
pub(crate) const MOMENTS_MAX: usize = 600;
/// Time between the first readings.
const FIRST_INTERVAL: Duration = Duration::from_millis(10);
/// Reading takes at most 1/50 of the time; if a reading takes longer, the interval grows.
const SHARE_OF_TIME: u32 = 50;

/// Reads the counts from time to time.
pub(crate) struct Timeline<'a> {
    start: Instant,
    counter: &'a Counter,
    filter: &'a Filter,
    /// By counter: whether it is in the report, and whether it reads a clock.
    kinds: [Kind; COUNTERS],
    pub(crate) moments: Moments,
}

/// The counts at successive moments.
#[derive(Debug)]
pub(crate) struct Moments {
    all: Vec<Moment>,
    /// Time to the next moment.
    interval: Duration,
}

impl Default for Moments {
    fn default() -> Self {
        Self { all: Vec::new(), interval: FIRST_INTERVAL }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    wanted: bool,
    reads: bool,
}

impl<'a> Timeline<'a> {
    /// Starts the timeline now.
    pub(crate) fn new(counter: &'a Counter, filter: &'a Filter) -> Self {
        let kind = |index| {
            Counted::from_counter(index).map_or(Kind::default(), |counted| {
                let name = counted.function.name();
                Kind { wanted: filter.matches(name), reads: fallback_reads::is_read(name) }
            })
        };
        Self {
            start: Instant::now(),
            counter,
            filter,
            kinds: std::array::from_fn(kind),
            moments: Moments::default(),
        }
    }

    fn now(&self, processes: &Processes) -> Moment {
        let mut moment = Moment { at_ns: nanos(self.start.elapsed()), ..Moment::default() };
        for (calls, kind) in processes.snapshot().iter().zip(&self.kinds) {
            moment.vdso_calls += if kind.wanted { *calls } else { 0 };
            moment.clock_reads += if kind.wanted && kind.reads { *calls } else { 0 };
        }
        // If this read fails, the last known count stays; the final read supplies the value.
        let before = self.moments.all.last().map_or(0, |moment| moment.syscall_calls);
        moment.syscall_calls = self.counter.read().map_or(before, |(tallies, _)| {
            let wanted = tallies.iter().filter(|tally| self.filter.matches(&tally.name()));
            wanted.map(|tally| tally.calls).sum()
        });
        moment
    }
}

impl Moments {
    /// The moments, with the totals of the report's rows as the last.
    pub(crate) fn until_end(
        mut self,
        wall_ns: u64,
        vdso: &[VdsoRow],
        syscalls: &[SyscallRow],
    ) -> Vec<Moment> {
        let reads = vdso.iter().filter(|row| fallback_reads::is_read(&row.function));
        let end = Moment {
            at_ns: wall_ns,
            vdso_calls: vdso.iter().map(|row| row.calls).sum(),
            clock_reads: reads.map(|row| row.calls).sum(),
            syscall_calls: syscalls.iter().map(|row| row.calls).sum(),
        };
        self.all.retain(|moment| moment.at_ns < end.at_ns);
        self.push(end);
        self.all
    }

    fn push(&mut self, moment: Moment) {
        if self.all.len() == MOMENTS_MAX {
            // The counts are totals: without the moment between them, two intervals become one.
            let mut index = 0_usize;
            self.all.retain(|_| {
                index += 1;
                index.is_multiple_of(2)
            });
            self.interval *= 2;
        }
        self.all.push(moment);
    }
}

impl Watcher for Timeline<'_> {
    fn tick(&mut self, processes: &Processes) -> Wish {
        let before = Instant::now();
        let moment = self.now(processes);
        self.moments.push(moment);
        self.moments.interval = self.moments.interval.max(before.elapsed() * SHARE_OF_TIME);
        Wish::GoOn
    }

    fn interval(&self) -> Duration {
        self.moments.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows_for_tests::row;

    fn moment(at_ms: u64, calls: u64) -> Moment {
        Moment { at_ns: at_ms * 1_000_000, vdso_calls: calls, ..Moment::default() }
    }

    #[test]
    fn a_long_run_has_few_moments_evenly_spread() {
        let mut timeline = Moments::default();
        let mut at = 0;
        while at < 3_600_000 {
            at += u64::try_from(timeline.interval.as_millis()).expect("is short");
            timeline.push(moment(at, at * 3));
        }
        let vdso =
            [("clock_gettime", at * 3), ("getcpu", 5), ("time", 2)].map(|(f, n)| row(f, None, n));
        let moments = timeline.until_end((at + 1) * 1_000_000, &vdso, &[]);
        assert!((MOMENTS_MAX / 2..=MOMENTS_MAX).contains(&moments.len()), "{}", moments.len());
        let (last, rest) = moments.split_last().expect("there are some");
        assert_eq!((last.vdso_calls, last.clock_reads), (at * 3 + 7, at * 3 + 2));
        let gaps: Vec<u64> = rest.windows(2).map(|two| two[1].at_ns - two[0].at_ns).collect();
        let (least, most) = (gaps.iter().min(), gaps.iter().max());
        assert!(most <= least.map(|least| least * 2).as_ref(), "{least:?} to {most:?}");
        assert!(rest.iter().all(|moment| moment.vdso_calls == moment.at_ns / 1_000_000 * 3));
    }

    #[test]
    fn the_end_is_the_reports_and_the_last() {
        let mut timeline = Moments::default();
        timeline.push(moment(10, 1));
        timeline.push(moment(20, 1));
        assert_eq!(timeline.until_end(20_000_000, &[], &[]), [moment(10, 1), moment(20, 0)]);
    }
}
