//! Systems other than Linux, and CPUs whose counter is not known.

#[doc(hidden)]
#[path = "../sys/portable.rs"]
pub mod sys;
