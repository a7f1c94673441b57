//! Whether a fix applies to a machine, and the catalogue's lines for it.

use super::Draft;
use super::bootloader::family;
use super::case::Case;
use crate::rules::catalogue::capitalised;
use crate::rules::state::source::rank;
use crate::rules::trust::uses_tsc;
use crate::rules::{EventKind, Fix, Label, Says, Sign, State, counts_ticks, is_tsc, params};
use crate::utc::{Kind, Reference};

/// Platforms whose hypervisor belongs to a provider.
const CLOUDS: &str = "aws gce azure firecracker";

/// `None` if the fix does not apply.
pub(super) fn draft<'a>(fix: Fix, case: &Case<'a>) -> Option<Draft<'a>> {
    let draft = match fix {
        Fix::SwitchToTsc => switch(case, "tsc")?,
        Fix::SwitchToHpet => switch(case, "hpet")?,
        Fix::SwitchToKvmClock => switch(case, "kvm-clock")?,
        Fix::SwitchSource => switch_to_best(case)?,
        Fix::ClocksourceTsc => clocksource_tsc(case)?,
        Fix::Keep => keep(case)?,
        Fix::TscNowatchdog => no_watchdog(case)?,
        Fix::TscReliable => reliable(case)?,
        Fix::TscRecalibrate => {
            case.lacks("tsc=recalibrate").then_some(())?;
            Draft::default().needs_kernel(has(case, (6, 3), None)?)
        }
        Fix::TscEarlyKhz => early_khz(case)?,
        Fix::RemoveParameter => remove(case)?,
        Fix::HpetDisable => {
            // From 5.16 on, the kernel disables such an HPET by itself.
            let is_old = case.kernel_since(5, 16, None) != Some(true);
            Draft::when(is_old && case.lacks("hpet=disable"), &[])?
        }
        Fix::NoKvmclock => {
            let is_current = case.verdict.source.as_deref() == Some("kvm-clock");
            Draft::when(is_current && case.lacks("no-kvmclock"), &[])?
        }
        Fix::NewerKernel => newer_kernel(case)?,
        Fix::Measure => measure(case),
        Fix::BiosUpdate => {
            (!case.is_guest() && !case.may_never_use_tsc()).then(|| bios_update(case))?
        }
        Fix::EnableHpet => {
            // A PC's firmware provides DMI tables.
            let no_firmware = case.facts.logged(|kind| *kind == EventKind::DmiAbsent).is_some();
            let has_hpet = case.facts.lists("hpet") == Some(true);
            Draft::when(!case.is_guest() && !no_firmware && !has_hpet, &[])?
        }
        Fix::StopTracing => stop_tracing(case),
        _ => simple(fix, case)?,
    };
    let expected = if draft.expected.is_empty() { case.next.to_vec() } else { draft.expected };
    Some(Draft { expected, ..draft })
}

