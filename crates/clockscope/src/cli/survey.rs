//! The command line of `survey`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::measure::ReportFormat;
use super::trace::duration;

/// Options of `clockscope survey`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope survey                          who reads the clock here?
  clockscope survey --freq 99 --duration 30  the same, more gently
  clockscope survey --format json -o survey.json
                                             for programs

Cost: each sample takes some microseconds of a CPU; clockscope itself reads the clock for about
0.8 s of CPU time in 10 s, to measure what a read costs. No process is stopped or changed.

Exit status:
  0    the survey is complete
  2    the survey is not possible here, or the options are wrong")]
pub struct SurveyArgs {
    /// How long to sample: 10, 0.5, 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// Sample each CPU so many times a second
    #[arg(short = 'F', long = "freq", value_name = "HZ", default_value_t = 299,
          value_parser = clap::value_parser!(u32).range(10..=5_000))]
    pub freq: u32,
    /// Print every process, unit and container that was seen
    #[arg(long)]
    pub all: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write to FILE instead of standard output, as a whole or not at all
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
}
