//! A run of `clockscope bench`: chooses paths, measures them in fresh processes, and evaluates the batches.

pub mod chosen;
mod evaluation;
pub mod instructions;
pub mod launch;
pub mod launches;
pub mod measurement;

/// The paths to measure, and whether to measure them quickly.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Request {
    /// What to measure: clocks, counters and system calls by name (monotonic, CLOCK_TAI,
    /// gettimeofday, rdtsc, getppid, ...); `syscalls` for all system calls
    #[cfg_attr(feature = "clap", arg(value_name = "NAME"))]
    pub names: Vec<String>,
    /// Only these routes, separated by commas: libc, vdso, syscall, tsc
    #[cfg_attr(
        feature = "clap",
        arg(long = "route", value_delimiter = ',', value_name = "ROUTES")
    )]
    pub routes: Vec<String>,
    /// Take a first look, in three seconds
    #[cfg_attr(feature = "clap", arg(long))]
    pub quick: bool,
}

/// Choices for a measurement and its report.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Plan {
    /// The paths.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub request: Request,
    /// Measure in this many fresh processes, one after another
    #[cfg_attr(feature = "clap", arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100)))]
    pub launches: Option<u32>,
    /// The CPU to measure on, instead of the one that clockscope started on
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub cpu: Option<u32>,
    /// Subtract the cost of the empty loop from every figure
    #[cfg_attr(feature = "clap", arg(long))]
    pub net: bool,
    /// Also count the instructions of one call
    #[cfg_attr(feature = "clap", arg(long))]
    pub instructions: bool,
}
