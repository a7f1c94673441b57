//! Judges invented measurements.

use super::*;
use crate::facts::{CommandLine, Known};
use crate::measured::{Cpuid, Pvclock, ReadCost};
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::State;
use clockscope_model::host::{HostState, SyscallTracing, VdsoState};

fn verdict(source: &str) -> Verdict {
    Verdict { state: State::Fast, source: Some(source.to_owned()), ..Verdict::default() }
}

fn cost_of(clock: &str, vdso_ns: f64, syscall_ns: f64, falls_back: bool) -> ReadCost {
    ReadCost {
        clock: clock.to_owned(),
        vdso_ns: Some(vdso_ns),
        syscall_ns: Some(syscall_ns),
        falls_back: Some(falls_back),
    }
}

/// A machine without findings.
fn healthy() -> Measured {
    Measured {
        host: HostState {
            kernel: "6.12.0".to_owned(),
            vdso: VdsoState { present: true, falls_back: Some(false), ratio: Some(6.0) },
            virtualisation: Some("kvm".to_owned()),
            seccomp: Some("none".to_owned()),
            time_namespace: Some("none".to_owned()),
            syscall_tracing: SyscallTracing { active: Some(false), ..SyscallTracing::default() },
            ..HostState::default()
        },
        reads: vec![
            cost_of("CLOCK_MONOTONIC", 22.7, 180.0, false),
            cost_of("CLOCK_MONOTONIC_COARSE", 4.6, 150.0, false),
            cost_of("CLOCK_THREAD_CPUTIME_ID", 320.0, 310.0, true),
        ],
        warp: Some(WarpMeasured {
            pairs: 1,
            handovers: 20_000,
            bound_ns: Some(45.0),
            offset_ns: Some((0, 1, 31.0)),
            offset_bound_ns: Some(45.0),
            ..WarpMeasured::default()
        }),
        tsc_allowed: Some(true),
        discipline: Some(Discipline {
            is_synchronised: true,
            leap: "none".to_owned(),
            tick_us: 10_000,
            ..Discipline::default()
        }),
        cpuid: Some(Cpuid::default()),
        ..Measured::default()
    }
}

fn found(measured: Measured, source: &str) -> Vec<Finding> {
    find(&Facts { measured: Some(measured), ..Facts::default() }, &verdict(source))
}

