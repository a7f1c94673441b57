//! Lines about the kernel, its machine, its CPUs, and the devices and clocks beside the TSC. ARM:
//! `drivers/clocksource/arm_arch_timer.c`, `arch/arm*/kernel/*`.

use super::tokens::{after, hexadecimal, last_name, phrase};
use crate::facts::Kernel;
use crate::log::event::EventKind;

/// `Linux version RELEASE ...`
pub(crate) fn version(message: &str, _: usize) -> Option<EventKind> {
    let rest = message.strip_prefix("Linux version ")?;
    rest.starts_with(|c: char| c.is_ascii_digit()).then(|| EventKind::LinuxVersion(phrase(rest)))
}

/// `Command line:` (x86) or `Kernel command line:`
pub(crate) fn command_line(message: &str, _: usize) -> Option<EventKind> {
    let rest = message
        .strip_prefix("Command line: ")
        .or_else(|| message.strip_prefix("Kernel command line: "))?;
    Some(EventKind::CommandLine(rest.trim().to_owned()))
}

/// `DMI: VENDOR PRODUCT, BIOS ...`
pub(crate) fn dmi(message: &str, _: usize) -> Option<EventKind> {
    if message.contains("DMI not present or invalid") {
        return Some(EventKind::DmiAbsent);
    }
    let rest = message.strip_prefix("DMI: ")?;
    // Other lines of `dmi_scan.c`.
    (!rest.starts_with("Memory slots")).then(|| EventKind::Dmi(phrase(rest)))
}

/// `Hardware name: ...` of a trace.
pub(crate) fn hardware(message: &str, _: usize) -> Option<EventKind> {
    Some(EventKind::Dmi(phrase(message.strip_prefix("Hardware name: ")?)))
}

/// `CPU0: NAME (family: ...)`, `smpboot: CPU0: ...`, `CPU: NAME stepping 0a`
pub(crate) fn cpu(message: &str, at: usize) -> Option<EventKind> {
    let before = &message[..at];
    if !matches!(before, "" | "smpboot: " | "x86: ") {
        return None;
    }
    let rest = after(&message[at..], ": ")?;
    let ends = [" (family", " (fam", " stepping", " ["];
    let end = ends.iter().filter_map(|end| rest.find(end)).min()?;
    let name = rest[..end].trim();
    let family = after(rest, "(family: ").or_else(|| after(rest, "(fam: ")).and_then(hexadecimal);
    let family = family.map(|(family, _)| family);
    (!name.is_empty()).then(|| EventKind::CpuModel { name: phrase(name), family })
}

/// `CPU: 1 UID: 0 PID: 2 Comm: NAME Not tainted 6.5.0-rc4 #1 ...`, `... Tainted: G OE 5.4.0-3-amd64 #1 ...`: the first
/// line of a trace (`dump_stack_print_info` of lib/dump_stack.c, Linux 6.12).
pub(crate) fn release(message: &str, at: usize) -> Option<EventKind> {
    let (before, _) = after(&message[at..], "ainted")?.split_once(" #")?;
    let release = before.rsplit(' ').next()?;
    Kernel::parse(release).map(|kernel| EventKind::Release(kernel.release))
}

/// `CPU4 has been hot-added`, also without its beginning or with a damaged number
pub(crate) fn hot_added(message: &str, _: usize) -> Option<EventKind> {
    let (before, _) = message.split_once("been hot-added")?;
    let before = before.trim_end();
    let is_of_cpu = match before.strip_suffix("has") {
        Some(before) => {
            let word = before.trim_end().rsplit(' ').next()?;
            let is_number = |it: char| it.is_ascii_digit() || it == char::REPLACEMENT_CHARACTER;
            "CPU".ends_with(word.trim_end_matches(is_number))
        }
        None => "has".ends_with(before),
    };
    is_of_cpu.then_some(EventKind::HotAdded)
}

/// Suspending and waking: `kernel/power/*.c`, `drivers/acpi/sleep.c`.
pub(crate) fn suspended(message: &str, _: usize) -> Option<EventKind> {
    const SLEEPS: [&str; 6] = [
        "PM: suspend entry",
        "PM: hibernation entry",
        "hibernation: hibernation entry",
        "PM: Preparing system for",
        "PM: Entering mem sleep",
        "PM: Creating hibernation image",
    ];
    const WAKES: [&str; 7] = [
        // Xen saves or moves the guest with this line: the restored guest prints the lines after it.
        "suspending xenstore",
        "PM: suspend exit",
        "PM: hibernation exit",
        "hibernation: hibernation exit",
        "Low-level resume complete",
        "PM: Finishing wakeup",
        "Waking up from system sleep state",
    ];
    let has = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if has(&WAKES) {
        return Some(EventKind::Suspended(true));
    }
    has(&SLEEPS).then_some(EventKind::Suspended(false))
}

/// `Machine model: NAME` (`drivers/of/fdt.c`), `OF: fdt: Machine model: NAME`, and `Machine: NAME,
/// model: NAME` of old 32-bit kernels.
pub(crate) fn machine_model(message: &str, _: usize) -> Option<EventKind> {
    if let Some(name) = after(message, "Machine model: ") {
        return Some(EventKind::MachineModel(phrase(name)));
    }
    let name = after(message.strip_prefix("Machine: ")?, ", model: ")?;
    Some(EventKind::MachineModel(phrase(name)))
}

/// `arch_timer: Enabling local workaround for NAME`, `arch_timer: CPU0: Trapping CNTVCT access`
pub(crate) fn timer(message: &str, _: usize) -> Option<EventKind> {
    if message.contains("Trapping CNTVCT access") {
        return Some(EventKind::ArmTrapping);
    }
    let rest = after(message, "arch_timer: Enabling ")?;
    Some(EventKind::ArmWorkaround(phrase(after(rest, "workaround for ")?)))
}

/// `drivers/clocksource/acpi_pm.c`
pub(crate) fn pm_timer(message: &str, at: usize) -> Option<EventKind> {
    let rest = message[at..].strip_prefix("PM-Timer ")?;
    const FAULTS: [&str; 5] =
        ["Bug", "running at invalid rate", "had no reasonable", "had inconsistent", "failed"];
    FAULTS.iter().any(|fault| rest.starts_with(fault)).then_some(EventKind::PmTimerBad)
}

/// `clocksource NAME registered with invalid VDSO mode N`, and Xen's line about its own clock.
pub(crate) fn vdso(message: &str, _: usize) -> Option<EventKind> {
    if let Some((before, _)) = message.split_once(" registered with invalid VDSO mode") {
        return last_name(before).map(|name| EventKind::VdsoModeInvalid(name.to_owned()));
    }
    let is_it = message.contains("VDSO_CLOCKMODE_PVCLOCK not supported")
        || message.contains("VCLOCK_PVCLOCK not supported");
    is_it.then_some(EventKind::PvclockUnstable)
}
