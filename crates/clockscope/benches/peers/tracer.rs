//! The tracers that are compared: how each is started, and how its summary is read.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::counted::{self, Counted};
use crate::process::{self, Finished};
use crate::tools::Tools;

/// A way to run a program: untraced, under clockscope or under a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracer {
    /// Nothing.
    Untraced,
    /// `clockscope` with these arguments; `trace` writes JSON.
    Clockscope(&'static str),
    /// `strace` with these arguments.
    Strace(&'static str),
    /// `ltrace -c`.
    Ltrace,
    /// `perf trace -s`.
    PerfTrace,
    /// `perf stat -e 'syscalls:sys_enter_*'`: 14 s to open its events.
    PerfStat,
    /// `perf stat` with the events of three system calls: as dear for these, and soon there.
    PerfStatFew,
    /// `perf stat` with an execution breakpoint on `__vdso_clock_gettime`.
    Breakpoint,
    /// bpftrace, counting by system call.
    BpftraceCount,
    /// bpftrace, counting and timing by system call.
    BpftraceTime,
}

/// clockscope, vDSO calls only.
pub(crate) const TRACE_VDSO: Tracer = Tracer::Clockscope("trace --via none");
/// clockscope, vDSO calls and counts of system calls.
pub(crate) const TRACE_COUNTS: Tracer = Tracer::Clockscope("trace --counts-only");
/// clockscope, vDSO calls, and system calls by code in the program, with errors and times.
pub(crate) const TRACE_SITES: Tracer = Tracer::Clockscope("trace --via sites");
/// The same without times.
pub(crate) const TRACE_SITES_COUNTS: Tracer = Tracer::Clockscope("trace --via sites --counts-only");
/// clockscope, vDSO calls and system calls with time and errors.
pub(crate) const TRACE_TIME: Tracer = Tracer::Clockscope("trace");
/// clockscope, the kernel's clock through the shim, not counted.
pub(crate) const RUN_KERNEL: Tracer = Tracer::Clockscope("run --clock kernel");
/// clockscope, the counter, not counted.
pub(crate) const RUN_TSC: Tracer = Tracer::Clockscope("run --clock tsc");
/// strace's summary.
pub(crate) const STRACE: Tracer = Tracer::Strace("-c -f");
/// strace's summary of one call, with a seccomp filter that lets the others pass.
pub(crate) const STRACE_SECCOMP: Tracer = Tracer::Strace("-c --seccomp-bpf -f -e trace=openat");
/// strace, which only follows the program.
pub(crate) const STRACE_FOLLOW: Tracer = Tracer::Strace("-f -e trace=execve --seccomp-bpf");
/// `clockscope doctor` and `clockscope --version`, which run no program.
pub(crate) const DOCTOR: Tracer = Tracer::Clockscope("doctor");
pub(crate) const VERSION: Tracer = Tracer::Clockscope("--version");

const BPFTRACE_COUNT: &str =
    "tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @calls[args->id] = count(); }";
const BPFTRACE_TIME: &str = "tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @start[tid] = nsecs; } \
    tracepoint:raw_syscalls:sys_exit /@start[tid]/ { @calls[args->id] = count(); \
    @ns[args->id] = sum(nsecs - @start[tid]); delete(@start[tid]); } END { clear(@start); }";

impl Tracer {
    /// The name that tables show: the command line without file names.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Untraced => "untraced".to_owned(),
            Self::Clockscope(arguments) => format!("clockscope {arguments}"),
            Self::Strace(arguments) => format!("strace {arguments}"),
            Self::Ltrace => "ltrace -c".to_owned(),
            Self::PerfTrace => "perf trace -s".to_owned(),
            Self::PerfStat => "perf stat -e syscalls:sys_enter_*".to_owned(),
            Self::PerfStatFew => "perf stat -e syscalls:sys_enter_(3 of them)".to_owned(),
            Self::Breakpoint => "perf stat -e mem:ADDRESS:x".to_owned(),
            Self::BpftraceCount => "bpftrace count()".to_owned(),
            Self::BpftraceTime => "bpftrace count(), sum()".to_owned(),
        }
    }

    /// The program that must be installed: the first word of the name.
    pub(crate) fn program(self) -> Option<String> {
        let needs_one = !matches!(self, Self::Untraced | Self::Clockscope(_));
        self.name().split(' ').next().filter(|_| needs_one).map(str::to_owned)
    }

    /// Whether a system call under it costs many microseconds.
    pub(crate) fn is_slow_on_syscalls(self) -> bool {
        matches!(self, Self::Strace(_) | Self::Ltrace | Self::PerfTrace)
    }

    /// Whether it needs tracefs.
    fn needs_tracefs(self) -> bool {
        matches!(self.program().as_deref(), Some("perf" | "bpftrace")) && self != Self::Breakpoint
    }

    /// The command line that runs `command` under this tracer, its summary going to `summary`.
    pub(crate) fn wrap(self, tools: &Tools, summary: &Path, command: &[OsString]) -> Vec<OsString> {
        self.wrap_for(tools, summary, command, &["--format", "json"])
    }

    /// The same for a reader that is no program: clockscope writes what it prints if nothing else is asked for.
    pub(crate) fn wrap_as_text(
        self,
        tools: &Tools,
        summary: &Path,
        command: &[OsString],
    ) -> Vec<OsString> {
        self.wrap_for(tools, summary, command, &[])
    }

    fn wrap_for(
        self,
        tools: &Tools,
        summary: &Path,
        command: &[OsString],
        format: &[&str],
    ) -> Vec<OsString> {
        let mut line = self.prefix(tools, summary, format);
        if [DOCTOR, VERSION].contains(&self) {
            line.truncate(2);
        } else if matches!(self, Self::BpftraceCount | Self::BpftraceTime) {
            line.extend(["-c".into(), command.join(&OsString::from(" "))]);
        } else {
            line.extend_from_slice(command);
        }
        if self.needs_tracefs() { tools.with_tracefs(line) } else { line }
    }

    /// Runs a command line of it. The status of doctor is its verdict.
    pub(crate) fn run(self, line: &[OsString], limit: Duration) -> Result<Finished> {
        if self == DOCTOR { process::run_any(line, limit) } else { process::run(line, limit) }
    }

    /// What its summary says of a system call.
    pub(crate) fn syscall(
        self,
        summary: &str,
        name: &str,
        number: libc::c_long,
    ) -> Option<Counted> {
        match self {
            Self::Untraced | Self::Breakpoint => None,
            Self::Clockscope(_) => counted::from_clockscope(summary, "syscalls", name),
            Self::Strace(_) | Self::Ltrace => counted::from_strace(summary, name),
            Self::PerfTrace => counted::from_perf_trace(summary, name),
            Self::PerfStat | Self::PerfStatFew => counted::from_perf_stat(summary, |event| {
                event == format!("syscalls:sys_enter_{name}")
            }),
            Self::BpftraceCount | Self::BpftraceTime => counted::from_bpftrace(summary, number),
        }
    }

    /// What its summary says of a vDSO function.
    pub(crate) fn vdso_call(self, summary: &str, name: &str) -> Option<Counted> {
        match self {
            Self::Clockscope(_) => counted::from_clockscope(summary, "vdso", name),
            Self::Ltrace => counted::from_strace(summary, name),
            Self::Breakpoint => counted::from_perf_stat(summary, |event| event.starts_with("mem:")),
            _ => None,
        }
    }

    fn prefix(self, tools: &Tools, summary: &Path, format: &[&str]) -> Vec<OsString> {
        let fixed = |words: &str| words.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        let mut line = match self {
            Self::Untraced => return Vec::new(),
            Self::Clockscope(arguments) => return clockscope(tools, arguments, summary, format),
            Self::Strace(_) | Self::Ltrace | Self::PerfTrace => fixed(&self.name()),
            Self::PerfStat => fixed("perf stat -x, -e syscalls:sys_enter_*"),
            Self::PerfStatFew => fixed(
                "perf stat -x, -e syscalls:sys_enter_getppid,syscalls:sys_enter_read,syscalls:sys_enter_write",
            ),
            Self::Breakpoint => {
                fixed(&format!("setarch -R perf stat -x, -e mem:{:#x}:x", tools.vdso_address))
            }
            Self::BpftraceCount => vec!["bpftrace".into(), "-e".into(), BPFTRACE_COUNT.into()],
            Self::BpftraceTime => vec!["bpftrace".into(), "-e".into(), BPFTRACE_TIME.into()],
        };
        line.extend(["-o".into(), summary.into()]);
        if self.program().as_deref() == Some("perf") {
            line.push("--".into());
        }
        line
    }
}

fn clockscope(tools: &Tools, arguments: &str, summary: &Path, format: &[&str]) -> Vec<OsString> {
    let mut line = vec![tools.clockscope.clone().into_os_string()];
    line.extend(arguments.split_whitespace().map(OsString::from));
    if arguments.starts_with("trace") || arguments.contains("--stats") {
        line.extend(format.iter().map(OsString::from));
        line.extend(["-o".into(), summary.into()]);
    }
    line.push("--".into());
    line
}
