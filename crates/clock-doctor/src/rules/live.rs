//! The machine's measurements of itself, and properties of the process that measured.

use super::state::trapped;
use super::watchdog::figures::cost;
use super::{Facts, Finding, Fix, Label, Severity, TRUST, Verdict, is_device};
use crate::measured::{Discipline, Measured, WarpMeasured};
use crate::utc::UNKNOWN_ERROR_US;

/// Number of steps back that are believed: one in some thousand hand-overs is only reported.
const BELIEVED: u64 = 2;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let mut findings: Vec<Finding> = vsyscall64(facts).into_iter().collect();
    let Some(measured) = &facts.measured else { return findings };
    let source = verdict.source.as_deref();
    findings.extend(vdso_off(facts, measured));
    findings.extend(falls_back(facts, measured, source));
    findings.extend(slow_read(measured, source));
    findings.extend(measured.warp.as_ref().and_then(|warp| offset(warp, measured, source)));
    findings.extend(tsc_denied(measured));
    findings.extend(traced(measured));
    findings.extend(process(measured));
    findings.extend(measured.discipline.iter().flat_map(|one| discipline(one, measured)));
    findings
}

/// A value of 0 disables the vDSO's `clock_gettime` and `gettimeofday` on kernels up to 3.0.
///
/// `gtod->sysctl_enabled` in `arch/x86/kernel/vsyscall_64.c` (Linux 2.6.36).
fn vsyscall64(facts: &Facts) -> Option<Finding> {
    let known = facts.vsyscall64.as_ref().filter(|known| known.value == 0)?;
    Some(Finding::new(Label::Vsyscall64Off).seen(&known.evidence).fix(&[Fix::Vsyscall64]))
}

fn vdso_off(facts: &Facts, measured: &Measured) -> Option<Finding> {
    // An empty `HostState` was never filled in.
    if measured.host.vdso.present || measured.host.kernel.is_empty() {
        return None;
    }
    let finding = Finding::new(Label::VdsoOff)
        .measured("the process that measured was given no vDSO (AT_SYSINFO_EHDR is missing)")
        .tell("every-read");
    Some(match facts.line_with("vdso=0") {
        Some(line) => finding.seen(&line.evidence).fix(&[Fix::RemoveParameter]),
        None => finding.tell("process"),
    })
}

fn falls_back(facts: &Facts, measured: &Measured, source: Option<&str>) -> Option<Finding> {
    let read = measured.read("CLOCK_MONOTONIC");
    let by_read = read.and_then(|read| read.falls_back);
    if by_read.or(measured.host.vdso.falls_back) != Some(true) {
        return None;
    }
    let mut finding = Finding::new(Label::VdsoFallsBack)
        .measured("the vDSO's clock_gettime(CLOCK_MONOTONIC) makes the system call");
    if let Some((vdso, syscall)) = read.and_then(|read| Some((read.vdso_ns?, read.syscall_ns?))) {
        finding = finding.tell_with("costs", &[("vdso", &cost(vdso)), ("syscall", &cost(syscall))]);
    }
    if let Some(device) = source.filter(|name| is_device(name)) {
        finding = finding.tell_with("device", &[("device", &device)]);
    }
    let page = measured.pvclock.as_ref().filter(|_| is_paravirtual(source));
    if let Some(page) = page.filter(|page| !page.is_stable) {
        finding = finding
            .measured(format!("the page of the {} clock says that it is not stable", page.kind))
            .tell("unstable-page");
    }
    let coarse = measured.read("CLOCK_MONOTONIC_COARSE");
    if let Some(ns) = coarse.filter(|read| read.falls_back == Some(false)).and_then(|r| r.vdso_ns) {
        finding = finding.tell_with("coarse", &[("ns", &cost(ns))]);
    }
    let finding = finding.fix(&[Fix::Coarse]);
    Some(match source {
        _ if facts.vsyscall64.as_ref().is_some_and(|known| known.value == 0) => {
            finding.follows(Label::Vsyscall64Off)
        }
        Some("kvm-clock") => finding.follows(Label::KvmClockNoVdsoSuspected),
        Some("arch_sys_counter") => finding.follows(Label::ArmErratumVdsoOff),
        _ => finding,
    })
}

fn is_guest(measured: &Measured) -> bool {
    measured.host.virtualisation.as_deref().is_some_and(|name| name != "none")
}

fn is_paravirtual(source: Option<&str>) -> bool {
    source.is_some_and(|name| ["kvm-clock", "xen"].contains(&name) || name.starts_with("hyperv"))
}

fn slow_read(measured: &Measured, source: Option<&str>) -> Option<Finding> {
    let (ns, coarse) = trapped(measured)?;
    let finding = Finding::new(Label::SlowReadMeasured)
        .measured(format!(
            "CLOCK_MONOTONIC by the vDSO, without a system call: {}; CLOCK_MONOTONIC_COARSE: {}",
            cost(ns),
            cost(coarse)
        ))
        .fix(&[Fix::Coarse]);
    let is_by_host = is_guest(measured) && source.is_none_or(|name| !name.starts_with("arch_sys"));
    Some(finding.tell(if is_by_host { "trapped" } else { "trapped-by-something" }))
}

