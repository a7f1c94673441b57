//! Hyper-V, Azure, WSL: the TSC page, and the reason why Linux does not use plain tsc there.

use crate::rules::age::age;
use crate::rules::{EventKind, Facts, Finding, Fix, Label, Severity, Verdict};

/// The current clocksource asks the hypervisor: old name up to 4.x, and today's.
fn asks_hypervisor(verdict: &Verdict) -> bool {
    matches!(verdict.source.as_deref(), Some("hyperv_clocksource_msr" | "hyperv_clocksource"))
}

pub(super) fn unstable_on_purpose(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let event = facts.logged(EventKind::is_about_hyperv)?;
    let found = Finding::new(Label::HypervTscUnstableBenign).seen(&event.evidence);
    let unavailable = facts.logged(|kind| *kind == EventKind::HyperVNoInvariantTsc);
    let found = found.seen_all(unavailable.map(|event| &event.evidence));
    let found = found.tell_if(unavailable.is_some(), "page-preferred");
    Some(match verdict.source.as_deref() {
        Some("hyperv_clocksource_tsc_page") => found.tell("nothing-lost"),
        Some(name) if asks_hypervisor(verdict) => found.tell_with("purpose", &[("name", &name)]),
        _ => found,
    })
}

/// The page needs 4.12 in the guest; without the page the register remains.
pub(super) fn page_needs_kernel(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let measured = facts.falls_back();
    let page = verdict.source.as_deref() == Some("hyperv_clocksource_tsc_page");
    if !page && !asks_hypervisor(verdict) || measured == Some(false) {
        return None;
    }
    let found = Finding::new(Label::VdsoSupportDependsOnKernel).seen_all(&verdict.source_evidence);
    match &facts.kernel {
        Some(kernel) if !kernel.value.at_least(4, 12) => {
            let key = if page { "page" } else { "register" };
            let found = found.tell_with(key, &[("release", &kernel.value.release)]);
            Some(found.seen(&kernel.evidence).fix(&[Fix::Measure, Fix::NewerKernel]))
        }
        None if page && age(facts).at_least < (4, 2) => {
            Some(found.tell("page-unknown").fix(&[Fix::Measure]))
        }
        _ => None,
    }
}

/// WSL's clock has run at a wrong rate, and stood still, on some hosts, with any clocksource (microsoft/WSL issues
/// 11790, 10006, 5324, 40783).
pub(super) fn wsl_rate(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    // A known drift answers the question, in either case.
    if !verdict.platforms.contains(&"wsl") || facts.drift_ppm.is_some() {
        return None;
    }
    let found = Finding::new(Label::NeedsRateMeasurement).severity(Severity::Note);
    let found = found.seen_all(facts.kernel.as_ref().map(|kernel| &kernel.evidence));
    Some(found.tell("wsl").fix(&[Fix::Measure, Fix::WslShutdown]))
}
