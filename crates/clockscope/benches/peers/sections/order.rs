//! Whether threads see time run backwards: each publishes what it read and compares with what the
//! others published.

use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result};
use clockscope_sys::{affinity, tsc};
use fastclock::page::Counter;
use fastclock::{Clock, ClockId};

use crate::bracket::monotonic;
use crate::figure::exact_verdict;
use crate::machine::measured_by;
use crate::page::Page;
use crate::suite::Suite;

const THREADS: usize = 4;
/// Reads of all threads together.
const READS: u64 = 52_000_000;

/// What the threads saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) reads: u64,
    pub(crate) backwards: u64,
    /// The largest step back, in the clock's unit.
    pub(crate) worst: i64,
}

impl Found {
    fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            backwards: self.backwards + other.backwards,
            worst: self.worst.max(other.worst),
        }
    }

    /// Name, reads, steps back, per million, the worst in nanoseconds.
    pub(crate) fn row(&self, name: &str, unit_ns: f64) -> Vec<String> {
        let per_million = self.backwards as f64 / self.reads as f64 * 1e6;
        vec![
            name.to_owned(),
            self.reads.to_string(),
            self.backwards.to_string(),
            format!("{per_million:.1}"),
            format!("{:.0}", self.worst as f64 * unit_ns),
        ]
    }

    /// The verdict on a clock that must not go back.
    pub(crate) fn verdict(&self, name: &str) -> String {
        let found = format!("{} in {}", self.backwards, self.reads);
        let what = format!("steps back that {THREADS} threads saw of {name}");
        let enough = self.reads >= 50_000_000;
        exact_verdict(&what, "0 in >= 50 M reads", &found, self.backwards == 0 && enough)
    }
}

/// Heads of the columns of [`Found::row`].
pub(crate) const COLUMNS: [&str; 5] = ["clock", "reads", "backwards", "per million", "worst ns"];

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    let reads = suite.options.choose(READS, READS / 20);
    let cpus = affinity::allowed()?;
    page.heading(2, "Whether threads see time run backwards");
    page.text(&measured_by("order"));
    page.text(&format!(
        "{THREADS} threads, pinned in turn to {} CPUs: each loads the latest time that any published, reads the clock, \
         counts a reading below it, and publishes the larger by compare-and-swap.",
        cpus.len()
    ));
    let clock = Clock::alone();
    clock.calibrate(std::time::Duration::from_millis(500));
    let counter = fastclock::arch::CpuCounter;
    let quanta = quanta::Clock::new();
    let epoch = quanta.now();
    let tick = ns_per_tick();
    let now = watch(&cpus, reads, || clock.now().0.0)?;
    let now_fast = watch(&cpus, reads, || clock.now_fast().0.0)?;
    let since =
        |at: quanta::Instant| super::super::clocks::nanos(at.saturating_duration_since(epoch));
    let rows = [
        now.row("fastclock now", 1.0),
        now_fast.row("fastclock now_fast", 1.0),
        watch(&cpus, reads, || counter.unordered().0.cast_signed())?.row("rdtsc", tick),
        watch(&cpus, reads, || since(quanta.now()))?.row("quanta", 1.0),
        watch(&cpus, reads, || tsc::now(ClockId::Monotonic).0)?.row("clock_gettime", 1.0),
    ];
    page.table(&COLUMNS, &rows);
    page.text(&format!("Afterwards fastclock says: {}.", clock.status()));
    page.verdict(&now.verdict("fastclock now"));
    Ok(())
}

/// Lets the threads read `reads` times together.
fn watch(cpus: &[u32], reads: u64, read: impl Fn() -> i64 + Sync) -> Result<Found> {
    let latest = AtomicI64::new(i64::MIN);
    let each = reads.div_ceil(THREADS as u64);
    std::thread::scope(|scope| {
        let (latest, read) = (&latest, &read);
        let start = |index: usize| {
            let cpu = cpus[index % cpus.len()];
            scope.spawn(move || -> Result<Found> {
                affinity::restrict_to(&[cpu]).context("failed to pin a thread")?;
                Ok(publish(latest, each, read))
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().try_fold(Found::default(), |sum, thread| {
            let found = thread.join().ok().context("a thread panicked")??;
            Ok(sum.and(found))
        })
    })
}

fn publish(latest: &AtomicI64, reads: u64, read: &impl Fn() -> i64) -> Found {
    let mut found = Found { reads, ..Found::default() };
    for _ in 0..reads {
        let seen = latest.load(Ordering::Acquire);
        let now = read();
        if now < seen {
            found.backwards += 1;
            found.worst = found.worst.max(seen - now);
        }
        let mut published = seen;
        while published < now {
            let swap = latest.compare_exchange(published, now, Ordering::AcqRel, Ordering::Acquire);
            published = swap.err().unwrap_or(now);
        }
    }
    found
}

/// The length of a tick of the counter, measured over 20 ms.
fn ns_per_tick() -> f64 {
    let counter = fastclock::arch::CpuCounter;
    let (start, ticks) = (monotonic(), counter.ordered().0);
    while monotonic() - start < 20_000_000 {}
    let (end, later) = (monotonic(), counter.ordered().0);
    (end - start) as f64 / (later - ticks) as f64
}
