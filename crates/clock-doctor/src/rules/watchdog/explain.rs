//! The sentences of a label with this machine's figures.

use super::Decision;
use super::figures::{a_day, count, duration, fine, gigahertz, hertz, share};
use super::interval::{FASTEST_HZ, Interval, SLOWEST_HZ};
use super::labels::CHECK_NS;
use super::machine::Machine;
use super::rates::{ACPI_PM_HZ, Origin};
use crate::rules::Label;

/// Texts for the `{NAME}`s of a sentence.
pub(crate) type Values = Vec<(&'static str, String)>;

/// The sentences for `label`; none if its general explanation suffices.
pub(crate) fn sentences(label: Label, decision: &Decision) -> Vec<String> {
    let Decision { episode, interval, machine, .. } = decision;
    let mut values = values(interval);
    let of = |ns: Option<u64>| duration(ns.unwrap_or_default() as f64);
    values.push(("delay", of(episode.delay.and_then(|(ns, _)| ns))));
    values.push(("alone", of(episode.delay_alone)));
    if let Some((one, other)) = episode.cycles {
        let figures = [
            ("more", one.max(other)),
            ("less", one.min(other)),
            ("difference", one.abs_diff(other)),
        ];
        values.extend(figures.map(|(name, ticks)| (name, count(ticks))));
    }
    let keys = match label {
        Label::WatchdogCounterWrapped => wrapped(interval, machine, &mut values),
        _ => keys(label, decision),
    };
    let mut said: Vec<String> = keys.iter().map(|key| label.sentence(key, &values)).collect();
    if label == Label::WatchdogCounterWrapped && !said.is_empty() && interval.reference_is_inferred
    {
        said.push(inferred(interval));
    }
    said
}

/// The keys of the label's sentences that apply.
fn keys(label: Label, decision: &Decision) -> Vec<&'static str> {
    let Decision { episode, interval, machine, .. } = decision;
    let has_elapsed = interval.elapsed_ns.is_some();
    let both = both(interval).and_then(|_| interval.ppm()).and(interval.skew_ns);
    match label {
        Label::TscWentBackwards => match interval.readings {
            None => Vec::new(),
            Some(_) if interval.is_before_zero => vec!["before-zero", "restored"],
            Some((now, last)) if restarted(now, last) => vec!["back", "restarted"],
            Some(_) => vec!["back"],
        },
        Label::TscWatchdogGlitch if has_elapsed => vec!["still", "sample"],
        Label::TscWatchdogGlitch => vec!["same"],
        Label::TscWatchdogShortInterval if !has_elapsed => Vec::new(),
        Label::TscWatchdogShortInterval if interval.skew_ns.is_none() => vec!["apart"],
        Label::TscWatchdogShortInterval => vec!["apart", "noise"],
        Label::VmPaused if interval.skew_ns.is_some_and(|skew| skew > 0.0) => vec!["stopped"],
        Label::VmPaused if interval.elapsed_ns.is_some_and(|ns| ns > 0.0) => vec!["went-on"],
        Label::VmPaused => vec!["set-back"],
        Label::TscJumped => {
            let mut keys: Vec<&str> = self::both(interval).map(|_| "both").into_iter().collect();
            keys.extend(interval.implied_hz.map(|_| "rate"));
            keys.push(match name(interval) {
                "hpet" => "hpet",
                "acpi_pm" => "acpi_pm",
                _ => "other",
            });
            keys
        }
        Label::WatchdogReadsTorn if has_elapsed && interval.implied_hz.is_some() => {
            let is_new = machine.since(5, 14) == Some(true);
            vec!["torn", if is_new { "since-5.14" } else { "before-5.14" }]
        }
        Label::TscWatchdogLongInterval if has_elapsed => {
            let implied = interval.cycles.and(interval.implied_hz);
            let is_rate = implied.is_some_and(|hz| (SLOWEST_HZ..=FASTEST_HZ).contains(&hz));
            if is_rate && interval.tsc.is_none() { vec!["late", "nominal"] } else { vec!["late"] }
        }
        Label::WatchdogFalsePositiveLikely if both.is_some() => vec!["crystals"],
        Label::NeedsRateMeasurement => match both {
            None if has_elapsed && interval.implied_hz.is_some() => vec!["implied"],
            None => vec!["no-figures"],
            Some(_) if interval.second_agrees() == Some(true) => vec!["both", "second"],
            Some(skew) if interval.doubt_ns > skew.abs() => vec!["both", "rounded"],
            Some(_) => vec!["both", "either"],
        },
        Label::TscWatchdogReaddelay => match (episode.delay, episode.delay_alone) {
            (Some((Some(_), _)), Some(_)) => vec!["delay-between"],
            (Some((Some(_), _)), None) => vec!["delay"],
            _ => Vec::new(),
        },
        Label::TscWarpRuntime if episode.cycles.is_some() => vec!["apart"],
        _ => Vec::new(),
    }
}

