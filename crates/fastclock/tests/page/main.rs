//! The page, who keeps it and who reads it.
#![cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(fastclock_portable)
))]

#[cfg(fastclock_model)]
mod model;

#[cfg(not(fastclock_model))]
mod discipline;
#[cfg(not(fastclock_model))]
mod kill;
#[cfg(not(fastclock_model))]
mod recorded;
