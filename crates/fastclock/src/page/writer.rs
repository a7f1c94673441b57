//! Writing a page, so that no reader ever sees time run backwards.
//!
//! The time is one function of the counter, made of straight lines, and every line is agreed on
//! before it begins. A line is never changed in a part that a reader may have used: the writer
//! first says where the old line ends, a little ahead of now, looks at the counter to be sure that
//! it said so in time, and then publishes the line that begins there.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::content::{Content, State};
use super::reader::Counter;
use super::slow::WIDEST;
use super::{MAGIC, OWNER_DIED, Page, SIZE, VERSION};
use crate::decline::Decline;
use crate::line::Line;
use crate::sync::fence;
use crate::units::{Nanos, Ticks};

/// How often the announcement of a line's end is tried, each further ahead than the one before.
const ATTEMPTS: u32 = 8;
/// How often the counter is read at most until a line has begun.
const PATIENCE: u32 = 1 << 20;

/// The one that writes a page.
#[derive(Debug)]
pub struct Writer<'a> {
    page: &'a Page,
    head: u64,
    current: Option<Content>,
}

/// The writer was kept from its CPU for so long, again and again, that it could publish nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

impl<'a> Writer<'a> {
    /// Makes `page` a page without a line yet. Readers that have it already see that it is over.
    /// Where another writer may have left a line, [`resume`](Self::resume) comes first.
    pub fn create(page: &'a Page, boot_id: [u64; 2], process: u32) -> Self {
        let head = page.head.load(Relaxed) & 0xffff_ffff;
        let mut writer = Self { page, head, current: None };
        page.version.store(VERSION, Relaxed);
        page.size.store(u32::try_from(SIZE).unwrap_or(0), Relaxed);
        page.flags.store(0, Relaxed);
        writer.sign(boot_id, process);
        writer.publish(Content::none(Decline::Starting));
        writer.current = None;
        page.magic.store(MAGIC, Release);
        writer
    }

    /// Goes on with a page that another writer has left; its line holds to its end.
    ///
    /// # Errors
    ///
    /// When it is no page of this boot or its content is damaged.
    pub fn resume(page: &'a Page, boot_id: [u64; 2], process: u32) -> Result<Self, Decline> {
        page.check(boot_id)?;
        let head = page.head.load(Relaxed);
        let content = Content::load(&page.slots[(head & 1) as usize]);
        if head & 0xffff_ffff == 0 || !content.is_sound() {
            return Err(Decline::PageDamaged);
        }
        let mut writer = Self { page, head: head & 0xffff_ffff, current: Some(content) };
        writer.sign(boot_id, process);
        if head & OWNER_DIED != 0 {
            writer.publish(content);
        }
        Ok(writer)
    }

    fn sign(&mut self, boot_id: [u64; 2], process: u32) {
        for (word, half) in self.page.boot_id.iter().zip(boot_id) {
            word.store(half, Relaxed);
        }
        self.page.writer.store(process, Relaxed);
    }

    /// Says which thread owns the page, so that readers notice its death at once; the caller puts
    /// the upper half of the head on the thread's robust list.
    pub fn own(&mut self, thread: u32) {
        self.head = self.head & 0xffff_ffff | u64::from(thread) << 32;
        self.page.head.store(self.head, Release);
    }

    /// What was published last.
    #[must_use]
    pub fn current(&self) -> Option<&Content> {
        self.current.as_ref()
    }

    /// Publishes content as it is. What it says of ticks that have passed must be what was said
    /// before; [`renew`](Self::renew) sees to that.
    pub fn publish(&mut self, content: Content) {
        let count = (self.head & 0xffff_ffff).wrapping_add(1) & 0xffff_ffff;
        // Zero means "never".
        let count = if count == 0 { 2 } else { count };
        // What is written next must not be seen before the head that was published last.
        fence(Release);
        content.store(&self.page.slots[(count & 1) as usize]);
        self.head = self.head & !0xffff_ffff | count;
        self.page.head.store(self.head, Release);
        self.current = Some(content);
    }

