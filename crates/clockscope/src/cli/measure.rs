//! The options of the commands that measure: `bench`, `compare` and `wrongness`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Format;
use clockscope_measure::bench::Plan;

/// Options of `clockscope bench`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope bench                                every clock by every route
  clockscope bench monotonic rdtsc                only these
  clockscope bench --route vdso,syscall realtime  one clock by two routes
  clockscope bench monotonic getppid              a clock beside a system call
  clockscope bench syscalls                       all system calls that it knows
  clockscope bench read getppid --instructions    and their instructions
  clockscope bench --save before.json             for clockscope compare

Exit status:
  0    the measurement is complete
  2    a name or an option is wrong, or the result cannot be written")]
pub struct BenchArgs {
    /// What is measured, and how.
    #[command(flatten)]
    pub plan: Plan,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the result to FILE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the measurement, and save it to FILE as JSON, for compare
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Measure as a launch of a parent and print every batch (used by bench itself)
    #[arg(long, hide = true)]
    pub as_launch: bool,
}

/// Options of `clockscope compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope compare before.json after.json  two results of bench --save
  clockscope compare old.json new.json       two reports of trace --format json
  clockscope compare --ministat before.txt after.txt
                                             columns of numbers, as ministat prints it
  clockscope compare --fail-if slower base.json new.json
                                             in continuous integration

Exit status:
  0    the files are compared, whatever the verdict
  1    --fail-if applies
  2    a file cannot be read or compared, or the options are wrong")]
pub struct CompareArgs {
    /// Two reports, the earlier first; - is standard input
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The smallest change that matters, in percent of the first [default: 1; 10 for reports of trace]
    #[arg(long, value_name = "PERCENT")]
    pub min_effect: Option<f64>,
    /// Show all rows, also those without a change
    #[arg(long)]
    pub all: bool,
    /// Exit with 1 if this is the verdict of any row
    #[arg(long, value_enum, value_name = "VERDICT")]
    pub fail_if: Option<FailIf>,
    /// Print of up to seven files of numbers what ministat prints, to the last digit, including its faults
    #[arg(long)]
    pub ministat: bool,
    /// With --ministat: take this column of each line (from 1)
    #[arg(short = 'C', value_name = "COLUMN", requires = "ministat")]
    pub column: Option<usize>,
    /// With --ministat: characters that separate columns [default: space and tab]
    #[arg(short = 'd', value_name = "DELIMITERS", requires = "ministat")]
    pub delimiters: Option<String>,
    /// With --ministat: confidence in percent: 80, 90, 95, 98, 99 or 99.5 [default: 95]
    #[arg(short = 'c', value_name = "PERCENT", requires = "ministat")]
    pub confidence: Option<String>,
    /// With --ministat: width of the plot in columns [default: that of the terminal, or 74]
    #[arg(short = 'w', value_name = "COLUMNS", requires = "ministat")]
    pub width: Option<usize>,
    /// With --ministat: no plot
    #[arg(short = 'A', requires = "ministat")]
    pub no_plot: bool,
    /// With --ministat: only the numbers of each set, no comparison
    #[arg(short = 'n', requires = "ministat")]
    pub numbers_only: bool,
    /// With --ministat: a bar for each set on a line of its own
    #[arg(short = 's', requires = "ministat")]
    pub separate_bars: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the result to FILE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `clockscope wrongness`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope wrongness                      every clock, in about 10 seconds
  clockscope wrongness realtime_coarse tai  only these

Exit status:
  0    no fault was found
  1    a clock is wrong
  2    a name or an option is wrong, or the result cannot be written")]
pub struct WrongnessArgs {
    /// Clocks to test: names such as monotonic or CLOCK_TAI
    #[arg(value_name = "CLOCK")]
    pub clocks: Vec<String>,
    /// Seconds to measure for, all tests together
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub time: f64,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the result to FILE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Output formats of `wrongness` and `survey`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// for people
    Text,
    /// for programs
    Json,
    /// one page with pictures
    Html,
}

/// Verdicts that `compare --fail-if` can fail on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailIf {
    /// something got slower beyond the smallest effect that matters
    Slower,
    /// something changed beyond it, either way
    Changed,
}
