//! What a process finds out about a page, and the kernel's answer where the page has none.
//!
//! Everything here is rare: a new head, the first microseconds of a line, its end. What must hold
//! within a process, over all its threads: no answer lies before one that was given earlier,
//! whether it came from the page or from the kernel.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU64, fence};

use super::content::{Content, State};
use super::reader::{Bounded, Counter, Kernel, PageClock, Reader};
use super::{OWNER_DIED, Page, Slot};
use crate::decline::Decline;
use crate::line::{Line, TickLength};
use crate::units::{Nanos, Ticks};

/// How far the kernel's clock may be outside the bound, ns: a page that is wrong is wrong by more.
pub(super) const SLACK: i64 = 20_000;
/// How far it may be off at most, whatever the page says of its bound, ns.
pub(super) const WIDEST: i64 = 1_000_000;
/// For how long at most a clock stands still rather than go back, ns.
pub(super) const HOLD: i64 = 1_000_000_000;
/// How often a reader looks again before it takes the kernel's answer.
const ATTEMPTS: usize = 16;
/// How often the counter is read at most until the page has reached what the kernel said: more
/// than [`WIDEST`] and [`SLACK`] last.
const PATIENCE: usize = 1 << 16;
/// How often the kernel's clock is read again when that took longer than [`SLACK`].
const BRACKETS: usize = 4;
/// Copies of lines that a process keeps, a power of two.
const KEPT: usize = 4;

/// What a process has found out about a page: private to it, zero in the beginning, and zeroed
/// again in a forked child if that can be had (`MADV_WIPEONFORK`).
#[derive(Debug)]
#[repr(C)]
pub struct Trust {
    /// The head whose content was compared with the kernel's clock and agreed.
    pub(super) checked: AtomicU64,
    /// The head whose content did not agree.
    rejected: AtomicU64,
    /// The head after which this process went over to the kernel.
    fallen: AtomicU64,
    /// Why, a [`Decline`] as a number; written before.
    why: AtomicU64,
    /// `CLOCK_MONOTONIC` that was reached by then: the kernel's answers stay at or above it.
    floor: AtomicI64,
    /// 0, or a `CLOCK_MONOTONIC` above every answer of the page: from then on this process may not
    /// read the counter, and the kernel answers for good.
    pub(super) forbidden: AtomicI64,
    /// The line that was checked last.
    used: Used,
    /// The heads whose lines are kept.
    heads: [AtomicU64; KEPT],
    /// 1 while somebody writes a copy. A thread that leaves a signal handler by `longjmp` in those
    /// nanoseconds leaves it at 1: the lines that belong there are then compared at each read.
    busy: [AtomicU64; KEPT],
    /// What was compared, and is read: the page's owner may write into a slot under the same head.
    lines: [Slot; KEPT],
}

/// What the short way found for a process that has gone over to the kernel.
pub(super) enum Still {
    /// The kernel's time, which is the answer, and why it is.
    Answered(Nanos, Decline),
    /// The page is another one now.
    Renewed,
    /// The long way must be gone.
    Unknown,
}

/// A copy of the line that was checked last, with a sum that tells if two threads have mixed it.
///
/// A page that has become garbage cannot say how far its line had come.
#[derive(Debug, Default)]
#[repr(C)]
struct Used {
    words: [AtomicU64; 6],
    sum: AtomicU64,
}

/// What [`Used`] holds.
#[derive(Clone, Copy)]
struct Usage {
    line: Line,
    ends: Ticks,
    boot: Nanos,
}

impl Default for Trust {
    fn default() -> Self {
        Self::new()
    }
}

impl Trust {
    /// Where a tracer writes, from the start of the struct, when the process has forbidden itself
    /// the counter (`PR_SET_TSC`): first here a `CLOCK_MONOTONIC` in nanoseconds above every answer
    /// of the page, then 0 at [`CHECKED_OFFSET`](Self::CHECKED_OFFSET). The counter is not read any
    /// more then.
    pub const FORBIDDEN_OFFSET: usize = core::mem::offset_of!(Self, forbidden);
    /// Where the head stands that the process trusts.
    pub const CHECKED_OFFSET: usize = core::mem::offset_of!(Self, checked);

