//! Systems other than Linux, and CPUs whose counter is not known. `linux.rs` stands in for this file
//! where it is known.

#[path = "../clock/never_alone.rs"]
pub(crate) mod alone;
#[doc(hidden)]
#[path = "../sys/portable.rs"]
pub mod sys;
