//! Finds the tracers of system calls on this host: processes that hold probes, and ftrace.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use clockscope_model::host::SyscallTracing;
use clockscope_sys::syscall_work::{self, SyscallWork};
use clockscope_sys::{bpf, proc_text, tracefs};
use clockscope_text::names::listed;

/// Whether system calls are traced, and the names of the tracers.
pub(super) fn look() -> SyscallTracing {
    let ftrace = [tracefs::read("set_event"), tracefs::read("current_tracer")];
    let [events, tracer] = ftrace.map(Result::unwrap_or_default);
    judge(syscall_work::read(), holders, by_ftrace(&events, &tracer))
}

/// The kernel's flags of this thread decide, except for ftrace's function tracers, which set no flag. If the
/// flags cannot be read, only certain holders count.
fn judge(
    work: io::Result<SyscallWork>,
    holders: impl FnOnce() -> Vec<Holder>,
    ftrace: Ftrace,
) -> SyscallTracing {
    let (Ok(SyscallWork { tracepoint: true, .. }) | Err(_)) = work else {
        let audit = matches!(work, Ok(SyscallWork { audit: true, .. }));
        let mut who = Vec::from_iter(ftrace.tracer);
        who.extend(audit.then(|| AUDIT.to_owned()));
        return SyscallTracing { active: Some(!who.is_empty()), who, note: None };
    };
    let (certain, suspects): (Vec<Holder>, Vec<Holder>) =
        holders().into_iter().partition(Holder::is_certain);
    let mut who: Vec<String> = certain.iter().map(Holder::clause).collect();
    who.extend([ftrace.events, ftrace.tracer].into_iter().flatten());
    let mut suspects = suspects.iter().map(Holder::clause);
    let is_certain = !who.is_empty();
    match work {
        Ok(work) => {
            if !is_certain {
                who.extend(suspects);
            }
            if who.is_empty() {
                who.push("a probe on sys_enter or sys_exit; whose could not be found".to_owned());
            }
            who.extend(work.audit.then(|| AUDIT.to_owned()));
            SyscallTracing { active: Some(true), who, note: None }
        }
        Err(error) => {
            let note = Some(format!("the kernel's flags: {}", reason(&error)));
            if !is_certain {
                who.extend(suspects.by_ref().map(|clause| format!("perhaps {clause}")));
            }
            SyscallTracing { active: is_certain.then_some(true), who, note }
        }
    }
}

/// Tracepoints that are named of each tracer.
const SHOWN: usize = 3;
const AUDIT: &str = "audit: calls of this process are audited";

/// An error as a clause.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "not permitted".to_owned(),
        _ => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
    }
}

/// A process with probes on system calls, or with perf events of a kind that the kernel does not disclose.
#[derive(Debug)]
struct Holder {
    pid: u32,
    name: String,
    arguments: Vec<String>,
    /// The tracepoints of its BPF programs; empty for perf events.
    points: BTreeSet<String>,
}

impl Holder {
    fn is_certain(&self) -> bool {
        !self.points.is_empty() || names_syscalls(&self.arguments)
    }

    fn clause(&self) -> String {
        let points: Vec<&str> = self.points.iter().map(String::as_str).collect();
        let held = match points.as_slice() {
            [] if self.is_certain() => "perf events".to_owned(),
            [] => "perf events of some kind".to_owned(),
            points => format!("BPF on {}", listed(points, SHOWN)),
        };
        format!("{} (pid {}): {held}", self.name, self.pid)
    }
}

fn holders() -> Vec<Holder> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(holder).collect()
}

/// The process as a holder; `None` if it has no such descriptors, or its descriptors are not visible.
fn holder(pid: u32) -> Option<Holder> {
    let (mut points, mut has_events) = (BTreeSet::new(), false);
    for descriptor in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        let Ok(target) = fs::read_link(descriptor.path()) else { continue };
        let target = target.to_string_lossy();
        let is_event = target.contains("[perf_event]");
        let Some(fd) = descriptor.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if !is_event && !target.contains("bpf") {
            continue;
        }
        match bpf::tracepoint_of(pid, fd) {
            Ok(name) => points.extend(name.filter(|name| is_of_syscalls(name))),
            // Clockscope's own sample rings are perf events, too, and are left out.
            Err(_) => has_events |= is_event && pid != std::process::id(),
        }
    }
    let text = |name: &str| proc_text::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    (has_events || !points.is_empty()).then(|| Holder {
        pid,
        name: text("comm").trim().to_owned(),
        arguments: text("cmdline").split_terminator('\0').map(str::to_owned).collect(),
        points,
    })
}

