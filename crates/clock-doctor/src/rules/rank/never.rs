//! What must not be done on this machine, as far as somebody might: an order to go after `Never:`,
//! with the reason.

use super::super::catalogue::{Fix, Label, Says};
use super::super::finding::{Diagnosis, Finding, Severity};
use super::fixes::is_forbidden;
use crate::facts::Facts;
use crate::log::event::Kind;

/// Why the TSC must not be forced, by the finding that forbids it; the first that was found counts.
const FORCED: [(Label, &str); 13] = [
    (
        Label::TscWarpFirmware,
        "force the TSC (tsc=reliable, tsc=nowatchdog, clocksource=tsc): the cores' counters \
         are far apart, and time would jump whenever a program moves.",
    ),
    (
        Label::TscRateWrong,
        "add tsc=reliable or tsc=nowatchdog: the TSC's rate is taken wrongly, and they would \
         keep whatever could notice from noticing.",
    ),
    (
        Label::TscOffsetMeasured,
        "force the TSC (tsc=reliable, tsc=nowatchdog, clocksource=tsc): the CPUs' counters \
         are apart now.",
    ),
    (
        Label::TscWarpRuntime,
        "add tsc=reliable or tsc=nowatchdog: they turn off the very check that found the \
         CPUs' counters apart.",
    ),
    (
        Label::PerCpuSyncSuspicious,
        "add tsc=reliable or tsc=nowatchdog before all CPUs have been measured: the kernel \
         saw some of them apart.",
    ),
    (Label::TscHaltsInIdle, "add tsc=reliable: the clock would lose the time that the CPUs sleep."),
    (
        Label::AfterResume,
        "boot with clocksource=tsc or tsc=reliable: the next suspend would change the \
         counters again, with nothing left to notice.",
    ),
    (
        Label::TscWentBackwards,
        "boot with clocksource=tsc or tsc=reliable: the counter was set back once, and time \
         would go back with it.",
    ),
    (
        Label::MigrationRisk,
        "keep tsc=reliable on a guest that migrates live: on a host with another TSC rate \
         its clock runs wrong, and nothing notices.",
    ),
    (Label::KvmHostTscBackwards, "force the TSC on this host: it was seen to go back."),
    (
        Label::TscUnsynchronized,
        "add tsc=reliable: the CPU promises neither a constant rate nor synchronised \
         counters.",
    ),
    (
        Label::TscJumped,
        "add tsc=reliable before it is clear whether the counter jumped or its reference \
         stood still.",
    ),
    (
        Label::TscEarly,
        "add tsc=reliable before the TSC's rate has been measured: a wrong early rate looks \
         just like this, and would make the time wrong.",
    ),
];

/// The forbidden advice that fits this machine.
pub(super) fn sentences(facts: &Facts, diagnosis: &Diagnosis) -> Vec<String> {
    let findings = &diagnosis.findings;
    let found = |labels: &[Label]| findings.iter().any(|finding| labels.contains(&finding.label));
    let logged = |wanted: fn(&Kind) -> bool| facts.events().any(|event| wanted(&event.kind));
    let mut sentences = Vec::new();
    sentences.extend(forcing(facts, findings));
    if logged(|kind| matches!(kind, Kind::BrokenBiosAdvice)) {
        sentences.push(
            "boot with tsc=unstable, though the kernel's own message says so: it silences \
             the message and makes the slow clock permanent."
                .to_owned(),
        );
    } else if found(&[Label::TscWatchdogSkew, Label::TscWatchdogReaddelay]) {
        sentences
            .push("boot with tsc=unstable: it only makes the slow clock permanent.".to_owned());
    }
    if logged(|kind| matches!(kind, Kind::HpetPc10)) {
        sentences.push(
            "boot with hpet=force: this HPET stops in deep sleep, and time with it.".to_owned(),
        );
    } else if logged(|kind| matches!(kind, Kind::HpetDisabled)) {
        sentences.push("boot with hpet=force: the kernel found this HPET unfit.".to_owned());
    }
    if found(&[Label::OverrideRejected]) {
        sentences.push(
            "unbind the present clocksource to force the other: that takes away the good one."
                .to_owned(),
        );
    }
    let is_switched = diagnosis.advice.iter().any(|advice| advice.name == Fix::SwitchToTsc);
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
    if let Some((label, sentence)) = FORCED.iter().find(|(label, _)| found(*label)) {
        return match is_set {
            false => Some((*sentence).to_owned()),
            // It was set in vain there.
            true if *label == Label::TscEarly => None,
            true => Some(sentence.replacen("add ", "keep ", 1)),
        };
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
