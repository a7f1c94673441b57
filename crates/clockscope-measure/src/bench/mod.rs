//! A run of `clockscope bench`: which paths, fresh processes that measure them, and what follows from their batches.

pub mod chosen;
pub mod evaluation;
pub mod instructions;
pub mod launch;
pub mod launches;

/// What is to be measured, and how long.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of clocks, counters and system calls; the word `syscalls` stands for all system calls, or for
    /// those whose names come after it. Empty for all clocks.
    pub names: Vec<String>,
    /// Only these routes; empty for all.
    pub routes: Vec<String>,
    /// A look in three seconds, not a measurement.
    pub quick: bool,
}
