//! The clock that programs use.

mod calibrate;
mod recent;
pub(crate) mod status;

use core::sync::atomic::Ordering::Relaxed;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;

pub use recent::RecentUpdater;
pub use status::{Source, Status};

use crate::attach_error::AttachError;
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::page::{self, Kernel, Order, PageClock, Reader, TimeSpec};
use crate::pair::Pair;
use crate::points::{Boottime, Bounded, Monotonic, Realtime, Tai};
use crate::read_clock::ReadClock;
use crate::sys::{self, CpuCounter, Mapping};
use crate::system::alone::Alone;
use crate::units::Nanos;
use recent::Recent;

/// Path of the page that the host's timekeeper publishes.
pub const HOST_PAGE: &str = "/run/clockscope/page";

/// Kind of reading, for [`Clock::resolution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockKind {
    /// [`now`](Clock::now), [`realtime`](Clock::realtime) and their other forms.
    Precise,
    /// [`recent`](Clock::recent).
    Recent,
    /// [`coarse`](Clock::coarse) and [`coarse_realtime`](Clock::coarse_realtime).
    Coarse,
    /// [`second`](Clock::second).
    Second,
}

/// A clock that reads the CPU's counter, follows the kernel's clock, and falls back to it.
///
/// Every reading is the kernel's `CLOCK_MONOTONIC`, `CLOCK_REALTIME`, `CLOCK_BOOTTIME` or
/// `CLOCK_TAI`, in nanoseconds. It is either computed from the counter, within a bound of the
/// kernel's clock, or read from the kernel; [`status`](Self::status) tells which and why.
///
/// Any number of threads may read a clock through `&self`. Readings and [`status`](Self::status)
/// allocate no memory, wait for no lock, leave `errno` alone and may be done in a signal handler.
/// Making, dropping and [`calibrate`](Self::calibrate) may not.
///
/// # Examples
///
/// ```
/// use fastclock::Clock;
///
/// let clock = Clock::new();
/// let start = clock.now();
/// // … work …
/// let took = clock.elapsed(start);
/// assert!(took.0 >= 0);
/// ```
#[derive(Debug)]
pub struct Clock {
    pub(crate) mapping: Mapping,
    source: Source,
    /// The reason why nothing is read from the mapping while it is closed.
    pub(crate) closed: status::Reason,
    /// The reason why the host's page is not used.
    host_page: Option<Decline>,
    pub(crate) alone: Option<Alone>,
    recent: Recent,
}

/// The kernel's clocks, as a page reader needs them.
struct KernelReads<'a> {
    clock: &'a Clock,
    counts: bool,
}

