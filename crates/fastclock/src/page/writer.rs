//! Writing a page, so that no reader ever sees time run backwards.
//!
//! The time is one function of the counter, made of straight lines, and every line is fixed before
//! it begins. The writer never changes a part of a line that a reader may have used: it first
//! announces the end of the old line, a little ahead of now, checks by the counter that the
//! announcement was in time, and then publishes the line that begins there.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::content::{Content, State};
use super::reader::Counter;
use super::trust::WIDEST;
use super::{MAGIC, OWNER_DIED, Page, SIZE, VERSION};
use crate::decline::Decline;
use crate::line::Line;
use crate::sync::fence;
use crate::units::{Nanos, Ticks};

/// Number of attempts to announce a line's end, each further ahead than the previous attempt.
const ATTEMPTS: u32 = 8;
/// Largest number of counter reads until a line has begun.
const PATIENCE: u32 = 1 << 20;

/// The single writer of a page.
#[derive(Debug)]
pub struct Writer<'a> {
    page: &'a Page,
    head: u64,
    current: Option<Content>,
}

/// The writer lost its CPU again and again, so it could not publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

impl<'a> Writer<'a> {
    /// Makes `page` a page without a line. Readers that have already mapped it see that the old
    /// content is over. If another writer may have left a line, try [`resume`](Self::resume) first.
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

    /// Takes over a page that another writer has left; its line holds to its end.
    ///
    /// # Errors
    ///
    /// The page is not one of this boot, or its content is damaged.
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

    /// Stores the thread that owns the page, so that readers notice its death at once. The caller
    /// puts the upper half of the head on the thread's robust list.
    pub fn own(&mut self, thread: u32) {
        self.head = self.head & 0xffff_ffff | u64::from(thread) << 32;
        self.page.head.store(self.head, Release);
    }

    /// The content published last.
    pub fn current(&self) -> Option<&Content> {
        self.current.as_ref()
    }

    /// Publishes content as it is. For ticks that have passed the content must agree with the
    /// previous content; [`renew`](Self::renew) ensures that.
    pub fn publish(&mut self, content: Content) {
        let count = (self.head & 0xffff_ffff).wrapping_add(1) & 0xffff_ffff;
        // A count of zero means "never published".
        let count = if count == 0 { 2 } else { count };
        // Readers must not see the next stores before the head that was published last.
        fence(Release);
        content.store(&self.page.slots[(count & 1) as usize]);
        self.head = self.head & !0xffff_ffff | count;
        self.page.head.store(self.head, Release);
        self.current = Some(content);
    }

    /// Publishes the content that `next` makes. `next` is given the line in use and the tick at
    /// which that line ends, at least `lead` ahead of now. The new line begins there, at the time
    /// that the old line has reached or above. Without a line in use, `next` gets `None` and the
    /// tick at which the new line is to begin.
    ///
    /// `lead` must be at least 10 us: half of it covers out-of-order reads by CPUs. If the line in
    /// use has not begun yet, this waits for it, as long as the `lead` of the previous renewal.
    ///
    /// # Errors
    ///
    /// [`TooLate`] if this thread repeatedly did not get its CPU in time, or if the line in use
    /// begins far ahead. The old line then holds to its end.
    pub fn renew(
        &mut self,
        counter: &impl Counter,
        lead: Ticks,
        mut next: impl FnMut(Option<&Line>, Ticks) -> Content,
    ) -> Result<(), TooLate> {
        let now = counter.ordered();
        // No announcement is further ahead than the last attempt's.
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

    /// Raises a line after a pause to the end of the line before the pause, which readers have as
    /// their floor, if the difference comes from the two lines' errors and not from a jump.
    fn not_before_the_end(&self, mut content: Content) -> Content {
        let reached = self.current.filter(Content::has_line).map(|old| old.end_time());
        let below = reached.map_or(0, |end| end.0.saturating_sub(content.line.mono.0));
        if (1..WIDEST).contains(&below) && content.has_line() {
            content.line.mono = Nanos(content.line.mono.0.saturating_add(below));
            content.bound.at_base = content.bound.at_base.saturating_add(below.unsigned_abs());
        }
        content
    }

    /// Announces that the line in use ends at `end`, or earlier if it does anyway. Returns the
    /// line's end, or `None` if the announcement was too late and has been taken back.
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
            return None; // too late already, and nothing was published
        }
        let span = Ticks(end.0.saturating_sub(old.line.base.0));
        self.publish(Content { span, grace: Ticks(0), ..*old });
        if self.in_time(counter, end, lead) {
            return Some(end);
        }
        self.publish(*old);
        None
    }

    /// Whether all CPUs could see the last publication before this tick.
    fn in_time(&self, counter: &impl Counter, tick: Ticks, lead: Ticks) -> bool {
        // The counter must not be read before other CPUs see the store. The fence orders memory
        // accesses; the branch on the value loaded after it extends the order to the counter.
        fence(SeqCst);
        if self.page.head.load(Relaxed) & 0xffff_ffff != self.head & 0xffff_ffff {
            return false; // there is another writer
        }
        // Half of the lead covers CPUs that read the counter after they looked at the page.
        counter.ordered().0.saturating_add(lead.0 / 2) < tick.0
    }

    /// Ends the line in use after `lead`, with a reason; from then on the kernel answers.
    pub fn end(&mut self, counter: &impl Counter, lead: Ticks, reason: Decline) {
        let state = State::Ended(reason);
        let Some(old) = self.current.filter(Content::has_line) else {
            self.publish(Content::none(reason));
            self.current = None;
            return;
        };
        let mut ahead = lead.0.max(1);
        for _ in 0..ATTEMPTS {
            // A line that has not begun never begins.
            let end = Ticks(counter.ordered().0.saturating_add(ahead));
            let end = end.clamp(old.line.base, old.ends().max(old.line.base));
            let span = Ticks(end.0 - old.line.base.0);
            self.publish(Content { span, grace: Ticks(0), state, ..old });
            if end >= old.ends() || self.in_time(counter, end, lead) {
                return;
            }
            // Too late: threads may have used the line beyond that end already.
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
