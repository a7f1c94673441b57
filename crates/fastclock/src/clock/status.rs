//! What a clock says of itself.

use core::fmt;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::Clock;
use crate::decline::Decline;
use crate::page::PageClock;
use crate::pair::Pair;
use crate::units::Nanos;

/// The place where negative differences are counted; reasons are counted by their numbers.
pub(super) const NEGATIVE: usize = 0;
/// The place where looks at the kernel's clock are counted.
pub(super) const RENEWALS: usize = 31;

/// What a clock is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A page that a timekeeper publishes.
    Page,
    /// A page of its own.
    Alone,
    /// The kernel only.
    Kernel,
}

/// What a clock says of itself.
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
    /// What it is read from.
    pub source: Source,
    /// `None` if it answers by itself; otherwise why the kernel does.
    pub declined: Option<Decline>,
    /// How far the kernel's `CLOCK_MONOTONIC` can be from a reading now, ns; zero where the kernel
    /// answers.
    pub bound: Nanos,
    /// Why [`Clock::new`] does not use the host's page; `None` if it does, or was not asked to.
    pub host_page: Option<Decline>,
    /// Looks at the kernel's clock that this process took to keep the clock itself.
    pub renewals: u64,
    /// Differences below zero that were given as zero: see [`Clock::elapsed`].
    pub negative: u64,
    answers: [u64; Decline::ALL.len()],
}

impl Status {
    /// True if the clock answers by itself.
    #[must_use]
    pub const fn is_fast(&self) -> bool {
        self.declined.is_none()
    }

    /// About how often the kernel answered in this process: of two threads that it answers at the
    /// same moment one may not be counted.
    #[must_use]
    pub fn kernel_answers(&self) -> u64 {
        self.answers.iter().sum()
    }

    /// About how often the kernel answered for this reason.
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
    /// Whether the clock answers by itself, why not, and what was counted. Takes a
    /// reading, and may be asked in a signal handler as readings may.
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
pub(super) struct Reason(pub(super) AtomicU32);

impl Reason {
    pub(super) const fn new(reason: Decline) -> Self {
        Self(AtomicU32::new(reason.as_raw()))
    }

    pub(super) fn get(&self) -> Decline {
        Decline::from_raw(self.0.load(Relaxed)).unwrap_or(Decline::Starting)
    }
}

/// How long a tick of the page's line is, rounded up to nanoseconds.
pub(super) fn tick(pair: Option<&Pair>) -> Option<Nanos> {
    let page = &pair?.page;
    let slot = &page.slots[usize::from(page.head.load(Relaxed) & 1 == 1)];
    let whole = i64::try_from(slot.whole.load(Relaxed)).ok()?;
    let part = i64::from(slot.fraction.load(Relaxed) != 0);
    Some(Nanos(whole.saturating_add(part).max(1)))
}
