//! Statistics: pure functions over numbers.

pub mod histogram;
