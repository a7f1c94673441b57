//! Whether any fact proves that a TSC is good. An entry in `available_clocksource` does not: the kernel lists all that
//! it has not refused yet, and its watchdog overlooks a rate that is off by up to 12 % (2.6.36 to 5.13).

use super::{EventKind, Facts, Finding, Fix, Label, hosts, platform};

/// The reason why a TSC cannot simply be used.
pub(crate) struct Doubt {
    /// The reason, as a clause.
    pub(crate) why: String,
    /// The TSC may be used after a measurement without findings.
    pub(crate) may_use: bool,
    /// A measurement would help to decide.
    pub(crate) may_measure: bool,
}

/// Fixes that help only if the kernel uses the TSC for time after them.
pub(crate) const AIMS_AT_TSC: [Fix; 13] = [
    Fix::SwitchToTsc,
    Fix::ClocksourceTsc,
    Fix::TscNowatchdog,
    Fix::TscReliable,
    Fix::TscRecalibrate,
    Fix::TscEarlyKhz,
    Fix::Reboot,
    Fix::HpetDisable,
    Fix::MaxCstate,
    Fix::PreBootSynchroniser,
    Fix::FewerVcpus,
    Fix::Invtsc,
    Fix::GuestSupport,
];
/// Number of sockets up to which the kernel itself trusts an invariant TSC (`check_system_tsc_reliable` in
/// `arch/x86/kernel/tsc.c`, Linux 6.12).
const SOCKETS: u32 = 4;
/// Model names that only AMD's families 6 and 15 have.
const K7_AND_K8: &str = "Athlon(tm) 64|Athlon(tm) X2|Athlon(tm) Dual Core|Athlon(tm) XP|Athlon(tm) MP|\
    AMD Duron|Turion(tm) 64|Dual Core AMD Opteron|Dual-Core AMD Opteron";

/// Whether the finding suggests a fix after which the kernel uses the TSC for time.
pub(crate) fn uses_tsc(finding: &Finding) -> bool {
    let asks = |fix: Fix| finding.fixes.contains(&fix);
    let unrefuses = finding.label == Label::ParamTscUnstable && asks(Fix::RemoveParameter);
    asks(Fix::SwitchToTsc) || asks(Fix::ClocksourceTsc) || unrefuses
}

/// The objection to using the TSC as it is; `None` if the CPU, the kernel's own lines or the platform prove it good.
pub(crate) fn doubt(facts: &Facts, platforms: &[&str]) -> Option<Doubt> {
    let is_guest = platform::is_guest(facts, platforms);
    let of = |why: &str| Some(Doubt { why: why.to_owned(), may_use: true, may_measure: true });
    let never =
        |why: &str, may_measure| Some(Doubt { why: why.to_owned(), may_use: false, may_measure });
    if drifts(facts) && !is_guest {
        return never("this CPU is an AMD K7 or K8 (Athlon, Opteron), whose TSC drifts", false);
    }
    // AWS advises its customers to use the TSC on Xen too, and knows the TSCs of its hosts.
    if hosts::vouches_for_tsc(facts) || platforms.contains(&"aws") {
        return None;
    }
    match (facts.tsc_flag("constant_tsc"), facts.tsc_flag("nonstop_tsc")) {
        (Some(true), Some(true)) if facts.cpu.sockets.is_some_and(|sockets| sockets > SOCKETS) => {
            of("more than four sockets may count apart")
        }
        (Some(true), Some(true)) => None,
        (Some(false), _) if !is_guest => never(
            "the TSC follows the CPU's frequency (no constant_tsc), whatever a measurement at one frequency finds",
            true,
        ),
        (Some(false), _) => of("the virtual CPU states no constant_tsc"),
        (_, Some(false)) => of("the CPU states no nonstop_tsc"),
        _ => {
            of("nothing here tells whether the CPU's TSC is invariant (constant_tsc, nonstop_tsc)")
        }
    }
}

/// AMD's CPUs before family 16: the rate follows the frequency, and each core's counter stops when that core halts.
/// They lack CPUID 0x8000_0007 EDX bit 8, from which the kernel sets constant_tsc and nonstop_tsc (`early_init_amd` in
/// `arch/x86/kernel/cpu/amd.c`, Linux 6.12).
fn drifts(facts: &Facts) -> bool {
    let is_amd = facts.cpu.vendor.as_ref().is_some_and(|vendor| vendor.value == "AuthenticAMD");
    if let Some(family) = facts.cpu.family.as_ref().filter(|_| is_amd) {
        return matches!(family.value, 6 | 15);
    }
    let is_old = |name: &str| K7_AND_K8.split('|').any(|word| name.contains(word));
    facts.cpu.model.as_ref().is_some_and(|model| is_old(&model.value))
        || facts.events().any(|event| match &event.kind {
            EventKind::CpuModel { name, family: Some(6 | 15) } => name.contains("AMD"),
            EventKind::CpuModel { name, family: None } => is_old(name),
            _ => false,
        })
}
