//! The sections of the page.

pub(crate) mod agreement;
pub(crate) mod bystander;
pub(crate) mod exactness;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod real;
pub(crate) mod signals;
pub(crate) mod syscalls;
pub(crate) mod vdso;