/// Fixes that depend on the platform, and on little else.
fn simple<'a>(fix: Fix, case: &Case<'a>) -> Option<Draft<'a>> {
    let is_cloud = case.is(CLOUDS);
    let source = case.verdict.source.as_deref();
    let monitor = if is_qemu(case) { "qemu" } else { "other" };
    let monitor_or_virtualbox = if case.is("virtualbox") { "virtualbox" } else { monitor };
    Some(match fix {
        Fix::MaxCstate => Draft::default(),
        Fix::Reboot => Draft::of(&[if case.is("wsl wsl2") { "wsl" } else { "other" }]),
        Fix::PreBootSynchroniser => Draft::when(!case.is_guest(), &[])?,
        Fix::Use64Bit => Draft::when(case.is("arm32"), &[])?,
        Fix::Vsyscall64 => Draft::when(case.kernel_since(3, 1, None) != Some(true), &[])?,
        Fix::Synchronise => {
            // Distributions with kernels before 3.0 have no systemd.
            let is_new = case.kernel_since(3, 0, None) != Some(false);
            let tag = family(case.facts).filter(|_| is_new).unwrap_or("other");
            Draft::when(!case.is_container(), &[tag])?
        }
        Fix::FindStall => Draft::of(&[if case.is_guest() { "guest" } else { "machine" }]),
        Fix::ReadLog => Draft::default().with("now", source.unwrap_or("a slow clocksource")),
        Fix::Coarse => {
            let is_arm = case.is("arm64 arm32") || source.is_some_and(|it| it.starts_with("arm"));
            Draft::of(&[if is_arm { "arm" } else { "x86" }])
        }
        Fix::SetClockAfterRestore => set_clock(case),
        Fix::ColdBoot => Draft::of(&[monitor_or_virtualbox]),
        Fix::ParavirtproviderKvm => case.is("virtualbox").then(|| paravirtprovider(case))?,
        Fix::FewerVcpus => Draft::when(case.is_guest() && !is_cloud, &[monitor_or_virtualbox])?,
        Fix::Invtsc => {
            const ELSEWHERE: &str =
                "bare-metal virtualbox vmware bhyve wsl wsl2 xen hyperkit gvisor";
            let is_elsewhere = is_cloud || case.is(ELSEWHERE) || case.is_container();
            let tag = if case.is("hyperv") { "hyperv" } else { "other" };
            Draft::when(!is_elsewhere, &[tag])?
        }
        Fix::KvmClock => kvm_clock(case)?,
        Fix::PinVcpus => Draft::when(case.is_guest(), &[if is_cloud { "cloud" } else { monitor }])?,
        Fix::GuestSupport => Draft::when(case.is("vmware"), &[])?,
        Fix::HostTsc => {
            let tag = if case.is_fast(case.next) { "fast" } else { "other" };
            Draft::when(!is_cloud && !case.is("bare-metal"), &[tag])?
        }
        Fix::SuspendGuests => {
            let tag = if case.is("hyperkit") { "hyperkit" } else { monitor };
            Draft::when(case.is_guest(), &[tag])?
        }
        Fix::WslShutdown => Draft::when(case.is("wsl wsl2"), &[])?,
        _ => return None,
    })
}

/// `None` if the kernel is too old; otherwise whether its version is unknown.
fn has(case: &Case, since: (u32, u32), el: Option<u32>) -> Option<bool> {
    let has_it = case.kernel_since(since.0, since.1, el);
    (has_it != Some(false)).then_some(has_it.is_none())
}

fn is_qemu(case: &Case) -> bool {
    case.is("kvm qemu") && !case.is(CLOUDS) && !case.is("virtualbox bhyve hyperkit")
}

/// `None` if that source is current, or known to be unavailable.
fn switch<'a>(case: &Case<'a>, name: &'a str) -> Option<Draft<'a>> {
    let source = case.verdict.source.as_deref();
    if source == Some(name) || case.facts.lists(name) == Some(false) {
        return None;
    }
    let tag = match (name, source) {
        ("tsc", _) if case.doubt().is_some() => "open",
        ("tsc", _) if case.facts.lists(name) == Some(true) => "listed",
        ("tsc", _) => "unlisted",
        ("hpet", Some("acpi_pm")) => "wraps",
        _ => "cheaper",
    };
    let draft = Draft { like: Some(Fix::SwitchToTsc), expected: vec![name], ..Draft::of(&[tag]) };
    let loses = source.is_some_and(counts_ticks);
    let flaw = if loses { "loses time with each lost tick" } else { "is slower to read" };
    let draft = draft.with("now", source.unwrap_or("the present clocksource")).with("name", name);
    Some(draft.with("flaw", flaw).tag_if(name != "kvm-clock", "named"))
}

/// `None` if no available clocksource, except the TSC, is cheaper than the current one.
fn switch_to_best<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    let now = case.verdict.source.as_deref()?;
    let available = case.facts.available.as_ref()?.value.iter();
    let best = available.filter(|name| !is_tsc(name)).min_by_key(|name| rank(name))?;
    if rank(best) < rank(now) { switch(case, best) } else { None }
}

