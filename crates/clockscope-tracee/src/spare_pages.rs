//! Shared pages that no process counts in any more, kept for the next program.
//!
//! Making a segment needs a helper process (`shm.rs` in `clockscope-sys`). A shell script that executes one program
//! after another needs one segment after another.

use vdso_image::layout::Shared;

use clockscope_sys::shm::Segment;

/// Maximum number of segments kept: programs that run at the same time need one each.
const MOST: usize = 4;

/// Segments that were used and are all zeros again.
#[derive(Debug, Default)]
pub(crate) struct SparePages(Vec<Segment<Shared>>);

impl SparePages {
    /// Takes a segment of the tracer's IPC namespace that was given to this user and group; `None`: to no other user.
    pub(crate) fn take(&mut self, owner: Option<(u32, u32)>) -> Option<Segment<Shared>> {
        let at = self.0.iter().position(|pages| pages.owner() == owner && pages.is_here())?;
        Some(self.0.swap_remove(at))
    }

    /// Keeps a segment whose counts were collected, if no process has it attached any more.
    pub(crate) fn keep(&mut self, mut pages: Segment<Shared>) {
        // Segments of another IPC namespace are useless now.
        self.0.retain(Segment::is_here);
        if self.0.len() < MOST && pages.is_alone() && pages.clear() {
            self.0.push(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use vdso_image::layout::{CPU_SLOTS, SHARED_SIZE};

    use super::*;

    fn used() -> Segment<Shared> {
        let pages = Segment::<Shared>::new(SHARED_SIZE, 0o600).expect("shared memory");
        let shared = pages.get();
        shared.header.base.store(4096, Relaxed);
        shared.slots[CPU_SLOTS + 70].calls[2].store(7, Relaxed);
        shared.histograms[2].buckets[100].store(11, Relaxed);
        pages
    }

    /// Reads all pages, and checks that they are zero.
    fn is_zero(pages: &Segment<Shared>) -> bool {
        let me = i32::try_from(std::process::id()).unwrap();
        let mut bytes = vec![1; SHARED_SIZE];
        let at = std::ptr::from_ref(pages.get()) as u64;
        assert_eq!(clockscope_sys::memory::read(me, at, &mut bytes).unwrap(), SHARED_SIZE);
        bytes.iter().all(|byte| *byte == 0)
    }

    #[test]
    fn pages_come_back_zero_and_to_their_owner_only() {
        let mut spare = SparePages::default();
        let pages = used();
        let id = pages.id();
        assert!(!is_zero(&pages));
        spare.keep(pages);
        assert!(spare.take(Some((1000, 100))).is_none());
        let again = spare.take(None).expect("the pages");
        assert_eq!(again.id(), id);
        assert!(is_zero(&again));
        assert!(spare.take(None).is_none());
    }

    #[test]
    fn a_few_are_kept() {
        let mut spare = SparePages::default();
        for _ in 0..=MOST {
            spare.keep(used());
        }
        assert_eq!(std::iter::from_fn(|| spare.take(None)).count(), MOST);
    }
}