    /// Nothing is known yet.
    #[must_use]
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes a new one")]
    pub const fn new() -> Self {
        const ZERO: AtomicU64 = AtomicU64::new(0);
        Self {
            checked: ZERO,
            rejected: ZERO,
            fallen: ZERO,
            why: ZERO,
            floor: AtomicI64::new(0),
            forbidden: AtomicI64::new(0),
            used: Used { words: [ZERO; 6], sum: ZERO },
            heads: [ZERO; KEPT],
            busy: [ZERO; KEPT],
            lines: [const { Slot::new() }; KEPT],
        }
    }
}

impl Trust {
    /// Where the line of this head is kept. An announcement and the line that follows it, of which
    /// one is read for long, have different places.
    #[inline(always)]
    const fn place(head: u64) -> usize {
        (head >> 1) as usize & (KEPT - 1)
    }

    /// The line to be read under this head, if it was compared.
    #[inline(always)]
    pub(super) fn line(&self, head: u64) -> Option<&Slot> {
        let trusted = self.checked.load(Acquire) == head && head != 0;
        if trusted { Some(&self.lines[Self::place(head)]) } else { None }
    }

    /// What stands under this head: the copy, once there is one.
    #[inline(always)]
    fn slot<'a>(&'a self, page: &'a Page, head: u64) -> &'a Slot {
        let place = Self::place(head);
        let is_kept = head != 0 && self.heads[place].load(Acquire) == head;
        if is_kept { &self.lines[place] } else { &page.slots[(head & 1) as usize] }
    }

    /// Keeps a copy of the content that was compared, and trusts the head.
    ///
    /// Only one thread at a time writes a copy, and only while its head is current: whoever still
    /// reads the line that was there before finds another head in the page afterwards. Who comes
    /// second goes without; a thread that was kept from its CPU here must not write later.
    #[inline(always)]
    pub(super) fn keep(&self, page: &Page, head: u64, content: &Content) {
        let place = Self::place(head);
        if self.busy[place].compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            return;
        }
        if page.head.load(Acquire) == head {
            if self.heads[place].load(Relaxed) != head {
                self.heads[place].store(0, Relaxed);
                // Nothing of the new line is seen by those who do not see the new head.
                fence(Release);
                content.store(&self.lines[place]);
                self.heads[place].store(head, Release);
            }
            self.checked.store(head, Release);
        }
        self.busy[place].store(0, Release);
    }

    /// Why the process has gone over to the kernel.
    #[inline]
    fn reason(&self) -> Option<Decline> {
        Decline::from_raw(u32::try_from(self.why.load(Relaxed)).ok()?)
    }
}

impl Used {
    #[inline]
    fn store(&self, content: &Content) {
        let line = &content.line;
        let words = [
            line.base.0,
            line.mono.0.cast_unsigned(),
            line.tick.whole,
            line.tick.fraction,
            content.ends().0,
            content.offsets.boot.0.cast_unsigned(),
        ];
        for (word, value) in self.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.sum.store(sum(&words), Relaxed);
    }

    #[inline]
    fn load(&self) -> Option<Usage> {
        let sum_of = self.sum.load(Relaxed);
        let [a, b, c, d, e, f] = &self.words;
        let words = [a, b, c, d, e, f].map(|word| word.load(Relaxed));
        let [base, mono, whole, fraction, ends, boot] = words;
        (sum_of != 0 && sum_of == sum(&words)).then_some(Usage {
            line: Line {
                base: Ticks(base),
                mono: Nanos(mono.cast_signed()),
                tick: TickLength { whole, fraction },
            },
            ends: Ticks(ends),
            boot: Nanos(boot.cast_signed()),
        })
    }
}

impl Usage {
    /// `CLOCK_MONOTONIC` that a reader can have got at most until this tick.
    #[inline]
    fn reached(&self, ticks: Ticks) -> Nanos {
        self.line.at(ticks.min(self.ends)).unwrap_or(self.line.mono)
    }
}

