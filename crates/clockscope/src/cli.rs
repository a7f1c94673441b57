//! The command line: one definition serves parsing and help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub mod explain;
mod hints;
pub mod measure;
mod read_cost;
pub(crate) mod refusal;
pub mod serve;
pub mod survey;
pub mod trace;

use clockscope_model::trace::Clock;
use clockscope_trace::options::CountBy;
use clockscope_trace::plan::{Plan, Voice};
use clockscope_tracee::follow::Following;
use explain::{CaptureArgs, DoctorArgs};
use measure::{BenchArgs, CompareArgs, WrongnessArgs};
use serve::ServeArgs;
use survey::SurveyArgs;
use trace::TraceArgs;

/// See, measure, explain and fix what it costs a Linux program to read the clock
///
/// A clock read should cost 20 ns. It costs 10 to 100 times as much on a machine whose kernel has given up
/// the CPU's time-stamp counter (TSC). clockscope counts and times every clock read and every system call
/// of a program, shows who makes them, and explains why they are slow.
#[derive(Debug, Parser)]
#[command(name = "clockscope", version, max_term_width = 100, propagate_version = true)]
#[command(args_override_self = true)]
#[command(after_help = "Examples:
  clockscope trace date                      count the calls of date
  clockscope run --clock syscall date        give date a slow clock
  clockscope survey                          who reads the clock on this host?
  clockscope doctor                          why is the clock slow here?
  clockscope bench                           what does each clock cost here?
  clockscope compare before.json after.json  what changed?
  clockscope wrongness                       how wrong is each clock here?
  clockscope view report.json -o page.html   a page of a saved report
  clockscope vdso                            show the vDSO of this process

Environment: NO_COLOR, CLICOLOR=0 and TERM=dumb turn colours off, CLICOLOR_FORCE=1 turns them on
where there is no terminal; --color overrides them.

Exit status:
  each command has its own: see clockscope COMMAND --help
  2    the command line is wrong (with doctor: 3)")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Colours in text; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN",
          hide_possible_values = true, display_order = 900)]
    pub color: Color,
}

/// When text is printed with colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// on a terminal, unless NO_COLOR is set
    Auto,
    /// also where it is no terminal
    Always,
    /// nowhere
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count every system call and every vDSO call of a program, and say who makes them
    ///
    /// clockscope runs the program, or attaches to running processes (-p), and counts every call that it
    /// and its children make. Reads of the clock that the vDSO answers in user space, which strace
    /// cannot see, are counted, too. At the end clockscope prints a summary to standard error: how often
    /// the program read the clock, what that cost here, what it would cost with a slow clocksource, and a
    /// row for each call.
    Trace(TraceArgs),
    /// Say which processes of this host read the clock, and what that costs
    ///
    /// survey samples all CPUs for some seconds and touches no process. It estimates the clock reads of
    /// each process, with an interval, ranks processes, units and containers by what their reads cost, and
    /// says what the host would lose if its clocksource fell back. It needs root, or CAP_BPF and
    /// CAP_PERFMON.
    Survey(SurveyArgs),
    /// Run a program with another clock
    ///
    /// The program needs no change and no privilege; other programs keep their clock. Use coarse, tsc and
    /// tsc-fast to see what a cheaper clock would gain, and syscall and slow to see what a slow clock
    /// would cost.
    Run(RunArgs),
    /// Serve the time to every program on this host through a shared memory page
    ///
    /// One process follows the kernel's clock and writes a clock page into a file. Programs map the file
    /// and compute the time from the CPU's counter, without a system call: the library fastclock does so.
    /// If only one program needs a cheap clock, use clockscope run --clock tsc instead.
    Serve(ServeArgs),
    /// Measure what each clock costs through the C library, the vDSO and a system call
    ///
    /// bench measures calls, not programs. It says how certain each figure is, and the figures repeat,
    /// even on a busy virtual machine.
    Bench(BenchArgs),
    /// Compare measurements: say what changed, and how certain that is
    ///
    /// Both files are results of bench --save, or reports of trace --format json. compare says of each path, or
    /// function, whether it is faster, slower, the same, or not proven to be any of these.
    Compare(CompareArgs),
    /// Measure how wrong each clock is: order, warp, staleness, resolution, rate
    ///
    /// wrongness tests whether a clock ever goes back on one CPU or between CPUs, how old its answers are,
    /// in which steps it advances, and whether its rate is what the kernel says. It reads clocks and
    /// never sets one.
    Wrongness(WrongnessArgs),
    /// Make a page of a report that was saved as JSON
    ///
    /// FILE is what trace, run --stats, bench, wrongness or survey printed with --format json, or what
    /// bench saved with --save FILE.json. The page is one HTML file that needs no network.
    View(ViewArgs),
    /// Say why this machine's clock is slow or wrong, and exactly what fixes it
    ///
    /// doctor reads files of /proc and /sys and the kernel's log, measures for less than a second, and
    /// changes nothing. It shows the lines that prove what it says, and advises a fix with its commands,
    /// its risks and a way to verify it. With --root it judges another machine by its files.
    Doctor(DoctorArgs),
    /// Save the files that doctor reads, so that doctor can judge this machine elsewhere
    ///
    /// capture saves the files that doctor reads, the lines of the kernel's log about clocks and the
    /// machine, and measurements. It prints what it saved, and saves nothing else. Run it as root if you
    /// can, because most kernels show their log to root only.
    Capture(CaptureArgs),
    /// Show a vDSO image: addresses, symbols and versions
    ///
    /// The vDSO is a small shared object that the kernel maps into every process. Its functions answer
    /// clock_gettime(2) and a few other calls without entering the kernel. vdso shows where an image
    /// lies, what it exports, and whether its functions are fast on this machine now.
    Vdso(VdsoArgs),
    /// Print a script that completes clockscope's options in a shell
    ///
    /// The script completes subcommands, options, their values and file names.
    Completions(CompletionsArgs),
}

