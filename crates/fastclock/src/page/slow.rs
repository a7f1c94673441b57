//! The rare cases of reading a page: a new head, the first microseconds of a line, its end, and the
//! kernel's answer where the page has none. Over all threads of a process this must hold: no answer
//! lies before an answer that was given earlier, whether that came from the page or from the
//! kernel.
//!
//! This code runs on the caller's stack. In the vDSO image that can be the stack of a signal
//! handler, which has hardly more room than its frame. So no content is copied: small functions
//! read the needed words from the slot, each time anew, and their results count only if the head is
//! the same afterwards. The kernel's clock, which needs stack of its own, is read in one place,
//! with only [`Rare`] below it on the stack. The work between two reads of the kernel's clock is a
//! step.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::clocks::PageClock;
use super::content::Content;
use super::reader::{Bounded, Counter, Kernel, Reader};
use super::trust::{HOLD, Trust, WIDEST};
use super::{OWNER_DIED, Slot};
use crate::decline::Decline;
use crate::sync::fence;
use crate::units::{Nanos, Ticks};

/// Distance of the kernel's clock outside the bound that is accepted, ns: a wrong page is further
/// off.
const SLACK: i64 = 20_000;
/// Number of times that a reader looks at the page before it takes the kernel's answer.
const ATTEMPTS: u8 = 16;
/// Largest number of counter reads until the page has reached the kernel's time: they take longer
/// than [`WIDEST`] and [`SLACK`].
const PATIENCE: u32 = 1 << 16;
/// Number of times that the kernel's clock is read again if the read took longer than [`SLACK`].
const BRACKETS: u8 = 4;

/// State of a reading on the slow path.
struct Rare {
    /// The clock that the caller wants.
    clock: PageClock,
    /// The clock to read from the kernel.
    asked: PageClock,
    /// Purpose of the kernel's time.
    step: Step,
    /// Whether the page may still be renewed.
    may_renew: bool,
    /// Number of looks at the page that are left.
    attempts: u8,
    /// Number of reads of the kernel's clock that are left for the comparison.
    brackets: u8,
    /// Reason why the page has no answer, as far as known.
    reason: Decline,
    /// The head of the content in use.
    head: u64,
    /// [`Trust::checked`](super::Trust) before the comparison, or before the process goes over to
    /// the kernel. If the word has changed by then, it stays.
    before: u64,
    /// The counter before the kernel's clock was read, for the comparison.
    ticks: Ticks,
    /// `CLOCK_MONOTONIC` that the page must reach before it is used, or has reached; in the end the
    /// bound of the answer.
    target: i64,
    /// The kernel's time; in the end the answer.
    time: Nanos,
}

/// Purpose of a read of the kernel's clock, or the state of the reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Start; nothing is known yet.
    Begin,
    /// Look at the page the long way; the kernel's time is not needed.
    #[cfg(test)]
    Look,
    /// The process had gone over to the kernel under this head before (short way).
    Still,
    /// The process had gone over to the kernel under this head before (long way).
    Fallen,
    /// The process may not read the counter.
    Forbidden,
    /// The page is compared with the kernel's time.
    Compare,
    /// The page has no time.
    Decline,
    /// The page's head changed at each look.
    Hurry,
    /// The page has answered.
    ByPage,
    /// The kernel has answered.
    ByKernel,
}

/// Result of comparing one kernel reading with the page's time before and after it.
enum Verdict {
    Agrees,
    Disagrees,
    /// The read took too long for a comparison.
    Unclear,
    /// The page gives no time any more.
    Over(Decline),
}

impl Rare {
    #[inline(always)]
    const fn new(clock: PageClock, step: Step) -> Self {
        Self {
            clock,
            asked: clock,
            step,
            may_renew: true,
            attempts: ATTEMPTS,
            brackets: BRACKETS,
            reason: Decline::Expired,
            head: 0,
            before: 0,
            ticks: Ticks(0),
            target: 0,
            time: Nanos::ZERO,
        }
    }

    /// Requests the kernel's time of the wanted clock.
    #[inline(always)]
    fn ask(&mut self, step: Step) {
        (self.asked, self.step) = (self.clock, step);
    }

    /// Requests the kernel's time because the page has no answer.
    #[inline(always)]
    fn decline(&mut self, reason: Decline) {
        self.reason = reason;
        self.ask(Step::Decline);
    }
}

