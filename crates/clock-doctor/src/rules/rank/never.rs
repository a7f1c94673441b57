//! Tempting changes that would do harm on this machine: an order to go after `Never:`,
//! with the reason.

use super::super::catalogue::{Fix, Label, Says};
use super::super::finding::{Diagnosis, Finding, Severity};
use super::super::trust::{self, Doubt};
use super::fixes::is_forbidden;
use crate::facts::Facts;
use crate::log::event::EventKind;

/// The forbidden advice that fits this machine.
pub(super) fn sentences(facts: &Facts, diagnosis: &Diagnosis) -> Vec<String> {
    let findings = &diagnosis.findings;
    let found = |labels: &[Label]| findings.iter().any(|finding| labels.contains(&finding.label));
    let logged = |wanted: fn(&EventKind) -> bool| facts.events().any(|event| wanted(&event.kind));
    let mut sentences = Vec::new();
    let doubt = trust::doubt(facts, &diagnosis.verdict.platforms);
    sentences.extend(match doubt.filter(|doubt| !doubt.may_use) {
        Some(Doubt { why, .. }) => Some(format!(
            "trust the TSC (tsc in current_clocksource, clocksource=tsc, tsc=reliable): {why}."
        )),
        None => forcing(facts, findings),
    });
    if logged(|kind| matches!(kind, EventKind::BrokenBiosAdvice)) {
        sentences.push(
            "boot with tsc=unstable, though the kernel's own message says so: it silences \
             the message and makes the slow clock permanent."
                .to_owned(),
        );
    } else if found(&[Label::TscWatchdogSkew, Label::TscWatchdogReaddelay]) {
        sentences
            .push("boot with tsc=unstable: it only makes the slow clock permanent.".to_owned());
    }
    if logged(|kind| matches!(kind, EventKind::HpetPc10)) {
        sentences.push(
            "boot with hpet=force: this HPET stops in deep sleep, and time with it.".to_owned(),
        );
    } else if logged(|kind| matches!(kind, EventKind::HpetDisabled)) {
        sentences.push("boot with hpet=force: the kernel found this HPET unfit.".to_owned());
    }
    if found(&[Label::OverrideRejected]) {
        sentences.push(
            "unbind the present clocksource to force the other: that takes away the good one."
                .to_owned(),
        );
    }
    let is_switched = diagnosis.advice.iter().any(|advice| advice.is(Fix::SwitchToTsc));
    let is_slow = diagnosis.verdict.state == super::State::Slow;
    if is_slow
        && findings.iter().any(|finding| finding.says(Says::TscIsGoneUntilBoot))
        && !is_switched
    {
        sentences.push(
            "count on writing tsc to current_clocksource: the write reports success and \
             changes nothing until the next boot."
                .to_owned(),
        );
    }
    sentences
}

fn forcing(facts: &Facts, findings: &[Finding]) -> Option<String> {
    let found = |label: Label| {
        findings.iter().any(|finding| {
            finding.label == label
                && (finding.severity > Severity::Note || label == Label::TscEarly)
        })
    };
    let is_set = facts.command_line.as_ref().is_some_and(|line| line.value.has("tsc=reliable"));
    let reasons = findings.iter().filter(|finding| found(finding.label));
    let reasons = reasons.filter_map(|finding| Some((finding, finding.label.bearing().never?)));
    if let Some((finding, (_, order))) = reasons.min_by_key(|(_, (place, _))| *place) {
        // Kernels that mark tsc-early ignored it: it was set in vain there.
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
