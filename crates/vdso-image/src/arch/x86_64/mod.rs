//! x86-64.

pub(crate) mod layout;

#[cfg(clockscope_image)]
mod attach;
#[cfg(clockscope_image)]
pub(crate) mod counter;
#[cfg(clockscope_image)]
pub(crate) mod entry;
#[cfg(clockscope_image)]
mod routes;
#[cfg(clockscope_image)]
pub(crate) mod sample;
#[cfg(clockscope_image)]
pub(crate) mod slots;
#[cfg(clockscope_image)]
pub(crate) mod slow_reads;
#[cfg(clockscope_image)]
pub(crate) mod start;
#[cfg(clockscope_image)]
mod stubs;
#[cfg(clockscope_image)]
pub(crate) mod syscall;
