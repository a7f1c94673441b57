//! Atomics under the model checker loom, which tries every order of threads and every value that
//! the C11 memory model allows a load to see.
//!
//! A word is modelled if the test asks for it: the counter, the latest reading, the page's head,
//! three words of each slot, the word `checked` of a process's `Trust`, and in two models its
//! copies. The other words are plain: a load sees the latest store, whatever its ordering. Threads
//! switch only at modelled words, so the accesses to plain words between two modelled ones are one
//! step. All words of a slot are stored and loaded alike, so three stand for all, and the search
//! ends in minutes.

extern crate std;

use core::sync::atomic::Ordering::{self, Relaxed};
use std::boxed::Box;
use std::sync::OnceLock;

pub(crate) use loom::sync::atomic::fence;

/// The payload with which a killed thread unwinds.
pub(crate) struct Died;

std::thread_local! {
    /// Stores to mortal words that are left until the writer dies. A model runs in one OS thread.
    static LEFT: core::cell::Cell<u64> = const { core::cell::Cell::new(u64::MAX) };
}

/// After this many stores to mortal words, the next such store ends its thread instead.
pub(crate) fn die_after(stores: u64) {
    LEFT.set(stores);
}

macro_rules! word {
    ($name:ident, $number:ty) => {
        #[derive(Debug)]
        #[allow(unreachable_pub, reason = "the page's fields have it")]
        pub struct $name {
            plain: core::sync::atomic::$name,
            modelled: OnceLock<loom::sync::atomic::$name>,
            is_mortal: core::sync::atomic::AtomicBool,
        }

        #[allow(dead_code, reason = "not every word is used in every way")]
        impl $name {
            pub(crate) const fn new(value: $number) -> Self {
                Self {
                    plain: core::sync::atomic::$name::new(value),
                    modelled: OnceLock::new(),
                    is_mortal: core::sync::atomic::AtomicBool::new(false),
                }
            }

            /// Puts the word under the model checker.
            pub(crate) fn model(&self) {
                let value = self.plain.load(Relaxed);
                self.modelled.get_or_init(|| loom::sync::atomic::$name::new(value));
            }

            /// Counts stores to this word for [`die_after`].
            pub(crate) fn make_mortal(&self) {
                self.is_mortal.store(true, Relaxed);
            }

            pub(crate) fn load(&self, order: Ordering) -> $number {
                self.modelled
                    .get()
                    .map_or_else(|| self.plain.load(Relaxed), |word| word.load(order))
            }

            pub(crate) fn store(&self, value: $number, order: Ordering) {
                if self.is_mortal.load(Relaxed) {
                    match LEFT.get() {
                        0 => std::panic::resume_unwind(Box::new(Died)),
                        left => LEFT.set(left - 1),
                    }
                }
                self.modelled.get().map_or_else(
                    || self.plain.store(value, Relaxed),
                    |word| word.store(value, order),
                )
            }

            pub(crate) fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                self.modelled.get().map_or_else(
                    || self.plain.fetch_add(value, Relaxed),
                    |word| word.fetch_add(value, order),
                )
            }

            pub(crate) fn fetch_max(&self, value: $number, order: Ordering) -> $number {
                self.modelled.get().map_or_else(
                    || self.plain.fetch_max(value, Relaxed),
                    |word| word.fetch_max(value, order),
                )
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                self.modelled.get().map_or_else(
                    || self.plain.compare_exchange(current, new, Relaxed, Relaxed),
                    |word| word.compare_exchange(current, new, success, failure),
                )
            }
        }
    };
}

word!(AtomicU64, u64);
word!(AtomicI64, i64);
word!(AtomicU32, u32);
