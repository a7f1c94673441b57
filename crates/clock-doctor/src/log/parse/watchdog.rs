//! `kernel/time/clocksource.c`: registrations, switches, and the watchdog.

use super::tokens::{after, decimal, hexadecimal, last_name, name, signed};
use crate::log::event::{Count, EventKind, Mark, Role};

/// Maximum length of a list of CPUs that is kept, in characters.
const LIST_MAX: usize = 200;

/// Whether `ns` follows: if a fold splits a number, its second half follows instead.
fn is_unit(rest: &str) -> bool {
    rest.trim_start().starts_with("ns")
}

/// `clocksource: NAME: mask: 0x.. max_cycles: 0x.., max_idle_ns: N ns`
pub(crate) fn registered(message: &str, at: usize) -> Option<EventKind> {
    let name = last_name(message[..at].strip_suffix(": ")?)?.to_owned();
    let (_, rest) = hexadecimal(&message[at + "mask: ".len()..])?;
    let (max_cycles, rest) = hexadecimal(after(rest, "max_cycles:")?)?;
    let (max_idle_ns, rest) = decimal(after(rest, "max_idle_ns:")?)?;
    is_unit(rest).then_some(())?;
    Some(EventKind::Registered { name, max_cycles, max_idle_ns })
}

/// `Switched to clocksource NAME`, `Switching to clocksource NAME`
pub(crate) fn switched(message: &str, at: usize) -> Option<EventKind> {
    let (before, rest) = message.split_at(at);
    let is_switch = before.ends_with("Switched") || before.ends_with("Switching");
    let (name, rest) = name(rest.strip_prefix(" to clocksource ")?)?;
    if !is_switch || rest.starts_with('>') {
        return None;
    }
    let ends_line = rest.trim_matches(['.', '…']).is_empty();
    Some(EventKind::Switched(whole_name(name, ends_line)?.to_owned()))
}

/// The kernel's clocksources. If a line is cut within a name, the rest is not a name.
const NAMES: &str = "acpi_pm arch_mem_counter arch_sys_counter hpet hyperv_clocksource \
    hyperv_clocksource_msr hyperv_clocksource_tsc_page i8253 jiffies kvm-clock pit refined-jiffies \
    riscv_clocksource sgi_rtc stick timebase tod tsc tsc-early xen";

/// Whether the kernel has a clocksource of that name.
pub(crate) fn is_known(name: &str) -> bool {
    NAMES.split(' ').any(|known| known == name)
}

/// Whether a longer name begins with `name`.
pub(crate) fn may_go_on(name: &str) -> bool {
    NAMES.split(' ').any(|known| known.len() > name.len() && known.starts_with(name))
}

/// The clocksource for a name that may be cut: at a line's end it is completed if only one name begins so.
fn whole_name(name: &str, ends_line: bool) -> Option<&str> {
    if is_known(name) || !may_go_on(name) {
        return Some(name);
    }
    let mut begun = NAMES.split(' ').filter(|known| known.starts_with(name));
    begun.next().filter(|_| begun.next().is_none() && ends_line && name.len() >= 3)
}

/// `Time: NAME clocksource has been installed.`: up to 2.6.2x.
pub(crate) fn installed(message: &str, at: usize) -> Option<EventKind> {
    let name = last_name(message[..at].strip_prefix("Time: ")?)?;
    Some(EventKind::Switched(name.to_owned()))
}

const MARKS: [(&str, Mark); 3] = [
    ("the skew is too large", Mark::Skew),
    ("frequency skew", Mark::FrequencySkew),
    ("inter CPU skew", Mark::CpuSkew),
];

/// `Marking clocksource NAME (as) unstable because/due to ...`
pub(crate) fn marked(message: &str, at: usize) -> Option<EventKind> {
    let (name, rest) = name(&message[at + "Marking clocksource ".len()..])?;
    let rest = rest.trim_start();
    // Not even ` as` or ` unstable` follows, so the name itself may be cut.
    if rest.is_empty() || rest.starts_with('>') {
        return None;
    }
    let why = MARKS.iter().find(|(words, _)| rest.contains(words));
    let why = why.map_or(Mark::Unstated, |(_, why)| *why);
    Some(EventKind::Marked { name: name.to_owned(), why })
}

/// `Clocksource tsc unstable (delta = N ns)`: up to 3.x.
pub(crate) fn old_delta(message: &str, at: usize) -> Option<EventKind> {
    let (delta_ns, rest) = signed(&message[at + " unstable (delta = ".len()..])?;
    let rest = rest.trim_start().strip_prefix("ns)")?;
    // A pager has cut off whether the line goes on.
    if rest.starts_with('>') {
        return None;
    }
    // Red Hat's 2.6.32 keeps the clocksource, and continues: `. Enable clocksource failover by adding ...`
    if rest.starts_with('.') {
        return Some(EventKind::KeptDelta(delta_ns));
    }
    // At the line's beginning the name may have lost some of its own.
    let name = last_name(&message[..at]).filter(|name| name.len() < at)?;
    Some(EventKind::OldDelta { name: name.to_owned(), delta_ns })
}

