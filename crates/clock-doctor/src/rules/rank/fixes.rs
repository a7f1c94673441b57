//! Which fixes are advised: what findings ask for, less what any of them forbids.

use super::super::catalogue::{Label, Says};
use super::super::finding::{Advice, Finding, Severity, State, Verdict};
use super::super::{advice, catalogue};
use crate::facts::Facts;

/// What must not be advised after a finding, whether its rule says so or not. The reasons stand in
/// the catalogue.
const FORBIDDEN: [(Label, &[&str]); 15] = [
    (
        Label::TscWarpFirmware,
        &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc", "switch-to-tsc"],
    ),
    (
        Label::TscWarpRuntime,
        &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc", "switch-to-tsc"],
    ),
    (
        Label::TscOffsetMeasured,
        &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc", "switch-to-tsc"],
    ),
    (Label::PerCpuSyncSuspicious, &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc"]),
    (Label::TscRateWrong, &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc", "switch-to-tsc"]),
    (Label::TscHaltsInIdle, &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc"]),
    (Label::TscUnsynchronized, &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc"]),
    (Label::TscWentBackwards, &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc"]),
    (Label::TscJumped, &["tsc=reliable"]),
    (Label::AfterResume, &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc"]),
    (Label::MigrationRisk, &["tsc=reliable", "clocksource=tsc"]),
    (Label::KvmHostTscBackwards, &["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc"]),
    // An early rate that is wrong looks just like this: only a measurement can tell.
    (Label::TscEarly, &["tsc=reliable"]),
    (Label::HpetPc10Benign, &["enable-hpet"]),
    (Label::HpetUnreliable, &["enable-hpet", "switch-to-hpet"]),
];
/// Clocksources that an x86 kernel takes when it does not take the TSC.
const FALLBACKS: [&str; 7] =
    ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "sgi_rtc", "hyperv_clocksource_msr"];

/// Whether any finding forbids that fix.
pub(super) fn is_forbidden(name: &str, findings: &[Finding]) -> bool {
    findings.iter().any(|finding| {
        let by_label = FORBIDDEN.iter().find(|(label, _)| *label == finding.label);
        finding.forbids.contains(&name) || by_label.is_some_and(|(_, names)| names.contains(&name))
    })
}

/// What an order of findings asks for, written out; the main cause's best fix first.
pub(super) fn advice(facts: &Facts, verdict: &Verdict, findings: &[Finding]) -> Vec<Advice> {
    let mut names: Vec<&'static str> = Vec::new();
    let asked = findings
        .iter()
        .flat_map(|finding| finding.fixes.iter().filter(|name| may_ask(finding, name)).copied());
    for name in asked {
        if !names.contains(&name) && !is_forbidden(name, findings) {
            names.push(name);
        }
    }
    if findings.iter().any(|finding| finding.says(Says::CpusWereCompared)) {
        names.retain(|name| *name != "tsc=nowatchdog");
    }
    first_things_first(&mut names);
    let write = |name: &str, like: &str| {
        let asking: Vec<&Finding> =
            findings.iter().filter(|finding| finding.fixes.contains(&like)).collect();
        advice::write(name, facts, verdict, &asking)
    };
    let mut written = Vec::new();
    for name in &names {
        let advice = write(name, name);
        // What stands in for it on kernels that do not have it.
        let advice = advice.or_else(|| {
            let stands_in = *name == "tsc=nowatchdog"
                && lacks_nowatchdog(facts)
                && !names.contains(&"tsc=reliable")
                && !is_forbidden("tsc=reliable", findings);
            if stands_in { write("tsc=reliable", name) } else { None }
        });
        written.extend(advice);
    }
    if written.iter().any(|advice: &Advice| advice.name == "tsc=nowatchdog") {
        written.retain(|advice| advice.name != "tsc=reliable");
    }
    // Xen's advice for tsc has it in the same command.
    let is_said =
        |advice: &Advice| advice.name == "clocksource=tsc" && advice.title.contains("tsc=reliable");
    if written.iter().any(is_said) {
        written.retain(|advice| advice.name != "tsc=reliable");
    }
    say_measurement_once(&mut written);
    let last_resort = if asks_for_log(verdict, findings, &written) {
        Some("read-log")
    } else {
        (verdict.state == State::Slow && written.is_empty()).then_some("coarse")
    };
    written.extend(last_resort.and_then(|name| advice::write(name, facts, verdict, &[])));
    written
}

/// A measurement before what rests on it, a mere reboot before a parameter.
fn first_things_first(names: &mut Vec<&'static str>) {
    for first in ["reboot", "measure"] {
        let at = |wanted: &[&str]| names.iter().position(|name| wanted.contains(name));
        let (first_at, parameter) = (at(&[first]), at(&["tsc=nowatchdog", "tsc=reliable"]));
        if let (Some(first_at), Some(parameter)) = (first_at, parameter)
            && parameter < first_at
        {
            names.remove(first_at);
            names.insert(parameter, first);
        }
    }
}

/// Where the measurement is advised by itself, the fixes that rest on it only refer to it.
fn say_measurement_once(written: &mut [Advice]) {
    let is_measurement = |advice: &Advice| {
        advice.name == "measure" && advice.commands.iter().any(|line| line.contains("wrongness"))
    };
    if !written.iter().any(is_measurement) {
        return;
    }
    let lines = written.iter_mut().flat_map(|advice| &mut advice.commands);
    for line in lines.filter(|line| *line == advice::MEASURE) {
        "# only once `clockscope wrongness` found no warp, offsets below a read, drift under 100 ppm:"
            .clone_into(line);
    }
}

/// What is harmless asks for nothing; a note asks for nothing that costs a reboot.
fn may_ask(finding: &Finding, name: &str) -> bool {
    match finding.severity {
        Severity::Ok => false,
        Severity::Note => catalogue::fix(name).is_some_and(|fix| !fix.reboots),
        Severity::Slow | Severity::Wrong => true,
    }
}

fn lacks_nowatchdog(facts: &Facts) -> bool {
    let kernel = facts.kernel();
    kernel.is_some_and(|kernel| !kernel.at_least(5, 2) && kernel.el().is_none_or(|el| el < 8))
}

/// A slow fallback whose cause no finding names.
fn asks_for_log(verdict: &Verdict, findings: &[Finding], written: &[Advice]) -> bool {
    let is_fallback = verdict.source.as_deref().is_some_and(|name| FALLBACKS.contains(&name));
    let has_cause = findings.iter().any(|finding| {
        finding.severity >= Severity::Slow && !finding.says(Says::NoCauseOfSlowness)
    });
    verdict.state == State::Slow
        && is_fallback
        && !has_cause
        && !written.iter().any(|advice| advice.name == "read-log")
}
