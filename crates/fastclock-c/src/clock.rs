//! A clock as C programs hold it, and the result of functions that are given none.

use std::ffi::c_int;

use fastclock::Clock;

/// Returned by functions for a clock of NULL. No time is negative.
pub const FASTCLOCK_ERROR: c_int = -1;

/// [`FASTCLOCK_ERROR`] of functions that return a time or a count.
pub(crate) const ERROR: i64 = FASTCLOCK_ERROR as i64;

/// A clock. Its content is private to the library.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct fastclock_t(pub(crate) Clock);
