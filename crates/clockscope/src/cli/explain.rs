//! Options of `doctor` and `capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

/// Options of `clockscope doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope doctor                           why is the clock slow or wrong?
  clockscope doctor --all                     notes of a healthy machine, too
  clockscope doctor dmesg.txt                 another machine, by a log of it
  ssh root@sick dmesg | clockscope doctor -   the same, from standard input
  clockscope doctor sosreport.tar.xz          another machine, by its files
  clockscope doctor --root /mnt/other         files in a folder
  clockscope doctor --root captures/ --summary
                                              what many machines have in common
  clockscope doctor --explain tsc-warp        what a label means
  clockscope doctor --format metrics -o /var/lib/prometheus/node-exporter/clockscope.prom
                                              for node_exporter
  clockscope doctor --format nagios           as a monitoring plugin
  clockscope doctor --container web           would its filter refuse reads?
  clockscope doctor --utc-within 100ms --quiet || exit
                                              in the start-up script of a sandbox

Exit status:
  0    nothing to mend
  1    the clock is slow
  2    wrong time is possible
  3    not enough evidence, wrong options, or an input that cannot be read
Of several machines the worst decides: 2, then 1, then 3.
With --utc-within: 0 within, 2 not within, 3 cannot be told.")]
pub struct DoctorArgs {
    /// Judge the machine of this log, archive or directory instead of this one; - is a log or an archive on standard input
    #[arg(value_name = "FILE", conflicts_with_all = ["root", "summary", "resume", "pid", "container", "explain", "list"])]
    pub file: Option<PathBuf>,
    /// Judge the machine whose files are in this directory or archive (.tar, .tar.zst, .tar.gz, .tar.xz), or whose log this is, instead of this one. With --summary or --format json-lines:
    /// archives, folders of them, - for a list of paths on standard input, and files of such lines, as often as you like
    #[arg(long, value_name = "PATH")]
    pub root: Vec<PathBuf>,
    /// Group many machines by verdict, cause, best advice, platform and kernel
    #[arg(long, conflicts_with_all = ["explain", "list", "pid", "container", "resume"])]
    pub summary: bool,
    /// Keep the lines that the file of --output has, and judge only the other machines
    #[arg(long, requires = "output", conflicts_with_all = ["explain", "list", "pid", "container"])]
    pub resume: bool,
    /// Also say whether the seccomp filter of this process refuses reads of the clock, which the vDSO makes as a system call when it cannot answer by itself
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..),
          conflicts_with_all = ["root", "explain", "list"])]
    pub pid: Vec<i32>,
    /// Like --pid, for the first process of this container: its name, its id or the beginning of that
    #[arg(long, value_name = "NAME|ID", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["root", "explain", "list"])]
    pub container: Vec<String>,
    /// Only prove that CLOCK_REALTIME is within this of UTC, by the clock of the host, by the RTC of a virtual machine, or by a time daemon that has measured since the last restore
    #[arg(long, value_name = "TIME", value_parser = super::trace::duration,
          conflicts_with_all = ["root", "explain", "list", "pid", "container", "summary", "format", "all"])]
    pub utc_within: Option<Duration>,
    /// Print one line, or nothing if there is nothing to mend or the time is proved
    #[arg(short, long, conflicts_with_all = ["explain", "list", "summary", "format", "all"])]
    pub quiet: bool,
    /// Explain a label, the name of something that doctor finds, such as tsc-warp
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["root", "list"])]
    pub explain: Option<String>,
    /// List all labels: everything that doctor can find
    #[arg(long, conflicts_with = "root")]
    pub list: bool,
    /// Also of a healthy machine, all that was found
    #[arg(long)]
    pub all: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = DoctorFormat::Text)]
    pub format: DoctorFormat,
    /// Write to FILE instead of standard output, as a whole or not at all; lines of --format json-lines as they come
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
    /// for programs: a line for each of many machines, as it is done
    JsonLines,
    /// for Prometheus: the textfile collector of node_exporter
    Metrics,
    /// for Nagios, Icinga and their like: a line and an exit status
    Nagios,
}

/// Options of `clockscope capture`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope capture                     writes clockscope-HOST-DATE.tar.zst
  clockscope capture -o sick.tar.zst     writes sick.tar.zst
  clockscope doctor --root sick.tar.zst  on any other machine

Exit status:
  0    the archive is written
  2    the archive cannot be written, or the options are wrong")]
pub struct CaptureArgs {
    /// Where to write; - is standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
}
