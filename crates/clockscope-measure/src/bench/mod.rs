//! A run of `clockscope bench`: which paths, fresh processes that measure them, and what follows from their batches.

pub mod chosen;
mod evaluation;
pub mod instructions;
pub mod launch;
pub mod launches;
pub mod measurement;

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

/// What is to be measured and reported.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The paths.
    pub request: Request,
    /// How many fresh processes measure; as many as usual if `None`.
    pub launches: Option<u32>,
    /// The CPU to measure on; the current one if `None`.
    pub cpu: Option<u32>,
    /// Subtract the cost of the empty loop.
    pub net: bool,
    /// Count instructions, too.
    pub instructions: bool,
}
