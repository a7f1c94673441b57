//! What is rare in reading a page, and the kernel's answer where the page has none: a new head, the
//! first microseconds of a line, its end. What must hold within a process, over all its threads: no
//! answer lies before one that was given earlier, whether it came from the page or from the kernel.
//!
//! This runs on the caller's stack, in the vDSO image also on that of a signal handler, which has
//! hardly more than its frame. So no content is copied: small functions read from the slot what they
//! need, each time anew, and what they find counts only if the head is the same afterwards. And the kernel's
//! clock, which needs stack of its own, is read in one place, with nothing but [`Rare`] below it: what is
//! done between two of its readings is a step.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::content::Content;
use super::reader::{Bounded, Counter, Kernel, PageClock, Reader};
use super::trust::Trust;
use super::{OWNER_DIED, Slot};
use crate::decline::Decline;
use crate::sync::fence;
use crate::units::{Nanos, Ticks};

/// How far the kernel's clock may be outside the bound, ns: a page that is wrong is wrong by more.
pub(super) const SLACK: i64 = 20_000;
/// How far it may be off at most, whatever the page says of its bound, ns.
pub(super) const WIDEST: i64 = 1_000_000;
/// For how long at most a clock stands still rather than go back, ns.
pub(super) const HOLD: i64 = 1_000_000_000;
/// How often a reader looks again before it takes the kernel's answer.
const ATTEMPTS: u8 = 16;
/// How often the counter is read at most until the page has reached what the kernel said: more
/// than [`WIDEST`] and [`SLACK`] last.
const PATIENCE: u32 = 1 << 16;
/// How often the kernel's clock is read again when that took longer than [`SLACK`].
const BRACKETS: u8 = 4;

/// Where a reading that is not answered at once has come to.
struct Rare {
    /// The clock that is wanted.
    clock: PageClock,
    /// The clock that the kernel is asked for.
    asked: PageClock,
    /// What the kernel is asked for.
    step: Step,
    /// Whether the page may be renewed still.
    may_renew: bool,
    /// How often the page has been looked at.
    attempts: u8,
    /// How often the kernel's clock may be read again to compare it.
    brackets: u8,
    /// Why the page has no answer, as far as that is known.
    reason: Decline,
    /// The head that is looked at.
    head: u64,
    /// What [`Trust::checked`](super::Trust) was before that was compared, or the process goes over to the
    /// kernel: if it is another by then, it stays.
    before: u64,
    /// The counter before the kernel was asked, to compare it.
    ticks: Ticks,
    /// `CLOCK_MONOTONIC` that the page must have reached before it is used, or has reached; in the end the
    /// bound of the answer.
    target: i64,
    /// What the kernel has said; in the end the answer.
    time: Nanos,
}

/// What the kernel's time is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing yet.
    Begin,
    /// Nothing: the page is looked at, the long way.
    #[cfg(test)]
    Look,
    /// The process had gone over to the kernel under this head before.
    Still,
    /// The same, where more than that is to be said.
    Fallen,
    /// The process may not read the counter.
    Forbidden,
    /// The page is compared with it.
    Compare,
    /// The page has no time.
    Decline,
    /// The page was another one each time.
    Hurry,
    /// The page has answered.
    ByPage,
    /// The kernel has.
    ByKernel,
}

/// What a reading of the kernel's clock between two of the page says of the page.
enum Verdict {
    Agrees,
    Disagrees,
    /// It took so long that it says little.
    Unclear,
    /// The page says no time any more.
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

    /// The kernel is asked for the clock that is wanted.
    #[inline(always)]
    fn ask(&mut self, step: Step) {
        (self.asked, self.step) = (self.clock, step);
    }

    /// The same, because the page has no answer.
    #[inline(always)]
    fn decline(&mut self, reason: Decline) {
        self.reason = reason;
        self.ask(Step::Decline);
    }
}

