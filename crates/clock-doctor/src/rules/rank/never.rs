//! Tempting changes that would do harm on this machine: an order to follow `Never:`, with the reason.

use super::super::trust::{self, Doubt};
use super::fixes::is_forbidden;
use crate::rules::{Diagnosis, EventKind, Facts, Finding, Fix, Label, Says, Severity};

/// The warnings that apply to this machine.
pub(super) fn sentences(facts: &Facts, diagnosis: &Diagnosis) -> Vec<String> {
    let findings = &diagnosis.findings;
    let found = |labels: &[Label]| findings.iter().any(|finding| labels.contains(&finding.label));
    let logged = |wanted: fn(&EventKind) -> bool| facts.logged(wanted).is_some();
    let mut sentences = Vec::new();
    let doubt = trust::doubt(facts, &diagnosis.verdict.platforms);
    sentences.extend(match doubt.filter(|doubt| !doubt.may_use) {
        Some(Doubt { why, .. }) => Some(Label::TscAbsent.sentence("never-trust", &[("why", why)])),
        None => forcing(facts, findings),
    });
    let says_so = logged(|kind| matches!(kind, EventKind::BrokenBiosAdvice));
    let stops = logged(|kind| matches!(kind, EventKind::HpetPc10));
    let is_switched = diagnosis.advice.iter().any(|advice| advice.is(Fix::SwitchToTsc));
    let is_gone = findings.iter().any(|finding| finding.says(Says::TscIsGoneUntilBoot));
    let is_slow = diagnosis.verdict.state == super::State::Slow;
    let is_marked = found(&[Label::TscWatchdogSkew, Label::TscWatchdogReaddelay]);
    let is_unfit = logged(|kind| matches!(kind, EventKind::HpetDisabled));
    let others = [
        (says_so, Label::TscWatchdogSkew, "never-obey"),
        (!says_so && is_marked, Label::TscWatchdogSkew, "never-unstable"),
        (stops, Label::HpetPc10Benign, "never-force"),
        (!stops && is_unfit, Label::HpetUnreliable, "never-force"),
        (found(&[Label::OverrideRejected]), Label::OverrideRejected, "never-unbind"),
        (is_slow && is_gone && !is_switched, Label::TscAbsent, "never-write"),
    ];
    let others = others.iter().filter(|(holds, ..)| *holds);
    sentences.extend(others.map(|(_, label, key)| label.sentence(key, &[])));
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
        let release = kernel.release.clone();
        return Some(Label::TscWarp.sentence("never-alone", &[("release", release)]));
    }
    is_forbidden(Fix::TscReliable, findings)
        .then(|| Label::TscWatchdogSkew.sentence("never-reliable", &[]))
}
