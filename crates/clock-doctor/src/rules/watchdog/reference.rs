//! Whether it was the watchdog's reference that was wrong.

use super::episode::Episode;
use super::explain;
use super::figures::{duration, fine, share};
use super::interval::Interval;
use super::labels::CRYSTAL_PPM;
use super::machine::Machine;
use super::remedies;
use crate::facts::{Evidence, Facts};
use crate::log::event::EventKind;
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::Finding;
use crate::rules::state::source::counts_ticks;

/// The finding `watchdog-bad-reference`, if the reference is one that cannot judge, or a second one
/// agrees with the TSC.
pub(crate) fn find(
    episode: &Episode,
    interval: &Interval,
    facts: &Facts,
    machine: &Machine,
    rate_is_unchecked: bool,
) -> Option<Finding> {
    let name = interval.reference.as_deref().unwrap_or_default();
    let mut detail = Vec::new();
    let mut lines: Vec<&Evidence> = episode.numbers.iter().collect();
    let mut fixes = Vec::new();
    let is_doubtful = rate_is_unchecked && counts_ticks(name);
    if interval.second_agrees() == Some(true) {
        detail.extend(second_in_words(interval));
    }
    if counts_ticks(name) {
        detail.extend(ticks_in_words(interval, is_doubtful));
        if machine.is_virtual {
            fixes.push(Fix::KvmClock);
        } else if !is_doubtful {
            fixes.push(Fix::EnableHpet);
        }
    } else if name == "xen" {
        detail.push(
            "The reference was xen, which the hypervisor computes from the TSC itself and corrects \
             as it likes: it is no independent judge, least of all nested."
                .to_owned(),
        );
    }
    if let Some(line) = stopped_hpet(name, facts) {
        lines.push(line);
        detail.push(
            "The HPET of this machine stands still in deep sleep (PC10), as the kernel notes: it \
             cannot judge the TSC."
                .to_owned(),
        );
        if machine.since(5, 4) != Some(true) {
            fixes.push(Fix::HpetDisable);
        }
    }
    if interval.reference_is_backwards && name != "kvm-clock" {
        detail.push(format!("{name} was lower than at the check before: it was set back."));
    }
    if detail.is_empty() {
        return None;
    }
    if interval.reference_is_inferred {
        detail.push(explain::inferred(interval));
        lines.extend(episode.fallback.iter().map(|(_, line)| line));
    }
    let remedy = remedies::of(Label::WatchdogBadReference, machine, is_doubtful);
    let mut finding = Finding::new(Label::WatchdogBadReference).fix(&fixes).fix(&remedy.fixes);
    finding = finding.forbid(&remedy.forbids);
    finding.detail = detail;
    Some(
        lines
            .iter()
            .chain(&episode.lines.iter().take(1).collect::<Vec<_>>())
            .fold(finding, |finding, line| finding.seen(line)),
    )
}

/// The line that says that the HPET stops, if it can have been the reference.
fn stopped_hpet<'a>(reference: &str, facts: &'a Facts) -> Option<&'a Evidence> {
    let line = facts.events().find(|event| event.kind == EventKind::HpetPc10)?;
    matches!(reference, "hpet" | "").then_some(&line.evidence)
}

fn second_in_words(interval: &Interval) -> Option<String> {
    let (second, second_ns) = interval.second.as_ref()?;
    let (elapsed, counted) = (interval.elapsed_ns?, interval.counted_ns?);
    let reference = explain::name(interval);
    let apart = (counted - second_ns).abs();
    Some(format!(
        "Between two checks {reference} counted {}, {second} {} and the TSC {}: {second} and the \
         TSC agree within {}, so it is {reference} that was off, by {}.",
        fine(elapsed, 1e3),
        fine(*second_ns, 1e3),
        fine(counted, 1e3),
        duration(apart),
        duration((second_ns - elapsed).abs())
    ))
}

fn ticks_in_words(interval: &Interval, is_doubtful: bool) -> Vec<String> {
    let name = explain::name(interval);
    let mut said = vec![format!(
        "The reference was {name}, which counts timer interrupts: it steps by 1 to 10 ms and loses \
         time when interrupts are lost."
    )];
    if let (Some(both), Some(skew)) = (explain::both(interval), interval.skew_ns) {
        let of = interval.ppm().map(|ppm| format!(" ({} of the interval)", share(ppm)));
        said.push(format!(
            "Between two checks {both}: {}{} {}.",
            duration(skew.abs()),
            if skew > 0.0 { " more" } else { " less" },
            of.unwrap_or_default().trim_start()
        ));
    }
    if is_doubtful && interval.ppm().is_none_or(|ppm| ppm > CRYSTAL_PPM) {
        said.push(
            "But the TSC's own rate was never held against a timer here (the log has no `Refined \
             TSC clocksource calibration`), so it can be wrong all the same: measure it, or look \
             at the drift that the time daemon records while tsc is current."
                .to_owned(),
        );
    }
    said
}
