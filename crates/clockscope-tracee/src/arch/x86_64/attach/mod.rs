//! The parts of attaching to a process that differ between architectures.
//!
//! | file | contents |
//! |---|---|
//! | `trampoline.rs` | the jump, and the trampoline with the displaced instructions; pure |
//! | `reach.rs` | reach of a jump, and the end of a program's addresses; pure |
//! | `frames.rs` | layout of signal frames; pure |
//! | `registers.rs` | registers of a thread that executes our code, and how it continues; pure |
//! | `restart.rs` | calls that a stop would end |

pub(crate) mod frames;
pub(crate) mod reach;
pub(crate) mod registers;
pub(crate) mod restart;
pub(crate) mod trampoline;