impl<C: Counter, K: Kernel> Reader<'_, C, K> {
    /// The time of `clock` where the fast path has no answer: after a new head, in the first
    /// microseconds of a line, at its end, and where the kernel answers.
    #[cold]
    #[inline(never)]
    pub fn slow(&self, clock: PageClock) -> Bounded {
        self.slow_in_place(clock)
    }

    /// [`slow`](Self::slow), inlined into the caller, which saves a stack frame.
    #[inline(always)]
    pub fn slow_in_place(&self, clock: PageClock) -> Bounded {
        self.steps(&mut Rare::new(clock, Step::Begin))
    }

    /// The long way, even where the short way would do.
    #[cfg(test)]
    pub(super) fn slowly(&self, clock: PageClock) -> Bounded {
        self.steps(&mut Rare::new(clock, Step::Look))
    }

    /// The answer of a thread that came too late at each look.
    #[cfg(any(test, fastclock_model))]
    pub(super) fn hurried(&self, clock: PageClock) -> Bounded {
        let mut rare = Rare { attempts: 0, ..Rare::new(clock, Step::Begin) };
        self.look(&mut rare);
        self.ask(&mut rare);
        self.steps(&mut rare)
    }

    /// Whether the short way gives the answer.
    #[cfg(test)]
    pub(super) fn is_short(&self, clock: PageClock) -> bool {
        let mut rare = Rare { attempts: 0, ..Rare::new(clock, Step::Begin) };
        self.look_for_decline(&mut rare);
        if rare.step == Step::Still {
            self.ask(&mut rare);
            self.is_declined_still(&mut rare);
        }
        rare.step == Step::ByKernel
    }

    #[inline(always)]
    fn steps(&self, rare: &mut Rare) -> Bounded {
        loop {
            self.step(rare);
            if matches!(rare.step, Step::ByPage | Step::ByKernel) {
                break;
            }
            self.ask(rare);
        }
        let declined = (rare.step == Step::ByKernel).then_some(rare.reason);
        if let Some(reason) = declined {
            self.kernel.declined(reason);
        }
        Bounded { time: rare.time, bound: Nanos(rare.target), declined }
    }

    #[inline(never)]
    fn ask(&self, rare: &mut Rare) {
        rare.time = self.kernel.read(rare.asked.id());
    }

    /// Goes on until the kernel's clock is to be read or the answer is there. (Tail calls leave no
    /// frame on the stack because all these functions have the same signature.)
    #[inline(never)]
    fn step(&self, rare: &mut Rare) {
        match rare.step {
            Step::Begin => self.look_for_decline(rare),
            #[cfg(test)]
            Step::Look => self.look(rare),
            Step::Still => self.is_declined_still(rare),
            Step::Compare => self.compare(rare),
            Step::Decline => self.fall_back(rare),
            Step::Fallen => self.has_fallen(rare),
            Step::Forbidden => self.hold(rare),
            Step::Hurry => self.hurry(rare),
            Step::ByPage | Step::ByKernel => (),
        }
    }

    /// Whether the words read from this head's slot so far belong together.
    #[inline(always)]
    pub(super) fn is_current(&self, head: u64) -> bool {
        fence(Acquire);
        self.page.head.load(Acquire) == head
    }

    /// The slot that belongs to a head.
    #[inline(always)]
    fn slot(&self, head: u64) -> &Slot {
        self.trust.slot(self.page, head)
    }

    /// The short way for a process that has already gone over to the kernel under this head. The
    /// answer is the long way's unless the floor changes it.
    #[inline(never)]
    fn look_for_decline(&self, rare: &mut Rare) {
        rare.head = self.page.head.load(Acquire);
        // If the page was never published, the process need not have gone over to the kernel.
        let reason = if rare.head == 0 { Some(Decline::Starting) } else { self.trust.reason() };
        let is_short =
            self.trust.fallen.load(Acquire) == rare.head && self.trust.forbidden.load(Relaxed) == 0;
        let Some(reason) = reason.filter(|_| is_short) else { return self.look(rare) };
        rare.reason = reason;
        // For `CLOCK_BOOTTIME` the greatest compared offset counts, which the long way uses.
        let by_used = rare.clock == PageClock::Boottime && self.trust.has_used();
        if self.kernel.renew() {
            rare.may_renew = false;
            return self.look(rare);
        }
        if by_used { self.look(rare) } else { rare.ask(Step::Still) }
    }

    #[inline(never)]
    fn is_declined_still(&self, rare: &mut Rare) {
        let offset = match rare.clock {
            PageClock::Monotonic => Nanos::ZERO,
            clock => Content::offset_in(self.slot(rare.head), clock),
        };
        let settled = self.is_current(rare.head)
            && self.trust.floor.load(Acquire).saturating_add(offset.0) <= rare.time.0;
        if settled {
            rare.step = Step::ByKernel;
        } else {
            self.look(rare);
        }
    }

    /// Looks at the page and renews it if due.
    #[inline(never)]
    fn look(&self, rare: &mut Rare) {
        loop {
            let Some(left) = rare.attempts.checked_sub(1) else {
                return rare.ask(Step::Hurry);
            };
            rare.attempts = left;
            rare.head = self.page.head.load(Acquire);
            let slot = self.slot(rare.head);
            if self.is_forbidden() {
                rare.reason = Decline::Forbidden;
                return rare.ask(Step::Forbidden);
            }
            let has_fallen = self.trust.fallen.load(Acquire) == rare.head;
            let begins = rare.head & 0xffff_ffff == 0;
            if rare.may_renew && (has_fallen || begins || self.is_due(slot)) {
                if !self.is_current(rare.head) {
                    continue;
                }
                rare.may_renew = false;
                if self.kernel.renew() {
                    continue;
                }
            }
            if has_fallen {
                return rare.ask(Step::Fallen);
            }
            return self.examine(rare);
        }
    }

    /// Copies and checks the content under the head.
    #[inline(never)]
    fn examine(&self, rare: &mut Rare) {
        if rare.head & 0xffff_ffff != 0 && !self.copy(rare.head) {
            return self.look(rare);
        }
        if let Some(reason) = self.refused(rare.head, self.slot(rare.head)) {
            return rare.decline(reason);
        }
        self.read(rare);
    }

    /// Reads the page, or begins to compare it.
    #[inline(never)]
    fn read(&self, rare: &mut Rare) {
        let slot = self.slot(rare.head);
        rare.before = self.trust.checked.load(Acquire);
        rare.ticks = self.counter.ordered();
        if rare.before != rare.head {
            // From here on one copy is compared: see `Trust::copy`.
            if !self.trust.is_kept(rare.head) {
                return self.look(rare);
            }
            // Before its base, the line must start where the previous line ends.
            if Self::gap_at_base(slot, rare.ticks) > Self::slack(slot, rare.ticks) {
                return self.reject(rare, Decline::OtherClock);
            }
            (rare.target, rare.brackets) = (i64::MIN, BRACKETS);
            (rare.asked, rare.step) = (PageClock::Monotonic, Step::Compare);
            return;
        }
        let time = Self::time(slot, rare.ticks, rare.clock);
        rare.target = slot.bound_at(rare.ticks).0;
        let why = Self::why_over(slot, rare.ticks);
        if !self.is_current(rare.head) || self.trust.moved(rare.head) != 0 {
            // The line may have ended before this tick meanwhile.
            return self.look(rare);
        }
        match time {
            Some(time) => (rare.time, rare.step) = (time, Step::ByPage),
            None => rare.decline(why),
        }
    }

    /// The kernel's answer, but not before a time that the page has already given.
    #[inline(never)]
    fn hold(&self, rare: &mut Rare) {
        // Clocks whose offset from `CLOCK_MONOTONIC` is taken from the page.
        let of_page = matches!(rare.clock, PageClock::Realtime | PageClock::Tai);
        let offset = Content::offset_in(self.slot(rare.head), rare.clock);
        let offset = Some(offset).filter(|_| of_page && self.is_current(rare.head));
        rare.time = self.trust.held(rare.clock, offset, rare.time);
        (rare.target, rare.step) = (0, Step::ByKernel);
    }

    /// The answer of a process that has gone over to the kernel.
    #[inline(never)]
    fn has_fallen(&self, rare: &mut Rare) {
        rare.reason = self.why_fallen(rare.head);
        if self.is_current(rare.head) { self.hold(rare) } else { self.look(rare) }
    }

    /// The reason why the process has gone over to the kernel under this head.
    #[inline(never)]
    fn why_fallen(&self, head: u64) -> Decline {
        let slot = self.slot(head);
        self.refused(head, slot).unwrap_or_else(|| Self::why_over(slot, Ticks(u64::MAX)))
    }

    /// The kernel's answer for a thread that met a new head, or lost its CPU, at each look.
    #[inline(never)]
    fn hurry(&self, rare: &mut Rare) {
        rare.before = self.trust.withdraw();
        rare.ticks = self.counter.ordered();
        self.hold_in_a_hurry(rare)
    }

    #[inline(never)]
    fn hold_in_a_hurry(&self, rare: &mut Rare) {
        if let Some(reached) = self.reached(rare.ticks) {
            self.trust.floor.fetch_max(reached.0, Relaxed);
        }
        // The next user of the page compares it with the kernel's clock first. If a head was
        // trusted meanwhile, the page may have been read further.
        if self.trust.reset(rare.before, false).is_some() {
            self.hold(rare)
        } else {
            self.hurry(rare)
        }
    }

    /// The kernel's answer where the page has none.
    #[inline(never)]
    fn fall_back(&self, rare: &mut Rare) {
        let slot = self.slot(rare.head);
        // If the page has become usable meanwhile, another thread may have its time already. This
        // thread must not answer with an earlier time.
        let over = Self::time(slot, self.counter.ordered(), rare.clock).is_none();
        let settled = over || self.refused(rare.head, slot).is_some();
        if !settled || self.is_forbidden() || !self.is_current(rare.head) {
            return self.look(rare);
        }
        // Other threads may read the page until `withdraw`, and not after it. So the counter is
        // read after it.
        rare.before = self.trust.withdraw();
        rare.ticks = self.counter.ordered();
        self.reach(rare)
    }

    /// Finds the latest time that was read from the page, and raises the floor to it.
    #[inline(never)]
    fn reach(&self, rare: &mut Rare) {
        // If the process had gone over to the kernel, the page has not been read since.
        rare.target =
            if Trust::is_in_use(rare.before) { self.reached_here(rare) } else { i64::MIN };
        self.raise_floor(rare)
    }

    /// Compares the page with the kernel's clock, as this process sees it, one clock after the
    /// other, and stores the outcome.
    #[inline(never)]
    fn compare(&self, rare: &mut Rare) {
        rare.brackets -= 1;
        let slot = self.slot(rare.head);
        match self.verdict(slot, rare) {
            Verdict::Over(why) => return rare.decline(why),
            Verdict::Disagrees => return self.reject(rare, Decline::OtherClock),
            Verdict::Unclear => (),
            Verdict::Agrees => {
                // A reader that already got a time from the kernel must not get an earlier one from
                // the page.
                let mono = rare.time.0.saturating_sub(Content::offset_in(slot, rare.asked).0);
                (rare.target, rare.brackets) = (rare.target.max(mono), BRACKETS);
                rare.asked = match rare.asked {
                    PageClock::Monotonic => PageClock::Boottime,
                    PageClock::Boottime => PageClock::Realtime,
                    PageClock::Realtime => PageClock::Tai,
                    PageClock::Tai => return self.wait(rare),
                };
            }
        }
        rare.ticks = self.counter.ordered();
    }

    /// Rejects this line for good. If the writer has ended it, the writer's reason also explains
    /// the finding.
    #[inline(always)]
    fn reject(&self, rare: &mut Rare, found: Decline) {
        self.trust.rejected.store(rare.head, Relaxed);
        rare.decline(self.slot(rare.head).why_ended().unwrap_or(found))
    }

    /// True if the process that keeps the page should renew it now.
    #[inline(always)]
    fn is_due(&self, slot: &Slot) -> bool {
        self.counter.ordered().0.wrapping_sub(slot.base.load(Relaxed)) >= slot.span.load(Relaxed)
    }

    /// The reason why this head's content is never to be used, if already known.
    #[inline(never)]
    fn refused(&self, head: u64, slot: &Slot) -> Option<Decline> {
        if head & OWNER_DIED != 0 {
            Some(Decline::WriterDied)
        } else if head & 0xffff_ffff == 0 {
            Some(Decline::Starting)
        } else if self.trust.rejected.load(Relaxed) == head {
            Some(slot.why_ended().unwrap_or(Decline::OtherClock))
        } else {
            (!Self::is_sound(slot)).then_some(Decline::PageDamaged)
        }
    }

    /// Largest accepted distance of the page from the kernel's clock, ns.
    #[inline(always)]
    fn slack(slot: &Slot, now: Ticks) -> i64 {
        slot.bound_at(now).0.clamp(0, WIDEST).saturating_add(SLACK)
    }

    /// Compares the kernel's time with the page's time before the kernel was read, and now.
    #[inline(always)]
    fn verdict(&self, slot: &Slot, rare: &Rare) -> Verdict {
        let now = self.counter.ordered();
        let Some(first) = Self::time(slot, rare.ticks, rare.asked) else {
            return Verdict::Over(Self::why_over(slot, rare.ticks));
        };
        let Some(last) = Self::time(slot, now, rare.asked) else {
            return Verdict::Over(Self::why_over(slot, now));
        };
        if rare.brackets > 0 && last.0.saturating_sub(first.0) > SLACK {
            return Verdict::Unclear;
        }
        let slack = Self::slack(slot, now);
        let early = first.0.saturating_sub(slack) > rare.time.0;
        let late = last.0.saturating_add(slack) < rare.time.0;
        if early || late { Verdict::Disagrees } else { Verdict::Agrees }
    }

    /// Waits until the page has reached the kernel's time, then trusts the page.
    #[inline(never)]
    fn wait(&self, rare: &mut Rare) {
        let slot = self.slot(rare.head);
        let mut patience = PATIENCE;
        loop {
            let ticks = self.counter.ordered();
            let Some(Nanos(reached)) = Self::time(slot, ticks, PageClock::Monotonic) else {
                return rare.decline(Self::why_over(slot, ticks));
            };
            if patience == PATIENCE {
                let floor = self.trust.floor.load(Acquire);
                let behind = floor.saturating_sub(reached);
                if behind < SLACK + WIDEST {
                    rare.target = rare.target.max(floor);
                } else if behind < HOLD {
                    return self.reject(rare, Decline::Jumped);
                }
            }
            if reached >= rare.target {
                break;
            }
            if patience == 0 {
                return self.reject(rare, Decline::CounterStopped);
            }
            patience -= 1;
            core::hint::spin_loop();
        }
        self.trust(rare)
    }

    /// Trusts the compared head, unless another thread has gone over to the kernel meanwhile or has
    /// overwritten the compared copy.
    #[inline(never)]
    fn trust(&self, rare: &mut Rare) {
        if let Some(used) = self.free() {
            // The words read so far may belong to two heads: then neither is trusted.
            self.trusts(used, rare.before, rare.head);
            self.forgets();
        }
        // A tracer writes zero to `checked`, which may equal `before`; it sets `forbidden` before
        // that.
        if self.is_forbidden() {
            self.trust.checked.store(0, Release);
        }
        self.look(rare)
    }

    /// Stores, once a head, the latest time that the page may have given to threads of this
    /// process, and answers.
    #[inline(never)]
    fn raise_floor(&self, rare: &mut Rare) {
        let slot = self.slot(rare.head);
        // A line that has begun meanwhile is not over.
        let over = rare.ticks >= slot.ends() || self.refused(rare.head, slot).is_some();
        if !self.is_current(rare.head) {
            return self.look(rare);
        }
        self.trust.floor.fetch_max(rare.target, Relaxed);
        // The next user of the page compares it with the kernel's clock first. If a head was
        // trusted meanwhile, the floor is too low.
        if self.trust.reset(rare.before, false).is_none() {
            return self.look(rare);
        }
        if over { self.fall(rare) } else { self.hold(rare) }
    }

    /// Goes over to the kernel for as long as the head stays.
    #[inline(never)]
    fn fall(&self, rare: &mut Rare) {
        let why = self.why_fallen(rare.head);
        if self.is_current(rare.head) {
            self.trust.why.store(u64::from(why.as_raw()), Relaxed);
            self.trust.fallen.store(rare.head, Release);
        }
        self.hold(rare);
    }

    /// Latest time that the page may have given until `ticks`: from a line in use, or from this
    /// one.
    #[inline(always)]
    fn reached_here(&self, rare: &Rare) -> i64 {
        let Some(Nanos(reached)) = self.reached(rare.ticks) else { return i64::MIN };
        let slot = self.slot(rare.head);
        let kernel = rare.time.0.saturating_sub(Content::offset_in(slot, rare.clock).0);
        let far = reached.saturating_sub(kernel) > SLACK + WIDEST;
        let said = Self::time(slot, rare.ticks, PageClock::Monotonic);
        let to_begin = said.is_none() && rare.ticks.0 < slot.base.load(Relaxed);
        if !far || to_begin || slot.span.load(Relaxed) == 0 || !Self::is_sound(slot) {
            return reached;
        }
        // The compared line may have ended meanwhile, and this content may be no clock's. But if
        // the writer lost its CPU, it may have announced the line's end too late. Then the line has
        // been in use until now, and is near the kernel's clock unless that clock jumped.
        reached.min(said.unwrap_or_else(|| Self::time_at_end(slot)).0)
    }
}
