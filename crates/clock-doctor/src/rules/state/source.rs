//! The current clocksource: from the file, or from the last line of the log about it.

use crate::rules::{Count, Event, EventKind, Evidence, Facts, Role};

/// Seconds after the start in which the kernel normally changes clocksource: the refined TSC is registered about a
/// second after the devices.
const BOOT_S: f64 = 10.0;
/// The same limit if the kernel has given the TSC up already: devices and paravirtual clocks are registered at once.
const DEVICES_S: f64 = 2.0;

/// The current clocksource, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::rules) struct Current {
    /// The name, if it is known.
    pub(in crate::rules) name: Option<String>,
    /// The lines that show it.
    pub(in crate::rules) evidence: Vec<Evidence>,
    /// It was tsc until this line gave tsc up, and no line names the next one.
    pub(in crate::rules) lost: Option<Evidence>,
    /// This one was current, but so early in the boot that it proves nothing about the end.
    pub(in crate::rules) early: Option<String>,
}

impl Current {
    fn known(name: &str, evidence: &Evidence) -> Current {
        let name = Some(name.trim().to_owned());
        Current { name, evidence: vec![evidence.clone()], ..Current::default() }
    }
}

/// Whether the name is that of the TSC's own clocksources.
pub(in crate::rules) fn is_tsc(name: &str) -> bool {
    matches!(name, "tsc" | "tsc-early")
}

/// Whether one of the TSC's clocksources can be selected; `None` if the list is unknown.
pub(in crate::rules) fn lists_tsc(facts: &Facts) -> Option<bool> {
    Some(facts.available.as_ref()?.value.iter().any(|name| is_tsc(name)))
}

/// The place of a clocksource in the order of what a read costs, cheapest first.
pub(in crate::rules) fn rank(name: &str) -> usize {
    const CHEAPEST_FIRST: &str = "tsc arch_sys_counter hyperv_clocksource_tsc_page kvm-clock xen tsc-early \
        hyperv_clocksource_msr hyperv_clocksource hpet acpi_pm pit i8253 refined-jiffies jiffies";
    CHEAPEST_FIRST.split(' ').take_while(|one| *one != name).count()
}

/// Whether the clocksource counts timer interrupts.
pub(in crate::rules) fn counts_ticks(name: &str) -> bool {
    matches!(name, "jiffies" | "refined-jiffies")
}

/// Whether the line gives tsc up, or implies such a line.
pub(in crate::rules) fn gives_tsc_up(event: &Event) -> bool {
    use EventKind::*;
    match &event.kind {
        Marked { name, .. } | OldDelta { name, .. } | Skewed { name, .. } => is_tsc(name),
        Unstable { .. } | HostUnstable | SchedClockUnstable => true,
        ReadDelay { name, marks, .. } => *marks && name.as_deref().is_some_and(is_tsc),
        kind => kind.is_warp(),
    }
}

/// The first line that gives tsc up.
pub(in crate::rules) fn tsc_given_up(facts: &Facts) -> Option<&Event> {
    facts.events().find(|event| gives_tsc_up(event))
}

/// The current clocksource. Sources, in this order: the file; the log's last line that names it; the only one that is
/// available; ARM's counter if it is registered.
pub(in crate::rules) fn current(facts: &Facts) -> Current {
    if let Some(file) = facts.current.as_ref().filter(|file| !file.value.trim().is_empty()) {
        return Current::known(&file.value, &file.evidence);
    }
    let measured = facts.measured.as_ref().and_then(|it| it.host.clocksource.as_deref());
    if let Some(name) = measured {
        return Current::known(name, &Evidence::measured(format!("clocksource {name}")));
    }
    let logged = by_log(facts);
    if logged.name.is_some() {
        return logged;
    }
    if let Some(list) = &facts.available
        && let [only] = &list.value[..]
    {
        return Current::known(only, &list.evidence);
    }
    by_only_counter(facts).unwrap_or(logged)
}