fn clocksource_tsc<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    if !case.lacks("clocksource=tsc") || case.facts.lists("tsc") == Some(false) {
        return None;
    }
    let is_xen =
        case.is("xen") && !case.because.iter().any(|one| one.forbids.contains(&Fix::TscReliable));
    let adds_reliable = is_xen && case.lacks("tsc=reliable");
    let is_open = case.doubt().is_some();
    let draft = Draft { adds_reliable, ..Draft::default() }
        .tag_if(is_open, "open")
        .tag_if(is_xen && !is_open, "warp")
        .tag_if(is_xen, "xen");
    let by_aws = is_xen && case.is("aws");
    let words = if adds_reliable { "clocksource=tsc tsc=reliable" } else { "clocksource=tsc" };
    Some(draft.tag_if(by_aws, "aws").tag_if(!by_aws, "elsewhere").with("words", words))
}

/// The advice to change nothing, against a tempting change. `None` if time is counted in ticks: a lost tick is lost
/// time.
fn keep<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    let source = case.verdict.source.as_deref();
    let effect = match source {
        _ if case.found(&[Label::ArmErratumVdsoOff, Label::ArmCntvctTrapped]) => "arm",
        Some(name) if counts_ticks(name) => return None,
        Some(_) if case.verdict.state == State::Fast => "fast",
        Some(_) => "slower",
        None => "device",
    };
    let clause = case.doubt().filter(|doubt| !doubt.may_use).map(|doubt| doubt.why);
    let named = if source.is_some() { "named" } else { "unnamed" };
    let draft = Draft { clause, ..Draft::of(&[effect, named]) };
    Some(draft.with("now", source.unwrap_or_default()))
}

fn no_watchdog<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    let is_unknown = has(case, (5, 2), Some(8))?;
    if !case.lacks("tsc=nowatchdog") || !case.lacks("tsc=reliable") {
        return None;
    }
    let is_unproven = case.says(Says::RateIsDoubtful) || !case.says(Says::TscIsAcquitted);
    Some(Draft::default().tag_if(is_unproven, "unproven").needs_kernel(is_unknown))
}

fn reliable<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    case.lacks("tsc=reliable").then_some(())?;
    let compared = case.says(Says::ComparisonRefuses);
    let too_old = compared && case.kernel_since(3, 3, None) == Some(false);
    let early = case.kernel_since(5, 5, None) == Some(false)
        && case.kernel_since(4, 16, None) == Some(true);
    let draft = Draft::of(&[if compared { "compared" } else { "watched" }]);
    let draft = draft.tag_if(too_old, "old").tag_if(early && !compared, "early");
    Some(draft.needs_kernel(compared && case.facts.kernel().is_none()))
}

/// The rate that the kernel printed, if it measured one. From 5.8 on (bd35c77e32e4).
fn early_khz<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    let line = case.facts.command_line.as_ref();
    if line.is_some_and(|line| line.value.value("tsc_early_khz").is_some()) {
        return None;
    }
    let measured = case.facts.events().rev().find_map(|event| match event.kind {
        EventKind::Recalibrated(mhz) => Some((mhz * 1e3).round()),
        _ => None,
    });
    let (tag, word) = match measured {
        Some(khz) => ("measured", format!("tsc_early_khz={khz:.0}")),
        // N is a placeholder, not a value for the command line.
        None if case.is_guest() => ("guest", "tsc_early_khz=N".to_owned()),
        None => ("machine", "tsc_early_khz=N".to_owned()),
    };
    Some(Draft::of(&[tag]).with("word", word).needs_kernel(has(case, (5, 8), None)?))
}

/// Removes the words that findings object to from the command line; `None` if none of them is present.
fn remove<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    let line = case.facts.command_line.as_ref().map(|line| &line.value);
    let words = line.into_iter().flat_map(|line| &line.words).map(String::as_str);
    let mut words: Vec<&str> = words.filter(|word| unwanted(case, word)).collect();
    words.dedup();
    if line.is_none() {
        words.extend(params::word_in_log(case.facts).map(|(_, word)| word));
    }
    if words.is_empty() {
        return None;
    }
    let missing = asked_and_unavailable(case);
    let is_hpet = words.iter().any(|word| words_against("hpet").contains(word));
    let turns_off = |source| words_against(source).iter().any(|word| !case.lacks(word));
    let draft = Draft::default().tag_if(is_hpet, "hpet");
    let draft = draft.tag_if(!is_hpet && !case.next.is_empty(), "next");
    let draft = draft.tag_if(missing.is_some_and(|source| !turns_off(source)), "missing");
    let draft = draft.with("names", words.join(" and ")).with("words", words.join(" "));
    let draft = draft.with("list", words.join(", ")).with("next", case.next.join(", or "));
    Some(draft.with("missing", missing.unwrap_or_default()))
}

