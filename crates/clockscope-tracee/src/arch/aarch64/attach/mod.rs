//! Counting in a process that is running already: what differs between architectures.
//!
//! | file | what is in it |
//! |---|---|
//! | `trampoline.rs` | the jump, and the trampoline with what stood there; pure |
//! | `reach.rs` | how far a jump reaches, and where a program's addresses end; pure |
//! | `frames.rs` | what signal handlers return to; pure |
//! | `registers.rs` | what a thread is given that executes our code, and how it goes on; pure |
//! | `spare_register.rs` | where a program does not need a register; pure |
//! | `restart.rs` | calls that a stop would end |

pub(crate) mod frames;
pub(crate) mod reach;
pub(crate) mod registers;
pub(crate) mod restart;
mod spare_register;
pub(crate) mod trampoline;
