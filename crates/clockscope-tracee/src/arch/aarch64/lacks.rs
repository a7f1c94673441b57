//! Missing features of this architecture, with the alternative to suggest; `None`: the feature exists.

/// Counting system calls by code in the program.
pub const SITES: Option<&str> =
    Some("on arm64 no code in the program counts system calls; try --via bpf");
