//! Who reads the clock on a host, as text.

pub mod text;