/// Whether this is `sys_enter`, `sys_exit`, or the tracepoint of one system call.
fn is_of_syscalls(tracepoint: &str) -> bool {
    ["sys_enter", "sys_exit"].iter().any(|point| {
        tracepoint.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

/// Whether a perf command line asks for system calls.
fn names_syscalls(arguments: &[String]) -> bool {
    let is_perf_trace = arguments.first().is_some_and(|program| {
        let program = program.rsplit('/').next().unwrap_or(program);
        program.starts_with("perf") && arguments.get(1).is_some_and(|verb| verb == "trace")
    });
    is_perf_trace || arguments.iter().any(|argument| argument.contains("syscalls:"))
}

/// Uses of ftrace that make system calls dearer, as clauses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ftrace {
    /// Enabled events of system calls.
    events: Option<String>,
    /// The current tracer, if it traces the kernel's functions: `function`, `function_graph`.
    tracer: Option<String>,
}

/// Reads the list of enabled events and the name of the current tracer.
fn by_ftrace(events: &str, tracer: &str) -> Ftrace {
    let is_wanted =
        |event: &&str| ["raw_syscalls:", "syscalls:"].iter().any(|e| event.starts_with(e));
    let events: Vec<&str> = events.lines().filter(is_wanted).collect();
    let tracer = tracer.trim();
    Ftrace {
        events: (!events.is_empty()).then(|| format!("ftrace: {} on", listed(&events, SHOWN))),
        tracer: tracer.starts_with("function").then(|| format!("ftrace: the tracer {tracer}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(arguments: &[&str], points: &[&str]) -> Holder {
        Holder {
            pid: 7,
            name: "perf".to_owned(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            points: points.iter().map(|&point| point.to_owned()).collect(),
        }
    }

    #[test]
    fn a_holder_is_told_by_its_points_or_by_its_command_line() {
        let stat = holder(&["perf", "stat", "-e", "raw_syscalls:sys_enter"], &[]);
        assert_eq!(stat.clause(), "perf (pid 7): perf events");
        let trace = holder(&["/usr/bin/perf", "trace", "-a"], &[]);
        assert!(trace.is_certain());
        let record = holder(&["perf", "record", "-a"], &[]);
        assert!(!record.is_certain());
        assert_eq!(record.clause(), "perf (pid 7): perf events of some kind");
        let program = holder(&["x"], &["sys_exit", "sys_enter"]);
        assert_eq!(program.clause(), "perf (pid 7): BPF on sys_enter, sys_exit");
    }

    #[test]
    fn only_tracepoints_of_system_calls_count() {
        for (name, is_one) in [
            ("sys_enter", true),
            ("sys_exit_openat", true),
            ("sys_entering", false),
            ("sched_switch", false),
        ] {
            assert_eq!(is_of_syscalls(name), is_one, "{name}");
        }
    }

    #[test]
    fn of_ftrace_the_events_of_system_calls_and_tracers_of_functions_are_told() {
        assert_eq!(by_ftrace("sched:sched_switch\n", "nop\n"), Ftrace::default());
        let four = "raw_syscalls:sys_enter\nsyscalls:a\nsyscalls:b\nsched:x\nsyscalls:c\n";
        let ftrace = by_ftrace(four, "function_graph\n");
        let said = "ftrace: raw_syscalls:sys_enter, syscalls:a, syscalls:b and 1 more on";
        assert_eq!(ftrace.events.as_deref(), Some(said));
        assert_eq!(ftrace.tracer.as_deref(), Some("ftrace: the tracer function_graph"));
    }

    #[test]
    fn the_flags_of_the_kernel_settle_it_where_they_can_be_read() {
        let [quiet, probed] =
            [false, true].map(|tracepoint| SyscallWork { tracepoint, audit: false });
        let refused = || Err(io::Error::from_raw_os_error(libc::EPERM));
        let perf = |words: &[&str]| vec![holder(words, &[])];
        let (sure, unsure) = (["perf", "trace"], ["perf", "record"]);
        let verdict = |work, words: &[&str], events, tracer| {
            let tracing = judge(work, || perf(words), by_ftrace(events, tracer));
            (tracing.active, tracing.who.join("; "), tracing.note.is_some())
        };
        let says = |active, who: &str, has_note| (active, who.to_owned(), has_note);
        let (perf, perhaps) =
            ("perf (pid 7): perf events", "perf (pid 7): perf events of some kind");
        let graph = "ftrace: the tracer function_graph";
        assert_eq!(verdict(Ok(quiet), &sure, "syscalls:a", "nop"), says(Some(false), "", false));
        assert_eq!(verdict(Ok(quiet), &[], "", "function_graph\n"), says(Some(true), graph, false));
        assert_eq!(verdict(Ok(probed), &sure, "", "nop"), says(Some(true), perf, false));
        assert_eq!(verdict(Ok(probed), &unsure, "", "nop"), says(Some(true), perhaps, false));
        let audited = SyscallWork { audit: true, ..quiet };
        assert_eq!(verdict(Ok(audited), &[], "", ""), says(Some(true), AUDIT, false));
        let nobody = judge(Ok(probed), Vec::new, Ftrace::default());
        assert!(nobody.who[0].ends_with("whose could not be found"), "{:?}", nobody.who);

        // If this user may not load a BPF program, on arm64, and on kernels before 5.11.
        assert_eq!(verdict(refused(), &sure, "", "nop"), says(Some(true), perf, true));
        let by_ftrace = "ftrace: syscalls:a on";
        assert_eq!(verdict(refused(), &[], "syscalls:a", "nop"), says(Some(true), by_ftrace, true));
        let perhaps = format!("perhaps {perhaps}");
        assert_eq!(verdict(refused(), &unsure, "", "nop"), says(None, &perhaps, true));
        assert_eq!(judge(refused(), Vec::new, Ftrace::default()).active, None);
    }
}