/// Options of `clockscope run`.
#[derive(Debug, Args)]
#[command(override_usage = "clockscope run [OPTIONS] --clock <CLOCK> [--] <CMD>...")]
#[command(after_help = "Examples:
  clockscope run --clock syscall ./bench          each read is a system call
  clockscope run --clock coarse ./server          cheap, up to two ticks old
  clockscope run --clock slow --read-cost 1.2us ./server
                                                  as with a slow clocksource
  clockscope run --clock kernel --stats ./server  the kernel's vDSO, counted
  clockscope run --clock tsc ./server             the CPU's counter
  clockscope run --clock tsc --force ./server     also if the kernel gave it up
  clockscope run --clock tsc-fast --stats ./sim   no order between threads

With --clock tsc and tsc-fast the program starts at once. For the first 5 ms (0.2 s if the kernel's
clocksource is not the TSC), and whenever the counter cannot be trusted, the kernel answers. A
reading differs from a system call's answer by about a microsecond at most.

Exit status:
  that of the program, or 128+N if signal N killed it
  2    the options are wrong
  125  clockscope failed before the program started, or could not write the report
  126  the program cannot be executed
  127  the program was not found")]
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
    /// The program and its arguments: everything from the first word that is no option, or after --
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// The plan for running the program.
    pub(crate) fn plan(&self, voice: Voice) -> Plan {
        Plan {
            clock: self.clock,
            read_cost: self.read_cost,
            force: self.force,
            count_by: self.stats.then_some(CountBy::Thread),
            verdict: self.stats,
            host: self.stats && self.format == Format::Json,
            following: if self.no_follow { Following::Start } else { Following::Program },
            voice,
            ..Plan::default()
        }
    }
}

/// Options of `clockscope view`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope view trace.json -o trace.html     of trace --format json -o
  clockscope view bench.json -o bench.html     of bench --save
  clockscope view - < report.json > page.html  as a filter

Exit status:
  0    the page is written
  2    FILE cannot be read or is no such report, or the page cannot be written")]
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
  clockscope vdso                            the image of this process
  clockscope vdso --pid 1                    the image of another process
  clockscope vdso --dump vdso.so             save the image, for objdump and gdb

Exit status:
  0    the image is shown
  2    no image could be read, or the options are wrong")]
pub struct VdsoArgs {
    /// Show the image of this process instead of clockscope's own
    #[arg(long, value_name = "PID", conflicts_with = "file",
          value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff))]
    pub pid: Option<u32>,
    /// Show the image in this file, of any architecture
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Save the image's bytes; - is standard output
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Options of `clockscope completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(clockscope completions bash)            for the running bash only
  clockscope completions bash > ~/.local/share/bash-completion/completions/clockscope
                                                   for each bash
  clockscope completions zsh > ~/.zsh/_clockscope  with ~/.zsh in $fpath
  clockscope completions fish > ~/.config/fish/completions/clockscope.fish
                                                   for each fish

Exit status:
  0    the script is printed
  2    the shell is not known, or the script cannot be written")]
pub struct CompletionsArgs {
    /// The shell that the script is for
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// Shells that `completions` writes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash 4.4 or later
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// for people
    Text,
    /// for programs
    Json,
}
