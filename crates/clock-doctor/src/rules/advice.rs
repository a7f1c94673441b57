//! A fix written out for one machine: commands, how to verify, what it risks.

mod bootloader;
mod clocksource;
mod guards;
mod guest;
mod machine;
mod outcome;
mod parameter;
mod wording;

#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod table_tests;

pub use guards::tsc_guards;

use super::finding::{Advice, Basis, Finding, KernelParameters, Verdict};
use crate::facts::Facts;
use crate::rules::catalogue::Fix;
use crate::rules::trust::AIMS_AT_TSC;

/// Where the kernel tells and takes its clocksource.
pub(super) const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What a fix is written out for.
#[derive(Clone, Copy)]
struct Case<'a> {
    facts: &'a Facts,
    verdict: &'a Verdict,
    because: &'a [&'a Finding],
    /// The clocksources of which one is current after the fix and a boot.
    next: &'a [&'a str],
}

/// What is special to the machine in a fix; the catalogue has the rest.
#[derive(Default)]
struct Draft {
    /// Instead of the catalogue's title.
    title: Option<String>,
    why: String,
    place: Place,
    commands: Vec<String>,
    verify: Vec<String>,
    /// Before the catalogue's risk.
    caveats: Vec<String>,
    /// The catalogue's risk is said in `caveats`, or does not apply.
    has_own_risk: bool,
    basis: Basis,
}

/// Where a fix is done.
#[derive(Default)]
enum Place {
    #[default]
    Here,
    /// Here, on the kernel's command line.
    CommandLine(KernelParameters),
    Host,
    Windows,
}

impl Place {
    fn words(&self) -> &'static str {
        match self {
            Place::Here | Place::CommandLine(_) => "here",
            Place::Host => "on the host",
            Place::Windows => "in Windows",
        }
    }

    fn kernel_parameters(self) -> Option<KernelParameters> {
        match self {
            Place::CommandLine(parameters) => Some(parameters),
            Place::Here | Place::Host | Place::Windows => None,
        }
    }
}

/// Writes out a fix for this machine, because of these findings; `None` if it cannot help here: the kernel is too old for it, the parameter is set already,
/// the clocksource is not available, the machine is not of that kind.
pub fn write(fix: Fix, facts: &Facts, verdict: &Verdict, because: &[&Finding]) -> Option<Advice> {
    let before = Case { facts, verdict, because, next: &[] };
    let next = before.after_boot(fix);
    let can_come_true = match fix {
        Fix::SwitchToTsc => !before.may_never_use_tsc(),
        Fix::KvmClock | Fix::ColdBoot | Fix::EnableHpet | Fix::HostTsc => !next.is_empty(),
        fix => !AIMS_AT_TSC.contains(&fix) || next.contains(&"tsc"),
    };
    if !can_come_true {
        return None;
    }
    let draft = draft(fix, &Case { next: &next, ..before })?;
    let page = fix.page();
    let risk = page.paragraph("Risk");
    let mut caveats = draft.caveats;
    if !draft.has_own_risk && !risk.is_empty() {
        caveats.push(risk.to_owned());
    }
    Some(Advice {
        name: fix.name().to_owned(),
        title: draft.title.unwrap_or_else(|| page.title.to_owned()),
        why: draft.why,
        place: draft.place.words().to_owned(),
        commands: draft.commands,
        verify: draft.verify,
        caveats,
        reference: page.references.iter().map(|&text| text.to_owned()).collect(),
        kernel_parameters: draft.place.kernel_parameters(),
        basis: draft.basis,
    })
}

fn draft(fix: Fix, case: &Case) -> Option<Draft> {
    match fix {
        Fix::SwitchToTsc => clocksource::switch(case, "tsc"),
        Fix::SwitchToHpet => clocksource::switch(case, "hpet"),
        Fix::SwitchToKvmClock => clocksource::switch(case, "kvm-clock"),
        Fix::SwitchSource => clocksource::switch_to_best(case),
        Fix::ClocksourceTsc => clocksource::at_boot(case),
        Fix::Keep => clocksource::keep(case),
        Fix::TscNowatchdog => parameter::no_watchdog(case),
        Fix::TscReliable => parameter::reliable(case),
        Fix::TscRecalibrate => parameter::recalibrate(case),
        Fix::TscEarlyKhz => parameter::early_khz(case),
        Fix::RemoveParameter => parameter::remove(case),
        Fix::HpetDisable => parameter::disable_hpet(case),
        Fix::MaxCstate => Some(parameter::max_cstate(case)),
        Fix::NoKvmclock => parameter::no_kvmclock(case),
        Fix::NewerKernel => machine::newer_kernel(case),
        Fix::Reboot => Some(machine::reboot(case)),
        Fix::BiosUpdate => machine::bios_update(case),
        Fix::PreBootSynchroniser => machine::pre_boot_synchroniser(case),
        Fix::EnableHpet => machine::enable_hpet(case),
        Fix::Use64Bit => case.is(&["arm32"]).then(|| machine::use_64_bit(case)),
        Fix::Vsyscall64 => {
            (case.kernel_since(3, 1, None) != Some(true)).then(|| machine::vsyscall64(case))
        }
        Fix::Synchronise => machine::synchronise(case),
        Fix::StopTracing => Some(machine::stop_tracing(case)),
        Fix::FindStall => Some(machine::find_stall(case)),
        Fix::ReadLog => Some(machine::read_log(case)),
        Fix::Measure => Some(machine::measure(case)),
        Fix::Coarse => Some(machine::coarse(case)),
        Fix::SetClockAfterRestore => Some(machine::set_clock(case)),
        Fix::ColdBoot => Some(guest::cold_boot(case)),
        Fix::ParavirtproviderKvm => guest::paravirtprovider(case),
        Fix::FewerVcpus => guest::fewer_vcpus(case),
        Fix::Invtsc => guest::invtsc(case),
        Fix::KvmClock => guest::kvm_clock(case),
        Fix::PinVcpus => guest::pin_vcpus(case),
        Fix::GuestSupport => guest::guest_support(case),
        Fix::HostTsc => guest::host_tsc(case),
        Fix::SuspendGuests => guest::suspend_guests(case),
        Fix::WslShutdown => guest::wsl_shutdown(case),
    }
}
