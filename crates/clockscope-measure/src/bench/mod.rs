//! A run of `clockscope bench`: chooses paths, measures them in fresh processes, and evaluates the batches.

pub mod chosen;
mod evaluation;
pub mod instructions;
pub mod launch;
pub mod launches;
pub mod measurement;

/// The paths to measure, and whether to measure them quickly.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of clocks, counters and system calls. The word `syscalls` means all system calls, or those named
    /// after it. Empty for all clocks.
    pub names: Vec<String>,
    /// Only these routes; empty for all.
    pub routes: Vec<String>,
    /// Take three seconds, for a first look.
    pub quick: bool,
}

/// Choices for a measurement and its report.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The paths.
    pub request: Request,
    /// Number of fresh processes that measure; `None` for the usual number.
    pub launches: Option<u32>,
    /// The CPU to measure on; the current one if `None`.
    pub cpu: Option<u32>,
    /// Subtract the cost of the empty loop.
    pub net: bool,
    /// Count instructions, too.
    pub instructions: bool,
}
