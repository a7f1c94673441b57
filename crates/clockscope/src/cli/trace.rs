//! The command line of `trace`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, ValueEnum, ValueHint};

use super::{hints, read_cost};
use crate::exit::Failed;
use clockscope_containers::choice::Wanted;
use clockscope_report::options::SortBy;
use clockscope_report::what_if::Question;
use clockscope_syscalls::Breakdown;
use clockscope_syscalls::filter::Filter;
use clockscope_trace::attach::Targets;
use clockscope_trace::options::{CallersOf, CountBy, CountOptions, Via};
use clockscope_trace::plan::{Plan, Voice};
use clockscope_tracee::follow::Following;
use clockscope_tracee::lacks;

/// Options of `clockscope trace`.
#[derive(Debug, Args)]
#[command(override_usage = "clockscope trace [OPTIONS] [--] <CMD>...
       clockscope trace [OPTIONS] -p <PID>[,<PID>...]
       clockscope trace [OPTIONS] --unit <UNIT> | --container <NAME> | --cgroup <PATH>")]
#[command(group = clap::ArgGroup::new("running").multiple(true))]
#[command(help_template = "{about-with-newline}
{usage-heading} {usage}

{before-help}{all-args}{after-help}")]
#[command(before_help = "Examples:
  clockscope trace --callers ./server          all calls of a program, and who makes them
  clockscope trace -p 1234 --duration 10       a running process
  clockscope trace -p 1234,1240 --top          two of them, live
  clockscope trace --unit nginx --duration 10  all processes of a systemd unit
  clockscope trace --container web --top       all processes of a container
  clockscope trace -S calls --per-process make -j4
                                               a table for each process
  clockscope trace --what-if 1.2us ./server    if a read took 1.2 us
  clockscope trace --format html -o report.html ./server
                                               a page with pictures")]
#[command(
    after_help = "-h leaves out rare options; --help has them, the values of each, and the exit status."
)]
#[command(
    after_long_help = "Cost: counting adds a few nanoseconds to a vDSO call. Counting system calls by eBPF adds 50 to
250 ns to each, depending on the machine; the line Overhead says how much here. While clockscope
runs, it adds up to the same to every system call of every process of this host. --counts-only
costs less than half of that; --via sites and --via none cost other processes nothing.

Exit status:
  that of the program, or 128+N if signal N killed it
  2    the options are wrong
  125  clockscope failed before the program started, or could not write the report
  126  the program cannot be executed
  127  the program was not found
