//! The C face of `fastclock`; `include/fastclock.h` is what a C program sees of it, made from the
//! documentation here.
//!
//! Pointers are taken as `Option<&T>`, which has the form of a pointer that may be NULL, so that
//! nearly all of this is safe code. A panic never leaves: the functions that are not for reading
//! catch it, and for the others Rust would abort (they have nothing that panics).

#![allow(unsafe_code, reason = "the functions are called from C by their bare names")]

mod making;
mod reading;
mod reasons;
mod status;

pub use making::*;
pub use reading::*;
pub use reasons::*;
pub use status::*;