/// Never zero by chance only: zero says that there is nothing.
#[inline]
fn sum(words: &[u64; 6]) -> u64 {
    words
        .iter()
        .fold(1, |sum: u64, word| (sum.rotate_left(7) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        | 1
}

impl<C: Counter, K: Kernel> Reader<'_, C, K> {
    /// The content that is current, with its head.
    ///
    /// A loop, and inlined, as `Content::load` is: the vDSO image has no `memcpy` to move it with.
    #[inline(always)]
    fn snapshot(&self) -> Option<(u64, Content)> {
        for _ in 0..ATTEMPTS {
            let head = self.page.head.load(Acquire);
            let content = Content::load(self.trust.slot(self.page, head));
            fence(Acquire);
            if self.page.head.load(Relaxed) == head {
                return Some((head, content));
            }
        }
        None
    }

    /// The kernel's answer in a process that may not read the counter; `None` if it may.
    #[inline(never)]
    fn forbidden(&self, content: &Content, clock: PageClock) -> Option<Bounded> {
        let floor = self.trust.forbidden.load(Relaxed);
        if floor == 0 {
            return None;
        }
        if self.trust.used.load().is_some() {
            self.trust.floor.fetch_max(floor, Relaxed);
        }
        let time = self.kernel.read(clock.id());
        Some(self.held(Some(content), clock, time, Decline::Forbidden))
    }

    /// The time of `clock` where the fast path has no answer: after a new head, in the first
    /// microseconds of a line, at its end; and the kernel's.
    #[cold]
    #[inline(never)]
    pub fn slow(&self, clock: PageClock) -> Bounded {
        match self.declined_still(clock) {
            Still::Answered(time, reason) => {
                self.kernel.declined(reason);
                Bounded { time, bound: Nanos::ZERO, declined: Some(reason) }
            }
            Still::Renewed => self.slowly(clock, false),
            Still::Unknown => self.slowly(clock, true),
        }
    }

    /// The short way for a process that has gone over to the kernel under this head already: what
    /// [`slowly`](Self::slowly) would answer, unless the floor has a say in it.
    #[inline(always)]
    pub(super) fn declined_still(&self, clock: PageClock) -> Still {
        let head = self.page.head.load(Acquire);
        if self.trust.fallen.load(Acquire) != head || self.trust.forbidden.load(Relaxed) != 0 {
            return Still::Unknown;
        }
        // Nobody need have gone over from a page that was never published.
        let reason = match head {
            0 => Decline::Starting,
            _ => match self.trust.reason() {
                Some(reason) => reason,
                None => return Still::Unknown,
            },
        };
        if self.kernel.renew() {
            return Still::Renewed;
        }
        let offset = match clock {
            PageClock::Monotonic => Nanos::ZERO,
            // That of the line that was used last counts.
            PageClock::Boottime if self.trust.used.sum.load(Relaxed) != 0 => return Still::Unknown,
            _ => Content::offset_in(self.trust.slot(self.page, head), clock),
        };
        let time = self.kernel.read(clock.id());
        fence(Acquire);
        let settled = self.page.head.load(Acquire) == head
            && self.trust.floor.load(Acquire).saturating_add(offset.0) <= time.0;
        if settled { Still::Answered(time, reason) } else { Still::Unknown }
    }

    /// The long way.
    #[inline(never)]
    pub(super) fn slowly(&self, clock: PageClock, mut may_renew: bool) -> Bounded {
        let mut reason = Decline::Expired;
        for _ in 0..ATTEMPTS {
            let Some((head, content)) = self.snapshot() else { continue };
            if let Some(answer) = self.forbidden(&content, clock) {
                return answer;
            }
            if self.trust.fallen.load(Acquire) == head {
                if core::mem::take(&mut may_renew) && self.kernel.renew() {
                    continue;
                }
                let time = self.kernel.read(clock.id());
                if self.page.head.load(Acquire) == head {
                    let reason = self.why_fallen(head, &content);
                    return self.held(Some(&content), clock, time, reason);
                }
                continue;
            }
            let due = head & 0xffff_ffff == 0 || content.is_due(self.counter.ordered());
            if due && core::mem::take(&mut may_renew) && self.kernel.renew() {
                continue;
            }
            let standing = self.standing(head, &content);
            let ticks = self.counter.ordered();
            fence(Acquire);
            if self.page.head.load(Relaxed) != head {
                // The line may have ended before this tick since.
                continue;
            }
            match (standing, content.time(ticks, clock)) {
                (Ok(()), Some(time)) => {
                    return Bounded { time, bound: content.bound_at(ticks), declined: None };
                }
                (Ok(()), None) => reason = content.why_over(ticks),
                (Err(why), _) => reason = why,
            }
            let time = self.kernel.read(clock.id());
            // If the page has become usable meanwhile, another thread may have its time already,
            // and this one must not go back behind it.
            let over = content.time(self.counter.ordered(), clock).is_none();
            let settled = over || self.refused(head, &content).is_some();
            if self.page.head.load(Acquire) == head && settled {
                return self.fallen_back(head, &content, clock, time, reason);
            }
        }
        self.hurried(clock, reason)
    }

    /// The kernel's answer for a thread that met a new head, or was kept from its CPU, each time.
    fn hurried(&self, clock: PageClock, reason: Decline) -> Bounded {
        let kernel = self.kernel.read(clock.id());
        let reached = self.trust.used.load().map(|used| used.reached(self.counter.ordered()));
        if let Some(reached) = reached {
            self.trust.floor.fetch_max(reached.0, Relaxed);
        }
        // Whoever uses the page next compares it with the kernel's clock first.
        self.trust.checked.store(0, Relaxed);
        self.held(None, clock, kernel, reason)
    }

    /// Why this content is never to be used, if that is known already.
    fn refused(&self, head: u64, content: &Content) -> Option<Decline> {
        if head & OWNER_DIED != 0 {
            Some(Decline::WriterDied)
        } else if head & 0xffff_ffff == 0 {
            Some(Decline::Starting)
        } else if self.trust.rejected.load(Relaxed) == head {
            Some(Decline::OtherClock)
        } else {
            (!content.is_sound()).then_some(Decline::PageDamaged)
        }
    }

    /// Why the process has gone over to the kernel under this head.
    fn why_fallen(&self, head: u64, content: &Content) -> Decline {
        self.refused(head, content).unwrap_or(content.why_over(Ticks(u64::MAX)))
    }

    /// Whether the content under this head may be used.
    fn standing(&self, head: u64, content: &Content) -> Result<(), Decline> {
        if let Some(reason) = self.refused(head, content) {
            return Err(reason);
        }
        if self.trust.checked.load(Relaxed) == head {
            return Ok(());
        }
        self.compare(head, content)
    }

    /// Compares the content with the kernel's clock, as this process sees it, and remembers the
    /// outcome.
    fn compare(&self, head: u64, content: &Content) -> Result<(), Decline> {
        let reject = |reason| {
            self.trust.rejected.store(head, Relaxed);
            Err(reason)
        };
        let mut target = i64::MIN;
        for clock in
            [PageClock::Monotonic, PageClock::Boottime, PageClock::Realtime, PageClock::Tai]
        {
            let Some(kernel) = self.agreeing(content, clock)? else {
                return reject(Decline::OtherClock);
            };
            // Whoever has the kernel's answer from before must not see less from the page.
            target = target.max(kernel.0.saturating_sub(content.offset(clock).0));
        }
        let mut reached = self.time_now(content, PageClock::Monotonic)?;
        let floor = self.trust.floor.load(Acquire);
        let behind = floor.saturating_sub(reached.0);
        if behind < SLACK + WIDEST {
            target = target.max(floor);
        } else if behind < HOLD {
            return reject(Decline::Jumped);
        }
        let mut patience = PATIENCE;
        while reached.0 < target {
            if patience == 0 {
                return reject(Decline::CounterStopped);
            }
            patience -= 1;
            core::hint::spin_loop();
            reached = self.time_now(content, PageClock::Monotonic)?;
        }
        self.trust.used.store(content);
        self.trust.keep(self.page, head, content);
        Ok(())
    }

    /// The kernel's time, if the content agrees with it.
    fn agreeing(&self, content: &Content, clock: PageClock) -> Result<Option<Nanos>, Decline> {
        let mut attempts = BRACKETS;
        loop {
            attempts -= 1;
            let first = self.time_now(content, clock)?;
            let kernel = self.kernel.read(clock.id());
            let now = self.counter.ordered();
            let last = content.time(now, clock).ok_or_else(|| content.why_over(now))?;
            if attempts != 0 && last.0.saturating_sub(first.0) > SLACK {
                continue;
            }
            // Compared before its base: the line must go on where the one before it ends.
            let gap = content.gap_at_base(now);
            let slack = content.bound_at(now).0.clamp(0, WIDEST).saturating_add(SLACK);
            let early = first.0.saturating_sub(slack) > kernel.0;
            let late = last.0.saturating_add(slack) < kernel.0;
            return Ok((!early && !late && gap <= slack).then_some(kernel));
        }
    }

    fn time_now(&self, content: &Content, clock: PageClock) -> Result<Nanos, Decline> {
        let now = self.counter.ordered();
        content.time(now, clock).ok_or_else(|| content.why_over(now))
    }

    /// The kernel's answer, but not before what the page has said already.
    fn fallen_back(
        &self,
        head: u64,
        content: &Content,
        clock: PageClock,
        kernel: Nanos,
        reason: Decline,
    ) -> Bounded {
        if let Some(answer) = self.forbidden(content, clock) {
            return answer;
        }
        let now = Nanos(kernel.0.saturating_sub(content.offset(clock).0));
        self.raise_floor(head, content, now);
        // Whoever uses the page next compares it with the kernel's clock first.
        self.trust.checked.store(0, Release);
        self.held(Some(content), clock, kernel, reason)
    }

    /// Keeps the kernel's answer at or above the floor.
    fn held(
        &self,
        content: Option<&Content>,
        clock: PageClock,
        kernel: Nanos,
        reason: Decline,
    ) -> Bounded {
        self.kernel.declined(reason);
        let answer = |time| Bounded { time, bound: Nanos::ZERO, declined: Some(reason) };
        let Some(used) = self.trust.used.load() else { return answer(kernel) };
        let (offset, limit) = match clock {
            PageClock::Monotonic => (Nanos::ZERO, HOLD),
            PageClock::Boottime => (used.boot, HOLD),
            // These are set back now and then, and rightly so.
            PageClock::Realtime | PageClock::Tai => {
                (content.map_or(Nanos(i64::MIN), |content| content.offset(clock)), WIDEST)
            }
        };
        let floor = self.trust.floor.load(Acquire).saturating_add(offset.0);
        let behind = floor.saturating_sub(kernel.0);
        answer(if (1..limit).contains(&behind) { Nanos(floor) } else { kernel })
    }

    /// Notes, once a head, what time the page may have given to threads of this process.
    fn raise_floor(&self, head: u64, content: &Content, kernel: Nanos) {
        let ticks = self.counter.ordered();
        let said = content.time(ticks, PageClock::Monotonic);
        let to_begin = said.is_none() && ticks < content.line.base;
        // Whoever has gone over to the kernel has not read the page since, how far it came or not.
        let in_use = self.trust.checked.load(Acquire) != 0;
        if let Some(used) = self.trust.used.load().filter(|_| in_use) {
            let mut reached = used.reached(ticks);
            let far = reached.0.saturating_sub(kernel.0) > SLACK + WIDEST;
            if far && content.is_sound() && content.has_line() && !to_begin {
                // The checked line may have ended since; and this content may be no clock's.
                // But a writer that lost its CPU may have said too late where the line ends: then
                // it has been used until now, and is near the kernel's clock unless that jumped.
                reached = reached.min(said.unwrap_or(content.end_time()));
            }
            self.trust.floor.fetch_max(reached.0, Relaxed);
        }
        // A line that has begun since is not over.
        let over = said.is_none() && !to_begin;
        if over || self.refused(head, content).is_some() {
            let why = self.why_fallen(head, content).as_raw();
            self.trust.why.store(u64::from(why), Relaxed);
            self.trust.fallen.store(head, Release);
        }
    }
}

impl Content {
    /// True if whoever keeps the page up should do it now: after the span, and before the line,
    /// where a counter is that was set back.
    #[inline]
    fn is_due(&self, now: Ticks) -> bool {
        now.0.wrapping_sub(self.line.base.0) >= self.span.0
    }

    /// How far the line begins above the end of the one before it, as long as that is in use, ns.
    #[inline]
    fn gap_at_base(&self, now: Ticks) -> i64 {
        let before = self.previous.filter(|_| now < self.line.base);
        let end = before.and_then(|line| line.at(self.line.base));
        end.map_or(0, |end| self.line.mono.0.saturating_sub(end.0))
    }

    /// Why there is no time at this tick.
    #[inline]
    fn why_over(&self, now: Ticks) -> Decline {
        match self.state {
            State::Ended(reason) => reason,
            State::Running if now < self.line.base => Decline::Starting,
            State::Running => Decline::Expired,
        }
    }
}
