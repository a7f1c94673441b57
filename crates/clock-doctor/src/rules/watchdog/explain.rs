//! The sentences of a label with this machine's figures.

use super::episode::Episode;
use super::figures::{a_day, count, duration, fine, gigahertz, hertz, share};
use super::interval::Interval;
use super::labels::CHECK_NS;
use super::machine::Machine;
use super::rates::{ACPI_PM_HZ, Origin};
use crate::rules::catalogue::Label;

/// The sentences for `label`; none if its general explanation says it all.
pub(crate) fn sentences(
    label: Label,
    episode: &Episode,
    interval: &Interval,
    machine: &Machine,
) -> Vec<String> {
    match label {
        Label::TscWentBackwards => backwards(interval),
        Label::TscWatchdogGlitch => glitch(interval),
        Label::TscWatchdogShortInterval => short(interval),
        Label::WatchdogCounterWrapped => wrapped(interval, machine),
        Label::VmPaused => paused(interval),
        Label::TscJumped => jumped(interval),
        Label::WatchdogReadsTorn => torn(interval, machine),
        Label::TscWatchdogLongInterval => long(interval),
        Label::WatchdogFalsePositiveLikely => false_positive(interval),
        Label::NeedsRateMeasurement => undecided(interval),
        Label::TscWatchdogReaddelay => delay(episode),
        Label::TscWarpRuntime => cpus_apart(episode),
        _ => Vec::new(),
    }
}

/// What both clocks counted, in one clause: `hpet counted 511.303 ms and the TSC 512.006 ms`.
pub(crate) fn both(interval: &Interval) -> Option<String> {
    let (elapsed, counted) = (interval.elapsed_ns?, interval.counted_ns?);
    let detail = (counted - elapsed).abs() / 100.0;
    let name = name(interval);
    Some(format!("{name} counted {} and the TSC {}", fine(elapsed, detail), fine(counted, detail)))
}

/// The reference in a sentence.
pub(crate) fn name(interval: &Interval) -> &str {
    interval.reference.as_deref().unwrap_or("the reference")
}

/// The sentences for figures that no other label explains.
pub(crate) fn alone(interval: &Interval) -> Vec<String> {
    let mut said = Vec::new();
    match (interval.skew_ns, both(interval)) {
        (Some(skew), Some(both)) => said.push(format!(
            "Between two checks {both}: the TSC was {} {}, {} of the interval. That is a wrong rate, \
             or a stall during the check.",
            duration(skew.abs()),
            if skew < 0.0 { "behind" } else { "ahead" },
            share(interval.ppm().unwrap_or_default())
        )),
        (Some(skew), None) => said.extend(by_delta(skew)),
        (None, _) => {
            if let Some(counted) = interval.counted_ns {
                said.push(format!(
                    "The line with the reference's numbers is missing. By its own count the TSC \
                     advanced by {} since the check before, of {} that are due.",
                    duration(counted),
                    duration(CHECK_NS)
                ));
            }
        }
    }
    said.extend(rate_used(interval));
    if interval.reference_is_inferred {
        said.push(inferred(interval));
    }
    said
}

/// What `delta = N ns` alone says.
fn by_delta(skew: f64) -> Vec<String> {
    let by = duration(skew.abs());
    if skew >= 0.0 {
        return vec![format!("The TSC was {by} ahead of its reference.")];
    }
    let mut said = vec![format!("The TSC was {by} behind its reference.")];
    if skew < -CHECK_NS {
        said.push(
            "That is more than the half second between two checks: the check came late, and the \
             TSC stood still for that long or was set back."
                .to_owned(),
        );
    }
    let wrap = 0x100_0000_u32;
    let wrap_ns = f64::from(wrap) / ACPI_PM_HZ * 1e9;
    if (skew.abs() / wrap_ns - 1.0).abs() < 0.02 {
        said.push(format!(
            "It is about one wrap of the 24-bit ACPI timer ({}), but a wrap during a stall makes the \
             TSC look ahead, not behind.",
            duration(wrap_ns)
        ));
    }
    said
}

/// How the TSC's rate was known, where it was used.
fn rate_used(interval: &Interval) -> Option<String> {
    let rate = interval.tsc.as_ref().filter(|_| interval.cycles.is_some())?;
    let origin = match rate.origin {
        Origin::Registration => "by its registration line",
        Origin::Stated => "as the log states",
        Origin::ModelName => "by the CPU's name, which rounds it",
        Origin::Usual => "as is usual",
    };
    Some(format!("The TSC's rate is {} {origin}.", hertz(rate.hz)))
}

