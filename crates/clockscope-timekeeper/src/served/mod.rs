//! A page in a file, for every program of a host.

pub mod holder;
pub mod opened;
pub mod supervisor;
