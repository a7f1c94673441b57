//! The live view of `trace --top`: what is read each second, and how it is shown.
//!
//! | file | what is in it |
//! |---|---|
//! | `reading.rs` | what is known at one moment |
//! | `screen.rs` | rates, and the lines of a terminal of any size |
//! | `plain.rs` | one line a second, for pipes |

pub mod plain;
pub mod reading;
pub mod screen;
#[cfg(test)]
mod tests;
