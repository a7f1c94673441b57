//! arm64.

pub(crate) mod counter;
pub(crate) mod machine;
pub mod perf;
pub(crate) mod raw_syscall;
pub(crate) mod registers;
pub(crate) mod step;
