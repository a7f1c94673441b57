//! Whether the watchdog's reference was wrong instead of the TSC.

use super::explain::{self, Values};
use super::figures::{duration, fine, share};
use super::interval::Interval;
use super::labels::{CRYSTAL_PPM, reference_jumped};
use crate::rules::{EventKind, Evidence, Facts, Finding, Fix, Label, counts_ticks};

use super::{Decision, remedies};

/// The finding `watchdog-bad-reference`, if the reference is unfit as a judge, or if a second one agrees with the TSC.
pub(crate) fn find(decision: &Decision, facts: &Facts) -> Option<Finding> {
    let Decision { episode, interval, machine, rate_is_unchecked } = decision;
    let name = interval.reference.as_deref().unwrap_or_default();
    let mut values = explain::values(interval);
    let mut keys = Vec::new();
    let mut lines: Vec<&Evidence> = episode.numbers.iter().collect();
    let mut fixes = Vec::new();
    let is_doubtful = *rate_is_unchecked && counts_ticks(name);
    if interval.second_agrees() == Some(true) {
        keys.extend(second(interval, &mut values));
    }
    if counts_ticks(name) {
        keys.extend(ticks(interval, is_doubtful, &mut values));
        if machine.is_virtual {
            fixes.push(Fix::KvmClock);
        } else if !is_doubtful {
            fixes.push(Fix::EnableHpet);
        }
    } else if reference_jumped(interval) {
        keys.push("jumped");
    } else if name == "xen" {
        keys.push("xen");
    }
    // An HPET that stops, if it may have been the reference.
    let stops = facts.logged(|kind| *kind == EventKind::HpetPc10);
    if let Some(event) = stops.filter(|_| matches!(name, "hpet" | "")) {
        lines.push(&event.evidence);
        keys.push("pc10");
        if machine.since(5, 16) != Some(true) {
            fixes.push(Fix::HpetDisable);
        }
    }
    if interval.reference_is_backwards && name != "kvm-clock" {
        keys.push("set-back");
    }
    if keys.is_empty() {
        return None;
    }
    if interval.reference_is_inferred {
        keys.push("inferred");
        lines.extend(episode.fallback.iter().map(|(_, line)| line));
    }
    let label = Label::WatchdogBadReference;
    let mut finding = remedies::add(Finding::new(label).fix(&fixes), machine, is_doubtful);
    finding.detail = keys.iter().map(|key| label.sentence(key, &values)).collect();
    Some(finding.seen_all(lines.into_iter().chain(episode.lines.first())))
}

fn second(interval: &Interval, values: &mut Values) -> Option<&'static str> {
    let second_ns = interval.second.as_ref()?.1;
    let (elapsed, counted) = (interval.elapsed_ns?, interval.counted_ns?);
    values.push(("elapsed-us", fine(elapsed, 1e3)));
    values.push(("second-us", fine(second_ns, 1e3)));
    values.push(("counted-us", fine(counted, 1e3)));
    values.push(("agree", duration((counted - second_ns).abs())));
    values.push(("second-off", duration((second_ns - elapsed).abs())));
    Some("second")
}

fn ticks(interval: &Interval, is_doubtful: bool, values: &mut Values) -> Vec<&'static str> {
    let mut keys = vec!["ticks"];
    if let (Some(_), Some(skew)) = (explain::both(interval), interval.skew_ns) {
        let of = interval.ppm().map(|ppm| format!("({} of the interval)", share(ppm)));
        values.push(("more-or-less", if skew > 0.0 { "more" } else { "less" }.to_owned()));
        values.push(("of-interval", of.unwrap_or_default()));
        keys.push("both");
    }
    if is_doubtful && interval.ppm().is_none_or(|ppm| ppm > CRYSTAL_PPM) {
        keys.push("unchecked");
    }
    keys
}
