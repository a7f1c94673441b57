//! The sections of the page.

pub(crate) mod accuracy;
pub(crate) mod agreement;
pub(crate) mod attach;
pub(crate) mod builds;
pub(crate) mod bystander;
pub(crate) mod counters;
pub(crate) mod exactness;
pub(crate) mod fastclock;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod real;
pub(crate) mod run_tsc;
pub(crate) mod sampling;
pub(crate) mod signals;
pub(crate) mod start;
pub(crate) mod syscalls;
pub(crate) mod vdso;
