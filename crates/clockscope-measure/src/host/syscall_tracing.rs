//! Whether somebody traces system calls on this host, from what is found. Pure.
//!
//! That is: whether something is done beside every system call. Probes on the kernel function of one
//! system call are not looked for; they make only that one dearer.

use clockscope_model::host::SyscallTracing;

/// What the kernel does beside each system call of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// A probe is attached to `sys_enter` or `sys_exit`, by whomever.
    pub(super) tracepoint: bool,
    /// The calls of this process are given to the audit subsystem.
    pub(super) audit: bool,
}

/// What a process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A BPF program on the tracepoint of this name.
    Bpf(String),
    /// Perf events without a BPF program; the kernel does not tell on what.
    PerfEvents,
}

/// A process with something that may trace system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    /// The process.
    pub(super) pid: u32,
    /// Its name.
    pub(super) name: String,
    /// Its command line.
    pub(super) arguments: Vec<String>,
    /// What it holds.
    pub(super) held: Held,
}

/// The state of ftrace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ftrace {
    /// Of the events `raw_syscalls` and `syscalls`, those that are on.
    pub(super) events: Vec<String>,
    /// The current tracer, such as `nop` or `function_graph`.
    pub(super) tracer: Option<String>,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// What the kernel does beside each system call, if that can be read. It settles the question.
    pub(super) work: Option<Work>,
    /// Processes with probes; not this one.
    pub(super) holders: Vec<Holder>,
    /// Tracepoints of BPF links that no process holds, being pinned or held by another program.
    pub(super) unheld: Vec<String>,
    /// The state of ftrace, if tracefs can be read.
    pub(super) ftrace: Option<Ftrace>,
    /// What could not be looked at, as clauses.
    pub(super) unseen: Vec<String>,
}

const PERF_EVENTS: &str = "perf events";

/// Decides.
pub(super) fn judge(evidence: &Evidence) -> SyscallTracing {
    let mut who = certain(evidence);
    let suspects = suspects(evidence);
    let active = match evidence.work {
        Some(Work { tracepoint, audit }) => {
            if tracepoint && who.is_empty() {
                who = if suspects.is_empty() {
                    vec!["a probe on sys_enter or sys_exit; whose could not be found".to_owned()]
                } else {
                    suspects
                };
            }
            who.extend(audit.then(|| "audit: calls of this process are audited".to_owned()));
            // A probe that hangs on nothing that is on is being taken away.
            let slow = tracepoint || audit || function_tracer(evidence).is_some();
            if !slow {
                who.clear();
            }
            return SyscallTracing { active: Some(slow), who, note: note(evidence, slow) };
        }
        None if !who.is_empty() => Some(true),
        None if suspects.is_empty() && evidence.unseen.is_empty() => Some(false),
        None => {
            who = suspects.into_iter().map(|clause| format!("perhaps {clause}")).collect();
            None
        }
    };
    SyscallTracing { active, who, note: note(evidence, active != Some(false)) }
}

fn note(evidence: &Evidence, is_wanted: bool) -> Option<String> {
    (is_wanted && !evidence.unseen.is_empty()).then(|| evidence.unseen.join("; "))
}

