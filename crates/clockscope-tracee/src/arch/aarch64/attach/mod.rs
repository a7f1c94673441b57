//! The parts of attaching to a process that differ between architectures.
//!
//! | file | contents |
//! |---|---|
//! | `trampoline.rs` | the jump, and the trampoline with the displaced instruction; pure |
//! | `reach.rs` | reach of a jump, and the end of a program's addresses; pure |
//! | `frames.rs` | layout of signal frames; pure |
//! | `registers.rs` | registers of a thread that executes our code, and how it continues; pure |
//! | `spare_register.rs` | whether a program does not need `x16` at an instruction; pure |
//! | `restart.rs` | calls that a stop would end |

pub(crate) mod frames;
pub(crate) mod reach;
pub(crate) mod registers;
pub(crate) mod restart;
mod spare_register;
pub(crate) mod trampoline;