/// The source that `clocksource=` requests, if it is known to be unavailable.
fn asked_and_unavailable<'a>(case: &Case<'a>) -> Option<&'a str> {
    let asked = case.facts.command_line.as_ref()?.value.value("clocksource")?;
    (case.facts.lists(asked) == Some(false)).then_some(asked)
}

/// Words that disable a clocksource.
fn words_against(source: &str) -> &'static [&'static str] {
    match source {
        "hpet" => &["nohpet", "hpet=disable"],
        "kvm-clock" => &["no-kvmclock", "nopv"],
        "tsc" => &["tsc=unstable", "notsc"],
        _ => &[],
    }
}

/// Whether a finding wants this word removed from the command line.
pub(super) fn unwanted(case: &Case, word: &str) -> bool {
    let value = word.strip_prefix("clocksource=");
    let keeps_tsc_away = words_against("tsc").contains(&word)
        || value.is_some_and(|name| name != "tsc" && case.facts.lists(name) != Some(false));
    if keeps_tsc_away && case.may_never_use_tsc() {
        return false;
    }
    let is_choice =
        value.is_some_and(|value| value != "tsc" || case.facts.lists("tsc") == Some(false));
    let against = || asked_and_unavailable(case).map_or(&[][..], words_against);
    case.because.iter().any(|finding| finding.label.bearing().removes.contains(&word))
        || case.found(&[Label::ParamVsyscall]) && word.starts_with("vsyscall=")
        || is_choice && case.says(Says::IsChoice)
        || case.found(&[Label::ParamClocksourceUnavailable]) && against().contains(&word)
}

/// `None` if the kernel is new enough, judged by its version number.
fn newer_kernel<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    let mended = || case.because.iter().filter_map(|finding| finding.label.bearing().mended).min();
    let is_route = case.found(&[Label::VdsoSupportDependsOnKernel, Label::VdsoFallsBack]);
    let (tag, since, gain) = match case.verdict.source.as_deref().filter(|_| is_route) {
        Some(name) if name.starts_with("hyperv") => ("hyperv", (4, 12), ""),
        Some("xen") => ("xen", (4, 16), ""),
        Some("kvm-clock") => ("kvm-clock", (3, 8), ""),
        _ => mended().map(|(_, since, gain)| ("mended", since, gain))?,
    };
    if case.kernel_since(since.0, since.1, None) == Some(true) {
        return None;
    }
    let kernel = case.facts.kernel();
    let is_old_el = kernel.and_then(|kernel| kernel.el()).is_some_and(|el| el < 8);
    let family = if is_old_el { "old-el" } else { family(case.facts).unwrap_or("other") };
    let now = kernel.map(|kernel| format!(" This one is {}.", kernel.release));
    let draft = Draft { needs_kernel: true, ..Draft::of(&[tag, family]) };
    let draft = draft.with("version", format!("{}.{}", since.0, since.1));
    Some(draft.with("gain", gain).with("now", now.unwrap_or_default()))
}

/// Vendor and product, if DMI contains them.
fn product(case: &Case) -> Option<String> {
    let field = |wanted: &str| {
        case.facts.signs.iter().find_map(|sign| match &sign.value {
            Sign::Dmi(name, value) if name == wanted => Some(value.trim()),
            _ => None,
        })
    };
    let names: Vec<&str> = ["sys_vendor", "product_name"].into_iter().filter_map(field).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

fn bios_update<'a>(case: &Case<'a>) -> Draft<'a> {
    let apart = [Label::TscWarpFirmware, Label::TscWarp, Label::TscOffsetMeasured];
    let machine = product(case).map(|name| format!(" This machine is {name}."));
    let verify = if case.found(&[Label::TscRateWrong]) { "rate" } else { "other" };
    let draft = Draft::of(&[verify]).tag_if(case.found(&apart), "apart");
    draft.with("machine", machine.unwrap_or_default())
}

