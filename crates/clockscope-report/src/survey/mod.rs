//! Who reads the clock on a host, as text and as metrics.

pub mod metrics;
pub mod text;
