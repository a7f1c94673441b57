//! Selects whether a clock can keep itself: it can where the counter is known.

#[cfg_attr(
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(fastclock_portable)
    ),
    path = "../clock/alone.rs"
)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(fastclock_portable)
    )),
    path = "../clock/never_alone.rs"
)]
mod this;

pub(in crate::clock) use this::Alone;