With -p, --unit, --container, --cgroup:
  0    clockscope has detached from the processes, or they have ended, however they ended
  1    clockscope could not attach to some of the processes
  125  clockscope could not attach to any"
)]
pub struct TraceArgs {
    /// These running processes instead of a new program, until Ctrl-C
    #[arg(help_heading = "What to trace", short = 'p', long = "attach", alias = "pid", value_name = "PID", value_parser = pids, group = "running",
          conflicts_with_all = ["command", "no_follow", "wait_all"])]
    pub attach: Vec<Vec<i32>>,
    /// All processes of this systemd unit, new ones too; repeat it for several
    #[arg(help_heading = "What to trace", long, value_name = "UNIT", group = "running", value_parser = NonEmptyStringValueParser::new(),
          conflicts_with_all = ["command", "no_follow", "wait_all"])]
    pub unit: Vec<String>,
    /// All processes of this container, new ones too; repeat it for several
    ///
    /// Its name, its id, or the beginning of that. In Kubernetes POD/NAME and NAMESPACE/POD/NAME are names, too.
    #[arg(help_heading = "What to trace", long, value_name = "NAME|ID", group = "running", value_parser = NonEmptyStringValueParser::new(),
          conflicts_with_all = ["command", "no_follow", "wait_all"])]
    pub container: Vec<String>,
    /// All processes of this control group and those below, new ones too
    #[arg(help_heading = "What to trace", long, value_name = "PATH", group = "running", value_parser = NonEmptyStringValueParser::new(),
          conflicts_with_all = ["command", "no_follow", "wait_all"])]
    pub cgroup: Vec<String>,
    /// With these, stop after this time: 10, 0.5, 30s, 5m
    #[arg(help_heading = "What to trace", long, value_name = "TIME", requires = "running", conflicts_with = "command",
          value_parser = duration)]
    pub duration: Option<Duration>,
    /// Count until the last process of the tree has ended
    #[arg(help_heading = "What to trace", long, conflicts_with = "detach_on_exit")]
    pub wait_all: bool,
    /// When the command ends, stop counting and leave its daemons running (the default)
    #[arg(help_heading = "What to trace", hide_short_help = true, long)]
    pub detach_on_exit: bool,
    /// Detach from the program after its start: debuggers work in it
    ///
    /// LeakSanitizer works, too, and signals and forks cost nothing. vDSO calls are not timed, and programs that it
    /// executes later are not counted.
    #[arg(help_heading = "What to trace", long, conflicts_with = "wait_all")]
    pub no_follow: bool,
    /// Only these calls, as strace's -e: names, prefix*, %file ...; ! negates
    ///
    /// The classes are %clock, %desc, %file, %ipc, %memory, %network, %process, %signal. Commas separate them.
    #[arg(help_heading = "What to trace", short = 'e', long = "expr", alias = "trace", value_name = "SET", value_parser = NonEmptyStringValueParser::new())]
    pub filter: Vec<String>,
    /// Who makes the calls, by their stacks
    #[arg(help_heading = "What to trace", short = 'g', long, value_enum, value_name = "OF", num_args = 0..=1, require_equals = true,
          default_missing_value = "vdso")]
    pub callers: Option<CallersOf>,
    /// Stacks a second at most, over the whole tree
    #[arg(help_heading = "What to trace", short = 'F', long = "freq", value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub freq: u32,
    /// Show rates live, once a second; on a pipe, print lines
    ///
    /// The key q stops counting and leaves the program running;
    /// Ctrl-C goes to the program, as without clockscope. clockscope keeps the program's output to
    /// the terminal and shows it when you leave the screen. If the program's input is the terminal,
    /// the program reads nothing; redirect its streams to avoid both. If standard output is no
    /// terminal, clockscope writes a line to it each second: the time, and the number of each call
    /// since the previous line. These numbers add up to the summary.
    #[arg(help_heading = "What to show", long)]
    pub top: bool,
    /// Sort by
    #[arg(help_heading = "What to show", short = 'S', long = "sort", alias = "summary-sort-by", value_enum, default_value_t = SortBy::Time)]
    pub sort: SortBy,
    /// Print a table for each process, too
    #[arg(help_heading = "What to show", long)]
    pub per_process: bool,
    /// Print a table for each thread, too
    #[arg(help_heading = "What to show", long)]
    pub per_thread: bool,
    /// Show the distribution of the times of each call
    #[arg(help_heading = "What to show", long)]
    pub latency: bool,
    /// Show the times from one clock read to the next, by lines: what the program measures
    ///
    /// Sampled pairs of reads of one thread and clock: how many a second, how long the time between is, and how much of it
    /// is the clock's own cost. This turns --callers on.
    #[arg(help_heading = "What to show", long)]
    pub intervals: bool,
    /// Print each row, call site and caller, and how times were taken
    #[arg(help_heading = "What to show", long)]
    pub all: bool,
    /// Print the tables only, and what was not counted
    #[arg(help_heading = "What to show", long)]
    pub summary_only: bool,
    /// Its CPU time if a read cost 1.2us; or the cost that makes it 3x
    #[arg(help_heading = "What to show", long, value_name = "COST|RATIO", value_parser = read_cost::question)]
    pub what_if: Option<Question>,
    /// Write the report to FILE instead of standard error
    #[arg(help_heading = "Where to write", short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Form of the report; html, folded and pprof turn --callers on
    #[arg(help_heading = "Where to write", long, value_enum, default_value_t = TraceFormat::Text)]
    pub format: TraceFormat,
    /// Do not say what counting costs, and what was attached to
    #[arg(help_heading = "Where to write", short = 'q', long)]
    pub quiet: bool,
    /// How to count system calls
    #[arg(help_heading = "How to count", long, value_enum, default_value_t = Via::Auto)]
    pub via: Via,
    /// Do not count system calls (the same as --via none)
    #[arg(help_heading = "How to count", hide_short_help = true, long, conflicts_with = "via")]
    pub no_syscalls: bool,
    /// Count reads of the CPU's counter (rdtsc), too, by code in the program
    ///
    /// Code in the program counts them and the system calls, as with --via sites, which can kill some programs. Reads that
    /// cannot be counted are named in the report.
    #[arg(help_heading = "How to count", hide_short_help = true, long, conflicts_with_all = ["no_syscalls", "running"])]
    pub counters: bool,
    /// Count system calls without their time and errors, which is cheaper
    #[arg(help_heading = "How to count", long)]
    pub counts_only: bool,
    /// Where vDSO calls are counted: in a slot of the thread, or of the CPU (slower; used if the CPU lacks rdfsbase)
    #[arg(help_heading = "How to count", long, value_enum, value_name = "WHERE", default_value_t = CountBy::Thread, hide_short_help = true)]
    pub count_by: CountBy,
    /// Follow forks; always on, accepted because strace has it
    #[arg(help_heading = "Accepted because strace has it", hide_short_help = true, short = 'f', long = "follow-forks", action = ArgAction::Count)]
    pub follow_forks: u8,
    /// Count calls, as strace does; system calls by ptrace where eBPF is not allowed
    #[arg(help_heading = "Accepted because strace has it", hide_short_help = true, short = 'c')]
    pub count: bool,
    /// Take the time that passes and not CPU time; always on, accepted because strace has it
    #[arg(
        help_heading = "Accepted because strace has it",
        hide_short_help = true,
        short = 'w',
        long = "summary-wall-clock"
    )]
    pub wall_clock: bool,
    /// The program and its arguments: everything from the first word that is no option, or after --
    #[arg(hide_short_help = true, trailing_var_arg = true, required_unless_present = "running", value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl TraceArgs {
    /// The plan of the trace.
    ///
    /// # Errors
    ///
    /// A sentence about options that are wrong or cannot be combined.
    pub(crate) fn plan(&self, voice: Voice) -> Result<Plan, String> {
        if self.follow_forks > 1 {
            let hint = hints::instead("trace", "-ff").unwrap_or_default();
            return Err(format!("-ff: {hint}"));
        }
        let filter = Filter::parse(&self.filter)
            .map_err(|error| format!("-e {}: {error}", self.filter.join(" -e ")))?;
        if let Some(refused) = self.via_refused().or_else(|| self.output_refused()) {
            return Err(refused);
        }
        if self.intervals && self.callers == Some(CallersOf::Syscalls) {
            let why = "--intervals: --callers=syscalls samples no clock reads; use --callers=all";
            return Err(why.to_owned());
        }
        Ok(Plan {
            count_by: Some(self.count_by),
            syscalls: self.counting(),
            filter,
            following: match (self.no_follow, self.wait_all) {
                (true, _) => Following::Start,
                (false, true) => Following::All,
                (false, false) => Following::Program,
            },
            callers: self.callers_of().map(|of| (of, self.freq)),
            timeline: matches!(self.format, TraceFormat::Json | TraceFormat::Html),
            top: self.top,
            what_if: self.what_if,
            host: self.format == TraceFormat::Json,
            voice,
            ..Plan::default()
        })
    }

    /// The options for counting system calls.
    fn counting(&self) -> CountOptions {
        CountOptions {
            via: match self.via {
                _ if self.no_syscalls => Via::None,
                Via::Auto if self.counters => Via::Sites,
                via => via,
            },
            counters: self.counters,
            asked: self.asks_for_system_calls(),
            follows: !self.no_follow,
            sites_answer: self.sites_lack().is_none(),
            time: !self.counts_only,
            latency: self.keeps_latency(),
            breakdown: match (self.per_thread, self.per_process) {
                (true, _) => Breakdown::Thread,
                (false, true) => Breakdown::Process,
                (false, false) => Breakdown::Total,
            },
        }
    }

    /// The running processes to trace.
    pub(crate) fn targets(&self) -> Targets {
        let groups = (self.unit.iter().cloned().map(Wanted::Unit))
            .chain(self.container.iter().cloned().map(Wanted::Container))
            .chain(self.cgroup.iter().cloned().map(Wanted::Cgroup));
        Targets { pids: self.attach.concat(), groups: groups.collect(), duration: self.duration }
    }

    /// Whether an option asks for system calls, which are then counted at any cost.
    fn asks_for_system_calls(&self) -> bool {
        let callers = matches!(self.callers, Some(CallersOf::Syscalls | CallersOf::All));
        self.count || self.latency || callers || !self.filter.is_empty()
    }

    /// Whether running processes are traced.
    pub(crate) fn attaches(&self) -> bool {
        !(self.attach.is_empty()
            && self.unit.is_empty()
            && self.container.is_empty()
            && self.cgroup.is_empty())
    }

    /// Whether the distribution of each system call's time is kept: HTML pages draw it.
    pub(crate) fn keeps_latency(&self) -> bool {
        self.latency || self.format == TraceFormat::Html
    }

    /// The message for a program that is not found: its name may be meant as the value of `--callers`.
    pub(crate) fn not_found(&self, failed: Failed) -> Failed {
        let name = self.command.first().and_then(|name| name.to_str()).unwrap_or_default();
        match (self.callers, CallersOf::from_str(name, false)) {
            (Some(_), Ok(_)) => {
                Failed::new(failed.code, format!("{failed} or do you mean --callers={name}?"))
            }
            _ => failed,
        }
    }

    /// The reason why the report cannot be written to `--output`.
    fn output_refused(&self) -> Option<String> {
        let output = self.output.as_ref().map(|path| path.to_string_lossy())?;
        output.trim_start().starts_with(['|', '!']).then(|| {
            format!(
                "-o '{output}': clockscope starts no command for its report; in bash and zsh: -o >(COMMAND)"
            )
        })
    }

    /// The reason why system calls cannot be counted by `--via`.
    fn via_refused(&self) -> Option<String> {
        if self.no_follow && self.via == Via::Ptrace {
            return Some(
                "--via ptrace: this stops the program at each call, and --no-follow lets go of it \
                 before; try --via bpf"
                    .to_owned(),
            );
        }
        let has_sites = self.via.has_sites();
        if self.counters && !has_sites {
            let why = (self.via != Via::Auto).then_some(
                "code in the program counts these reads, which needs --via sites or --via both",
            );
            let lack = || self.sites_lack().and_then(|why| why.split("; try").next());
            return why.or_else(lack).map(|why| format!("--counters: {why}; leave it out"));
        }
        let via = self.via.to_possible_value().filter(|_| has_sites)?;
        let why = if self.attaches() && self.via == Via::Both {
            Some(
                "this compares the counts of programs that clockscope starts, not of running ones; \
                 try --via bpf",
            )
        } else {
            self.sites_lack()
        };
        why.map(|why| format!("--via {}: {why}", via.get_name()))
    }

    /// The reason why code in the program cannot do all that the options ask for, with a remedy.
    fn sites_lack(&self) -> Option<&'static str> {
        let is_alone = self.via != Via::Both;
        if lacks::SITES.is_some() {
            lacks::SITES
        } else if self.no_follow {
            Some(
                "this must be told of the libraries that the program loads, and --no-follow lets go \
                 of it before; try --via bpf",
            )
        } else if self.top && is_alone {
            Some("this is read at the end, and --top shows counts before; try --via bpf")
        } else if (self.per_process || self.per_thread) && is_alone {
            Some("this does not tell processes and threads apart; try --via bpf or --via ptrace")
        } else if self.latency && is_alone {
            Some(
                "this times only some calls, and keeps no distribution; try --via bpf or --via ptrace",
            )
        } else {
            None
        }
    }

    /// The calls whose callers are sampled: those of `--callers`, otherwise vDSO calls if the report shows callers.
    pub(crate) fn callers_of(&self) -> Option<CallersOf> {
        let implied =
            matches!(self.format, TraceFormat::Html | TraceFormat::Folded | TraceFormat::Pprof);
        self.callers.or_else(|| (implied || self.intervals).then_some(CallersOf::Vdso))
    }
}

