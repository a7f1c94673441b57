//! x86-64.

pub(crate) mod abi;
pub(crate) mod names;