const ROLES: [(&str, Role); 3] =
    [("wd", Role::Reference), ("wd2", Role::SecondReference), ("cs", Role::Watched)];

/// Removes the role's prefix from the end; returns the rest, the prefix and the role.
fn role(before: &str) -> Option<(&str, &'static str, Role)> {
    ROLES.iter().find_map(|(prefix, role)| Some((before.strip_suffix(prefix)?, *prefix, *role)))
}

/// `'NAME' wd_nsec: N wd_now: X wd_last: X mask: X`: 6.0 and later.
pub(crate) fn reading_with_interval(message: &str, at: usize) -> Option<EventKind> {
    let (before, prefix, role) = role(&message[..at])?;
    let name = last_name(before)?;
    let (nsec, rest) = signed(&message[at + "_nsec:".len()..])?;
    let rest = rest.trim_start().strip_prefix(prefix)?.strip_prefix('_')?;
    let readings = rest.strip_prefix("now:");
    if let Some(reading) = readings.and_then(|rest| counters(role, prefix, name, Some(nsec), rest))
    {
        return Some(reading);
    }
    // The rest is missing, or was copied by hand with other names.
    (role != Role::SecondReference).then(|| EventKind::Interval(role, name.to_owned(), nsec))
}

/// `Long readout interval, skipping watchdog check: cs_nsec: N wd_nsec: N`: 6.2 and later.
pub(crate) fn long_readout(message: &str, _: usize) -> Option<EventKind> {
    // The line ends with a number: one that has lost digits is far from the other.
    let text = format!("{message} ");
    let count = |label: &str| signed(after(&text, label)?).map(|(count, _)| count);
    let counts = count("cs_nsec: ").zip(count("wd_nsec: "));
    Some(EventKind::LongReadout(
        counts.filter(|(cs, wd)| cs.abs_diff(*wd) < cs.unsigned_abs() / 10),
    ))
}

/// `'NAME' wd_now: X wd_last: X mask: X`
pub(crate) fn reading(message: &str, at: usize) -> Option<EventKind> {
    let (before, prefix, role) = role(&message[..at])?;
    // The interval could not be parsed, or its name was misspelled.
    let before = before.split_once(&format!(" {prefix}_")).map_or(before, |(name, _)| name);
    counters(role, prefix, last_name(before)?, None, &message[at + "_now:".len()..])
}

/// `X wd_last: X mask: X`
fn counters(
    role: Role,
    prefix: &str,
    name: &str,
    nsec: Option<i64>,
    rest: &str,
) -> Option<EventKind> {
    let (now, rest) = hexadecimal(rest)?;
    let rest = rest.trim_start().strip_prefix(prefix)?.strip_prefix("_last:")?;
    let (last, rest) = hexadecimal(rest)?;
    let follows = rest.trim_start();
    if !follows.starts_with("mask:") && !"mask:".starts_with(follows.trim_end_matches(['>', '.'])) {
        // The number before it is incomplete.
        return None;
    }
    let mask = mask(rest).filter(|mask| now <= *mask && last <= *mask);
    let mask = mask.unwrap_or_else(|| usual_mask(name));
    Some(EventKind::Reading(role, Count { name: name.to_owned(), nsec, now, last, mask }))
}

/// The mask at the line's end; `None` if it is cut.
fn mask(rest: &str) -> Option<u64> {
    let text = rest.trim_start().strip_prefix("mask:")?.trim();
    let mask = u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()?;
    // All masks consist of the lowest bits.
    (mask > 0 && mask & mask.wrapping_add(1) == 0).then_some(mask)
}

/// The usual mask of a clocksource, for a line that has lost it: `drivers/clocksource/acpi_pm.c`,
/// `arch/x86/kernel/hpet.c` and `kernel/time/jiffies.c`, 6.12.
fn usual_mask(name: &str) -> u64 {
    match name {
        "acpi_pm" => 0xff_ffff,
        "hpet" | "jiffies" | "refined-jiffies" => u64::from(u32::MAX),
        _ => u64::MAX,
    }
}

/// `Clocksource 'tsc' skewed N ns (N ms) over watchdog 'hpet' interval of N ns (N ms)`
pub(crate) fn skewed(message: &str, at: usize) -> Option<EventKind> {
    let (skew_ns, rest) = signed(&message[at + " skewed ".len()..])?;
    is_unit(rest).then_some(())?;
    let (reference, rest) = name(after(rest, "watchdog ")?)?;
    let (interval_ns, rest) = signed(after(rest, "interval of ")?)?;
    is_unit(rest).then_some(())?;
    let name = last_name(&message[..at])?.to_owned();
    Some(EventKind::Skewed { name, skew_ns, reference: reference.to_owned(), interval_ns })
}

/// `'NAME' is current clocksource.`, `'NAME' (not 'OTHER') is current clocksource.`
pub(crate) fn current(message: &str, at: usize) -> Option<EventKind> {
    let before = &message[..at];
    let (before, is_other) = match before.split_once(" (not ") {
        Some((before, _)) => (before, true),
        None => (before, false),
    };
    Some(EventKind::Current { name: Some(last_name(before)?.to_owned()), is_other })
}