/// Counters with an offset: wrong time if the clock is read from them, and otherwise a reason to keep the present
/// clocksource.
fn offset(warp: &WarpMeasured, measured: &Measured, source: Option<&str>) -> Option<Finding> {
    let beyond = warp.offset_ns.zip(warp.offset_bound_ns).filter(|((_, _, ns), bound)| {
        // An estimate within its bound means that no offset can be seen.
        ns.abs() > *bound && *bound > 0.0
    });
    if warp.backwards == 0 && beyond.is_none() {
        return None;
    }
    let is_believed = warp.backwards >= BELIEVED || beyond.is_some();
    let reads_tsc = source.is_none_or(|name| name.starts_with("tsc"));
    let severity = if is_believed && reads_tsc { Severity::Wrong } else { Severity::Note };
    let mut finding = Finding::new(Label::TscOffsetMeasured).severity(severity);
    if warp.backwards > 0 {
        finding = finding.measured(format!(
            "{} of {} hand-overs between CPUs went back, by {} ticks at worst; pairs of CPUs compared: {}",
            warp.backwards, warp.handovers, warp.worst_ticks, warp.pairs
        ));
    }
    if let Some(((first, second, ns), bound)) = beyond {
        let way = if ns > 0.0 { "ahead of" } else { "behind" };
        finding = finding.measured(format!(
            "CPU {second} is {} {way} CPU {first}, give or take {}",
            cost(ns.abs()),
            cost(bound)
        ));
    }
    if is_believed {
        finding = finding.forbid(TRUST);
    }
    let read = measured.read("CLOCK_MONOTONIC").and_then(|read| read.vdso_ns);
    finding = match (is_believed, reads_tsc, read) {
        (false, ..) => finding.tell("once"),
        (true, false, _) => finding.tell("other-source"),
        (true, true, Some(ns)) => finding.tell_with("read", &[("ns", &cost(ns))]),
        (true, true, None) => finding.tell("goes-back"),
    };
    Some(if is_believed && reads_tsc { finding.fix(&[Fix::Measure]) } else { finding })
}

fn tsc_denied(measured: &Measured) -> Option<Finding> {
    (measured.tsc_allowed == Some(false)).then(|| {
        Finding::new(Label::TscDeniedToProcess)
            .measured("prctl(PR_GET_TSC) answers PR_TSC_SIGSEGV")
            .tell("denied")
    })
}

fn traced(measured: &Measured) -> Option<Finding> {
    let tracing = &measured.host.syscall_tracing;
    if tracing.active != Some(true) {
        return None;
    }
    let mut finding = Finding::new(Label::SyscallsTraced).fix(&[Fix::StopTracing]);
    if tracing.who.is_empty() {
        finding = finding.measured("something is done beside every system call");
    } else {
        // Notes are printed without their evidence, so the tracing process is named in the detail.
        finding = finding.tell_with("who", &[("who", &tracing.who.join("; "))]);
    }
    finding = tracing.who.iter().fold(finding, |finding, who| finding.measured(who.as_str()));
    if let Some(note) = &tracing.note {
        finding = finding.tell_with("not-seen", &[("note", note)]);
    }
    let monotonic = measured.read("CLOCK_MONOTONIC");
    Some(finding.tell(match monotonic.and_then(|read| read.falls_back) {
        Some(true) => "reads-pay",
        Some(false) => "reads-do-not-pay",
        None => "calls-pay",
    }))
}

/// Properties of the process that measured; programs started in the same way share it.
fn process(measured: &Measured) -> impl Iterator<Item = Finding> {
    let host = &measured.host;
    let traced = host.traced_by.map(|pid| {
        Finding::new(Label::TracedByPtrace)
            .measured(format!("TracerPid: {pid} in /proc/self/status"))
    });
    let is_filtered = host.seccomp.as_deref() == Some("filter");
    let filtered = is_filtered.then(|| {
        let finding =
            Finding::new(Label::SeccompFilter).measured("Seccomp: 2 in /proc/self/status");
        match measured.read("CLOCK_MONOTONIC").and_then(|read| read.syscall_ns) {
            Some(ns) => finding.tell_with("filtered", &[("ns", &cost(ns))]),
            None => finding,
        }
    });
    let offsets = host.time_namespace.as_deref().filter(|offsets| *offsets != "none");
    let shifted = offsets.map(|offsets| {
        Finding::new(Label::InTimeNamespace)
            .measured(format!("time namespace: {offsets}"))
            .tell("namespace")
    });
    [traced, filtered, shifted].into_iter().flatten()
}

fn discipline(one: &Discipline, measured: &Measured) -> impl Iterator<Item = Finding> {
    // Without rtcsync, chrony leaves the bit set and states the error.
    let is_untold = one.max_error_us >= UNKNOWN_ERROR_US;
    let unsynchronised = (!one.is_synchronised && is_untold).then(|| {
        let error = one.max_error_us as f64 / 1e6;
        let text = format!("adjtimex: STA_UNSYNC is set, greatest error {error:.1} s");
        Finding::new(Label::TimeNotSynchronised)
            .measured(text)
            .fix(&[Fix::Synchronise])
            .tell_if(is_guest(measured), "guest")
    });
    let leap = matches!(one.leap.as_str(), "insert" | "delete").then(|| {
        let is_to_be = one.leap.trim_end_matches('e');
        let text = format!("adjtimex: a leap second is to be {is_to_be}ed");
        Finding::new(Label::LeapSecondPending).measured(text)
    });
    unsynchronised.into_iter().chain(leap)
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
