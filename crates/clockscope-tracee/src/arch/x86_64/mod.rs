//! x86-64.

pub(crate) mod attach;
pub(crate) mod counter_read;
pub(crate) mod image;
pub mod lacks;
pub(crate) mod tasks;

#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod injected_tests;
#[cfg(test)]
mod launch_code_tests;
#[cfg(test)]
mod readers_tests;
