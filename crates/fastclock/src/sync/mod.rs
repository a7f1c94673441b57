//! The atomics of the page's protocol: the machine's own, those of a model checker (`make prove`),
//! or a library's if the machine has none of 64 bits.

#[cfg(fastclock_model)]
mod modelled;

#[cfg(all(not(fastclock_model), target_has_atomic = "64"))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU64};
#[cfg(not(fastclock_model))]
pub(crate) use core::sync::atomic::{AtomicU32, fence};
#[cfg(all(not(fastclock_model), not(target_has_atomic = "64")))]
pub(crate) use portable_atomic::{AtomicI64, AtomicU64};

#[cfg(fastclock_model)]
pub(crate) use modelled::{AtomicI64, AtomicU32, AtomicU64, Died, die_after, fence};
