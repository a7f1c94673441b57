//! The report of `bench`.

pub mod instructions;
pub mod names;
pub mod notes;
pub mod text;
