//! The advised fixes: those that findings suggest, without those that any finding rules out.

use super::super::age::kernel_since;
use super::super::trust::{self, AIMS_AT_TSC, Doubt, uses_tsc};
use crate::rules::{
    Advice, Facts, Finding, Fix, Says, Severity, State, Verdict, advice, is_device,
};
use clockscope_text::names::distinct;

/// Whether any finding rules out that fix.
pub(super) fn is_forbidden(fix: Fix, findings: &[Finding]) -> bool {
    let also = |finding: &Finding| finding.label.bearing().also_forbids.contains(&fix);
    findings.iter().any(|finding| finding.forbids.contains(&fix) || also(finding))
}

/// The suggested fixes, written out; the main cause's best fix first.
pub(super) fn advice(facts: &Facts, verdict: &Verdict, findings: &[Finding]) -> Vec<Advice> {
    let asked = findings
        .iter()
        .flat_map(|finding| finding.fixes.iter().copied().filter(|fix| may_ask(finding, *fix)));
    let mut fixes = distinct(asked.filter(|fix| !is_forbidden(*fix, findings)));
    if findings.iter().any(|finding| finding.says(Says::CpusWereCompared)) {
        fixes.retain(|fix| *fix != Fix::TscNowatchdog);
    }
    first_things_first(&mut fixes);
    if let Some(doubt) = trust::doubt(facts, &verdict.platforms) {
        trusted_only(&doubt, findings, &mut fixes);
    }
    let write = |fix: Fix, like: Fix| {
        let asks = |finding: &&Finding| {
            finding.fixes.contains(&like) || fix == Fix::Measure && uses_tsc(finding)
        };
        let asking: Vec<&Finding> = findings.iter().filter(asks).collect();
        advice::write(fix, facts, verdict, &asking)
    };
    let advised = |fix: Fix| {
        // tsc=reliable replaces it on kernels without tsc=nowatchdog.
        write(fix, fix).or_else(|| {
            let stands_in = fix == Fix::TscNowatchdog
                && kernel_since(facts, (5, 2), Some(8)) == Some(false)
                && !fixes.contains(&Fix::TscReliable)
                && !is_forbidden(Fix::TscReliable, findings);
            if stands_in { write(Fix::TscReliable, fix) } else { None }
        })
    };
    let mut written: Vec<Advice> = fixes.iter().copied().filter_map(advised).collect();
    // Xen's advice for tsc contains tsc=reliable in the same command.
    let replaces = |one: &Advice| one.is(Fix::TscNowatchdog) || one.basis.adds_reliable;
    if written.iter().any(replaces) {
        written.retain(|advice| !advice.is(Fix::TscReliable));
    }
    say_measurement_once(&mut written);
    let last_resort = if asks_for_log(verdict, findings, &written) {
        Some(Fix::ReadLog)
    } else {
        (verdict.state == State::Slow && written.is_empty()).then_some(Fix::Coarse)
    };
    written.extend(last_resort.and_then(|fix| advice::write(fix, facts, verdict, &[])));
    written
}

/// A doubtful TSC is measured before it is used; a TSC that cannot be good is not used.
fn trusted_only(doubt: &Doubt, findings: &[Finding], fixes: &mut Vec<Fix>) {
    let is_asked = |one: &Finding| uses_tsc(one) && one.fixes.iter().any(|fix| fixes.contains(fix));
    let must_measure = doubt.may_measure && findings.iter().any(is_asked);
    let asked = fixes.len();
    fixes.retain(|fix| doubt.may_use || !AIMS_AT_TSC.contains(fix));
    let others = [Fix::SwitchSource, Fix::SwitchToHpet, Fix::SwitchToKvmClock, Fix::Keep];
    if fixes.len() < asked && !fixes.iter().any(|fix| others.contains(fix)) {
        fixes.push(Fix::Keep);
    }
    if must_measure {
        fixes.retain(|fix| *fix != Fix::Measure);
        fixes.insert(0, Fix::Measure);
    }
}

/// Puts a measurement before the fixes that depend on it, and a mere reboot before a parameter.
fn first_things_first(fixes: &mut Vec<Fix>) {
    for first in [Fix::Reboot, Fix::Measure] {
        let at = |wanted: &[Fix]| fixes.iter().position(|fix| wanted.contains(fix));
        let (first_at, parameter) = (at(&[first]), at(&[Fix::TscNowatchdog, Fix::TscReliable]));
        if let (Some(first_at), Some(parameter)) = (first_at, parameter)
            && parameter < first_at
        {
            fixes.remove(first_at);
            fixes.insert(parameter, first);
        }
    }
}

/// If the measurement is a separate advice, the fixes that depend on it only refer to it.
fn say_measurement_once(written: &mut [Advice]) {
    if !written.iter().any(|advice| advice.is(Fix::Measure) && advice.basis.measures) {
        return;
    }
    for advice in written {
        if let Some(at) = advice.basis.measures_first {
            advice.commands[at] =
                "# only once `clockscope wrongness` found no warp, offsets below \
                a read, drift under 100 ppm:"
                    .to_owned();
        }
    }
}

/// A harmless finding suggests no fix; a note suggests no fix that needs a reboot.
fn may_ask(finding: &Finding, fix: Fix) -> bool {
    match finding.severity {
        Severity::Ok => false,
        Severity::Note => fix.page().paragraph("Reboot").is_empty(),
        Severity::Slow | Severity::Wrong => true,
    }
}

/// Whether the clocksource is a slow fallback without a known cause.
fn asks_for_log(verdict: &Verdict, findings: &[Finding], written: &[Advice]) -> bool {
    let is_fallback = |name: &str| is_device(name) && !name.starts_with("arm");
    let has_cause = findings.iter().any(|finding| {
        finding.severity >= Severity::Slow && !finding.says(Says::NoCauseOfSlowness)
    });
    verdict.state == State::Slow
        && verdict.source.as_deref().is_some_and(is_fallback)
        && !has_cause
        && !written.iter().any(|advice| advice.is(Fix::ReadLog))
}