/// The interval's figures by name; 0 for unknown ones.
pub(crate) fn values(interval: &Interval) -> Values {
    let skew = interval.skew_ns.unwrap_or_default();
    let ppm = interval.ppm().unwrap_or_default();
    let (now, last) = interval.readings.unwrap_or_default();
    let hz = interval.tsc.as_ref().map(|rate| rate.hz);
    let at_rate = |ticks: u64| match hz {
        Some(hz) => format!(", {} at {}", duration(ticks as f64 / hz * 1e9), hertz(hz)),
        None => String::new(),
    };
    let (missing, back) = (now.wrapping_neg(), last.saturating_sub(now));
    let both = both(interval);
    let between = |both: &String| format!("Between two checks {both}. ");
    let of_ns = |ns: Option<f64>| duration(ns.unwrap_or_default());
    vec![
        ("between", both.as_ref().map(between).unwrap_or_default()),
        ("both", both.unwrap_or_default()),
        ("reference", name(interval).to_owned()),
        ("second", interval.second.as_ref().map_or(String::new(), |(name, _)| name.clone())),
        ("elapsed", of_ns(interval.elapsed_ns)),
        ("counted", of_ns(interval.counted_ns)),
        ("check", duration(CHECK_NS)),
        ("skew", duration(skew.abs())),
        ("fine-skew", fine(skew, skew.abs() / 1e3)),
        ("way", if skew < 0.0 { "behind" } else { "ahead" }.to_owned()),
        ("way-of", if skew < 0.0 { "behind" } else { "ahead of" }.to_owned()),
        ("share", share(ppm)),
        ("a-day", a_day(ppm)),
        ("doubt", duration(interval.doubt_ns)),
        ("cycles", count(interval.cycles.unwrap_or_default())),
        ("implied", gigahertz(interval.implied_hz.unwrap_or_default())),
        ("wrap", of_ns(interval.wrap_ns)),
        ("now", format!("{now:#x}")),
        ("last", format!("{last:#x}")),
        ("missing", count(missing)),
        ("missing-time", at_rate(missing)),
        ("back", count(back)),
        ("back-time", at_rate(back)),
        ("rate", hertz(hz.unwrap_or_default())),
    ]
}

/// The counts of both clocks, in one clause: `hpet counted 511.303 ms and the TSC 512.006 ms`.
pub(crate) fn both(interval: &Interval) -> Option<String> {
    let (elapsed, counted) = (interval.elapsed_ns?, interval.counted_ns?);
    let detail = (counted - elapsed).abs() / 100.0;
    let name = name(interval);
    Some(format!("{name} counted {} and the TSC {}", fine(elapsed, detail), fine(counted, detail)))
}

/// The name of the reference for a sentence.
pub(crate) fn name(interval: &Interval) -> &str {
    interval.reference.as_deref().unwrap_or("the reference")
}

/// The sentences for figures that no other label explains.
pub(crate) fn alone(interval: &Interval) -> Vec<String> {
    let mut values = values(interval);
    let wrap_ns = f64::from(0x100_0000_u32) / ACPI_PM_HZ * 1e9;
    values.push(("acpi-wrap", duration(wrap_ns)));
    let rate = interval.tsc.as_ref().filter(|_| interval.cycles.is_some());
    let mut keys = Vec::new();
    match (interval.skew_ns, both(interval)) {
        (Some(_), Some(_)) => keys.push("both"),
        (Some(skew), None) => {
            keys.push("delta");
            keys.extend((skew < -CHECK_NS).then_some("late"));
            let is_wrap = skew < 0.0 && (skew.abs() / wrap_ns - 1.0).abs() < 0.02;
            keys.extend(is_wrap.then_some("one-wrap"));
        }
        (None, _) => keys.extend(interval.counted_ns.map(|_| "no-reference")),
    }
    if let Some(rate) = rate {
        let origin = match rate.origin {
            Origin::Registration => "by its registration line",
            Origin::Stated => "as the log states",
            Origin::ModelName => "by the CPU's name, which rounds it",
            Origin::Usual => "as is usual",
        };
        values.push(("origin", origin.to_owned()));
        keys.push("rate");
    }
    let mut said: Vec<String> =
        keys.iter().map(|key| Label::TscWatchdogSkew.sentence(key, &values)).collect();
    said.extend(interval.reference_is_inferred.then(|| inferred(interval)));
    said
}

/// Whether the counter restarted, instead of stepping back a little.
pub(crate) fn restarted(now: u64, last: u64) -> bool {
    now < last / 2
}

fn wrapped(interval: &Interval, machine: &Machine, values: &mut Values) -> Vec<&'static str> {
    let wrap = interval.wrap_ns.unwrap_or_default();
    let bits = interval.reference_bits.unwrap_or(24);
    let counter = match name(interval) {
        "acpi_pm" => format!("{bits}-bit ACPI timer"),
        name => format!("{bits}-bit counter of {name}"),
    };
    let stood =
        if machine.is_virtual { "the guest was not run" } else { "the machine stood still" };
    values.push(("stood", stood.to_owned()));
    let key = if let (Some(wraps), Some(_)) = (interval.wraps(), interval.skew_ns) {
        let turns = match wraps {
            1 => format!("one wrap of the {counter}"),
            wraps => format!("{wraps} wraps of the {counter}, {} each", duration(wrap)),
        };
        let least = f64::from(wraps) * wrap;
        let begin = both(interval).map(|both| format!("Between two checks {both}: the"));
        values.push(("begin", begin.unwrap_or("The".to_owned())));
        values.push(("turns", turns));
        values.push(("least", fine(least, least / 50.0)));
        Some("turns")
    } else {
        interval.cycles.and(interval.elapsed_ns).map(|_| "too-fast")
    };
    values.push(("counter", counter));
    key.into_iter().collect()
}

/// The explanation for the reference's name, if no line of the decision names it.
pub(crate) fn inferred(interval: &Interval) -> String {
    Label::WatchdogBadReference.sentence("inferred", &values(interval))
}
