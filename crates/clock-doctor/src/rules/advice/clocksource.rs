//! Fixes that choose among the clocksources that the kernel has.

use super::parameter::MEASURE;
use super::wording::capitalised;
use super::{CURRENT, Case, Draft, bootloader};
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::{Basis, State};
use crate::rules::state::source::is_tsc;
use crate::rules::watchdog::labels::counts_ticks;

/// Clocksources from cheap to dear, for a machine that has several.
const CHEAPEST_FIRST: [&str; 9] = [
    "tsc",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "kvm-clock",
    "xen",
    "tsc-early",
    "hpet",
    "hyperv_clocksource_msr",
    "acpi_pm",
];

fn rank(name: &str) -> usize {
    CHEAPEST_FIRST.iter().position(|one| *one == name).unwrap_or(CHEAPEST_FIRST.len())
}

/// `None` if that source is current, or known not to be available.
pub(super) fn switch(case: &Case, name: &str) -> Option<Draft> {
    let is_current = case.verdict.source.as_deref() == Some(name);
    if is_current || case.is_available(name) == Some(false) {
        return None;
    }
    let now = case.verdict.source.as_deref().unwrap_or("the present clocksource");
    let listed = case.is_available(name) == Some(true);
    let is_open = name == "tsc" && case.doubt().is_some();
    let gain = match (name, now) {
        ("tsc", _) if is_open => {
            format!("If the measurement finds nothing against the TSC: {now} is dearer to read.")
        }
        ("tsc", _) if listed => {
            format!("Nothing speaks against the TSC here; {now} is dearer to read.")
        }
        ("tsc", _) => format!("tsc is read in user space; {now} is not, or not for certain."),
        ("hpet", "acpi_pm") => {
            "hpet does not wrap every 4.69 s as acpi_pm does, and resolves better.".to_owned()
        }
        _ => format!("{name} is cheaper to read than {now}."),
    };
    let mut verify = case.verify_source(&[name]);
    verify.push(format!(
        "sudo dmesg | tail -n 3   # `Override clocksource {name} is ...`: the kernel refused it"
    ));
    let (first, measures_first) = if is_open { (Some(MEASURE), Some(0)) } else { (None, None) };
    let write = format!("echo {name} | sudo tee {CURRENT}");
    Some(Draft {
        title: (name != "kvm-clock").then(|| format!("switch to {name} now")),
        why: gain,
        commands: first.map(str::to_owned).into_iter().chain([write]).collect(),
        verify,
        caveats: vec!["The write reports success even if the kernel refuses.".to_owned()],
        place: place(case),
        basis: Basis { measures: is_open, measures_first, ..Basis::default() },
        ..Draft::default()
    })
}

fn place(case: &Case) -> super::Place {
    if case.is_container() { super::Place::Host } else { super::Place::Here }
}

/// `None` if nothing that is available is cheaper than the present one, the TSC aside.
pub(super) fn switch_to_best(case: &Case) -> Option<Draft> {
    let now = case.verdict.source.as_deref()?;
    let available = case.facts.available.as_ref()?.value.iter();
    let best = available.filter(|name| !is_tsc(name)).min_by_key(|name| rank(name))?;
    if rank(best) >= rank(now) {
        return None;
    }
    switch(case, best)
}

/// `None` if the command line says so already, or tsc is known not to be available.
pub(super) fn at_boot(case: &Case) -> Option<Draft> {
    if case.has_parameter("clocksource=tsc") || case.is_available("tsc") == Some(false) {
        return None;
    }
    let is_xen = case.is(&["xen"]) && !case.because.iter().any(forbids_reliable);
    let adds_reliable = is_xen && !case.has_parameter("tsc=reliable");
    let words = match adds_reliable {
        true => "clocksource=tsc tsc=reliable",
        false => "clocksource=tsc",
    };
    let (place, mut commands) = bootloader::add(case, words);
    let mut caveats = Vec::new();
    let is_open = case.doubt().is_some();
    if is_open {
        commands.insert(0, MEASURE.to_owned());
    } else if is_xen {
        commands
            .insert(0, "clockscope wrongness --time 60   # first: must find no warp".to_owned());
    }
    if is_xen {
        caveats.push(
            "Not on Xen hosts that suspend, and not if the guest migrates live: the time would \
             be wrong afterwards."
                .to_owned(),
        );
    }
    Some(Draft {
        title: Some(format!("boot with {words}")),
        why: match is_xen && case.is(&["aws"]) {
            true => {
                "Writing the file lasts until the next boot; this keeps it, as AWS recommends \
                     for its Xen instances."
            }
            false => "Writing the file lasts until the next boot; the parameter keeps it.",
        }
        .to_owned(),
        place,
        commands,
        verify: case.verify_boot(words),
        has_own_risk: is_xen,
        caveats,
        basis: Basis {
            measures: is_xen || is_open,
            measures_first: is_open.then_some(0),
            adds_reliable,
            ..Basis::default()
        },
    })
}

fn forbids_reliable(finding: &&crate::rules::finding::Finding) -> bool {
    finding.forbids.contains(&Fix::TscReliable)
}

/// Nothing to do: said where something else would be tempting. `None` where time is counted in ticks: a tick that
/// is lost is time lost. Where nobody knows what is current, it depends on that.
pub(super) fn keep(case: &Case) -> Option<Draft> {
    let source = case.verdict.source.as_deref();
    let effect = match source {
        _ if case.found(&[Label::ArmErratumVdsoOff, Label::ArmCntvctTrapped]) => {
            "no setting changes that, and a kernel without the work-around would be wrong."
        }
        Some(name) if counts_ticks(name) => return None,
        Some(_) if case.verdict.state == State::Fast => {
            "the present clocksource is fast and right."
        }
        Some(_) => "the present clocksource is slower and right.",
        None => "a device is slower and right, the count of timer ticks is not.",
    };
    let look = "# jiffies, refined-jiffies: time is lost; any device: leave it";
    Some(Draft {
        title: Some(match source {
            Some(source) => format!("keep {source}"),
            None => "leave the clocksource as it is, unless it counts ticks".to_owned(),
        }),
        why: match case.doubt().filter(|doubt| !doubt.may_use) {
            Some(doubt) => capitalised(&format!("{}; {effect}", doubt.why)),
            None => case.so(effect),
        },
        commands: source.is_none().then(|| format!("cat {CURRENT}   {look}")).into_iter().collect(),
        ..Draft::default()
    })
}
