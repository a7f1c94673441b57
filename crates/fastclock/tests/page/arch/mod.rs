//! These tests need Linux and a known counter.
#![cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(fastclock_portable)
))]

#[cfg(fastclock_model)]
#[path = "../model.rs"]
mod model;

#[cfg(not(fastclock_model))]
#[path = "../discipline.rs"]
mod discipline;
#[cfg(not(fastclock_model))]
#[path = "../kill.rs"]
mod kill;
#[cfg(not(fastclock_model))]
#[path = "../lines.rs"]
mod lines;
#[cfg(not(fastclock_model))]
#[path = "../recorded.rs"]
mod recorded;
#[cfg(not(fastclock_model))]
#[path = "../threads.rs"]
mod threads;
