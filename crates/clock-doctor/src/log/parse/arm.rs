//! ARM: `drivers/clocksource/arm_arch_timer.c`, `arch/arm*/kernel/*`.

use super::tokens::{after, phrase};
use crate::log::event::EventKind;

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