impl Kernel for KernelReads<'_> {
    fn read(&self, clock: ClockId) -> Nanos {
        sys::now(clock)
    }

    fn declined(&self, reason: Decline) {
        if self.counts {
            self.clock.count(reason);
        }
    }

    fn renew(&self) -> bool {
        self.clock.renew()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock on the host's page ([`HOST_PAGE`]) if there is a good one, otherwise a clock that
    /// keeps [itself](Self::alone). [`Status::host_page`] gives the reason if the page is not used.
    #[must_use]
    pub fn new() -> Self {
        Self::on_page_or_alone(Path::new(HOST_PAGE))
    }

    pub(crate) fn on_page_or_alone(path: &Path) -> Self {
        let attached = Self::from_path(path).map_err(|error| error.reason);
        let answers = attached.and_then(|clock| {
            clock.slow(PageClock::Monotonic, false).declined.map_or(Ok(clock), Err)
        });
        answers.unwrap_or_else(|reason| Self { host_page: Some(reason), ..Self::alone() })
    }

    /// A clock that keeps itself, without a thread. In the first 200 ms of use the kernel answers,
    /// and the calls measure the counter. After that, about once a second, one call takes 10 to 20
    /// us to look at the kernel's clock.
    ///
    /// Where a guard forbids the counter (see the [front page](crate)), the kernel answers, and the
    /// guard is checked again after one second, then two, up to a minute.
    ///
    /// # Panics
    ///
    /// Never. If the clock's memory cannot be mapped, the process aborts, as after a failed
    /// allocation.
    #[must_use]
    pub fn alone() -> Self {
        let Some(alone) = Alone::new() else { return Self::declined(Decline::NoCounter) };
        Self::made(Mapping::anonymous(), Source::Alone, Some(alone), Decline::Starting)
    }

    /// The clock that [`Instant`](crate::Instant) reads: one per process, made by
    /// [`new`](Self::new) at the first use.
    #[must_use]
    #[inline]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Clock> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// A clock for which the kernel always answers, with this reason; for programs that need one
    /// type with or without a page.
    #[must_use]
    pub fn declined(reason: Decline) -> Self {
        Self::made(Mapping::anonymous(), Source::Kernel, None, reason)
    }

    /// A clock on a timekeeper's page in a file; the file is only read.
    ///
    /// If the page is not renewed in time, for example because its writer is dead, the kernel
    /// answers until the same file is renewed again.
    ///
    /// # Errors
    ///
    /// [`Decline::PageUnreadable`] with the kernel's error, [`Decline::PageForeign`] if the file is
    /// no regular file or no page, [`Decline::PageTruncated`], [`Decline::PageVersion`],
    /// [`Decline::PageDamaged`] or [`Decline::PageOfOtherBoot`].
    pub fn from_path(path: &Path) -> Result<Self, AttachError> {
        Self::on(Mapping::of_path(path)?)
    }

    /// As [`from_path`](Self::from_path), from an open file, which may be closed after the call.
    ///
    /// # Errors
    ///
    /// As [`from_path`](Self::from_path).
    #[cfg(unix)]
    pub fn from_fd(fd: BorrowedFd<'_>) -> Result<Self, AttachError> {
        Self::on(Mapping::of_file(fd)?)
    }

    fn on(mapping: Mapping) -> Result<Self, AttachError> {
        mapping.pair().page.check(sys::boot_id().unwrap_or_default())?;
        if mapping.pair().page.head.load(Relaxed) & 0xffff_ffff == 0 {
            return Err(Decline::PageDamaged.into());
        }
        if sys::may_read_counter() {
            mapping.open();
        }
        Ok(Self::made(mapping, Source::Page, None, Decline::Forbidden))
    }

    /// `closed` is the reason while the mapping is closed.
    pub(crate) fn made(
        mapping: Mapping,
        source: Source,
        alone: Option<Alone>,
        closed: Decline,
    ) -> Self {
        let clock = Self {
            mapping,
            source,
            closed: status::Reason::new(closed),
            host_page: None,
            alone,
            recent: Recent::default(),
        };
        clock.renew();
        clock.refresh_recent();
        clock
    }

    /// `CLOCK_MONOTONIC`, read after all earlier instructions are done: threads that pass readings
    /// on never see time run backwards.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Monotonic {
        Monotonic(self.nanos(PageClock::Monotonic, Order::Ordered))
    }

    /// `CLOCK_MONOTONIC`, read whenever the CPU likes, in half the time. Within one thread it does
    /// not go back, but a reading that another thread has published earlier may be later, by up to
    /// 10 us.
    #[must_use]
    #[inline]
    pub fn now_fast(&self) -> Monotonic {
        Monotonic(self.nanos(PageClock::Monotonic, Order::Unordered))
    }

    /// `CLOCK_MONOTONIC`, ordered, with its bound: the largest distance of the kernel's clock.
    #[must_use]
    #[inline]
    pub fn now_bounded(&self) -> Bounded<Monotonic> {
        let (time, bound, declined) = self.bounded(PageClock::Monotonic, Order::Ordered);
        Bounded { time: Monotonic(time), bound, declined }
    }

    /// `CLOCK_MONOTONIC`, unordered: see [`now_fast`](Self::now_fast). The bound holds for the
    /// moment at which the CPU has read the counter.
    #[must_use]
    #[inline]
    pub fn now_bounded_fast(&self) -> Bounded<Monotonic> {
        let (time, bound, declined) = self.bounded(PageClock::Monotonic, Order::Unordered);
        Bounded { time: Monotonic(time), bound, declined }
    }

    /// `CLOCK_REALTIME`, ordered. When the time is set, a clock on a timekeeper's page follows as
    /// soon as the timekeeper does; a clock that keeps itself follows within a second of use.
    #[must_use]
    #[inline]
    pub fn realtime(&self) -> Realtime {
        Realtime(self.nanos(PageClock::Realtime, Order::Ordered))
    }

    /// `CLOCK_REALTIME`, unordered: see [`now_fast`](Self::now_fast).
    #[must_use]
    #[inline]
    pub fn realtime_fast(&self) -> Realtime {
        Realtime(self.nanos(PageClock::Realtime, Order::Unordered))
    }

    /// `CLOCK_REALTIME`, ordered, with its bound: the largest distance of the kernel's clock unless
    /// the time was set meanwhile.
    #[must_use]
    #[inline]
    pub fn realtime_bounded(&self) -> Bounded<Realtime> {
        let (time, bound, declined) = self.bounded(PageClock::Realtime, Order::Ordered);
        Bounded { time: Realtime(time), bound, declined }
    }

    /// `CLOCK_REALTIME`, unordered, with its bound: see
    /// [`now_bounded_fast`](Self::now_bounded_fast).
    #[must_use]
    #[inline]
    pub fn realtime_bounded_fast(&self) -> Bounded<Realtime> {
        let (time, bound, declined) = self.bounded(PageClock::Realtime, Order::Unordered);
        Bounded { time: Realtime(time), bound, declined }
    }

    /// `CLOCK_BOOTTIME`, ordered.
    #[must_use]
    #[inline]
    pub fn boottime(&self) -> Boottime {
        Boottime(self.nanos(PageClock::Boottime, Order::Ordered))
    }

    /// `CLOCK_TAI`, ordered.
    #[must_use]
    #[inline]
    pub fn tai(&self) -> Tai {
        Tai(self.nanos(PageClock::Tai, Order::Ordered))
    }

    /// A clock in the form of `clock_gettime(2)`, ordered: cheaper than splitting nanoseconds.
    #[must_use]
    #[inline]
    pub fn timespec(&self, clock: PageClock) -> TimeSpec {
        match self.mapping.opened() {
            Some(pair) => self.reader(pair, true).timespec(clock, Order::Ordered),
            None => TimeSpec::from_nanos(self.shut(clock, true).time),
        }
    }

    /// `CLOCK_MONOTONIC` as of the last [`refresh_recent`](Self::refresh_recent), called by a
    /// [`RecentUpdater`] or by the program: one load. Never goes back.
    #[must_use]
    #[inline]
    pub fn recent(&self) -> Monotonic {
        self.recent.get()
    }

    /// Stores the present time for [`recent`](Self::recent), and returns it.
    #[inline]
    pub fn refresh_recent(&self) -> Monotonic {
        self.recent.raise(self.now())
    }

    /// `CLOCK_MONOTONIC` at the last timer tick, 1 to 10 ms ago: `CLOCK_MONOTONIC_COARSE`, always
    /// from the kernel. It can lie ahead of [`now`](Self::now), at most by the bound of that
    /// reading.
    #[must_use]
    #[inline]
    pub fn coarse(&self) -> Monotonic {
        Monotonic(sys::now(ClockId::MonotonicCoarse))
    }

    /// `CLOCK_REALTIME` at the last timer tick: `CLOCK_REALTIME_COARSE`, always from the kernel, as
    /// [`coarse`](Self::coarse) is.
    #[must_use]
    #[inline]
    pub fn coarse_realtime(&self) -> Realtime {
        Realtime(sys::now(ClockId::RealtimeCoarse))
    }

    /// The full second of `CLOCK_REALTIME` that had begun at the last timer tick, as `time(2)`. For
    /// up to a tick it may be the second before that of [`realtime`](Self::realtime).
    #[must_use]
    #[inline]
    pub fn second(&self) -> Realtime {
        self.coarse_realtime().truncated_to_second()
    }

    /// The time since an earlier reading. Zero, and counted ([`Status::negative`]), if `since` lies
    /// ahead, as an unordered reading of another thread can.
    #[must_use]
    #[inline]
    pub fn elapsed(&self, since: Monotonic) -> Nanos {
        self.between(since, self.now())
    }

    /// As [`elapsed`](Self::elapsed), between two readings.
    #[must_use]
    #[inline]
    pub fn between(&self, earlier: Monotonic, later: Monotonic) -> Nanos {
        if later < earlier {
            self.mapping.pair().counts.add(status::NEGATIVE);
        }
        later.saturating_since(earlier)
    }

    /// The smallest step of a reading, in nanoseconds: for [`ClockKind::Precise`] a tick of the
    /// counter, at least one nanosecond; for [`ClockKind::Coarse`] the kernel's timer tick; for
    /// [`ClockKind::Recent`] the period of the [`RecentUpdater`], or zero without an updater,
    /// because then only the program knows; for [`ClockKind::Second`] a second.
    #[must_use]
    pub fn resolution(&self, kind: ClockKind) -> Nanos {
        match kind {
            ClockKind::Precise => status::tick(self.mapping.opened()).unwrap_or(Nanos(1)),
            ClockKind::Recent => self.recent.period(),
            ClockKind::Coarse => sys::resolution(ClockId::MonotonicCoarse),
            ClockKind::Second => Nanos(1_000_000_000),
        }
    }

    #[inline(always)]
    fn nanos(&self, clock: PageClock, order: Order) -> Nanos {
        let read = |pair| self.reader(pair, true).at_once(clock, order);
        self.mapping.opened().and_then(read).unwrap_or_else(|| self.slow(clock, true).time)
    }

    /// As separate fields: a structure would be assembled in memory, which costs a nanosecond.
    #[inline(always)]
    fn bounded(&self, clock: PageClock, order: Order) -> (Nanos, Nanos, Option<Decline>) {
        let read = |pair| self.reader(pair, true).bounded_at_once(clock, order);
        match self.mapping.opened().and_then(read) {
            Some((time, bound)) => (time, bound, None),
            None => {
                let page::Bounded { time, bound, declined } = self.slow(clock, true);
                (time, bound, declined)
            }
        }
    }

    /// The slow path. The answers of the kernel are counted if `counts`.
    #[cold]
    #[inline(never)]
    fn slow(&self, clock: PageClock, counts: bool) -> page::Bounded {
        match self.mapping.opened() {
            Some(pair) => self.reader(pair, counts).slow(clock),
            None => self.shut(clock, counts),
        }
    }

    #[inline(always)]
    fn reader<'a>(
        &'a self,
        pair: &'a Pair,
        counts: bool,
    ) -> Reader<'a, CpuCounter, KernelReads<'a>> {
        let kernel = KernelReads { clock: self, counts };
        Reader { page: &pair.page, trust: &pair.trust, counter: CpuCounter, kernel }
    }

    /// The kernel's answer while the mapping is closed.
    fn shut(&self, clock: PageClock, counts: bool) -> page::Bounded {
        let reason = self.closed.get();
        // Where the counter is forbidden, the vDSO must not read the counter either.
        let read = if reason == Decline::Forbidden { sys::now_by_syscall } else { sys::now };
        let time = read(clock.id());
        let monotonic = clock == PageClock::Monotonic;
        let now = if monotonic { time } else { sys::now(ClockId::MonotonicCoarse) };
        if self.is_due(now) && self.renew() {
            return self.slow(clock, counts);
        }
        if counts {
            self.count(reason);
        }
        page::Bounded { time, bound: Nanos::ZERO, declined: Some(reason) }
    }

    fn count(&self, reason: Decline) {
        self.mapping.pair().counts.add_about(reason.as_raw() as usize);
    }
}

/// Methods that are the type's own of the same names.
macro_rules! own_methods {
    ($($name:ident -> $reading:ty;)*) => {$(
        #[inline]
        fn $name(&self) -> $reading {
            self.$name()
        }
    )*};
}

impl ReadClock for Clock {
    own_methods! {
        now -> Monotonic;
        realtime -> Realtime;
        now_bounded -> Bounded<Monotonic>;
        realtime_bounded -> Bounded<Realtime>;
        now_fast -> Monotonic;
        realtime_fast -> Realtime;
        now_bounded_fast -> Bounded<Monotonic>;
        realtime_bounded_fast -> Bounded<Realtime>;
        recent -> Monotonic;
        coarse -> Monotonic;
        coarse_realtime -> Realtime;
        second -> Realtime;
    }
}
