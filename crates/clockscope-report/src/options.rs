//! Options for the text of a trace's report.

use clockscope_model::trace::Clock;
use clockscope_text::lines::WIDTH;

/// Order of the rows of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SortBy {
    /// total time
    #[default]
    Time,
    /// number of calls
    Calls,
    /// number of errors
    Errors,
    /// name
    Name,
}

/// Options for the text.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// The order of the rows.
    pub sort: SortBy,
    /// Print a table for each process.
    pub per_process: bool,
    /// Print a table for each thread.
    pub per_thread: bool,
    /// Print every row, call site and caller, and how times were taken.
    pub all: bool,
    /// Print only the tables and the parts that were not counted.
    pub summary_only: bool,
    /// Print the distribution of the time of each call.
    pub latency: bool,
    /// Print the times between two reads, by the lines that make them.
    pub intervals: bool,
    /// The program's clock: the kernel's, except with `clockscope run`.
    pub clock: Clock,
    /// Print rows of vDSO calls in colour.
    pub coloured: bool,
    /// Options for callers, if the report has them.
    pub callers: CallersOptions,
}

/// Options for printing callers.
#[derive(Clone, Copy, Debug)]
pub struct CallersOptions {
    /// Callers below this share (0 to 1) of their function's calls are left out.
    pub least_share: f64,
    /// Longest line, in columns.
    pub width: usize,
    /// Draw a tree for every called function, and do not shorten chains of callers.
    pub whole: bool,
}

impl Default for CallersOptions {
    fn default() -> CallersOptions {
        CallersOptions { least_share: 0.02, width: WIDTH, whole: false }
    }
}