/// Output formats of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// for people
    Text,
    /// for programs
    Json,
    /// a page with pictures, complete in one file
    Html,
    /// one line a stack, for flame graph tools
    Folded,
    /// a profile for go tool pprof
    Pprof,
}

/// Parses process ids, as `pidof` and `pgrep` print them, or with commas.
fn pids(text: &str) -> Result<Vec<i32>, String> {
    let words = text.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty());
    let pids = words.map(|word| {
        word.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| {
            format!(
                "`{word}` is no process number; for those of a program: -p \"$(pidof PROGRAM)\""
            )
        })
    });
    match pids.collect::<Result<Vec<i32>, String>>()? {
        pids if pids.is_empty() => Err("no process is named; does the program run?".to_owned()),
        pids => Ok(pids),
    }
}

/// Parses a time of more than zero: seconds, or a number with a unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let time = read_cost::time(text).ok_or_else(|| {
        format!("`{text}` is no time: give seconds, as in 10 or 0.5, or 500ms, 30s, 5m, 1h")
    })?;
    if time.is_zero() { Err("a time must be more than zero".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        trace: TraceArgs,
    }

    fn parsed(options: &[&str]) -> Result<TraceArgs, clap::Error> {
        parsed_alone(&[options, &["--", "true"]].concat())
    }

    fn parsed_alone(words: &[&str]) -> Result<TraceArgs, clap::Error> {
        Line::try_parse_from(["trace"].iter().chain(words)).map(|line| line.trace)
    }

    #[test]
    fn forms_that_show_callers_ask_for_them() {
        for (options, of) in [
            (&[] as &[&str], None),
            (&["--format", "json"], None),
            (&["--callers"], Some(CallersOf::Vdso)),
            (&["--top"], None),
            (&["--intervals"], Some(CallersOf::Vdso)),
            (&["--callers=all"], Some(CallersOf::All)),
            (&["--format", "html"], Some(CallersOf::Vdso)),
            (&["--format", "folded"], Some(CallersOf::Vdso)),
            (&["--format", "pprof", "--callers=syscalls"], Some(CallersOf::Syscalls)),
        ] {
            assert_eq!(parsed(options).unwrap().callers_of(), of, "{options:?}");
        }
    }

    #[test]
    fn some_options_ask_for_system_calls() {
        for options in
            [&["-c"] as &[&str], &["-e", "read"], &["--latency"], &["-g=syscalls"], &["-g=all"]]
        {
            let counting = parsed(options).unwrap().counting();
            assert!(counting.asked && counting.follows, "{options:?}");
        }
        for options in [
            &[] as &[&str],
            &["-g"],
            &["--top"],
            &["--per-process", "--per-thread"],
            &["--format", "html"],
            &["--no-follow"],
        ] {
            let counting = parsed(options).unwrap().counting();
            assert!(!counting.asked, "{options:?}");
        }
        assert!(!parsed(&["--no-follow"]).unwrap().counting().follows);
        assert!(!parsed(&["--top"]).unwrap().counting().sites_answer);
        assert!(!parsed_alone(&["-c", "-p", "1", "--per-thread"]).unwrap().counting().sites_answer);
    }

    #[test]
    fn the_counter_is_counted_by_code_in_the_program_or_refused() {
        if lacks::SITES.is_some() {
            return;
        }
        for (options, refused) in [
            (&["--via", "sites"][..], None),
            (&["--via", "both", "--latency"], None),
            (&["--via", "bpf"], Some("needs --via sites or --via both; leave it out")),
            (&["--no-follow"], Some("--no-follow lets go of it before; leave it out")),
        ] {
            let args = parsed(&[options, &["--counters"]].concat()).unwrap();
            let why = args.via_refused();
            assert_eq!(why.is_some(), refused.is_some(), "{options:?} {why:?}");
            assert!(why.unwrap_or_default().ends_with(refused.unwrap_or_default()), "{options:?}");
        }
        assert_eq!(parsed(&["--counters"]).unwrap().counting().via, Via::Sites);
        assert!(parsed(&["--counters", "--no-syscalls"]).is_err());
        assert!(parsed_alone(&["--counters", "-p", "1"]).is_err());
    }

    #[test]
    fn pages_draw_distributions() {
        for (options, keeps) in
            [(&[] as &[&str], false), (&["--latency"], true), (&["--format", "html"], true)]
        {
            assert_eq!(parsed(options).unwrap().keeps_latency(), keeps, "{options:?}");
        }
    }

    #[test]
    fn only_running_processes_are_traced_for_a_time() {
        let refused = parsed(&["--duration", "3"]).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(Line::try_parse_from(["trace", "--duration", "3"]).is_err());
        let line = Line::try_parse_from(["trace", "-p", "7,8", "--duration", "3"]).unwrap();
        assert_eq!(line.trace.targets().pids, [7, 8]);
        assert_eq!(line.trace.duration, Some(Duration::from_secs(3)));
    }

    #[test]
    fn processes_are_named_as_tools_print_them() {
        for words in [
            ["-p", "7,8", "-p", "9"],
            ["-p", " 7 8\n", "--pid", "9"],
            ["-qp", "7", "-gp8\t", "-cfwp=9"],
        ] {
            let line = Line::try_parse_from([&["trace"], &words[..]].concat());
            assert_eq!(line.unwrap().trace.targets().pids, [7, 8, 9], "{words:?}");
        }
        for (text, why) in [
            ("", "does the program run?"),
            (" \n", "does the program run?"),
            ("nginx", "-p \"$(pidof PROGRAM)\""),
            ("7,0", "`0` is no process number"),
            ("-7", "`-7` is no process number"),
            ("99999999999", "is no process number"),
        ] {
            assert!(pids(text).unwrap_err().contains(why), "{text:?}");
        }
    }

    #[test]
    fn the_first_word_that_is_no_option_begins_the_command() {
        for (words, command) in [
            (&["ls", "-la"] as &[&str], &["ls", "-la"] as &[&str]),
            (&["--", "ls", "-la"], &["ls", "-la"]),
            (&["-f", "ls", "--", "-o", "x"], &["ls", "--", "-o", "x"]),
            (&["--callers", "all", "ls"], &["all", "ls"]),
            (&["--", "-odd", "--all"], &["-odd", "--all"]),
            (&["-S", "calls", "trace", "--", "--all"], &["trace", "--", "--all"]),
            (&["", "-x"], &["", "-x"]),
        ] {
            let line = Line::try_parse_from([&["trace"], words].concat()).unwrap();
            assert_eq!(line.trace.command, command, "{words:?}");
            assert!(!line.trace.all && line.trace.output.is_none(), "{words:?}");
        }
        assert!(Line::try_parse_from(["trace", "--al", "ls"]).is_err());
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_what_to_type() {
        let planned = |args: TraceArgs| args.plan(crate::commands::voice(true)).map(|_| ());
        let refused = |words: &[&str]| planned(parsed(words).unwrap()).err().unwrap_or_default();
        assert_eq!(refused(&["-cfqw", "-o", "a|b"]), "");
        for words in [
            &["--via", "sites", "--no-follow"][..],
            &["--via", "both", "--no-follow"],
            &["--via", "sites", "--top"],
        ] {
            assert!(refused(words).ends_with("; try --via bpf"), "{words:?}");
        }
        assert_eq!(refused(&["--via", "both", "--top"]), "");
        let attached = |via| planned(parsed_alone(&["--via", via, "-p", "1"]).unwrap());
        assert_eq!(attached("sites"), Ok(()));
        assert!(attached("both").is_err_and(|why| why.ends_with("; try --via bpf")));
        assert!(refused(&["-o", "!less"]).contains("-o >(COMMAND)"));
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, milliseconds) in
            [("10", 10_000), ("0.5", 500), ("30s", 30_000), ("5m", 300_000), ("250ms", 250)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "0", "-1", "1x", "nan", "inf", "1e300h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
