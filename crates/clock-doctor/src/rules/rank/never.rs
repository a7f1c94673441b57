//! Tempting changes that would do harm on this machine: an order to follow `Never:`, with the reason.

use super::super::catalogue::{Fix, Label, Says};
use super::super::finding::{Diagnosis, Finding, Severity};
use super::super::trust::{self, Doubt};
use super::fixes::is_forbidden;
use crate::facts::Facts;
use crate::log::event::EventKind;

/// The warnings that apply to this machine.
pub(super) fn sentences(facts: &Facts, diagnosis: &Diagnosis) -> Vec<String> {
    let findings = &diagnosis.findings;
    let found = |labels: &[Label]| findings.iter().any(|finding| labels.contains(&finding.label));
    let logged = |wanted: fn(&EventKind) -> bool| facts.logged(wanted).is_some();
    let mut sentences = Vec::new();
    let doubt = trust::doubt(facts, &diagnosis.verdict.platforms);
    sentences.extend(match doubt.filter(|doubt| !doubt.may_use) {
        Some(Doubt { why, .. }) => Some(format!(
            "trust the TSC (tsc in current_clocksource, clocksource=tsc, tsc=reliable): {why}."
        )),
        None => forcing(facts, findings),
    });
    let says_so = logged(|kind| matches!(kind, EventKind::BrokenBiosAdvice));
    let stops = logged(|kind| matches!(kind, EventKind::HpetPc10));
    let is_switched = diagnosis.advice.iter().any(|advice| advice.is(Fix::SwitchToTsc));
    let is_gone = findings.iter().any(|finding| finding.says(Says::TscIsGoneUntilBoot));
    let is_slow = diagnosis.verdict.state == super::State::Slow;
    let others = [
        (
            says_so,
            "boot with tsc=unstable, though the kernel's own message says so: it silences the \
             message and makes the slow clock permanent.",
        ),
        (
            !says_so && found(&[Label::TscWatchdogSkew, Label::TscWatchdogReaddelay]),
            "boot with tsc=unstable: it only makes the slow clock permanent.",
        ),
        (stops, "boot with hpet=force: this HPET stops in deep sleep, and time with it."),
        (
            !stops && logged(|kind| matches!(kind, EventKind::HpetDisabled)),
            "boot with hpet=force: the kernel found this HPET unfit.",
        ),
        (
            found(&[Label::OverrideRejected]),
            "unbind the present clocksource to force the other: that takes away the good one.",
        ),
        (
            is_slow && is_gone && !is_switched,
            "count on writing tsc to current_clocksource: the write reports success and changes \
             nothing until the next boot.",
        ),
    ];
    sentences.extend(others.iter().filter(|(holds, _)| *holds).map(|(_, text)| (*text).to_owned()));
    sentences
}

fn forcing(facts: &Facts, findings: &[Finding]) -> Option<String> {
    let found = |label: Label| {
        findings.iter().any(|finding| {
            finding.label == label
                && (finding.severity > Severity::Note || label == Label::TscEarly)
        })
    };
    let is_set = facts.line_with("tsc=reliable").is_some();
    let reasons = findings.iter().filter(|finding| found(finding.label));
    let reasons = reasons.filter_map(|finding| Some((finding, finding.label.bearing().never?)));
    if let Some((finding, (_, order))) = reasons.min_by_key(|(_, (place, _))| *place) {
        // Kernels that mark tsc-early ignored the parameter, so it had no effect there.
        let is_in_vain = is_set && finding.label == Label::TscEarly;
        let kept = order.strip_prefix("add ").filter(|_| is_set);
        let order = kept.map_or(order.to_owned(), |rest| format!("keep {rest}"));
        return (!is_in_vain).then_some(order);
    }
    let kernel = facts.kernel().filter(|kernel| !kernel.at_least(3, 3));
    if let Some(kernel) = kernel.filter(|_| found(Label::TscWarp)) {
        return Some(format!(
            "rely on tsc=reliable alone: kernel {} compares the CPUs in spite of it, those from \
             3.3 on do not.",
            kernel.release
        ));
    }
    is_forbidden(Fix::TscReliable, findings).then(|| {
        "add tsc=reliable: nothing shows that the TSC is good, and nothing would notice that it is \
         not."
            .to_owned()
    })
}