impl<C: Counter, K: Kernel> Reader<'_, C, K> {
    /// The time of `clock` where the fast path has no answer: after a new head, in the first
    /// microseconds of a line, at its end; and the kernel's.
    #[cold]
    #[inline(never)]
    pub fn slow(&self, clock: PageClock) -> Bounded {
        self.slow_in_place(clock)
    }

    /// [`slow`](Self::slow) as a part of the function that calls it, which saves its frame.
    #[inline(always)]
    pub fn slow_in_place(&self, clock: PageClock) -> Bounded {
        self.steps(&mut Rare::new(clock, Step::Begin))
    }

    /// The long way, also where there is a short one.
    #[cfg(test)]
    pub(super) fn slowly(&self, clock: PageClock) -> Bounded {
        self.steps(&mut Rare::new(clock, Step::Look))
    }

    /// The answer of a thread that was too late each time that it looked.
    #[cfg(any(test, fastclock_model))]
    pub(super) fn hurried(&self, clock: PageClock) -> Bounded {
        let mut rare = Rare { attempts: 0, ..Rare::new(clock, Step::Begin) };
        self.look(&mut rare);
        self.ask(&mut rare);
        self.steps(&mut rare)
    }

    /// Whether the short way suffices.
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

    /// Goes on until the kernel is to be asked, or the answer is there. (What ends in a call of the next
    /// function leaves nothing on the stack, as they are all alike.)
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

    /// Whether what was read from the slot of this head until now belongs together.
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

    /// The short way for a process that has gone over to the kernel under this head already: what the
    /// long way would answer, unless the floor has a say in it.
    #[inline(never)]
    fn look_for_decline(&self, rare: &mut Rare) {
        rare.head = self.page.head.load(Acquire);
        // Nobody need have gone over from a page that was never published.
        let reason = if rare.head == 0 { Some(Decline::Starting) } else { self.trust.reason() };
        let is_short =
            self.trust.fallen.load(Acquire) == rare.head && self.trust.forbidden.load(Relaxed) == 0;
        let Some(reason) = reason.filter(|_| is_short) else { return self.look(rare) };
        rare.reason = reason;
        // Of this clock, that of the line that was used last counts.
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

    /// Looks at the page.
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

    /// Looks at what stands under the head.
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
            // From here on it is one copy that is compared: see `Trust::copy`.
            if !self.trust.is_kept(rare.head) {
                return self.look(rare);
            }
            // Before its base, the line must go on where the one before it ends.
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
            // The line may have ended before this tick since.
            return self.look(rare);
        }
        match time {
            Some(time) => (rare.time, rare.step) = (time, Step::ByPage),
            None => rare.decline(why),
        }
    }

    /// The kernel's answer, but not before what the page has said already.
    #[inline(never)]
    fn hold(&self, rare: &mut Rare) {
        // Whose offset from `CLOCK_MONOTONIC` is the page's.
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

    /// Why the process has gone over to the kernel under this head.
    #[inline(never)]
    fn why_fallen(&self, head: u64) -> Decline {
        let slot = self.slot(head);
        self.refused(head, slot).unwrap_or_else(|| Self::why_over(slot, Ticks(u64::MAX)))
    }

    /// The kernel's answer for a thread that met a new head, or was kept from its CPU, each time.
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
        // Whoever uses the page next compares it with the kernel's clock first. If a head was trusted since,
        // it may have been read further.
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
        // If the page has become usable meanwhile, another thread may have its time already,
        // and this one must not go back behind it.
        let over = Self::time(slot, self.counter.ordered(), rare.clock).is_none();
        let settled = over || self.refused(rare.head, slot).is_some();
        if !settled || self.is_forbidden() || !self.is_current(rare.head) {
            return self.look(rare);
        }
        // Another thread may read the page until this, and not after it: only then is the counter read.
        rare.before = self.trust.withdraw();
        rare.ticks = self.counter.ordered();
        self.reach(rare)
    }

    /// Finds how far the page was read, and raises the floor to that.
    #[inline(never)]
    fn reach(&self, rare: &mut Rare) {
        // Whoever has gone over to the kernel has not read the page since, how far it came or not.
        rare.target =
            if Trust::is_in_use(rare.before) { self.reached_here(rare) } else { i64::MIN };
        self.raise_floor(rare)
    }

    /// Compares the page with the kernel's clock, as this process sees it, one clock after the other, and
    /// remembers the outcome.
    #[inline(never)]
    fn compare(&self, rare: &mut Rare) {
        rare.brackets -= 1;
        let slot = self.slot(rare.head);
        match self.verdict(slot, rare) {
            Verdict::Over(why) => return rare.decline(why),
            Verdict::Disagrees => return self.reject(rare, Decline::OtherClock),
            Verdict::Unclear => (),
            Verdict::Agrees => {
                // Whoever has the kernel's answer from before must not see less from the page.
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

    /// Never uses this line. If the writer has ended it, its reason explains also what was found.
    #[inline(always)]
    fn reject(&self, rare: &mut Rare, found: Decline) {
        self.trust.rejected.store(rare.head, Relaxed);
        rare.decline(self.slot(rare.head).why_ended().unwrap_or(found))
    }

    /// True if whoever keeps the page up should do it now.
    #[inline(always)]
    fn is_due(&self, slot: &Slot) -> bool {
        self.counter.ordered().0.wrapping_sub(slot.base.load(Relaxed)) >= slot.span.load(Relaxed)
    }

    /// Why what stands under this head is never to be used, if that is known already.
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

    /// How far the page may be from the kernel's clock.
    #[inline(always)]
    fn slack(slot: &Slot, now: Ticks) -> i64 {
        slot.bound_at(now).0.clamp(0, WIDEST).saturating_add(SLACK)
    }

    /// Compares the kernel's time with the page's before it, and now.
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

    /// Waits until the page has reached what the kernel has said, and trusts it from then on.
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

    /// Trusts the head that was compared, unless somebody has gone over to the kernel meanwhile, or the copy
    /// that was compared has been overwritten.
    #[inline(never)]
    fn trust(&self, rare: &mut Rare) {
        if let Some(used) = self.free() {
            // What was read of the page until now may be of two heads: then none is trusted.
            self.trusts(used, rare.before, rare.head);
            self.forgets();
        }
        // A tracer writes zero there, which may have been `before`, and this before that.
        if self.is_forbidden() {
            self.trust.checked.store(0, Release);
        }
        self.look(rare)
    }

    /// Notes, once a head, what time the page may have given to threads of this process, and answers.
    #[inline(never)]
    fn raise_floor(&self, rare: &mut Rare) {
        let slot = self.slot(rare.head);
        // A line that has begun since is not over.
        let over = rare.ticks >= slot.ends() || self.refused(rare.head, slot).is_some();
        if !self.is_current(rare.head) {
            return self.look(rare);
        }
        self.trust.floor.fetch_max(rare.target, Relaxed);
        // Whoever uses the page next compares it with the kernel's clock first. If a head was trusted since, the
        // floor is too low.
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

    /// What time the page may have given until `ticks`: by the line that was used last, or by this one.
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
        // The checked line may have ended since; and this content may be no clock's.
        // But a writer that lost its CPU may have said too late where the line ends: then
        // it has been used until now, and is near the kernel's clock unless that jumped.
        reached.min(said.unwrap_or_else(|| Self::time_at_end(slot)).0)
    }
}