/// The current clocksource by the log's last line about it.
fn by_log(facts: &Facts) -> Current {
    let events: Vec<&Event> = facts.events().collect();
    let names = |event: &&Event| match &event.kind {
        EventKind::Switched(name) => Some(name.clone()),
        // Such a line comes with a mark; for tsc itself it says nothing new, because tsc has just been given up.
        EventKind::Current { name: Some(name), is_other: true } if !is_tsc(name) => {
            Some(name.clone())
        }
        _ => None,
    };
    let mut backwards = events.iter().enumerate().rev();
    let found = backwards.find_map(|(at, event)| Some((at, names(event)?)));
    let found = found.filter(|(_, name)| !is_cut(facts, name));
    let Some((at, name)) = found else { return Current::default() };
    let lost = events[at + 1..].iter().find(|event| is_tsc(&name) && gives_tsc_up(event));
    if let Some(mark) = lost {
        // The watchdog's reference is the best of the others, and so what the kernel falls back to.
        let reference = events[at + 1..].iter().find_map(|event| match &event.kind {
            EventKind::Reading(Role::Reference, Count { name, .. })
            | EventKind::Skewed { reference: name, .. } => Some((name, &event.evidence)),
            _ => None,
        });
        let fallback = reference.filter(|(name, _)| !is_tsc(name) && !counts_ticks(name));
        return match fallback {
            Some((name, line)) => {
                let evidence = vec![events[at].evidence.clone(), line.clone()];
                Current { evidence, ..Current::known(name, line) }
            }
            None => Current { lost: Some(mark.evidence.clone()), ..Current::default() },
        };
    }
    let Some(more) = settled(facts, &events, at, &name) else {
        return Current { early: Some(name), ..Current::default() };
    };
    let mut current = Current::known(&name, &events[at].evidence);
    current.evidence.extend(more.into_iter().cloned());
    current
}

/// Whether the name in the line is cut: from 4.12 on, the names of Hyper-V's clocksources are longer
/// (`arch/x86/hyperv/hv_init.c`).
fn is_cut(facts: &Facts, name: &str) -> bool {
    name == "hyperv_clocksource" && facts.kernel().is_some_and(|kernel| kernel.at_least(4, 12))
}

/// Further evidence that the clocksource of `events[at]` is still current at the end. `None` if the line is so early in
/// a log that may continue that it proves nothing about the end.
fn settled<'a>(
    facts: &'a Facts,
    events: &[&'a Event],
    at: usize,
    name: &str,
) -> Option<Vec<&'a Evidence>> {
    let ticks = counts_ticks(name);
    let stopgap = ticks || matches!(name, "hpet" | "acpi_pm");
    let line = facts.command_line.as_ref();
    let asked = line.is_some_and(|line| line.value.value("clocksource") == Some(name));
    if !stopgap || asked {
        return Some(Vec::new());
    }
    let begins = facts.log.as_ref().is_some_and(|log| log.begins_at_boot);
    let given_up = tsc_given_up(facts).map(|event| &event.evidence);
    if let Some(stamp) = events[at].at {
        let end = events.iter().filter_map(|event| event.at).fold(0.0, f64::max);
        let last = facts.log.as_ref().and_then(|log| log.last.as_ref()).filter(|_| begins);
        let goes_on = |seconds| last.filter(|(at, _)| *at >= stamp + seconds).map(|(_, line)| line);
        if end >= stamp + BOOT_S || stamp >= BOOT_S && !ticks {
            return Some(Vec::new());
        } else if let Some(line) = goes_on(BOOT_S) {
            return Some(vec![line]);
        } else if let (true, Some(mark), Some(line)) = (ticks, given_up, goes_on(DEVICES_S)) {
            return Some(vec![mark, line]);
        }
    }
    let refused =
        line.is_some_and(|line| line.value.has("tsc=unstable") || line.value.has("notsc"));
    // Without tsc the devices remain, at any time; ticks never do if there is a device.
    let is_left = refused || given_up.is_some();
    let is_boot = events[at].at.is_some() || begins;
    let is_early = if ticks { is_boot } else { is_boot && !is_left };
    (!is_early).then(Vec::new)
}

/// If ARM's counter, or that of s390, POWER or LoongArch, is registered, it has no rival.
fn by_only_counter(facts: &Facts) -> Option<Current> {
    const NAMES: [&str; 4] = ["arch_sys_counter", "tod", "timebase", "Constant"];
    facts.events().find_map(|event| match &event.kind {
        EventKind::Registered { name, .. } if NAMES.contains(&&name[..]) => {
            Some(Current::known(name, &event.evidence))
        }
        _ => None,
    })
}
