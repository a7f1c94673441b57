//! Complete diagnoses of hand-made machines.

use super::*;
use crate::facts::{CommandLine, Evidence, Kernel, Known, Log};
use crate::log::event::{Event, EventKind};
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::Advice;

fn verdict(state: State, source: &str, platforms: &[&'static str]) -> Verdict {
    Verdict {
        state,
        source: (!source.is_empty()).then(|| source.to_owned()),
        platforms: platforms.to_vec(),
        ..Verdict::default()
    }
}

fn facts(kernel: &str, log: &[EventKind]) -> Facts {
    let kernel = Kernel::parse(kernel).map(|kernel| Known::new(kernel, "proc/version", ""));
    let event =
        |kind: &EventKind| Event { evidence: Evidence::default(), at: None, kind: kind.clone() };
    let log = (!log.is_empty())
        .then(|| Log { events: log.iter().map(event).collect(), ..Log::default() });
    Facts { kernel, log, ..Facts::default() }
}

/// The diagnosis of a slow machine with this kernel and clocksource.
fn slow(kernel: &str, source: &str, findings: Vec<Finding>) -> Diagnosis {
    diagnosis(&facts(kernel, &[]), verdict(State::Slow, source, &[]), findings)
}

fn names(diagnosis: &Diagnosis) -> Vec<Fix> {
    let fix = |advice: &Advice| Fix::ALL.into_iter().find(|fix| advice.is(*fix)).unwrap();
    diagnosis.advice.iter().map(fix).collect()
}

fn never(diagnosis: &Diagnosis, words: &str) -> bool {
    diagnosis.never.iter().any(|sentence| sentence.contains(words))
}

#[test]
fn a_healthy_machine_hears_nothing_else() {
    let findings = vec![
        Finding::new(Label::HpetPc10Benign).fix(&[Fix::HpetDisable]),
        Finding::new(Label::TimeNotSynchronised).fix(&[Fix::Synchronise]),
        Finding::new(Label::ParamTscReliable).fix(&[Fix::Measure, Fix::RemoveParameter]),
    ];
    let facts = facts("6.12", &[EventKind::HpetPc10]);
    let well = diagnosis(&facts, verdict(State::Fast, "tsc", &[]), findings);
    assert_eq!(well.findings.len(), 3);
    assert!(well.advice.is_empty() && well.never.is_empty());
    assert!(well.meanwhile.is_empty() && well.missing.is_empty());
}

#[test]
fn a_note_costs_no_reboot_and_what_is_harmless_nothing() {
    let findings = vec![
        Finding::new(Label::OldKernel).fix(&[Fix::NewerKernel]),
        Finding::new(Label::TimeNotSynchronised).fix(&[Fix::Synchronise]),
        Finding::new(Label::CalibrationNoteBenign).fix(&[Fix::Measure]),
    ];
    let told = diagnosis(&facts("3.2", &[]), verdict(State::Unknown, "", &[]), findings);
    assert_eq!(names(&told), [Fix::Synchronise]);
}

/// Kernels and clocksources of slow machines, what is found, the fixes in their order, and words of the advice.
#[test]
fn fixes_are_chosen_and_put_in_order() {
    let asks = |label, fixes: &[Fix]| Finding::new(label).fix(fixes);
    let glitch = || {
        let fixes = [Fix::TscReliable, Fix::Reboot, Fix::TscNowatchdog];
        vec![asks(Label::TscWatchdogGlitch, &fixes)]
    };
    let nowatchdog = asks(Label::TscWatchdogGlitch, &[Fix::TscNowatchdog]);
    let warp = asks(Label::TscWarp, &[Fix::TscNowatchdog, Fix::TscReliable]);
    let skew = asks(Label::TscWatchdogSkew, &[Fix::Reboot, Fix::TscReliable]);
    let forbids = Finding::new(Label::WatchdogBadReference).forbid(&[Fix::TscReliable]);
    let bad = asks(Label::WatchdogBadReference, &[Fix::TscNowatchdog]);
    let rate = asks(Label::NeedsRateMeasurement, &[Fix::Measure]);
    for (kernel, source, findings, fixes, words) in [
        // What one finding forbids no other gets.
        ("6.12", "acpi_pm", vec![skew, forbids], "reboot", "add tsc=reliable: nothing shows"),
        // The milder parameter is preferred where the kernel has it.
        ("6.5.0", "acpi_pm", glitch(), "reboot tsc=nowatchdog", ""),
        ("4.18.0-553.el8_10.x86_64", "acpi_pm", glitch(), "reboot tsc=nowatchdog", ""),
        ("4.4.0", "acpi_pm", glitch(), "reboot tsc=reliable", ""),
        // An old kernel gets the parameter that stands in, after a measurement.
        ("4.4.0", "acpi_pm", vec![nowatchdog], "tsc=reliable", "clockscope wrongness"),
        // The watchdog's parameter does not help against a warp.
        ("5.15", "hpet", vec![warp], "tsc=reliable", ""),
        // A measurement comes before what rests on it.
        (
            "6.12",
            "sgi_rtc",
            vec![bad, rate],
            "measure tsc=nowatchdog",
            "# only once `clockscope wrongness` found",
        ),
    ] {
        let told = slow(kernel, source, findings);
        let found: Vec<_> = names(&told).into_iter().map(Fix::name).collect();
        assert_eq!(found.join(" "), fixes, "{kernel} {source}");
        let commands = told.advice.iter().flat_map(|advice| &advice.commands);
        assert!(commands.chain(&told.never).any(|line| line.contains(words)), "{told:?}");
    }
}

#[test]
fn some_labels_forbid_by_themselves() {
    for label in [
        Label::TscWarpFirmware,
        Label::TscHaltsInIdle,
        Label::TscRateWrong,
        Label::TscWentBackwards,
        Label::PerCpuSyncSuspicious,
        Label::TscWarpRuntime,
        Label::TscUnsynchronized,
    ] {
        let asked = [Fix::TscNowatchdog, Fix::TscReliable, Fix::ClocksourceTsc];
        let asks = Finding::new(Label::TscWatchdogSkew).fix(&asked);
        let findings = vec![asks, Finding::new(label)];
        let told = slow("6.12", "hpet", findings);
        assert_eq!(names(&told), [Fix::Coarse], "{label}");
        assert!(never(&told, "tsc=reliable"), "{label}: {:?}", told.never);
    }
}

#[test]
fn before_3_3_the_parameter_is_never_advised_alone() {
    let findings = vec![Finding::new(Label::TscWarp).fix(&[Fix::TscReliable])];
    let told = slow("3.2.0", "acpi_pm", findings);
    assert_eq!(told.advice[0].title, "a kernel from 3.3 on, booted with tsc=reliable");
    assert!(never(&told, "rely on tsc=reliable alone"));
}

#[test]
fn a_slow_machine_is_shown_the_clock_by_the_tsc_only_if_nothing_speaks_against_it() {
    let offered = |facts: &Facts, labels: &[Label]| {
        let findings = labels.iter().map(|&label| Finding::new(label)).collect();
        let told = diagnosis(facts, verdict(State::Slow, "hpet", &[]), findings);
        told.meanwhile.iter().any(|sentence| sentence.contains("run --clock tsc --force"))
    };
    let mut invariant = facts("6.12", &[]);
    let flags = ["constant_tsc", "nonstop_tsc"].map(str::to_owned).into();
    invariant.cpu.flags = Some(Known::new(flags, "proc/cpuinfo", "flags"));
    invariant.cpu.flags_are_complete = true;
    assert!(offered(&invariant, &[Label::TscWatchdogGlitch]));
    assert!(!offered(&invariant, &[Label::TscWarpRuntime]));
    assert!(!offered(&facts("6.12", &[]), &[Label::TscWatchdogGlitch]));
}

#[test]
fn a_slow_machine_without_a_cause_is_told_to_read_its_log() {
    let findings = vec![Finding::new(Label::TscAbsent)];
    let told = slow("6.12", "hpet", findings);
    assert_eq!(names(&told), [Fix::ReadLog]);
    assert!(told.meanwhile[0].contains("run --clock coarse"));
    let board =
        diagnosis(&facts("6.12", &[]), verdict(State::Slow, "arm,sp804", &["arm32"]), vec![]);
    assert_eq!(names(&board), [Fix::Coarse]);
    assert!(board.meanwhile.is_empty());
}

#[test]
fn the_kernels_own_advice_is_contradicted_where_it_gave_it() {
    let told = |log: &[EventKind], label: Label| {
        let findings = vec![Finding::new(label)];
        diagnosis(&facts("6.12", log), verdict(State::Slow, "hpet", &[]), findings)
    };
    let advised = told(&[EventKind::BrokenBiosAdvice], Label::TscWatchdogSkew);
    assert!(never(&advised, "the kernel's own message"));
    assert!(!never(&told(&[], Label::TscWarp), "tsc=unstable"));
    assert!(never(&told(&[EventKind::HpetPc10], Label::TscWarp), "hpet=force"));
    assert!(!never(&told(&[], Label::TscWarp), "hpet=force"));
}

#[test]
fn a_parameter_that_is_set_is_not_to_be_kept() {
    let mut facts = facts("6.12", &[]);
    let line = CommandLine::parse("ro tsc=reliable");
    facts.command_line = Some(Known::new(line, "proc/cmdline", "ro tsc=reliable"));
    let findings = vec![Finding::new(Label::TscRateWrong), Finding::new(Label::ParamTscReliable)];
    let told = diagnosis(&facts, verdict(State::Fast, "tsc", &[]), findings);
    assert!(never(&told, "keep tsc=reliable"), "{:?}", told.never);
}

#[test]
fn what_is_not_known_is_asked_for() {
    let findings = vec![Finding::new(Label::TscWatchdogSkew)];
    let told = diagnosis(&facts("6.12", &[]), verdict(State::Unknown, "", &[]), findings);
    let begins = ["the current clocksource: `cat /sys", "what the watchdog's reference counted"];
    for (sentence, begin) in told.missing.iter().zip(begins) {
        assert!(sentence.starts_with(begin), "{:?}", told.missing);
    }
    assert!(told.missing.len() >= 2, "{:?}", told.missing);
}