/// `Watchdog NAME interval: Nns`, `Clocksource NAME interval: Nns`: 7.1.
pub(crate) fn interval(message: &str, at: usize) -> Option<EventKind> {
    let before = &message[..at];
    let (nsec, rest) = signed(&message[at + " interval:".len()..])?;
    is_unit(rest).then_some(())?;
    let name = last_name(before)?;
    let who = before.trim_end().trim_end_matches('\'');
    let who = who.strip_suffix(name)?.trim_end_matches('\'').trim_end();
    let roles = [("atchdog", Role::Reference), ("locksource", Role::Watched)];
    let (_, role) = roles.into_iter().find(|(end, _)| who.ends_with(end))?;
    Some(EventKind::Interval(role, name.to_owned(), nsec))
}

/// `CPU1 N < CPU2 N (cycles)`: 7.1.
pub(crate) fn cycles(message: &str, at: usize) -> Option<EventKind> {
    let (before, second) = message[..at].rsplit_once(" < CPU")?;
    let count = |text: &str| decimal(text.split_once(' ')?.1).map(|(count, _)| count);
    let first = before.rsplit_once("CPU")?.1;
    // The split removed the blank that ends the number.
    Some(EventKind::CpuCycles { first: count(&format!("{first} "))?, second: count(second)? })
}

/// `hpet read-back delay of Nns, attempt N, marking unstable`, `... marking tsc unstable`, or
/// without a consequence.
pub(crate) fn read_delay(message: &str, at: usize) -> Option<EventKind> {
    let rest = message[at + "read-back delay of".len()..].trim_start();
    if rest.contains("test skipped") {
        return Some(EventKind::WatchdogNoise);
    }
    // Without `wd-wd` only a line that gives the clocksource up says so (5.14 to 6.2): even if its rest is cut.
    let is_cut = !message[..at].contains("wd-") && (rest.is_empty() || decimal(rest).is_none());
    let delay = |text| decimal(text).filter(|(_, rest)| is_unit(rest)).map(|(nsec, _)| nsec);
    let nsec = delay(rest);
    if nsec.is_none() && !is_cut {
        return None;
    }
    let marks = is_cut || rest.contains("marking ") || message[..at].contains("excessive ");
    let marked = after(rest, "marking ").and_then(name).map(|(name, _)| name.to_owned());
    let named = marked.filter(|name| !"unstable".starts_with(name.as_str()));
    // Up to 6.2 the line names the reference only, and hpet and acpi_pm are references of nothing but the TSC.
    let is_of_tsc = marks && ["hpet ", "acpi_pm "].iter().any(|name| message[..at].ends_with(name));
    let name = named.or_else(|| is_of_tsc.then(|| "tsc".to_owned()));
    let alone = after(rest, "wd-wd read-back delay only ").and_then(delay);
    Some(EventKind::ReadDelay { name, nsec, alone, marks })
}

/// Lines of the watchdog that have no consequence.
pub(crate) fn noise(message: &str, at: usize) -> Option<EventKind> {
    let (before, rest) = message.split_at(at);
    let is_it = match rest {
        _ if rest.starts_with("read timed out") => before.contains("atchdog "),
        _ if rest.starts_with("times before success") => before.contains("retried "),
        _ => true,
    };
    is_it.then_some(EventKind::WatchdogNoise)
}

/// `CPUs LIST ahead of CPU N for clocksource tsc.`, `CPUs LIST behind CPU N for clocksource tsc.`
pub(crate) fn cpus(message: &str, at: usize) -> Option<EventKind> {
    let (before, rest) = message.split_at(at);
    let cpus = before.rsplit_once("CPUs ")?.1.trim();
    let is_list = cpus.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'-'));
    let of = after(rest, "for clocksource ").and_then(name).map_or("tsc", |(name, _)| name);
    let is_tsc = of.starts_with("tsc") || "tsc".starts_with(of);
    let cpus = is_list.then(|| cpus.chars().take(LIST_MAX).collect())?;
    let is_ahead = rest.starts_with(" ahead");
    Some(if is_tsc { EventKind::CpusApart { cpus, is_ahead } } else { EventKind::WatchdogNoise })
}

/// `clocksource_wdtest: --- Marking wdtest-ktime unstable due to clocksource watchdog.`: the kernel's test of its
/// watchdog, with clocksources that the kernel never keeps (`kernel/time/clocksource-wdtest.c`, 5.14 to 7.0).
pub(crate) fn tested(message: &str, at: usize) -> Option<EventKind> {
    let (name, _) = name(after(&message[at..], "--- Marking ")?)?;
    Some(EventKind::Marked { name: name.to_owned(), why: Mark::Unstated })
}

/// `Override clocksource NAME is ... HRT compatible`
pub(crate) fn overridden(message: &str, at: usize) -> Option<EventKind> {
    let (name, rest) = name(&message[at + "Override clocksource ".len()..])?;
    rest.contains("HRT compatible").then(|| EventKind::Override {
        name: name.to_owned(),
        is_deferred: rest.contains("deferring"),
    })
}
