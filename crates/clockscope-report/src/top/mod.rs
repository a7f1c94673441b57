//! The live view of `trace --top`: what is read each second, and how it is shown.
//!
//! | file | what is in it |
//! |---|---|
//! | `reading.rs` | what is known at one moment |
//! | `board.rs` | rates, the last minute, what is selected, sorted and paused |
//! | `screen.rs` | drawing a board on a terminal of any size |
//! | `plain.rs` | one line a second, for pipes |

pub mod board;
pub mod plain;
pub mod reading;
pub mod screen;
#[cfg(test)]
mod tests;
