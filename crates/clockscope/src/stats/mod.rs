//! Statistics: pure functions over numbers.

pub mod gate;
pub mod histogram;
pub mod median;
