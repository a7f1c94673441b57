//! The live view of `trace --top`: readings once a second, and their display.
//!
//! | file | content |
//! |---|---|
//! | `reading.rs` | the counts at one moment |
//! | `screen.rs` | rates, and the lines of a terminal of any size |
//! | `plain.rs` | one line a second, for pipes |

pub mod plain;
pub mod reading;
pub mod screen;
#[cfg(test)]
mod tests;
