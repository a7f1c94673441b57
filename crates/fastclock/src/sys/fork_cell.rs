//! A value behind a lock that no thread waits for and that no fork leaves locked.

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, needs_drop};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, fence};

use super::mapping::Wiped;

/// The lock in a fresh page, and in a forked child, for which the kernel zeroes the page.
const NOBODYS: u32 = 0;
const FREE: u32 = 1;
const HELD: u32 = 2;

/// A value that one thread at a time works on; other threads do not wait for it.
///
/// The lock's word lies in memory that is zero in a forked child (`MADV_WIPEONFORK`). If a thread
/// of the parent worked on the value at the fork, the child makes the value anew. A child that
/// shares its memory with the parent (`vfork(2)`) shares the lock too. Where the kernel lacks
/// MADV_WIPEONFORK (before Linux 4.14), a held lock stays held in the child.
pub(crate) struct ForkCell<T> {
    lock: Wiped,
    /// True while the value is whole. Like the value, it is not wiped by a fork.
    whole: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only the holder of the lock accesses the value.
unsafe impl<T: Send> Sync for ForkCell<T> {}

// A panic frees the lock and leaves a value, and a value kept here must tolerate being torn by a
// fork anyway.
impl<T> core::panic::RefUnwindSafe for ForkCell<T> {}

impl<T> ForkCell<T> {
    /// Makes a cell without a value; the first use makes the value.
    pub(crate) fn new() -> Self {
        const { assert!(!needs_drop::<T>(), "a value torn by a fork cannot be dropped") };
        Self {
            lock: Wiped::new(),
            whole: AtomicBool::new(false),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// True if no thread of this process has worked on the value.
    pub(crate) fn is_fresh(&self) -> bool {
        self.lock.word().load(Relaxed) == NOBODYS
    }

    /// Works on the value, made by `make` if there is none or a fork tore it. `None` if another
    /// thread works on it, or the same thread below a signal handler.
    pub(crate) fn try_with<R>(
        &self,
        make: impl FnOnce() -> T,
        work: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let word = self.lock.word();
        let was = word.load(Relaxed);
        if was == HELD || word.compare_exchange(was, HELD, Acquire, Relaxed).is_err() {
            return None;
        }
        // SAFETY: this call alone stored HELD, and only the code below takes it back.
        let slot = unsafe { &mut *self.value.get() };
        if was == NOBODYS && !self.whole.load(Acquire) {
            // The parent's value is overwritten unread; there is nothing to drop. If `make` panics,
            // the lock stays held.
            slot.write(make());
        }
        let _unlock = Unlock { word, whole: &self.whole };
        self.whole.store(false, Release);
        // The store must be made before the value is touched.
        fence(SeqCst);
        // SAFETY: FREE is only stored after the value was made; NOBODYS was handled above.
        Some(work(unsafe { slot.assume_init_mut() }))
    }
}

/// Releases the lock, after a panic too: the value is still a value.
struct Unlock<'a> {
    word: &'a AtomicU32,
    whole: &'a AtomicBool,
}

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.whole.store(true, Release);
        self.word.store(FREE, Release);
    }
}

impl<T> core::fmt::Debug for ForkCell<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ForkCell").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_and_nobody_makes_it_twice() {
        let cell = ForkCell::new();
        assert!(cell.is_fresh());
        let outer = cell.try_with(
            || 5,
            |value| {
                *value += 1;
                assert_eq!(cell.try_with(|| 0, |_| ()), None, "held, below a signal handler too");
                *value
            },
        );
        assert_eq!(outer, Some(6));
        assert!(!cell.is_fresh());
        assert_eq!(cell.try_with(|| 0, |value| *value), Some(6));
    }

    #[test]
    fn a_panic_leaves_it_free() {
        let cell = ForkCell::new();
        let result = std::panic::catch_unwind(|| {
            cell.try_with(|| 5, |_| std::panic::resume_unwind(std::boxed::Box::new(())))
        });
        assert!(result.is_err());
        assert_eq!(cell.try_with(|| 0, |value| *value), Some(5));
    }

    #[test]
    fn threads_take_turns() {
        let cell = ForkCell::new();
        let done = core::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if cell.try_with(|| 0_u64, |value| *value += 1).is_some() {
                            done.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(cell.try_with(|| 0, |value| *value), Some(done.load(Relaxed)));
    }
}
