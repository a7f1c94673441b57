//! Options of `doctor` and `capture`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of `clockscope doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope doctor                       say why the clock is slow or wrong here
  clockscope doctor --root sosreport.tar.xz
  clockscope doctor --root /mnt/other     another machine's files, a capture, or a sosreport
  clockscope doctor --explain tsc-warp    what a label means
  clockscope doctor --format metrics -o /var/lib/prometheus/node-exporter/clockscope.prom
  clockscope doctor --watch               one line whenever something changes

Exit status: 0 nothing to mend; 1 slow; 2 wrong time is possible; 3 not enough evidence, or wrong
options or an input that cannot be read.")]
pub struct DoctorArgs {
    /// Judge the machine whose files are in this directory or archive (.tar, .tar.zst, .tar.gz, .tar.xz) instead of this one
    #[arg(long, value_name = "PATH")]
    pub root: Option<PathBuf>,
    /// Keep running, and print one line when something changes: clocksource, watchdog, step of the time, suspend
    #[arg(long, conflicts_with_all = ["root", "explain", "list", "format"])]
    pub watch: bool,
    /// Explain a label
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["root", "list"])]
    pub explain: Option<String>,
    /// List all labels
    #[arg(long, conflicts_with = "root")]
    pub list: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = DoctorFormat::Text)]
    pub format: DoctorFormat,
    /// Write to FILE instead of standard output, as a whole or not at all
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Forms of doctor's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// for people
    Text,
    /// for programs
    Json,
    /// for Prometheus: the textfile collector of node_exporter
    Metrics,
}

/// Options of `clockscope capture`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope capture                      writes clockscope-HOST-DATE.tar.zst
  clockscope capture -o sick.tar.zst
  clockscope doctor --root sick.tar.zst   on any other machine

capture saves the files that doctor reads, the lines of the kernel's log about clocks and the
machine, and measurements. It prints what it saved, and saves nothing else.

Exit status: 0; 2 on errors.")]
pub struct CaptureArgs {
    /// Where to write; - is standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
}
