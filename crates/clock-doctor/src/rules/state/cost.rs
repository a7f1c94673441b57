//! The cost of a read, from published figures: their ratios matter, not the values.

use crate::rules::finding::Cost;
use crate::rules::{Facts, State};

/// The cost of a read of `CLOCK_MONOTONIC`: the measured one, else the published one for the clocksource `source`;
/// `None` without a published figure.
pub(super) fn cost(facts: &Facts, state: State, source: &str, is_vm: bool) -> Option<Cost> {
    let read = facts.measured.as_ref().and_then(|it| it.read("CLOCK_MONOTONIC"));
    match read.and_then(|read| read.vdso_ns.or(read.syscall_ns)) {
        Some(ns) => Some(Cost { low_ns: ns, high_ns: ns, is_measured: true }),
        None => expected(state, source, is_vm),
    }
}

/// In nanoseconds. tsc through the vDSO: 18 (green-metrics-tool), 36 (`pg_test_timing`'s page, i7-860), 57 (the
/// real-time guide of RHEL). The system call without access to a device: 180 to 290, measured. Paravirtual clocks: 1.5
/// to 2 times tsc. hpet: 1.2 us (RHEL) to 1.93 us; acpi_pm: 0.72 us (`pg_test_timing`'s page) to 2.55 us (RHEL). In a
/// VM each read of such a device exits to the hypervisor, which costs 2 us to 30 us.
fn expected(state: State, source: &str, is_vm: bool) -> Option<Cost> {
    const VDSO: (f64, f64) = (18.0, 57.0);
    const PARAVIRTUAL: (f64, f64) = (27.0, 115.0);
    const CALL: (f64, f64) = (180.0, 290.0);
    let device = matches!(source, "hpet" | "acpi_pm");
    let (low_ns, high_ns) = match (source, state) {
        _ if device && is_vm => (2000.0, 30000.0),
        ("hpet", _) => (1200.0, 1930.0),
        ("acpi_pm", _) => (720.0, 2550.0),
        ("tsc" | "tsc-early", State::Fast) => VDSO,
        ("kvm-clock" | "hyperv_clocksource_tsc_page" | "xen", state) => match state {
            State::Fast => PARAVIRTUAL,
            State::Slow => CALL,
            State::SlowUnlessPvclockVdso | State::Unknown => (PARAVIRTUAL.0, CALL.1),
        },
        ("tsc" | "tsc-early" | "jiffies" | "refined-jiffies", State::Slow) => CALL,
        _ => return None,
    };
    Some(Cost { low_ns, high_ns, is_measured: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{Measured, ReadCost};

    #[test]
    fn a_measured_cost_goes_before_an_expected_one() {
        let mut facts = Facts::default();
        let low = |facts: &Facts| cost(facts, State::Slow, "hpet", true).map(|cost| cost.low_ns);
        assert_eq!(low(&facts), Some(2000.0));
        let clock = "CLOCK_MONOTONIC".to_owned();
        let read = ReadCost { clock, vdso_ns: Some(1500.0), ..ReadCost::default() };
        facts.measured = Some(Measured { reads: vec![read], ..Measured::default() });
        assert_eq!(low(&facts), Some(1500.0));
    }

    #[test]
    fn a_device_costs_more_in_a_virtual_machine() {
        let high = |source: &str, is_vm| expected(State::Slow, source, is_vm).unwrap().high_ns;
        assert!(high("acpi_pm", true) > high("acpi_pm", false));
        assert_eq!(high("jiffies", true), high("jiffies", false));
        assert_eq!(expected(State::Slow, "sgi_rtc", false), None);
    }
}
