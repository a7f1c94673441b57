//! Selects the source of the clocks: Linux itself where the counter is known, elsewhere the C
//! library or the standard library.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(fastclock_portable)
)))]
mod elsewhere;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(fastclock_portable)
))]
mod linux;

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(fastclock_portable)
)))]
pub use elsewhere::sys;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(fastclock_portable)
))]
pub(crate) use linux::facts;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(fastclock_portable)
))]
pub use linux::sys;
