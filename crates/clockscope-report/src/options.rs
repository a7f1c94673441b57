//! How the report of a trace is made into text.

use crate::columns::{self, Column};
use clockscope_model::trace::Clock;
use clockscope_text::lines::WIDTH;

/// What the rows of the table are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SortBy {
    /// total time
    Time,
    /// number of calls
    Calls,
    /// number of errors
    Errors,
    /// name
    Name,
}

/// How the text is made.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// Order of the rows.
    pub sort: SortBy,
    /// Columns of the tables, as `Column::parse_list` gives them.
    pub columns: Vec<Column>,
    /// A table for each process.
    pub per_process: bool,
    /// A table for each thread.
    pub per_thread: bool,
    /// Everything, however long: every row, call site and caller, and how times were taken.
    pub all: bool,
    /// Only tables and what was not counted.
    pub summary_only: bool,
    /// The distribution of the time of each call.
    pub latency: bool,
    /// The clock that the program was given: the kernel's, but for `clockscope run`.
    pub clock: Clock,
    /// Rows of vDSO calls have a colour.
    pub coloured: bool,
    /// How callers are printed, where they were asked for.
    pub callers: CallersOptions,
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions {
            sort: SortBy::Time,
            columns: columns::DEFAULT.to_vec(),
            per_process: false,
            per_thread: false,
            all: false,
            summary_only: false,
            latency: false,
            clock: Clock::Kernel,
            coloured: false,
            callers: CallersOptions { least_share: 0.02, width: WIDTH, whole: false },
        }
    }
}

/// How callers are printed.
#[derive(Clone, Copy, Debug)]
pub struct CallersOptions {
    /// Callers below this share (0 to 1) of their function's calls are left out.
    pub least_share: f64,
    /// Columns that no line exceeds.
    pub width: usize,
    /// Every function that was called has a tree, and chains of callers are not shortened.
    pub whole: bool,
}