fn backwards(interval: &Interval) -> Vec<String> {
    let Some((now, last)) = interval.readings else { return Vec::new() };
    let rate = interval.tsc.as_ref().map(|rate| rate.hz);
    let seconds = |ticks: u64| match rate {
        Some(hz) => format!(", {} at {}", duration(ticks as f64 / hz * 1e9), hertz(hz)),
        None => String::new(),
    };
    if interval.is_before_zero {
        let missing = now.wrapping_neg();
        return vec![
            format!(
                "The TSC read {now:#x}, which is {} ticks before zero{}.",
                count(missing),
                seconds(missing)
            ),
            "No machine runs long enough to count that far: the counter was set to a time before \
             its start, as a hypervisor does that restores or moves a guest."
                .to_owned(),
        ];
    }
    let back = last.saturating_sub(now);
    let mut said = vec![format!(
        "Between two checks the TSC went back by {} ticks{}: from {last:#x} to {now:#x}.",
        count(back),
        seconds(back)
    )];
    if restarted(now, last) {
        said.push(
            "It began again from near zero, as after a suspend to memory, a reset of the CPU, or \
             the restore of a guest."
                .to_owned(),
        );
    }
    said
}

/// The counter began anew, rather than stepped back a little.
pub(crate) fn restarted(now: u64, last: u64) -> bool {
    now < last / 2
}

fn glitch(interval: &Interval) -> Vec<String> {
    let Some(elapsed) = interval.elapsed_ns else {
        return vec!["The TSC read the same at two checks in a row.".to_owned()];
    };
    vec![
        format!(
            "In {} by {}, the TSC seems not to have moved at all; a counter that stopped for good \
             would have stopped the machine's clock with it.",
            duration(elapsed),
            name(interval)
        ),
        "So this is one bad sample, not a wrong rate.".to_owned(),
    ]
}

fn short(interval: &Interval) -> Vec<String> {
    let Some(elapsed) = interval.elapsed_ns else { return Vec::new() };
    let mut said = vec![format!(
        "The two checks were only {} apart instead of {}.",
        duration(elapsed),
        duration(CHECK_NS)
    )];
    if let Some(skew) = interval.skew_ns {
        said.push(format!(
            "The clocks differ by {}, which is what reading them costs; over so short a time it \
             looks like a rate error of {}.",
            duration(skew.abs()),
            share(interval.ppm().unwrap_or_default())
        ));
    }
    said
}

fn wrapped(interval: &Interval, machine: &Machine) -> Vec<String> {
    let wrap = interval.wrap_ns.unwrap_or_default();
    let bits = interval.reference_bits.unwrap_or(24);
    let counter = match name(interval) {
        "acpi_pm" => format!("{bits}-bit ACPI timer"),
        name => format!("{bits}-bit counter of {name}"),
    };
    let stood =
        if machine.is_virtual { "the guest was not run" } else { "the machine stood still" };
    let mut said = Vec::new();
    match (interval.wraps(), interval.skew_ns) {
        (Some(wraps), Some(skew)) => {
            let begin = match both(interval) {
                Some(both) => format!("Between two checks {both}: the"),
                None => "The".to_owned(),
            };
            let turns = match wraps {
                1 => format!("one wrap of the {counter}"),
                wraps => format!("{wraps} wraps of the {counter}, {} each", duration(wrap)),
            };
            let least = f64::from(wraps) * wrap;
            said.push(format!(
                "{begin} difference, {}, is {turns}, so {stood} for over {}; the TSC was right.",
                fine(skew, skew.abs() / 1e3),
                fine(least, least / 50.0)
            ));
        }
        _ => {
            let (Some(cycles), Some(elapsed)) = (interval.cycles, interval.elapsed_ns) else {
                return said;
            };
            said.push(format!(
                "The TSC counted {} ticks while acpi_pm counted {}: no TSC runs at the {} which \
                 that would make. The {counter} begins anew every {} and must have done so unseen, \
                 so {stood} for longer than that.",
                count(cycles),
                duration(elapsed),
                gigahertz(interval.implied_hz.unwrap_or_default()),
                duration(wrap)
            ));
        }
    }
    if interval.reference_is_inferred {
        said.push(inferred(interval));
    }
    said
}

/// Where the reference's name comes from, if no line of the decision names it.
pub(crate) fn inferred(interval: &Interval) -> String {
    format!(
        "No line names the reference; the kernel fell back to {}, and the watchdog's reference is \
         what it falls back to.",
        name(interval)
    )
}

fn paused(interval: &Interval) -> Vec<String> {
    let Some(skew) = interval.skew_ns.filter(|skew| *skew > 0.0) else {
        return vec![
            "kvm-clock was set back between two checks: the guest was stopped and went on."
                .to_owned(),
        ];
    };
    let begin = both(interval).map_or(String::new(), |both| format!("Between two checks {both}. "));
    vec![format!(
        "{begin}kvm-clock leaves out the time during which a guest is stopped and the TSC does not: \
         the guest was stopped for {}.",
        duration(skew)
    )]
}

