//! The report of `bench`.

pub mod benchstat;
pub mod csv;
pub mod instructions;
pub mod names;
pub mod notes;
pub mod text;
