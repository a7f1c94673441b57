//! The page, who keeps it and who reads it.

#[cfg(fastclock_model)]
mod model;

#[cfg(not(fastclock_model))]
mod discipline;
#[cfg(not(fastclock_model))]
mod kill;
#[cfg(not(fastclock_model))]
mod page_layout;
#[cfg(not(fastclock_model))]
mod recorded;