fn jumped(interval: &Interval) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(both) = both(interval) {
        said.push(format!("Between two checks {both}."));
    }
    if let Some(hz) = interval.implied_hz {
        said.push(format!(
            "If {} was right, the TSC ran at {}, which no CPU does.",
            name(interval),
            gigahertz(hz)
        ));
    }
    said.push(match name(interval) {
        "hpet" => "Either something wrote the TSC, or the HPET stood still, as it does in deep \
                   sleep (PC10) on some Intel machines of 2017 to 2019."
            .to_owned(),
        "acpi_pm" => "The difference is no multiple of the ACPI timer's wrap, so that is not it: \
                      something wrote the TSC, or the timer was read wrongly."
            .to_owned(),
        name => format!("Either something wrote the TSC, or {name} stood still."),
    });
    said
}

fn torn(interval: &Interval, machine: &Machine) -> Vec<String> {
    let (Some(elapsed), Some(hz)) = (interval.elapsed_ns, interval.implied_hz) else {
        return Vec::new();
    };
    let mut said = vec![format!(
        "By {} the checks were {} apart, and the TSC would have run at only {}; by its own count \
         the TSC advanced by the {} that it should.",
        name(interval),
        duration(elapsed),
        gigahertz(hz),
        duration(CHECK_NS)
    )];
    said.push(match machine.since(5, 13) {
        Some(true) => {
            "Kernels from 5.13 on read the reference twice to notice a stall between the \
                       two reads, so it was not an ordinary one."
                .to_owned()
        }
        _ => {
            "Kernels up to 5.12 read the TSC and then the reference, and take a stall between the \
              two for skew: an SMI, or a virtual CPU that was not run."
                .to_owned()
        }
    });
    said
}

fn long(interval: &Interval) -> Vec<String> {
    let Some(elapsed) = interval.elapsed_ns else { return Vec::new() };
    let mut said = vec![format!(
        "The check came after {} by {} instead of {}: the CPU that checks was kept from it.",
        duration(elapsed),
        name(interval),
        duration(CHECK_NS)
    )];
    if let (Some(cycles), Some(hz), None) =
        (interval.cycles, interval.implied_hz, interval.tsc.as_ref())
    {
        said.push(format!(
            "The TSC counted {} ticks meanwhile, which makes {}: if that is the CPU's nominal rate, \
             the TSC was right.",
            count(cycles),
            gigahertz(hz)
        ));
    }
    said
}

fn false_positive(interval: &Interval) -> Vec<String> {
    let (Some(both), Some(ppm), Some(skew)) = (both(interval), interval.ppm(), interval.skew_ns)
    else {
        return Vec::new();
    };
    vec![format!(
        "Between two checks {both}: they differ by {}, which is {} and no more than two crystals \
         differ by.",
        duration(skew.abs()),
        share(ppm)
    )]
}

fn undecided(interval: &Interval) -> Vec<String> {
    let (Some(both), Some(ppm), Some(skew)) = (both(interval), interval.ppm(), interval.skew_ns)
    else {
        return vec![
            "The log lacks the figures by which a stall could be told from a wrong rate."
                .to_owned(),
        ];
    };
    let mut said = vec![format!(
        "Between two checks {both}: the TSC was {} {}.",
        duration(skew.abs()),
        if skew < 0.0 { "behind" } else { "ahead" }
    )];
    if let (Some(true), Some((second, _))) = (interval.second_agrees(), &interval.second) {
        said.push(format!(
            "{second} agrees with the TSC, so it is {} that was off; a measurement makes sure.",
            name(interval)
        ));
        return said;
    }
    said.push(if interval.doubt_ns > skew.abs() {
        format!(
            "The TSC's rate is known from the CPU's name only, to {}: the difference may be none.",
            duration(interval.doubt_ns)
        )
    } else {
        format!(
            "That is a stall of {} once, or a rate that is wrong by {} always, {}; one sample does \
             not tell which.",
            duration(skew.abs()),
            share(ppm),
            a_day(ppm)
        )
    });
    said
}

fn delay(episode: &Episode) -> Vec<String> {
    let Some((ns, _)) = episode.delay else { return Vec::new() };
    vec![format!(
        "The reference took {} to read, so the kernel could not compare and gave the TSC up: the \
         TSC itself was found to have no fault.",
        duration(ns as f64)
    )]
}

fn cpus_apart(episode: &Episode) -> Vec<String> {
    let Some((first, second)) = episode.cycles else { return Vec::new() };
    let apart = first.abs_diff(second);
    vec![format!(
        "One CPU read {} and another, later, {}: {} ticks less.",
        count(first.max(second)),
        count(first.min(second)),
        count(apart)
    )]
}