fn stop_tracing<'a>(case: &Case<'a>) -> Draft<'a> {
    let tracing = case.facts.measured.as_ref().map(|measured| &measured.host.syscall_tracing);
    let who = tracing.map(|tracing| tracing.who.join("; ")).unwrap_or_default();
    Draft::of(&[if who.is_empty() { "unknown" } else { "known" }]).with("who", who)
}

/// A measurement: of the vDSO by doctor, or of the TSC by `clockscope wrongness`.
fn measure<'a>(case: &Case<'a>) -> Draft<'a> {
    const APART: [Label; 4] =
        [Label::TscWarp, Label::TscWarpSmall, Label::PerCpuSyncSuspicious, Label::TscWarpRuntime];
    const ROUTE: [Label; 3] =
        [Label::VdsoSupportDependsOnKernel, Label::KvmClockNoVdsoSuspected, Label::EmulatedKernel];
    let uses_tsc = case.because.iter().any(|one| uses_tsc(one));
    if let Some(doubt) = case.doubt().filter(|_| uses_tsc) {
        let is_route = case.found(&[Label::VdsoSupportDependsOnKernel]);
        let is_listed = case.facts.lists("tsc") == Some(true);
        let draft = Draft::of(&["tsc"]).tag_if(is_route, "route").tag_if(!is_listed, "unlisted");
        return draft.with("why", capitalised(&doubt.why));
    }
    // If the kernel's clock is the TSC, only another clock can judge it.
    let reads_tsc = case.verdict.source.as_deref().is_some_and(|name| name.starts_with("tsc"));
    Draft::of(match () {
        () if case.found(&ROUTE) => &["vdso", "route"],
        () if case.found(&[Label::NeedsRateMeasurement]) => &["rate", "wrongness", "chrony"],
        () if case.found(&APART) => &["apart", "wrongness"],
        () if reads_tsc => &["clock", "chrony"],
        () => &["other", "wrongness", "chrony"],
    })
}

/// From the clock that doctor has read: a PTP clock of the host, or the RTC; otherwise by the daemon.
fn set_clock<'a>(case: &Case<'a>) -> Draft<'a> {
    let utc = case.facts.measured.as_ref().and_then(|measured| measured.utc.as_ref());
    let references = || utc.iter().flat_map(|utc| &utc.references);
    // A capture may hold any name, which must not become a part of a command.
    let device = |it: &'a Reference| {
        let device = it.name.split(' ').next().filter(|_| it.is_of_host())?;
        let number = device.strip_prefix("/dev/ptp")?;
        number.bytes().all(|digit| digit.is_ascii_digit()).then_some(device)
    };
    let device = references().find_map(device);
    let rtc = references().any(|it| it.kind == Kind::Rtc && it.aside.is_none()) && case.is_guest();
    let tag = match device {
        Some(_) => "phc",
        None if case.is("vmware") => "vmware",
        None if rtc => "rtc",
        None => "daemon",
    };
    let is_debian = family(case.facts) == Some("debian");
    let chrony = if is_debian { "/etc/chrony/chrony.conf" } else { "/etc/chrony.conf" };
    let draft = Draft::of(&[tag]).tag_if(case.is("firecracker"), "firecracker");
    draft.with("device", device.unwrap_or_default()).with("chrony", chrony)
}

fn paravirtprovider<'a>(case: &Case<'a>) -> Draft<'a> {
    let is_old = case.kernel_since(3, 8, Some(7)) == Some(false);
    Draft { like: Some(Fix::ParavirtproviderKvm), ..Draft::default() }.tag_if(is_old, "old")
}

fn kvm_clock<'a>(case: &Case<'a>) -> Option<Draft<'a>> {
    if case.is("virtualbox") {
        return Some(paravirtprovider(case));
    }
    const OTHERS: &str = "vmware bhyve xen hyperv wsl wsl2 hyperkit bare-metal";
    let is_current = case.verdict.source.as_deref() == Some("kvm-clock");
    if case.is(OTHERS) || case.is_container() || is_current {
        return None;
    }
    let tag = if case.found(&[Label::RateRiskTicks]) { "ticks" } else { "other" };
    Some(Draft::of(&[tag]).tag_if(!is_qemu(case), "monitor"))
}
