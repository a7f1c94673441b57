//! Fixes that are parameters of the kernel.

use super::{CURRENT, Case, Draft, Place, bootloader};
use crate::log::event::Kind;
use crate::rules::catalogue::{Label, Says};
use crate::rules::finding::Basis;

/// What to measure before a check is turned off.
pub(super) const MEASURE: &str =
    "clockscope wrongness --time 60   # first: no warp, offsets below a read, drift under 100 ppm";

/// `None` if the kernel does not have it, or has it on its command line.
pub(super) fn no_watchdog(case: &Case) -> Option<Draft> {
    let has_it = case.kernel_since(5, 2, Some(8));
    if has_it == Some(false) || case.has_parameter("tsc=nowatchdog") {
        return None;
    }
    if case.has_parameter("tsc=reliable") {
        return None;
    }
    let (place, mut commands) = bootloader::add(case, "tsc=nowatchdog");
    let mut caveats = Vec::new();
    let mut basis = Basis { needs_kernel: has_it.is_none(), ..Basis::default() };
    let says = |what| case.because.iter().any(|finding| finding.says(what));
    if says(Says::RateIsDoubtful) || !says(Says::TscIsAcquitted) {
        commands.insert(0, MEASURE.to_owned());
        basis = Basis { measures: true, measures_first: Some(0), ..basis };
        caveats.push(
            "Only if the measurement finds nothing: one sample does not show that the TSC is good."
                .to_owned(),
        );
    }
    if has_it.is_none() {
        caveats.push(
            "Kernels before about 5.2, RHEL 8's excepted, ignore it: there it would be \
             tsc=reliable, after a measurement."
                .to_owned(),
        );
    }
    Some(Draft {
        why: case.so(
            "without the watchdog the kernel keeps the TSC, and still compares the CPUs at boot.",
        ),
        place,
        commands,
        verify: case.verify_boot("tsc=nowatchdog"),
        caveats,
        basis,
        ..Draft::default()
    })
}

/// `None` if the command line has it.
pub(super) fn reliable(case: &Case) -> Option<Draft> {
    if case.has_parameter("tsc=reliable") {
        return None;
    }
    let compared = case.found(&[
        Label::TscWarp,
        Label::TscWarpSmall,
        Label::TscWarpHotplug,
        Label::TscAbsent,
        Label::CauseNeedsDmesg,
    ]);
    let too_old = compared && case.kernel_since(3, 3, None) == Some(false);
    let (mut place, boot) = bootloader::add(case, "tsc=reliable");
    let mut commands = vec![MEASURE.to_owned()];
    let mut caveats = Vec::new();
    if too_old {
        // By itself it does nothing.
        place = Place::Here;
        commands.insert(0, "uname -r   # first a kernel from 3.3 on".to_owned());
        caveats.push(
            "Not without a newer kernel: this one compares the CPUs in spite of tsc=reliable."
                .to_owned(),
        );
    }
    commands.extend(boot);
    let is_open = compared && case.facts.kernel().is_none();
    if is_open {
        caveats.push("Kernels before about 3.3 compare the CPUs in spite of it.".to_owned());
    }
    let early = case.kernel_since(5, 5, None) == Some(false)
        && case.kernel_since(4, 16, None) == Some(true);
    if early && !compared {
        caveats.push("Kernels 4.16 to 5.4 ignored it for tsc-early until corrected.".to_owned());
    }
    let effect = match compared {
        true => "with tsc=reliable the kernel does not compare the CPUs, and keeps the TSC.",
        false => "with tsc=reliable the kernel neither watches nor compares the TSC.",
    };
    Some(Draft {
        title: too_old.then(|| "a kernel from 3.3 on, booted with tsc=reliable".to_owned()),
        why: case.so(effect),
        place,
        commands,
        verify: case.verify_boot("tsc=reliable"),
        caveats,
        basis: Basis {
            measures: true,
            measures_first: Some(usize::from(too_old)),
            needs_kernel: is_open,
            ..Basis::default()
        },
        ..Draft::default()
    })
}

