//! Lines about the clocks that the TSC is compared with, and about clocks that the vDSO cannot read.

use super::tokens::last_name;
use crate::log::event::EventKind;

/// `drivers/clocksource/acpi_pm.c`
pub(crate) fn pm_timer(message: &str, at: usize) -> Option<EventKind> {
    let rest = message[at..].strip_prefix("PM-Timer ")?;
    let is_bad =
        ["Bug", "running at invalid rate", "had no reasonable", "had inconsistent", "failed"]
            .iter()
            .any(|text| rest.starts_with(text));
    is_bad.then_some(EventKind::PmTimerBad)
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
