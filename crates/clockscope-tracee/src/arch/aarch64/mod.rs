//! arm64.

pub(crate) mod attach;
pub(crate) mod counter_read;
pub(crate) mod image;
pub mod lacks;
pub(crate) mod tasks;