/// `None` if the kernel is too old for it.
pub(super) fn recalibrate(case: &Case) -> Option<Draft> {
    let has_it = case.kernel_since(6, 3, None);
    if has_it == Some(false) || case.has_parameter("tsc=recalibrate") {
        return None;
    }
    let (place, commands) = bootloader::add(case, "tsc=recalibrate");
    let mut caveats = Vec::new();
    if has_it.is_none() {
        caveats.push("The kernel has to be 6.3 or later.".to_owned());
    }
    let basis = Basis { needs_kernel: has_it.is_none(), ..Basis::default() };
    Some(Draft {
        why: case
            .so("the kernel then holds it against a timer and prints both rates; it goes on with \
                      the first."),
        place,
        commands,
        verify: vec![
            "sudo dmesg | grep -i 'tsc freq'   # `differs from`: boot with tsc_early_khz=N"
                .to_owned(),
        ],
        caveats,
        basis,
        ..Draft::default()
    })
}

fn verify_rate() -> Vec<String> {
    vec![
        "sudo dmesg | grep -i 'tsc.*mhz'   # must name the right rate last".to_owned(),
        "chronyc tracking   # after an hour: Frequency below 100 ppm".to_owned(),
    ]
}

/// The rate that the kernel printed, where it measured one. From 5.8 on (bd35c77e32e4).
pub(super) fn early_khz(case: &Case) -> Option<Draft> {
    let line = case.facts.command_line.as_ref();
    let is_set = line.is_some_and(|line| line.value.value("tsc_early_khz").is_some());
    let has_it = case.kernel_since(5, 8, None);
    if is_set || has_it == Some(false) {
        return None;
    }
    let measured = case.facts.events().rev().find_map(|event| match event.kind {
        Kind::Recalibrated { mhz } => Some((mhz * 1e3).round()),
        _ => None,
    });
    let word = match measured {
        Some(khz) => format!("tsc_early_khz={khz:.0}"),
        None => "tsc_early_khz=N".to_owned(),
    };
    let (mut place, mut commands) = bootloader::add(case, &word);
    let mut caveats = Vec::new();
    if has_it.is_none() {
        caveats.push("The kernel has to be 5.8 or later.".to_owned());
    }
    if measured.is_none() {
        // N is no word of a command line.
        place = Place::Here;
        commands.insert(
            0,
            match case.is_guest() {
                true => "# N: the host's TSC rate in kHz: `dmesg | grep -i 'tsc.*mhz'` on the host",
                false => {
                    "# N: the TSC's rate in kHz, as the vendor or `TSC freq recalibrated` states it"
                }
            }
            .to_owned(),
        );
    } else {
        caveats.push("The value is what the kernel measured against a timer: good to about 100 ppm; the vendor's is better.".to_owned());
    }
    Some(Draft {
        title: Some(format!("boot with {word}")),
        why: case.so("the parameter states the right rate until the firmware does."),
        place,
        commands,
        verify: verify_rate(),
        caveats,
        basis: Basis { needs_kernel: has_it.is_none(), ..Basis::default() },
        ..Draft::default()
    })
}

/// What the findings say of the command line; `None` if none of it is there.
pub(super) fn remove(case: &Case) -> Option<Draft> {
    let line = &case.facts.command_line.as_ref()?.value;
    let words: Vec<&str> =
        line.words.iter().map(String::as_str).filter(|w| unwanted(case, w)).collect();
    let mut words: Vec<&str> = words;
    words.dedup();
    if words.is_empty() {
        return None;
    }
    let list = words.join(" ");
    let (place, commands) = bootloader::remove(case, &list);
    let mut verify = vec![format!("cat /proc/cmdline   # must not have {}", words.join(", "))];
    if words.iter().any(|word| words_against("hpet").contains(word)) {
        verify.push(format!("cat {}   # must have hpet", CURRENT.replace("current", "available")));
    } else if !case.next.is_empty() {
        let names = case.next.join(", or ");
        verify.push(format!(
            "cat {CURRENT}   # must print {names}; if not, the kernel's log says why"
        ));
    }
    let mut caveats = vec![
        "If the boot loader's configuration does not have it, it is built into the kernel: \
         `grep CONFIG_CMDLINE /boot/config-$(uname -r)`."
            .to_owned(),
    ];
    if let Some(missing) = asked_and_unavailable(case)
        && !turns_off(case, missing)
    {
        caveats.push(format!(
            "Nothing on the command line turns {missing} off: look there for what does."
        ));
    }
    Some(Draft {
        title: Some(format!("take {} off the command line", words.join(" and "))),
        why: case.so("without it the kernel chooses by itself."),
        place,
        commands,
        verify,
        caveats,
        ..Draft::default()
    })
}