/// A tracepoint that every system call passes, or one system call's own, which hangs on it.
pub(super) fn is_of_syscalls(tracepoint: &str) -> bool {
    ["sys_enter", "sys_exit"].iter().any(|point| {
        tracepoint.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

/// Clauses about those that trace system calls without doubt; one for each process.
fn certain(evidence: &Evidence) -> Vec<String> {
    let mut clauses: Vec<(u32, String, Vec<&str>)> = Vec::new();
    for holder in &evidence.holders {
        let point = match &holder.held {
            Held::Bpf(point) if is_of_syscalls(point) => point.as_str(),
            // Beside a program of their own they carry its output.
            Held::PerfEvents if has_program(evidence, holder.pid) => continue,
            Held::PerfEvents if names_syscalls(&holder.arguments) => PERF_EVENTS,
            _ => continue,
        };
        match clauses.iter_mut().find(|clause| clause.0 == holder.pid) {
            Some((_, _, points)) if points.contains(&point) => {}
            Some((_, _, points)) => points.push(point),
            None => clauses.push((holder.pid, holder.name.clone(), vec![point])),
        }
    }
    let mut who: Vec<String> = clauses.into_iter().map(|clause| process_clause(&clause)).collect();
    let mut unheld = evidence.unheld.clone();
    unheld.retain(|point| is_of_syscalls(point));
    unheld.dedup();
    who.extend(unheld.iter().map(|point| format!("a BPF program on {point}, of no process")));
    if let Some(ftrace) = evidence.ftrace.as_ref().filter(|ftrace| !ftrace.events.is_empty()) {
        who.push(format!("ftrace: {} on", shortened(&ftrace.events)));
    }
    who.extend(function_tracer(evidence).map(|tracer| format!("ftrace: the tracer {tracer}")));
    who
}

fn process_clause((pid, name, points): &(u32, String, Vec<&str>)) -> String {
    let mut points: Vec<String> = points.iter().map(|&point| point.to_owned()).collect();
    points.sort_unstable();
    let held = if points == [PERF_EVENTS] {
        PERF_EVENTS.to_owned()
    } else {
        format!("BPF on {}", shortened(&points))
    };
    format!("{name} (pid {pid}): {held}")
}

fn has_program(evidence: &Evidence, pid: u32) -> bool {
    let is_program = |held: &Held| matches!(held, Held::Bpf(point) if is_of_syscalls(point));
    evidence.holders.iter().any(|holder| holder.pid == pid && is_program(&holder.held))
}

/// At most three names.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// Clauses about those of which it cannot be told.
fn suspects(evidence: &Evidence) -> Vec<String> {
    let mut seen: Vec<u32> = Vec::new();
    let mut clauses = Vec::new();
    for holder in evidence.holders.iter().filter(|holder| holder.held == Held::PerfEvents) {
        if !seen.contains(&holder.pid) {
            seen.push(holder.pid);
            clauses.push(format!("{} (pid {}): perf events of some kind", holder.name, holder.pid));
        }
    }
    clauses
}

/// Whether a command line asks for events of system calls: `perf trace`, `-e raw_syscalls:sys_enter`.
fn names_syscalls(arguments: &[String]) -> bool {
    let is_perf_trace = arguments.first().is_some_and(|program| {
        let program = program.rsplit('/').next().unwrap_or(program);
        program.starts_with("perf") && arguments.get(1).is_some_and(|verb| verb == "trace")
    });
    is_perf_trace || arguments.iter().any(|argument| argument.contains("syscalls:"))
}

/// The tracer of ftrace, if it is one that probes the kernel's functions.
fn function_tracer(evidence: &Evidence) -> Option<&str> {
    let tracer = evidence.ftrace.as_ref()?.tracer.as_deref()?;
    tracer.starts_with("function").then_some(tracer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str, command: &str, held: Held) -> Holder {
        let arguments = command.split(' ').map(str::to_owned).collect();
        Holder { pid: 12, name: name.to_owned(), arguments, held }
    }

    fn on(point: &str) -> Held {
        Held::Bpf(point.to_owned())
    }

    const QUIET: Work = Work { tracepoint: false, audit: false };
    const PROBED: Work = Work { tracepoint: true, audit: false };

    #[test]
    fn the_word_of_the_kernel_settles_it() {
        let perf = holder("perf", "perf record -a", Held::PerfEvents);
        let quiet =
            Evidence { work: Some(QUIET), holders: vec![perf.clone()], ..Evidence::default() };
        let verdict = judge(&quiet);
        assert_eq!((verdict.active, verdict.who.len()), (Some(false), 0));
        let probed = judge(&Evidence { work: Some(PROBED), ..quiet });
        assert_eq!(probed.active, Some(true));
        assert_eq!(probed.who, ["perf (pid 12): perf events of some kind"]);
        let nobody = judge(&Evidence { work: Some(PROBED), ..Evidence::default() });
        assert!(nobody.who[0].contains("whose could not be found"), "{:?}", nobody.who);
    }

    #[test]
    fn a_process_is_named_once_with_all_that_it_holds() {
        let both = |point| holder("clockscope", "clockscope trace", on(point));
        let holders =
            vec![both("sys_exit"), both("sys_enter"), both("sys_exit"), both("sched_switch")];
        let verdict = judge(&Evidence { work: Some(PROBED), holders, ..Evidence::default() });
        assert_eq!(verdict.who, ["clockscope (pid 12): BPF on sys_enter, sys_exit"]);
    }

    #[test]
    fn a_tool_with_a_program_has_perf_events_for_its_output() {
        let command = "bpftrace -e tracepoint:raw_syscalls:sys_enter{}";
        let held = [Held::PerfEvents, on("sys_enter")];
        let holders = held.map(|held| holder("bpftrace", command, held)).to_vec();
        let verdict = judge(&Evidence { work: Some(PROBED), holders, ..Evidence::default() });
        assert_eq!(verdict.who, ["bpftrace (pid 12): BPF on sys_enter"]);
    }

    #[test]
    fn perf_is_told_by_its_command_line() {
        for command in ["perf trace -a", "/usr/bin/perf_6.1 stat -e raw_syscalls:sys_enter -a"] {
            let perf = holder("perf", command, Held::PerfEvents);
            let verdict = judge(&Evidence { holders: vec![perf], ..Evidence::default() });
            assert_eq!(verdict.active, Some(true), "{command}");
            assert_eq!(verdict.who, ["perf (pid 12): perf events"]);
        }
    }

    #[test]
    fn without_rights_nothing_is_claimed() {
        let unseen = vec!["BPF links: not permitted".to_owned()];
        let blind = Evidence { unseen: unseen.clone(), ..Evidence::default() };
        let verdict = judge(&blind);
        assert_eq!(verdict.active, None);
        assert_eq!(verdict.note.as_deref(), Some("BPF links: not permitted"));
        let suspicious = holder("perf", "perf record -a", Held::PerfEvents);
        let verdict = judge(&Evidence { holders: vec![suspicious], ..Evidence::default() });
        assert_eq!(verdict.active, None);
        assert!(verdict.who[0].starts_with("perhaps perf"));
        assert_eq!(judge(&Evidence::default()).active, Some(false));
        let known = Evidence { work: Some(QUIET), unseen, ..Evidence::default() };
        assert_eq!(judge(&known).note, None);
    }

    #[test]
    fn ftrace_and_audit_count_too() {
        let ftrace = Ftrace {
            events: vec!["raw_syscalls/sys_enter".to_owned()],
            tracer: Some("nop".to_owned()),
        };
        let verdict = judge(&Evidence { ftrace: Some(ftrace), ..Evidence::default() });
        assert_eq!(verdict.who, ["ftrace: raw_syscalls/sys_enter on"]);
        let tracer = Some("function_graph".to_owned());
        let ftrace = Some(Ftrace { tracer, ..Ftrace::default() });
        let verdict = judge(&Evidence { work: Some(QUIET), ftrace, ..Evidence::default() });
        assert_eq!(verdict.active, Some(true));
        let audit = Some(Work { audit: true, ..QUIET });
        let verdict = judge(&Evidence { work: audit, ..Evidence::default() });
        assert_eq!(verdict.who, ["audit: calls of this process are audited"]);
    }

    #[test]
    fn only_tracepoints_of_system_calls_count() {
        for point in ["sys_enter", "sys_exit", "sys_enter_read", "sys_exit_openat"] {
            assert!(is_of_syscalls(point), "{point}");
        }
        for point in ["sched_switch", "sys_entered", "", "my_sys_enter"] {
            assert!(!is_of_syscalls(point), "{point}");
        }
    }
}