/// The finding about a machine that differs from a healthy one.
fn one(source: &str, change: impl FnOnce(&mut Measured)) -> Finding {
    let mut measured = healthy();
    change(&mut measured);
    let mut findings = found(measured, source);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

fn says(finding: &Finding) -> String {
    let lines = finding.evidence.iter().map(|evidence| format!("[{}]", evidence.text));
    lines.chain(finding.detail.iter().cloned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_machine_gives_no_finding() {
    for source in ["tsc", "kvm-clock", "hpet"] {
        assert_eq!(found(healthy(), source), [], "{source}");
    }
    assert_eq!(find(&Facts::default(), &verdict("tsc")), []);
    let labels: Vec<Label> = found(Measured::default(), "tsc").iter().map(|f| f.label).collect();
    assert_eq!(labels, [], "an empty capture says nothing");
}

#[test]
fn a_fallback_is_told_with_its_price_and_the_page_that_explains_it() {
    let finding = one("kvm-clock", |measured| {
        measured.reads[0] = cost_of("CLOCK_MONOTONIC", 215.2, 201.0, true);
        measured.pvclock = Some(Pvclock { kind: "kvm".to_owned(), is_stable: false });
    });
    assert_eq!((finding.label, finding.severity), (Label::VdsoFallsBack, Severity::Slow));
    insta::assert_snapshot!(says(&finding));
    let host_only = one("hpet", |measured| {
        measured.reads.clear();
        measured.host.vdso.falls_back = Some(true);
    });
    assert_eq!(host_only.label, Label::VdsoFallsBack);
    assert_eq!(host_only.detail, ["The vDSO cannot read hpet: only the kernel can."]);
}

#[test]
fn a_trapped_counter_shows_by_its_price_only() {
    let trapped = |vdso_ns: f64, coarse_ns: f64| {
        let mut measured = healthy();
        measured.reads[0].vdso_ns = Some(vdso_ns);
        measured.reads[1].vdso_ns = Some(coarse_ns);
        found(measured, "tsc").iter().map(|finding| finding.label).collect::<Vec<_>>()
    };
    assert_eq!(trapped(1530.0, 5.0), [Label::SlowReadMeasured]);
    assert_eq!(trapped(120.0, 5.0), [], "an old or busy CPU");
    assert_eq!(trapped(900.0, 180.0), [], "an emulator: everything is slow");
}

#[test]
fn an_offset_within_its_bound_is_none() {
    let apart = |source: &str, ns: f64, backwards: u64| {
        let mut measured = healthy();
        let warp = measured.warp.as_mut().unwrap();
        (warp.offset_ns, warp.backwards, warp.worst_ticks) = (Some((0, 1, ns)), backwards, 90);
        let findings = found(measured, source);
        findings.first().map(|finding| (finding.label, finding.severity))
    };
    let label = Label::TscOffsetMeasured;
    assert_eq!(apart("tsc", -44.0, 0), None);
    assert_eq!(apart("tsc", -46.0, 0), Some((label, Severity::Wrong)));
    assert_eq!(apart("tsc", 0.0, 2), Some((label, Severity::Wrong)));
    assert_eq!(apart("tsc", 0.0, 1), Some((label, Severity::Note)), "once is a disturbance");
    assert_eq!(apart("hpet", 900.0, 5), Some((label, Severity::Note)), "time comes from elsewhere");
}

#[test]
fn counters_that_are_apart_forbid_what_would_trust_them() {
    let finding = one("tsc", |measured| {
        let warp = measured.warp.as_mut().unwrap();
        (warp.offset_ns, warp.backwards, warp.worst_ticks) = (Some((0, 3, -812.0)), 17, 2090);
    });
    assert!(finding.forbids.contains(&Fix::TscReliable));
    insta::assert_snapshot!(says(&finding), @"
        [17 of 20000 hand-overs between CPUs went back, by 2090 ticks at worst; pairs of CPUs compared: 1]
        [CPU 3 is 812 ns behind CPU 0, give or take 45 ns]
        A read takes 22.7 ns: a thread that moves to another CPU, or that compares its time with another thread's, can see time go back.
        ");
}

#[test]
fn a_tracer_is_named() {
    let finding = one("tsc", |measured| {
        let who = vec!["bpftrace (pid 12): BPF on sys_enter".to_owned()];
        measured.host.syscall_tracing =
            SyscallTracing { active: Some(true), who, ..SyscallTracing::default() };
    });
    assert_eq!((finding.label, finding.severity), (Label::SyscallsTraced, Severity::Note));
    insta::assert_snapshot!(says(&finding), @"
        [bpftrace (pid 12): BPF on sys_enter]
        It is bpftrace (pid 12): BPF on sys_enter.
        Clock reads by the vDSO do not pay for it; CPU-time clocks and every other system call do.
        ");
}

#[test]
fn what_is_special_about_the_process_is_a_note() {
    let mut measured = healthy();
    measured.tsc_allowed = Some(false);
    measured.host.traced_by = Some(77);
    measured.host.seccomp = Some("filter".to_owned());
    measured.host.time_namespace = Some("monotonic +86400 s, boottime +0 s".to_owned());
    let discipline = measured.discipline.as_mut().unwrap();
    (discipline.is_synchronised, discipline.max_error_us) = (false, 16_000_000);
    discipline.leap = "insert".to_owned();
    let findings = found(measured, "tsc");
    let labels: Vec<&str> = findings.iter().map(|finding| finding.label.name()).collect();
    let wanted = "tsc-denied-to-process traced-by-ptrace seccomp-filter in-time-namespace \
                  time-not-synchronised leap-second-pending";
    assert_eq!(labels.join(" "), wanted);
    assert!(findings.iter().all(|finding| finding.severity <= Severity::Note), "{findings:?}");
    let said: Vec<String> = findings.iter().map(says).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_process_without_a_vdso_is_told_why_if_the_command_line_says() {
    let mut measured = healthy();
    measured.host.vdso = VdsoState::default();
    measured.reads[0] = ReadCost { vdso_ns: None, falls_back: None, ..measured.reads[0].clone() };
    let mut facts = Facts { measured: Some(measured), ..Facts::default() };
    let findings = find(&facts, &verdict("tsc"));
    assert_eq!((findings.len(), findings[0].label), (1, Label::VdsoOff));
    assert!(findings[0].fixes.is_empty());
    facts.command_line =
        Some(Known::new(CommandLine::parse("ro vdso=0"), "proc/cmdline", "vdso=0"));
    assert_eq!(find(&facts, &verdict("tsc"))[0].fixes, [Fix::RemoveParameter]);
}

#[test]
fn the_old_switch_of_the_vdso_needs_no_measurement() {
    let with = |value: i64| {
        let vsyscall64 = Some(Known::new(value, "proc/sys/kernel/vsyscall64", "0"));
        find(&Facts { vsyscall64, ..Facts::default() }, &verdict("tsc"))
    };
    assert_eq!(with(1), []);
    let findings = with(0);
    assert_eq!((findings[0].label, findings[0].severity), (Label::Vsyscall64Off, Severity::Slow));
    assert_eq!(findings[0].fixes, [Fix::Vsyscall64]);
}
