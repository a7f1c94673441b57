//! Pages of shared memory, each with a word that means "the tracer lives". The kernel changes the word when the thread
//! that has announced itself there dies ([`crate::robust`]). The pages can lie in several IPC namespaces.
//!
//! A thread has one robust list, and the kernel wants each futex at the same distance from its node. Other processes
//! may write the pages, so the nodes lie in private memory, as far apart as the pages.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Release;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::memory::page_size;
use super::robust::{List, ListNode};
use super::shm::{Segment, SharedContent};

/// Maximum number of pages, one for each IPC namespace. The kernel reads at most 2,048 words (`ROBUST_LIST_LIMIT`).
pub const MOST: usize = 128;

/// Pages that each begin with a `T`, for the life of this process.
#[derive(Debug)]
pub struct WatchedPages<T: 'static> {
    /// Address of the nodes; the pages are behind them.
    at: usize,
    word: fn(&T) -> &AtomicU32,
    pages: Vec<&'static Segment<T>>,
    /// Index of the page that is replaced next once there are [`MOST`].
    next: usize,
    /// The thread that has announced itself, and its list.
    announced: Option<(u32, List)>,
}

impl<T: SharedContent> WatchedPages<T> {
    /// No pages yet; `word` selects the watched word of a page.
    ///
    /// # Errors
    ///
    /// `ENOMEM` without address space.
    pub fn new(word: fn(&T) -> &AtomicU32) -> io::Result<Self> {
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: new memory at an address of the kernel's choice, which stays for ever.
        let at =
            unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * MOST * page_size(), access, flags) }?;
        let at = at.expose_provenance();
        Ok(Self { at, word, pages: Vec::new(), next: 0, announced: None })
    }

    /// Makes one more page, in the IPC namespace of the calling thread. If a thread has announced itself, it must be
    /// the caller. If there are [`MOST`] pages, the new one replaces the oldest, whose word is withdrawn. References to
    /// the oldest see the new one from then on; processes that have attached the oldest keep it.
    ///
    /// # Errors
    ///
    /// As [`Segment::new`].
    pub fn add(&mut self, mode: i32) -> io::Result<&'static Segment<T>> {
        let index = self.next;
        if let Some(oldest) = self.pages.get(index) {
            (self.word)(oldest.get()).store(0, Release);
        }
        let place = self.at + (MOST + index) * page_size();
        // SAFETY: the page is our own memory, unused or that of the oldest segment, which is never dropped. References
        // to that segment then read and write content of the same type.
        let page = unsafe { Segment::new_at(place, page_size(), mode) }?;
        let page: &'static Segment<T> = Box::leak(Box::new(page));
        let is_new = index == self.pages.len();
        if is_new {
            self.pages.push(page);
        } else {
            self.pages[index] = page;
        }
        self.next = (index + 1) % MOST;
        if let Some((thread, list)) = &self.announced {
            if is_new {
                list.add(self.node(index));
            }
            (self.word)(page.get()).store(*thread, Release);
        }
        Ok(page)
    }

    /// Puts the calling thread's id into the words of all present and future pages, and the words on its robust list.
    ///
    /// # Errors
    ///
    /// If the kernel has no futexes.
    pub fn announce(&mut self) -> io::Result<()> {
        let Some(first) = self.pages.first() else { return Ok(()) };
        let word = (self.word)(first.get()).as_ptr().addr();
        let list = List::new(word.wrapping_sub(self.at).cast_signed())?;
        (0..self.pages.len()).for_each(|index| list.add(self.node(index)));
        let thread = list.set()?;
        self.pages.iter().for_each(|page| (self.word)(page.get()).store(thread, Release));
        self.announced = Some((thread, list));
        Ok(())
    }

    /// Takes the announcement back.
    pub fn withdraw(&mut self) {
        self.announced = None;
        self.pages.iter().for_each(|page| (self.word)(page.get()).store(0, Release));
    }

    fn node(&self, index: usize) -> &'static ListNode {
        let node = std::ptr::with_exposed_provenance(self.at + index * page_size());
        // SAFETY: zeroed private memory that stays for ever, aligned, and only the list has references to it; any
        // number is a valid address in it.
        unsafe { &*node }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Acquire;

    #[derive(Debug)]
    struct Words {
        _before: AtomicU32,
        word: AtomicU32,
    }
    // SAFETY: atomics.
    unsafe impl SharedContent for Words {}

    /// `FUTEX_OWNER_DIED`, include/uapi/linux/futex.h (Linux 6.18).
    const DIED: u32 = 1 << 30;

    /// The words after a thread has announced itself in two pages and in one added later, and has ended.
    fn words_after_a_thread(goes_in_peace: bool) -> (u32, Vec<u32>) {
        let thread = std::thread::spawn(move || {
            let mut pages = WatchedPages::<Words>::new(|words| &words.word).unwrap();
            let mut words = vec![pages.add(0o600).unwrap().get(), pages.add(0o600).unwrap().get()];
            pages.announce().unwrap();
            words.push(pages.add(0o600).unwrap().get());
            let own = words[0].word.load(Acquire);
            assert!(words.iter().all(|words| words.word.load(Acquire) == own));
            if goes_in_peace {
                pages.withdraw();
            }
            (own, words.iter().map(|words| &words.word).collect::<Vec<_>>())
        });
        let (own, words) = thread.join().unwrap();
        (own, words.iter().map(|word| word.load(Acquire)).collect())
    }

    #[test]
    fn the_kernel_marks_the_words_of_all_pages_when_their_thread_dies() {
        let (own, words) = words_after_a_thread(false);
        assert_ne!(own, 0);
        // The kernel removes the thread's id.
        assert_eq!(words, [DIED; 3]);
        assert_eq!(words_after_a_thread(true).1, [0; 3]);
    }

    #[test]
    fn the_oldest_page_gives_way_and_is_withdrawn() {
        std::thread::spawn(|| {
            let mut pages = WatchedPages::<Words>::new(|words| &words.word).unwrap();
            let first = pages.add(0o600).unwrap();
            // Stands for a process that has attached the page.
            // SAFETY: attached at an address of the kernel's choice, for ever.
            let elsewhere = unsafe { libc::shmat(first.id(), std::ptr::null(), 0) };
            assert_ne!(elsewhere.addr(), usize::MAX);
            // SAFETY: the segment is a page with this at its beginning, and stays.
            let theirs = unsafe { &*elsewhere.cast::<Words>() };
            pages.announce().unwrap();
            let own = theirs.word.load(Acquire);
            assert_ne!(own, 0);
            for _ in 1..MOST {
                pages.add(0o600).unwrap();
            }
            assert_eq!(theirs.word.load(Acquire), own);
            let last = pages.add(0o600).unwrap();
            assert_eq!((theirs.word.load(Acquire), last.get().word.load(Acquire)), (0, own));
            assert!(std::ptr::eq(first.get(), last.get()) && first.id() != last.id());
            pages.withdraw();
        })
        .join()
        .unwrap();
    }
}
