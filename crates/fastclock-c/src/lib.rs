//! The C interface of `fastclock`. cbindgen makes `include/fastclock.h` from the documentation
//! here.
//!
//! Pointers are taken as `Option<&T>`, which has the representation of a pointer that may be NULL,
//! so nearly all of this is safe code. A panic never leaves the library: functions that do not read
//! clocks catch it, and in the others Rust would abort (they contain no code that panics).

#![allow(unsafe_code, reason = "the functions are called from C by their bare names")]

mod clock;
mod making;
mod reading;
mod reasons;
mod status;

pub use clock::*;
pub use making::*;
pub use reading::*;
pub use reasons::*;
pub use status::*;
