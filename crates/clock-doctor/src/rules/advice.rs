//! A fix written out for one machine: commands, how to verify, what it risks.

mod bootloader;
mod clocksource;
mod guards;
mod guest;
mod machine;
mod parameter;
mod wording;

#[cfg(test)]
mod pages_tests;

pub use guards::tsc_guards;
/// What to measure before a check is turned off: a command of the fixes that do so.
pub(super) use parameter::MEASURE;

use super::finding::{Advice, Finding, Verdict};
use crate::facts::Facts;

/// Where the kernel tells and takes its clocksource.
pub(super) const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What a fix is written out for.
#[derive(Clone, Copy)]
struct Case<'a> {
    facts: &'a Facts,
    verdict: &'a Verdict,
    because: &'a [&'a Finding],
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
}

/// Where a fix is done.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Here,
    Host,
    Windows,
}

impl Place {
    fn words(self) -> &'static str {
        match self {
            Place::Here => "here",
            Place::Host => "on the host",
            Place::Windows => "in Windows",
        }
    }
}

/// Writes out the fix `name` for this machine, because of these findings; `None` if there is no
/// such fix, or if it cannot help here: the kernel is too old for it, the parameter is set already,
/// the clocksource is not available, the machine is not of that kind.
#[must_use]
pub fn write(name: &str, facts: &Facts, verdict: &Verdict, because: &[&Finding]) -> Option<Advice> {
    let fix = super::catalogue::fix(name)?;
    let case = Case { facts, verdict, because };
    let draft = draft(name, &case)?;
    let mut caveats = draft.caveats;
    if !draft.has_own_risk && !fix.risk.is_empty() {
        caveats.push(fix.risk.to_owned());
    }
    Some(Advice {
        name: fix.name.to_owned(),
        title: draft.title.unwrap_or_else(|| fix.title.to_owned()),
        why: draft.why,
        place: draft.place.words().to_owned(),
        commands: draft.commands,
        verify: draft.verify,
        caveats,
        reference: fix.references.iter().map(|&text| text.to_owned()).collect(),
    })
}

fn draft(name: &str, case: &Case) -> Option<Draft> {
    match name {
        "switch-to-tsc" => clocksource::switch(case, "tsc"),
        "switch-to-hpet" => clocksource::switch(case, "hpet"),
        "switch-to-kvm-clock" => clocksource::switch(case, "kvm-clock"),
        "switch-source" => clocksource::switch_to_best(case),
        "clocksource=tsc" => clocksource::at_boot(case),
        "keep" => Some(clocksource::keep(case)),
        "tsc=nowatchdog" => parameter::no_watchdog(case),
        "tsc=reliable" => parameter::reliable(case),
        "tsc=recalibrate" => parameter::recalibrate(case),
        "tsc_early_khz" => parameter::early_khz(case),
        "remove-parameter" => parameter::remove(case),
        "hpet=disable" => parameter::disable_hpet(case),
        "max_cstate" => Some(parameter::max_cstate(case)),
        "no-kvmclock" => parameter::no_kvmclock(case),
        "newer-kernel" => machine::newer_kernel(case),
        "reboot" => Some(machine::reboot(case)),
        "bios-update" => machine::bios_update(case),
        "pre-boot-synchroniser" => machine::pre_boot_synchroniser(case),
        "enable-hpet" => machine::enable_hpet(case),
        "64-bit" => Some(machine::use_64_bit(case)),
        "vsyscall64=1" => Some(machine::vsyscall64(case)),
        "synchronise" => machine::synchronise(case),
        "stop-tracing" => Some(machine::stop_tracing(case)),
        "find-stall" => Some(machine::find_stall(case)),
        "read-log" => Some(machine::read_log(case)),
        "measure" => Some(machine::measure(case)),
        "coarse" => Some(machine::coarse(case)),
        "set-clock-after-restore" => Some(machine::set_clock(case)),
        "cold-boot" => Some(guest::cold_boot(case)),
        "paravirtprovider-kvm" => guest::paravirtprovider(case),
        "fewer-vcpus" => guest::fewer_vcpus(case),
        "invtsc" => guest::invtsc(case),
        "kvm-clock" => guest::kvm_clock(case),
        "pin-vcpus" => guest::pin_vcpus(case),
        "guest-support" => guest::guest_support(case),
        "host-tsc" => guest::host_tsc(case),
        "suspend-guests" => guest::suspend_guests(case),
        "wsl-shutdown" => guest::wsl_shutdown(case),
        _ => None,
    }
}