/// The source that `clocksource=` asks for, if it is known not to be there.
fn asked_and_unavailable<'a>(case: &'a Case) -> Option<&'a str> {
    let asked = case.facts.command_line.as_ref()?.value.value("clocksource")?;
    (case.is_available(asked) == Some(false)).then_some(asked)
}

/// Words that turn a clocksource off.
fn words_against(source: &str) -> &'static [&'static str] {
    match source {
        "hpet" => &["nohpet", "hpet=disable"],
        "kvm-clock" => &["no-kvmclock", "nopv"],
        "tsc" => &["tsc=unstable", "notsc"],
        _ => &[],
    }
}

fn turns_off(case: &Case, source: &str) -> bool {
    words_against(source).iter().any(|word| case.has_parameter(word))
}

pub(super) fn unwanted(case: &Case, word: &str) -> bool {
    let value = word.strip_prefix("clocksource=");
    let keeps_tsc_away = words_against("tsc").contains(&word)
        || value.is_some_and(|name| name != "tsc" && case.is_available(name) != Some(false));
    if keeps_tsc_away && case.doubt().is_some_and(|doubt| !doubt.may_use) {
        return false;
    }
    let is = |labels: &[Label]| case.found(labels);
    (is(&[Label::ParamTscUnstable]) && ["tsc=unstable", "notsc"].contains(&word))
        || (is(&[Label::ParamNoHpet]) && ["nohpet", "hpet=disable"].contains(&word))
        || (is(&[Label::ParamNoParavirtualClock])
            && ["no-kvmclock", "no-kvmclock-vsyscall", "nopv", "xen_nopv"].contains(&word))
        || (is(&[Label::ParamVdso, Label::VdsoOff]) && ["vdso=0", "vdso32=0"].contains(&word))
        || (is(&[Label::ParamVsyscall]) && word.starts_with("vsyscall="))
        || (is(&[Label::ParamTscReliable, Label::MigrationRisk, Label::AfterResume])
            && word == "tsc=reliable")
        || (is(&[Label::AfterResume]) && word == "clocksource=tsc")
        || (is(&[
            Label::ParamClocksource,
            Label::ParamClocksourceUnavailable,
            Label::TscAvailableNotSelected,
            Label::BetterSourceAvailable,
        ]) && value
            .is_some_and(|value| value != "tsc" || case.is_available("tsc") == Some(false)))
        || (is(&[Label::ParamClocksourceUnavailable])
            && asked_and_unavailable(case)
                .is_some_and(|source| words_against(source).contains(&word)))
}

/// For kernels that do not set an HPET aside that stops in deep sleep; later ones do.
pub(super) fn disable_hpet(case: &Case) -> Option<Draft> {
    if case.kernel_since(5, 4, None) == Some(true) || case.has_parameter("hpet=disable") {
        return None;
    }
    let (place, commands) = bootloader::add(case, "hpet=disable");
    Some(Draft {
        why: case.so(
            "from 5.4 on the kernel sets such an HPET aside by itself; this one needs to be told.",
        ),
        place,
        commands,
        verify: case.verify_boot("hpet=disable"),
        ..Draft::default()
    })
}

/// Keeps a TSC that halts from halting.
pub(super) fn max_cstate(case: &Case) -> Draft {
    let words = "intel_idle.max_cstate=0 processor.max_cstate=1";
    let (place, commands) = bootloader::add(case, words);
    Draft {
        title: Some("keep the CPUs out of deep sleep, if power does not matter".to_owned()),
        why: case.so("kept out of it the counter runs on, and the kernel keeps it."),
        place,
        commands,
        verify: case.verify_boot(words),
        ..Draft::default()
    }
}

/// `None` if the command line has it, or kvm-clock is not current.
pub(super) fn no_kvmclock(case: &Case) -> Option<Draft> {
    if case.has_parameter("no-kvmclock") || case.verdict.source.as_deref() != Some("kvm-clock") {
        return None;
    }
    let (place, commands) = bootloader::add(case, "no-kvmclock");
    Some(Draft {
        why: case.so("without kvm-clock the kernel takes the next best source."),
        place,
        commands,
        verify: case.verify_source(case.next),
        ..Draft::default()
    })
}
