//! arm64.

pub(crate) mod abi;
pub(crate) mod names;