    /// Publishes the content that `next` makes. `next` is given the line that is in use and the
    /// tick at which it ends, at least `lead` ahead of now; the new line begins there, at the
    /// time that the old one has reached or above. Without a line in use it gets `None` and the
    /// tick at which the new line is to begin.
    ///
    /// `lead` is to be 10 us at least: half of it is for what CPUs do out of order. A line that has
    /// not begun yet is waited for, which takes as long as the `lead` of the renewal before.
    ///
    /// # Errors
    ///
    /// [`TooLate`] if this thread did not get its CPU in time, over and over, or the line in use
    /// begins far ahead. The old line then goes on to its end.
    pub fn renew(
        &mut self,
        counter: &impl Counter,
        lead: Ticks,
        mut next: impl FnMut(Option<&Line>, Ticks) -> Content,
    ) -> Result<(), TooLate> {
        let now = counter.ordered();
        // No announcement is further ahead than its last attempt.
        let furthest = Ticks(lead.0.max(1).saturating_mul(4_u64.pow(ATTEMPTS)));
        let in_use = |old: &Content| !old.is_of_the_past(now, furthest);
        if let Some(old) = self.current.filter(in_use) {
            wait_for(counter, old.line.base, lead)?;
        }
        let mut ahead = lead.0.max(1);
        for _ in 0..ATTEMPTS {
            let now = counter.ordered();
            let begin = Ticks(now.0.saturating_add(ahead));
            let Some(old) = self.current.filter(|old| old.ends() > now && in_use(old)) else {
                let content = Content { previous: None, ..next(None, begin) };
                self.publish(self.not_before_the_end(content));
                return Ok(());
            };
            let Some(begin) = self.stop_at(counter, &old, begin, lead) else {
                ahead = ahead.saturating_mul(4);
                continue;
            };
            let line = old.line_at(begin);
            self.publish(Content { previous: Some(*line), ..next(Some(line), begin) });
            return Ok(());
        }
        Err(TooLate)
    }

    /// A line after a pause does not begin below the end of the one before the pause, which readers
    /// have in mind, if that is a matter of the two lines' errors and not of a jump.
    fn not_before_the_end(&self, mut content: Content) -> Content {
        let reached = self.current.filter(Content::has_line).map(|old| old.end_time());
        let below = reached.map_or(0, |end| end.0.saturating_sub(content.line.mono.0));
        if (1..WIDEST).contains(&below) && content.has_line() {
            content.line.mono = Nanos(content.line.mono.0.saturating_add(below));
            content.bound.at_base = content.bound.at_base.saturating_add(below.unsigned_abs());
        }
        content
    }

    /// Says that the line in use ends at `end`, or earlier if it does anyway; gives where it ends,
    /// or `None` if that was said too late and taken back.
    fn stop_at(
        &mut self,
        counter: &impl Counter,
        old: &Content,
        end: Ticks,
        lead: Ticks,
    ) -> Option<Ticks> {
        if old.ends() <= end {
            return Some(old.ends());
        }
        if !self.in_time(counter, end, lead) {
            return None; // too late already, without anybody having seen it
        }
        let span = Ticks(end.0.saturating_sub(old.line.base.0));
        self.publish(Content { span, grace: Ticks(0), ..*old });
        if self.in_time(counter, end, lead) {
            return Some(end);
        }
        self.publish(*old);
        None
    }

    /// Whether what was published last was there for all CPUs before this tick.
    fn in_time(&self, counter: &impl Counter, tick: Ticks, lead: Ticks) -> bool {
        // The counter must not be read before the store is seen by others. The fence is for
        // accesses to memory; the branch on what was read after it makes it one for the counter.
        fence(SeqCst);
        if self.page.head.load(Relaxed) & 0xffff_ffff != self.head & 0xffff_ffff {
            return false; // there is another writer
        }
        // Half of the lead is for CPUs that read the counter after they looked at the page.
        counter.ordered().0.saturating_add(lead.0 / 2) < tick.0
    }

    /// Ends the line in use after `lead` and says why; from then on the kernel answers.
    pub fn end(&mut self, counter: &impl Counter, lead: Ticks, reason: Decline) {
        let state = State::Ended(reason);
        let Some(old) = self.current.filter(Content::has_line) else {
            self.publish(Content::none(reason));
            self.current = None;
            return;
        };
        let mut ahead = lead.0.max(1);
        for _ in 0..ATTEMPTS {
            // If the line has not begun, it never does.
            let end = Ticks(counter.ordered().0.saturating_add(ahead));
            let end = end.clamp(old.line.base, old.ends().max(old.line.base));
            let span = Ticks(end.0 - old.line.base.0);
            self.publish(Content { span, grace: Ticks(0), state, ..old });
            if end >= old.ends() || self.in_time(counter, end, lead) {
                return;
            }
            // Said too late: threads may have used the line beyond that end already.
            ahead = ahead.saturating_mul(4);
        }
    }
}

/// Waits until the counter has reached this tick, if that is near.
fn wait_for(counter: &impl Counter, tick: Ticks, lead: Ticks) -> Result<(), TooLate> {
    let near = lead.0.saturating_mul(4);
    for _ in 0..PATIENCE {
        let now = counter.ordered();
        if now >= tick {
            return Ok(());
        }
        if tick.0 - now.0 > near {
            return Err(TooLate);
        }
        core::hint::spin_loop();
    }
    Err(TooLate)
}
