//! The command line: one definition gives parsing and help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub mod explain;
pub mod measure;
mod read_cost;
pub mod serve;
pub mod trace;

use clockscope_model::trace::Clock;
use explain::{CaptureArgs, DoctorArgs};
use measure::{BenchArgs, CompareArgs, WrongnessArgs};
use serve::ServeArgs;
use trace::TraceArgs;

/// See, measure, explain and fix what it costs a Linux program to read the clock.
#[derive(Debug, Parser)]
#[command(name = "clockscope", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = "Examples:
  clockscope trace -- date                 count every system call and every vDSO call of date
  clockscope run --clock syscall -- date   make each clock read of date a system call
  clockscope bench                         measure what every clock costs here, by every route
  clockscope compare before.json after.json
  clockscope wrongness                     measure how wrong every clock is here
  clockscope view report.json -o page.html make a page of a report that was saved as JSON
  clockscope doctor                        say why the clock is slow or wrong here, and what fixes it
  clockscope vdso                          show the vDSO of this process")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count every system call and every vDSO call of a program, and say who makes them
    Trace(TraceArgs),
    /// Run a program with another clock
    Run(RunArgs),
    /// Serve the time to every program on this host through a shared memory page
    Serve(ServeArgs),
    /// Measure what each clock costs through the C library, the vDSO and a system call
    Bench(BenchArgs),
    /// Compare measurements: say what changed, and how certain that is
    Compare(CompareArgs),
    /// Measure how wrong each clock is: order, warp, staleness, resolution, rate
    Wrongness(WrongnessArgs),
    /// Make a page of a report that was saved as JSON
    View(ViewArgs),
    /// Say why this machine's clock is slow or wrong, and exactly what fixes it
    Doctor(DoctorArgs),
    /// Save the files that doctor reads, so that doctor can judge this machine elsewhere
    Capture(CaptureArgs),
    /// Show a vDSO image: addresses, symbols, versions, code, and which programs accept it
    Vdso(VdsoArgs),
}

/// Options of `clockscope run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope run --clock syscall -- ./bench          every clock read is a real system call
  clockscope run --clock coarse -- ./server          cheaper reads, up to two ticks old
  clockscope run --clock slow --read-cost 1.2us -- ./server   as on a host with a slow clocksource
  clockscope run --clock kernel --stats -- ./server  the kernel's vDSO, counted
  clockscope run --clock tsc -- ./server             the CPU's counter, following the kernel's clock
  clockscope run --clock tsc --force -- ./server     the same where the kernel gave the counter up
  clockscope run --clock tsc-fast --stats -- ./sim   cheapest; no order between threads

With --clock tsc and tsc-fast the program starts at once. For the first 0.2 s, and whenever the
counter cannot be trusted, the kernel answers. A reading differs from a system call's answer by
a bound of about a microsecond.

Exit status: the program's own; 128+N if signal N killed it; 125 if clockscope failed before the
program started; 126 if it cannot be executed; 127 if it is not found; 2 if the options are wrong.")]
pub struct RunArgs {
    /// The clock that the program gets
    #[arg(long, value_enum)]
    pub clock: Clock,
    /// With --clock slow: what a read takes at least, from 20ns to 1ms [default: 1226ns, typical of
    /// hpet on bare metal]
    #[arg(long, value_name = "TIME", value_parser = read_cost::read_cost)]
    pub read_cost: Option<Duration>,
    /// Count vDSO calls, and print a summary and a verdict at the end
    #[arg(long)]
    pub stats: bool,
    /// With --clock tsc or tsc-fast: use the counter even if the kernel does not use it, or the CPU
    /// does not say that its rate is constant; a measured fault still refuses it
    #[arg(long)]
    pub force: bool,
    /// Detach from the program after its start: programs that it executes later get the kernel's
    /// clock again (not with --clock tsc or tsc-fast)
    #[arg(long)]
    pub no_follow: bool,
    /// With --stats: write the summary to FILE instead of standard error
    #[arg(short = 'o', long = "output", value_name = "FILE", requires = "stats")]
    pub output: Option<PathBuf>,
    /// With --stats: how to print the summary
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Options of `clockscope view`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope trace --callers --format json -o trace.json -- ./server
  clockscope view trace.json -o trace.html           make the page that --format html makes
  clockscope bench --save bench.json
  clockscope view bench.json -o bench.html
  clockscope view - < report.json > page.html

FILE is what trace, bench, compare or wrongness printed with --format json, or what bench saved
with --save FILE.json. The page is one file that needs no network.

Exit status: 0; 2 if FILE cannot be read or is no such report, or the page cannot be written.")]
pub struct ViewArgs {
    /// The report; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the page to PAGE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "PAGE")]
    pub output: Option<PathBuf>,
}

/// Options of `clockscope vdso`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope vdso                         the image of this process
  clockscope vdso --pid 1                 the image of another process
  clockscope vdso --dump vdso.so          save the image, for objdump and gdb
  clockscope vdso --disassemble __vdso_time
  clockscope vdso --check --file my.so    would glibc, musl, Go, rustix and others accept it?

Exit status: 0; 1 if --check finds a reader that rejects the image; 2 on errors.")]
pub struct VdsoArgs {
    /// Show the image of this process instead of clockscope's own
    #[arg(long, value_name = "PID", conflicts_with = "file")]
    pub pid: Option<i32>,
    /// Show the image in this file, of any architecture
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Save the image's bytes; - is standard output
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Disassemble one function, or all code
    #[arg(long, value_name = "SYMBOL", num_args = 0..=1, default_missing_value = "*")]
    pub disassemble: Option<String>,
    /// Say what each known reader (glibc, musl, Go, rustix, ...) makes of the image
    #[arg(long)]
    pub check: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// for people
    Text,
    /// for programs
    Json,
}
