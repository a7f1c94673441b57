//! A clock's status report.

use core::fmt;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::Clock;
use crate::decline::Decline;
use crate::page::PageClock;
use crate::pair::Pair;
use crate::units::Nanos;

/// Index of the count of negative differences; reasons are counted at their numbers.
pub(super) const NEGATIVE: usize = 0;
/// Index of the count of looks at the kernel's clock.
pub(crate) const RENEWALS: usize = 31;

/// The source of a clock's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A page that a timekeeper publishes.
    Page,
    /// The clock's own page.
    Alone,
    /// The kernel only.
    Kernel,
}

/// A clock's source, state and counts.
///
/// # Examples
///
/// ```
/// let status = fastclock::Clock::declined(fastclock::Decline::NotInvariant).status();
/// assert!(!status.is_fast());
/// assert_eq!(
///     status.to_string(),
///     "the kernel answers: the counter's rate is not constant on this CPU",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The source of the clock's time.
    pub source: Source,
    /// `None` if the clock answers by itself; otherwise the reason why the kernel answers.
    pub declined: Option<Decline>,
    /// Largest distance of the kernel's `CLOCK_MONOTONIC` from a reading now, ns; zero where the
    /// kernel answers.
    pub bound: Nanos,
    /// The reason why [`Clock::new`] does not use the host's page; `None` if it uses the page, or
    /// if another function made the clock.
    pub host_page: Option<Decline>,
    /// Number of looks at the kernel's clock by which this process kept the clock.
    pub renewals: u64,
    /// Number of differences below zero that were returned as zero: see [`Clock::elapsed`].
    pub negative: u64,
    answers: [u64; Decline::ALL.len()],
}

impl Status {
    /// True if the clock answers by itself.
    #[must_use]
    pub const fn is_fast(&self) -> bool {
        self.declined.is_none()
    }

    /// Approximate number of the kernel's answers in this process: if two threads get one at the
    /// same moment, one may not be counted.
    #[must_use]
    pub fn kernel_answers(&self) -> u64 {
        self.answers.iter().sum()
    }

    /// Approximate number of the kernel's answers for this reason.
    #[must_use]
    pub fn kernel_answers_for(&self, reason: Decline) -> u64 {
        let index = Decline::ALL.iter().position(|other| *other == reason);
        index.map_or(0, |index| self.answers[index])
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.declined, self.source) {
            (Some(reason), _) => write!(f, "the kernel answers: {reason}")?,
            (None, Source::Page) => write!(f, "read from a timekeeper's page")?,
            (None, _) => write!(f, "keeps itself")?,
        }
        if self.declined.is_none() {
            write!(f, ", within {} ns of the kernel's", self.bound.0)?;
        }
        if let Some(reason) = self.host_page {
            write!(f, "; the host's page is not used: {reason}")?;
        }
        Ok(())
    }
}

impl Clock {
    /// Whether the clock answers by itself, the reason if not, and the counts. Takes a reading.
    /// Like readings, this may be called in a signal handler.
    #[must_use]
    pub fn status(&self) -> Status {
        let reading = self.slow(PageClock::Monotonic, false);
        let counts = &self.mapping.pair().counts;
        Status {
            source: self.source,
            declined: reading.declined,
            bound: reading.bound,
            host_page: self.host_page,
            renewals: counts.get(RENEWALS),
            negative: counts.get(NEGATIVE),
            answers: Decline::ALL.map(|reason| counts.get(reason.as_raw() as usize)),
        }
    }
}

/// A reason that threads share.
#[derive(Debug)]
pub(crate) struct Reason(pub(crate) AtomicU32);

impl Reason {
    pub(super) const fn new(reason: Decline) -> Self {
        Self(AtomicU32::new(reason.as_raw()))
    }

    pub(super) fn get(&self) -> Decline {
        Decline::from_raw(self.0.load(Relaxed)).unwrap_or(Decline::Starting)
    }
}

/// Length of a tick of the page's line, rounded up to nanoseconds.
pub(super) fn tick(pair: Option<&Pair>) -> Option<Nanos> {
    let page = &pair?.page;
    let slot = &page.slots[usize::from(page.head.load(Relaxed) & 1 == 1)];
    let whole = i64::try_from(slot.whole.load(Relaxed)).ok()?;
    let part = i64::from(slot.fraction.load(Relaxed) != 0);
    Some(Nanos(whole.saturating_add(part).max(1)))
}
