//! `arch/x86/kernel/tsc.c` and `tsc_sync.c`.

use super::tokens::{after, decimal, megahertz, phrase, signed};
use crate::log::event::EventKind;

/// `Marking TSC unstable due to REASON`
pub(crate) fn unstable(message: &str, at: usize) -> Option<EventKind> {
    let rest = &message[at + "Marking TSC unstable".len()..];
    Some(EventKind::unstable(phrase(rest.trim_start().strip_prefix("due to").unwrap_or(""))))
}

/// A line that contains `TSC `.
pub(crate) fn of_tsc(message: &str, at: usize) -> Option<EventKind> {
    let rest = &message[at + "TSC ".len()..];
    match rest.split([' ', ':']).next()? {
        "warp" | "warped" => warp(message, at),
        "synchronization" => sync_check(message, at),
        "ADJUST" => adjust(message, at),
        "freq" => rate(message, at),
        "found" => rest.starts_with("found unstable").then_some(EventKind::BrokenBiosAdvice),
        // `[Firmware Bug]: TSC doesn't count with P0 frequency!`: `arch/x86/kernel/cpu/amd.c`.
        "doesn't" => rest.starts_with("doesn't count with P0").then_some(EventKind::FirmwareP0),
        // `Fast TSC calibration failed`. A successful calibration is not an event.
        "calibration" => {
            rest.starts_with("calibration failed").then_some(EventKind::CalibrationNote)
        }
        // `Refined TSC clocksource calibration: N MHz`
        "clocksource" => {
            megahertz(rest.strip_prefix("clocksource calibration:")?).map(EventKind::Refined)
        }
        // `Skipped synchronization checks as TSC is reliable`
        "is" => message
            .to_ascii_lowercase()
            .contains("skipped synchronization check")
            .then_some(EventKind::SyncSkipped),
        _ => None,
    }
}

/// `Measured N cycles TSC warp between CPUs`, `TSC warped randomly between CPUs`
fn warp(message: &str, _: usize) -> Option<EventKind> {
    if message.contains("TSC warped randomly") {
        return Some(EventKind::WarpRandom);
    }
    let (cycles, rest) = decimal(after(message, "Measured ")?)?;
    rest.trim_start().starts_with("cyc").then_some(EventKind::Warp(cycles))
}

/// `TSC synchronization [CPU#0 -> CPU#1]:`, which is printed after a failure only (`check_tsc_sync_source` of
/// arch/x86/kernel/tsc_sync.c, Linux 2.6.36 to 6.12); in older kernels the result is on the same line.
fn sync_check(message: &str, at: usize) -> Option<EventKind> {
    if let Some(warp) = warp(message, at) {
        return Some(warp);
    }
    let rest = message[at..].strip_prefix("TSC synchronization ")?;
    let is_check = rest.starts_with('[') || rest.starts_with("across ");
    let failed = !message[..at].contains("checking ") && rest.ends_with("]:");
    is_check.then_some(EventKind::SyncCheck(failed))
}

/// `TSC ADJUST compensate: ...`, `TSC ADJUST differs ...`, `TSC ADJUST: CPUn: N force to 0`
fn adjust(message: &str, at: usize) -> Option<EventKind> {
    let rest = &message[at + "TSC ADJUST".len()..];
    if rest.starts_with(" compensate") {
        let (warp, _) = signed(after(rest, "observed ")?)?;
        return Some(EventKind::AdjustCompensated(warp));
    }
    let is_known = rest.starts_with(" differs") || rest.contains("force") || rest.contains("FORCE");
    is_known.then(|| EventKind::AdjustDiffers(rest.contains("Restoring")))
}

/// Lines about rates that the hypervisor, CPUID or a timer states.
fn rate(message: &str, at: usize) -> Option<EventKind> {
    let rest = &message[at..];
    // The number follows the last colon; names of timers come before it.
    let mhz = || megahertz(rest.rsplit_once(':')?.1);
    let (begins, has) = (|words| rest.starts_with(words), |words| message.contains(words));
    match () {
        () if begins("TSC freq read from hypervisor") => mhz().map(EventKind::RateFromHypervisor),
        () if has("Failed to get TSC freq from the hypervisor") => {
            Some(EventKind::NoRateFromHypervisor)
        }
        () if begins("TSC freq calibrated by CPUID/MSR differs") => Some(EventKind::RateDiffers),
        () if has("Previous calibrated TSC freq") => mhz().map(EventKind::PreviousRate),
        () if begins("TSC freq recalibrated by") => mhz().map(EventKind::Recalibrated),
        () => None,
    }
}

/// `Detected N MHz TSC`, `Detected N MHz processor`
pub(crate) fn detected(message: &str, at: usize) -> Option<f64> {
    let (before, number) = message[..at].rsplit_once(' ')?;
    megahertz(&message[at - number.len()..]).filter(|_| before.ends_with("Detected"))
}
