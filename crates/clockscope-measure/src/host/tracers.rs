//! Looks for those who trace system calls on this host.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::files;
use super::syscall_tracing::{Evidence, Held, Holder, Work, is_of_syscalls, judge};
use clockscope_model::host::SyscallTracing;
use clockscope_sys::bpf::{self, Link, ProbeKind};
use clockscope_sys::syscall_work;

/// Looks and decides. Takes less than a millisecond where the kernel says that nobody traces.
pub(super) fn look() -> SyscallTracing {
    judge(&evidence())
}

fn evidence() -> Evidence {
    let mut evidence = Evidence { ftrace: files::ftrace(Path::new("/")), ..Evidence::default() };
    match syscall_work::read() {
        Ok(work) => {
            evidence.work = Some(Work { tracepoint: work.tracepoint, audit: work.audit });
            if !work.tracepoint {
                return evidence;
            }
        }
        Err(error) => evidence.unseen.push(format!("the kernel's flags: {}", reason(&error))),
    }
    let links = bpf::links().unwrap_or_else(|error| {
        evidence.unseen.push(format!("BPF links: {}", reason(&error)));
        Vec::new()
    });
    let mut search = Search { links, ..Search::default() };
    search.all_processes();
    if search.closed > 0 {
        let processes = if search.closed == 1 { "process" } else { "processes" };
        evidence.unseen.push(format!("what {} {processes} hold: not permitted", search.closed));
    }
    if evidence.ftrace.is_none() {
        evidence.unseen.push("ftrace: tracefs is not mounted, or not permitted".to_owned());
    }
    evidence.unheld = search.unheld();
    evidence.holders = search.holders;
    evidence
}

fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "not permitted".to_owned(),
        // Without the number that Rust adds.
        _ => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
    }
}

/// A search of all processes for probes.
#[derive(Default)]
struct Search {
    links: Vec<Link>,
    holders: Vec<Holder>,
    /// Links that a process was seen to hold.
    held: HashSet<u32>,
    /// Processes whose descriptors may not be read.
    closed: u32,
}

impl Search {
    fn all_processes(&mut self) {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                self.process(pid);
            }
        }
    }

    fn process(&mut self, pid: u32) {
        let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                // A process may be gone by now.
                let is_refused = error.kind() == std::io::ErrorKind::PermissionDenied;
                self.closed += u32::from(is_refused);
                return;
            }
        };
        let mut found: Vec<Held> = Vec::new();
        for descriptor in descriptors.flatten() {
            let Ok(target) = fs::read_link(descriptor.path()) else { continue };
            let target = target.to_string_lossy();
            let is_event = target.contains("[perf_event]");
            let is_bpf = target.starts_with("anon_inode:") && target.contains("bpf");
            if !is_event && !is_bpf {
                continue;
            }
            let fd = descriptor.file_name().to_str().and_then(|name| name.parse().ok());
            let held = fd.and_then(|fd| self.held_by(pid, fd, is_event));
            found.extend(held.filter(|held| !found.contains(held)));
        }
        // Events of our own without a program count something else: we do not trace ourselves.
        let is_own = pid == std::process::id();
        found.retain(|held| !(is_own && *held == Held::PerfEvents));
        self.add(pid, found);
    }

    fn add(&mut self, pid: u32, found: Vec<Held>) {
        if found.is_empty() {
            return;
        }
        let text = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let name = String::from_utf8_lossy(&text("comm")).trim().to_owned();
        let arguments: Vec<String> = String::from_utf8_lossy(&text("cmdline"))
            .split_terminator('\0')
            .map(str::to_owned)
            .collect();
        self.holders.extend(found.into_iter().map(|held| Holder {
            pid,
            name: name.clone(),
            arguments: arguments.clone(),
            held,
        }));
    }

    /// What a descriptor means; `None` if it is nothing that could trace system calls.
    fn held_by(&mut self, pid: u32, fd: u32, is_event: bool) -> Option<Held> {
        let link = link_id(&fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?);
        self.held.extend(link);
        match bpf::probe_of(pid, fd) {
            Ok((ProbeKind::RawTracepoint | ProbeKind::Tracepoint, name)) => {
                is_of_syscalls(&name).then_some(Held::Bpf(name))
            }
            Ok(_) => None,
            Err(error) if is_event => {
                // ENOENT: without a program. Without rights it is as little known.
                let is_unknown = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EPERM));
                is_unknown.then_some(Held::PerfEvents)
            }
            Err(_) => {
                let link = self.links.iter().find(|one| Some(one.id) == link)?;
                is_tracer(link).then(|| Held::Bpf(link.name.clone()))
            }
        }
    }

    /// Tracepoints of links that nobody was seen to hold.
    fn unheld(&self) -> Vec<String> {
        let unheld = self.links.iter().filter(|link| !self.held.contains(&link.id));
        unheld.filter(|link| is_tracer(link)).map(|link| link.name.clone()).collect()
    }
}

fn is_tracer(link: &Link) -> bool {
    matches!(link.kind, ProbeKind::RawTracepoint | ProbeKind::Tracepoint)
        && is_of_syscalls(&link.name)
}

/// The number of the link in a descriptor's `fdinfo`.
fn link_id(fdinfo: &str) -> Option<u32> {
    let line = fdinfo.lines().find_map(|line| line.strip_prefix("link_id:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_link_is_read() {
        assert_eq!(link_id("pos:\t0\nlink_type:\tperf_event\nlink_id:\t7\nprog_id:\t9\n"), Some(7));
        assert_eq!(link_id("pos:\t0\nflags:\t02000000\n"), None);
    }

    #[test]
    fn looking_twice_finds_no_trace_of_looking_once() {
        let ours = |verdict: &SyscallTracing| {
            let pid = format!("(pid {})", std::process::id());
            verdict.who.iter().any(|who| who.contains(&pid))
        };
        assert!(!ours(&look()) && !ours(&look()));
    }
}
