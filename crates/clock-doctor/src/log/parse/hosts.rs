//! What the kernel says of the hypervisor that it runs on.

use super::tokens::{after, phrase};
use crate::log::event::Kind;

/// `Hypervisor detected: NAME`
pub(crate) fn hypervisor(message: &str, _: usize) -> Option<Kind> {
    Some(Kind::Hypervisor(phrase(after(message, "Hypervisor detected: ")?)))
}

/// `Booting paravirtualized kernel on NAME`
pub(crate) fn paravirtualised(message: &str, _: usize) -> Option<Kind> {
    Some(Kind::Paravirtualised(phrase(after(message, "paravirtualized kernel on ")?)))
}

/// `kvm-clock: ...` at the beginning: not where it is only named as a clocksource.
pub(crate) fn kvm_clock(_: &str, at: usize) -> Option<Kind> {
    (at == 0).then_some(Kind::KvmClock)
}

/// `Xen version V`
pub(crate) fn xen(message: &str, at: usize) -> Option<Kind> {
    let rest = message[at..].strip_prefix("Xen version")?;
    let version = rest.trim_start_matches([':', ' ']);
    let is_it = version.starts_with(|c: char| c.is_ascii_digit());
    is_it.then(|| Kind::XenVersion(phrase(version.trim_end_matches('.'))))
}

/// Systemd's `Detected virtualization NAME.`
pub(crate) fn systemd(message: &str, _: usize) -> Option<Kind> {
    let rest = after(message, "Detected virtualization ")?;
    let name = phrase(rest);
    Some(Kind::SystemdVirtualisation(name.trim_matches(['.', '\'', ' ']).to_owned()))
}

/// `Hyper-V: ...`, `HyperV: ...`, `hv_vmbus: ...`
pub(crate) fn hyper_v(message: &str, _: usize) -> Option<Kind> {
    if message.contains("Invariant TSC is unavailable") {
        return Some(Kind::HyperVNoInvariantTsc);
    }
    let is_it = ["Hyper-V:", "Hyper-V Host Build", "HyperV:", "hv_vmbus: ", "hv_utils: "]
        .iter()
        .any(|start| message.starts_with(start))
        || message.contains("Hyper-V Virtual Machine detected");
    is_it.then_some(Kind::HyperV)
}
