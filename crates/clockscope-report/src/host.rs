//! The state of the host in a few lines, above the figures: usual facts are brief, unusual ones stand out.

use clockscope_model::host::{HostState, SyscallTracing};
use clockscope_text::foreign::printable;
use clockscope_text::lines::labelled;

/// Difference of the TSC rates, beyond the bound, from which on there is a warning, in parts per million.
const RATES_DIFFER_PPM: f64 = 100.0;

/// Lines of at most 80 columns, each with its end.
pub fn render(host: &HostState) -> String {
    let load = host.load.map(|load| format!("{load:.2} in the last minute"));
    let facts = [
        ("Host", Some(machine(host))),
        ("Clock", Some(clock(host))),
        ("TSC", tsc(host)),
        ("vDSO", vdso(host)),
        ("Load", load),
    ];
    let facts = facts.into_iter().filter_map(|(label, text)| Some((label, text?)));
    let warnings = warnings(host).into_iter().map(|text| ("WARNING", text));
    let notes = notes(host).into_iter().map(|text| ("Note", text));
    let line = |(label, text): (&str, String)| labelled(label, &printable(&text));
    facts.chain(warnings).chain(notes).map(line).collect()
}

fn machine(host: &HostState) -> String {
    let mut parts = vec![format!("Linux {} {}", host.kernel, host.arch).trim().to_owned()];
    let cpus = if host.cpus_online == 1 { "CPU" } else { "CPUs" };
    let model = host.cpu_model.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    if host.cpus_online > 0 {
        parts.push(format!("{} {cpus}{model}", host.cpus_online));
    }
    match host.virtualisation.as_deref() {
        Some("none") => parts.push("no hypervisor".to_owned()),
        Some("unknown") => parts.push("under a hypervisor".to_owned()),
        Some(name) => parts.push(format!("under {name}")),
        None => {}
    }
    parts.join(", ")
}

fn clock(host: &HostState) -> String {
    let mut text = host.clocksource.clone().unwrap_or_else(|| "clocksource unknown".to_owned());
    let others: Vec<&str> = host
        .clocksources_available
        .iter()
        .map(String::as_str)
        .filter(|name| Some(*name) != host.clocksource.as_deref())
        .collect();
    if !others.is_empty() {
        text += &format!(" (also {})", others.join(", "));
    }
    if let Some(hz) = host.hz {
        text += &format!(", {hz} ticks a second");
    }
    text
}

fn tsc(host: &HostState) -> Option<String> {
    let megahertz = |hertz: f64| format!("{:.3} MHz", hertz / 1e6);
    let bound = host.tsc_bound_ppm.map(|ppm| format!(" +/- {ppm:.2} ppm")).unwrap_or_default();
    let measured = host.tsc_hz_measured.map(|hz| format!("measured {}{bound}", megahertz(hz)));
    let source = host.tsc_hz_source.as_deref().unwrap_or("kernel");
    let kernel = host.tsc_hz_kernel.map(|hz| format!("{} ({source})", megahertz(hz)));
    match (kernel, measured) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(one),
        (Some(kernel), Some(measured)) => Some(format!("{kernel}, {measured}")),
    }
}

fn vdso(host: &HostState) -> Option<String> {
    let ratio = host.vdso.ratio?;
    let what = match host.vdso.falls_back {
        Some(true) => return None,
        Some(false) => "answers by itself; ",
        None => "",
    };
    Some(format!("{what}by syscall(2) it costs {ratio:.1} times as much"))
}

/// Warnings: signs that the figures are those of a faulty or disturbed host.
fn warnings(host: &HostState) -> Vec<String> {
    let mut warnings = Vec::new();
    if !host.vdso.present {
        warnings.push("this process has no vDSO: every clock read is a system call".to_owned());
    } else if host.vdso.falls_back == Some(true) {
        warnings
            .push("the vDSO falls back: it makes a system call for every clock read".to_owned());
    }
    if host.syscall_tracing.active == Some(true) {
        warnings.push(traced(&host.syscall_tracing));
    }
    warnings.extend(host.traced_by.map(|pid| format!("process {pid} traces this one by ptrace")));
    if let (Some(kernel), Some(measured)) = (host.tsc_hz_kernel, host.tsc_hz_measured) {
        let ppm = (measured / kernel - 1.0) * 1e6;
        if ppm.abs() > host.tsc_bound_ppm.unwrap_or(0.0) + RATES_DIFFER_PPM {
            warnings.push(format!("the TSC was measured {ppm:+.0} ppm off the kernel's rate"));
        }
    }
    warnings
}

fn traced(tracing: &SyscallTracing) -> String {
    let who = if tracing.who.is_empty() { "somebody".to_owned() } else { tracing.who.join("; ") };
    format!("system calls are traced on this host, which makes each of them dearer: {who}")
}

/// Notes: unusual or unknown facts that do not spoil the figures.
fn notes(host: &HostState) -> Vec<String> {
    let mut notes = Vec::new();
    if host.syscall_tracing.active.is_none() {
        let mut text = "it cannot be told whether system calls are traced on this host".to_owned();
        let known = host.syscall_tracing.who.iter().chain(&host.syscall_tracing.note);
        let known: Vec<&str> = known.map(String::as_str).collect();
        if !known.is_empty() {
            text += &format!(" ({})", known.join("; "));
        }
        notes.push(text);
    }
    if let Some(mode) = host.seccomp.as_deref().filter(|mode| *mode != "none") {
        notes.push(format!("seccomp ({mode}) makes each system call of this process dearer"));
    }
    if let Some(offsets) = host.time_namespace.as_deref().filter(|offsets| *offsets != "none") {
        notes.push(format!("in a time namespace: {offsets}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::host::VdsoState;
    use clockscope_text::lines::{WIDTH, width};

    fn healthy() -> HostState {
        crate::tests::read(include_str!("tests/host.json"))
    }

    #[test]
    fn a_healthy_host_takes_few_lines() {
        insta::assert_snapshot!(render(&healthy()));
    }

    #[test]
    fn a_sick_host_is_loud() {
        let mut sick = healthy();
        sick.clocksource = Some("hpet".to_owned());
        sick.vdso = VdsoState { present: true, falls_back: Some(true), ratio: Some(0.98) };
        sick.tsc_hz_measured = Some(2.501e9);
        sick.seccomp = Some("filter".to_owned());
        sick.time_namespace = Some("monotonic +86400 s, boottime +0 s".to_owned());
        sick.traced_by = Some(17);
        sick.syscall_tracing.active = Some(true);
        sick.syscall_tracing.who = vec![
            "bpftrace (pid 4711): BPF on sys_enter".to_owned(),
            "perf (pid 12): perf events".to_owned(),
        ];
        insta::assert_snapshot!(render(&sick));
    }

    #[test]
    fn what_is_not_known_is_not_printed_as_known() {
        let mut blind = HostState::default();
        blind.vdso.present = true;
        blind.syscall_tracing.note = Some("BPF links: not permitted".to_owned());
        insta::assert_snapshot!(render(&blind), @r"
        Host:         Linux
        Clock:        clocksource unknown
        Note:         it cannot be told whether system calls are traced on this host
                      (BPF links: not permitted)
        ");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let mut long = healthy();
        long.syscall_tracing.active = Some(true);
        long.syscall_tracing.who =
            (1..20).map(|n| format!("tool{n} (pid {n}): BPF on sys_exit")).collect();
        assert!(render(&long).lines().all(|line| width(line) <= WIDTH));
        assert!(!render(&long).lines().any(|line| line.ends_with(' ')));
    }
}
