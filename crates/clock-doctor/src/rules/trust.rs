//! Whether anything proves that a TSC is good. An entry in `available_clocksource` does not: the kernel lists what it
//! has not refused yet, and its watchdog overlooks a rate that is off by up to 12 % (2.6.36 to 5.10).

use super::catalogue::{Fix, Label};
use super::finding::Finding;
use super::{hosts, platform};
use crate::facts::{CpuFacts, Facts};
use crate::log::event::Kind;

/// What is known of the TSC as a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The CPU states that it is invariant, or who keeps it vouches for it.
    Proven,
    /// Nothing proves it and nothing speaks against it: why, as a clause.
    Open(String),
    /// The CPU does not keep its rate: a measurement shows what is, not what will be. Why, as a clause.
    Doubtful(String),
    /// The CPU's is known to drift: which CPU it is.
    Drifts(&'static str),
}

/// Fixes after which the kernel tells the time by the TSC, or keeps it against its own checks.
const USES_TSC: [Fix; 9] = [
    Fix::SwitchToTsc,
    Fix::ClocksourceTsc,
    Fix::TscNowatchdog,
    Fix::TscReliable,
    Fix::TscRecalibrate,
    Fix::TscEarlyKhz,
    Fix::Reboot,
    Fix::MaxCstate,
    Fix::PreBootSynchroniser,
];
/// Up to so many sockets the kernel itself trusts an invariant TSC (`check_system_tsc_reliable` in
/// `arch/x86/kernel/tsc.c`, Linux 6.12).
const SOCKETS: u32 = 4;

impl Standing {
    /// Whether the TSC may be used at all, should a measurement find nothing.
    pub(crate) fn may_use(&self) -> bool {
        matches!(self, Standing::Proven | Standing::Open(_))
    }

    /// Whether that fix must not be advised.
    pub(crate) fn rules_out(&self, fix: Fix) -> bool {
        !self.may_use() && USES_TSC.contains(&fix)
    }

    /// What must be measured before the TSC is used: why, as a clause.
    pub(crate) fn must_measure(&self) -> Option<&str> {
        match self {
            Standing::Open(why) | Standing::Doubtful(why) => Some(why),
            Standing::Proven | Standing::Drifts(_) => None,
        }
    }
}

/// Whether the finding asks for a fix after which the kernel tells the time by the TSC.
pub(crate) fn uses_tsc(finding: &Finding) -> bool {
    let asks = |fix: Fix| finding.fixes.contains(&fix);
    asks(Fix::SwitchToTsc)
        || asks(Fix::ClocksourceTsc)
        || finding.label == Label::ParamTscUnstable && asks(Fix::RemoveParameter)
}

/// Decides by the CPU, by the kernel's own words and by the platform.
pub(crate) fn standing(facts: &Facts, platforms: &[&str]) -> Standing {
    let is_guest = platform::is_guest(facts, platforms);
    if let Some(name) = drifting(facts).filter(|_| !is_guest) {
        return Standing::Drifts(name);
    }
    // AWS tells its customers to use the TSC on Xen too, whose hosts' TSCs it knows.
    if hosts::vouches_for_tsc(facts) || platforms.contains(&"aws") {
        return Standing::Proven;
    }
    let cpuid = facts.measured.as_ref().and_then(|measured| measured.cpuid.as_ref());
    let flag = |name| match cpuid {
        Some(cpuid) if cpuid.invariant_tsc => Some(true),
        _ => facts.cpu.flag(name),
    };
    match (flag("constant_tsc"), flag("nonstop_tsc")) {
        (Some(true), Some(true)) => by_sockets(&facts.cpu),
        (Some(false), _) if !is_guest => {
            Standing::Doubtful("the TSC follows the CPU's frequency (no constant_tsc)".to_owned())
        }
        (Some(false), _) => Standing::Open("the virtual CPU states no constant_tsc".to_owned()),
        (_, Some(false)) => Standing::Open("the CPU states no nonstop_tsc".to_owned()),
        _ => Standing::Open(
            "nothing here tells whether the CPU's TSC is invariant (constant_tsc, nonstop_tsc)"
                .to_owned(),
        ),
    }
}

fn by_sockets(cpu: &CpuFacts) -> Standing {
    match cpu.sockets.filter(|sockets| *sockets > SOCKETS) {
        Some(sockets) => Standing::Open(format!("{sockets} sockets may count apart")),
        None => Standing::Proven,
    }
}

/// AMD's CPUs before family 16: the rate follows the frequency, and each core's counter by itself stops when that core
/// halts. They lack CPUID 0x8000_0007 EDX bit 8, by which the kernel sets constant_tsc and nonstop_tsc
/// (`early_init_amd` in `arch/x86/kernel/cpu/amd.c`, Linux 6.12).
fn drifting(facts: &Facts) -> Option<&'static str> {
    let is_amd = facts.cpu.vendor.as_ref().is_some_and(|vendor| vendor.value == "AuthenticAMD");
    match facts.cpu.family.as_ref().filter(|_| is_amd).map(|family| family.value) {
        Some(6) => return Some(K7),
        Some(15) => return Some(K8),
        Some(_) => return None,
        None => {}
    }
    let logged = facts.events().filter_map(|event| match &event.kind {
        Kind::CpuModel(name) => Some(name),
        _ => None,
    });
    let mut names = facts.cpu.model.iter().map(|model| &model.value).chain(logged);
    names.find_map(|name| {
        let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let is_k7 = is(&["Athlon(tm) XP", "Athlon(tm) MP", "AMD Duron"]);
        let is_k8 = is(&K8_NAMES);
        if is_k7 { Some(K7) } else { is_k8.then_some(K8) }
    })
}

const K7: &str = "an AMD K7";
const K8: &str = "an AMD K8 (Athlon 64, Opteron)";
/// Names of family 15 alone.
const K8_NAMES: [&str; 6] = [
    "Athlon(tm) 64",
    "Athlon(tm) X2",
    "Athlon(tm) Dual Core",
    "Turion(tm) 64",
    "Dual Core AMD Opteron",
    "Dual-Core AMD Opteron",
];
