//! Another system, or a CPU whose counter is not known.

#[doc(hidden)]
#[path = "../sys/portable.rs"]
pub mod sys;
