//! Selects the source of the clocks: Linux itself where the counter is known, elsewhere the C
//! library or the standard library.

#[cfg_attr(
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(fastclock_portable)
    ),
    path = "linux.rs"
)]
mod source;

pub use source::*;
