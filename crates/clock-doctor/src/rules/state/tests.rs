//! Measurements have precedence over the table.

use super::*;
use crate::facts::Known;
use crate::measured::{Measured, Pvclock, ReadCost};

fn on(source: &str) -> Facts {
    Facts { current: Some(Known::new(source.to_owned(), "current", source)), ..Facts::default() }
}

/// A machine on `source` with a vDSO that answers in a `ratio`th of the system call's time.
fn measured_on(source: &str, ratio: f64) -> Facts {
    let mut measured = Measured::default();
    measured.host.vdso.present = true;
    measured.host.vdso.ratio = Some(ratio);
    let clock = "CLOCK_MONOTONIC".to_owned();
    measured.reads = vec![ReadCost { clock, vdso_ns: Some(210.0), ..ReadCost::default() }];
    Facts { measured: Some(measured), ..on(source) }
}

#[test]
fn a_fallback_that_was_measured_makes_tsc_slow_and_is_said() {
    let facts = measured_on("tsc", 1.02);
    let verdict = verdict(&facts);
    assert_eq!(verdict.state, State::Slow);
    assert_eq!(verdict.cost.map(|cost| (cost.low_ns, cost.is_measured)), Some((210.0, true)));
    assert!(verdict.because.contains("1.0 times"), "{}", verdict.because);
}

#[test]
fn the_state_is_what_was_measured_and_else_what_the_table_says() {
    let empty = Facts { measured: Some(Measured::default()), ..on("tsc") };
    for (what, facts, state) in [
        ("a vDSO that answers", measured_on("xen", 5.0), State::Fast),
        ("a vDSO that answers", measured_on("hyperv_clocksource_tsc_page", 5.0), State::Fast),
        ("a vDSO that answers", measured_on("kvm-clock", 5.0), State::Fast),
        ("a clocksource that depends on it", on("xen"), State::SlowUnlessPvclockVdso),
        ("a measurement against the table", measured_on("acpi_pm", 6.0), State::Fast),
        ("a device that the vDSO reads", measured_on("hpet", 1.8), State::Slow),
        ("nothing that was measured", empty, State::Fast),
        ("another architecture's clocksource", on("riscv_clocksource"), State::Unknown),
        ("a device of ARM", on("dmtimer"), State::Slow),
    ] {
        assert_eq!(verdict(&facts).state, state, "{what}: {facts:?}");
    }
}

#[test]
fn a_counter_that_is_trapped_is_slow_though_the_vdso_answers() {
    let read = |clock: &str, ns: f64| ReadCost {
        clock: clock.to_owned(),
        vdso_ns: Some(ns),
        syscall_ns: Some(ns + 200.0),
        falls_back: Some(false),
    };
    for (ns, state) in [(22.0, State::Fast), (2_000.0, State::Slow)] {
        let mut facts = measured_on("tsc", (ns + 200.0) / ns);
        let reads = vec![read("CLOCK_MONOTONIC", ns), read("CLOCK_MONOTONIC_COARSE", 4.0)];
        let measured = facts.measured.as_mut().unwrap();
        measured.host.vdso.falls_back = Some(false);
        measured.reads = reads;
        assert_eq!(super::verdict(&facts).state, state, "{ns}");
    }
}

#[test]
fn the_page_of_kvm_clock_tells_whether_the_vdso_reads_it() {
    let mut facts = on("kvm-clock");
    for (is_stable, state) in [(true, State::Fast), (false, State::Slow)] {
        let page = Pvclock { kind: "kvm".to_owned(), is_stable };
        facts.measured = Some(Measured { pvclock: Some(page), ..Measured::default() });
        assert_eq!(verdict(&facts).state, state);
    }
}

#[test]
fn what_is_left_can_be_known_to_be_slow_without_its_name() {
    let list = |names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Facts { available: Some(Known::new(names, "available", "")), ..Facts::default() }
    };
    assert_eq!(verdict(&list(&["hpet", "acpi_pm"])).state, State::Slow);
    assert_eq!(verdict(&list(&["tsc", "hpet"])).state, State::Unknown);
    assert_eq!(verdict(&list(&["acpi_pm"])).source.as_deref(), Some("acpi_pm"));
}
