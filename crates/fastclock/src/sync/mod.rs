//! The atomics that the page's protocol is made of: the machine's own, or those of a model checker
//! (`make prove`).

#[cfg(fastclock_model)]
mod modelled;

#[cfg(not(fastclock_model))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, fence};

#[cfg(fastclock_model)]
pub(crate) use modelled::{AtomicI64, AtomicU32, AtomicU64, Died, die_after, fence};
