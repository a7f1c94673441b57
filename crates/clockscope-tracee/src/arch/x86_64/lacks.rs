//! Missing features of this architecture, with the alternative to suggest; `None`: the feature exists.

/// Counting system calls by code in the program.
pub const SITES: Option<&str> = None;
