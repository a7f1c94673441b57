//! Fixes of the machine itself: firmware, kernel, what to look at, what to run.

use super::bootloader::{Family, family};
use super::parameter::MEASURE;
use super::wording::capitalised;
use super::{CURRENT, Case, Draft, Place};
use crate::facts::Sign;
use crate::log::event::Kind;
use crate::rules::catalogue::Label;
use crate::rules::finding::Basis;
use crate::rules::trust::uses_tsc;

/// What to look for in the log.
const GREP: &str = "grep -i -e tsc -e clocksource -e hpet -e 'pm-timer'";
const CHRONY: &str =
    "chronyc tracking   # Frequency: below 100 ppm is normal, above 500 ppm is not";
fn own(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

/// `None` if the kernel is new enough, as far as its number tells.
pub(super) fn newer_kernel(case: &Case) -> Option<Draft> {
    let (since, gain) = wanted_kernel(case)?;
    if case.kernel_since(since.0, since.1, None) == Some(true) {
        return None;
    }
    let version = format!("{}.{}", since.0, since.1);
    let now = case.facts.kernel().map(|kernel| kernel.release.clone());
    let el = case.facts.kernel().and_then(|kernel| kernel.el());
    let command = match family(case.facts) {
        _ if el.is_some_and(|el| el < 8) => {
            "# not by an update of this release: RHEL 8 and its like have 4.18"
        }
        Some(Family::Debian) => "sudo apt update && sudo apt full-upgrade",
        Some(Family::RedHat) => "sudo dnf upgrade kernel",
        Some(Family::Suse) => "sudo zypper update kernel-default",
        Some(Family::Arch) => "sudo pacman -Syu",
        None => "# by the distribution's packages, or a newer release of it",
    };
    let is_now = now.map(|now| format!(" This one is {now}.")).unwrap_or_default();
    Some(Draft {
        title: Some(format!("use a kernel from {version} on")),
        why: format!("From {version} on {gain}.{is_now}"),
        place: if case.is_container() { Place::Host } else { Place::Here },
        commands: own(&[command, "sudo systemctl reboot"]),
        verify: own(&[&format!("uname -r   # must be {version} or later"), "clockscope doctor"]),
        caveats: own(&["Vendors add later parts to kernels with old numbers: measure first."]),
        basis: Basis { needs_kernel: true, ..Basis::default() },
        ..Draft::default()
    })
}

fn wanted_kernel(case: &Case) -> Option<((u32, u32), &'static str)> {
    let vdso = [Label::VdsoSupportDependsOnKernel, Label::VdsoFallsBack];
    if case.found(&vdso) {
        match case.verdict.source.as_deref() {
            Some(name) if name.starts_with("hyperv") => {
                return Some(((4, 12), "the vDSO reads Hyper-V's page"));
            }
            Some("xen") => {
                return Some((
                    (4, 16),
                    "the vDSO reads Xen's clock, if Xen says that it is stable",
                ));
            }
            Some("kvm-clock") => {
                return Some((
                    (3, 8),
                    "the vDSO reads kvm-clock, if the host says that it is stable",
                ));
            }
            _ => {}
        }
    }
    let mended = case.because.iter().filter_map(|finding| finding.label.bearing().mended);
    mended.min_by_key(|(place, ..)| *place).map(|(_, since, gain)| (since, gain))
}

/// Any machine.
pub(super) fn reboot(case: &Case) -> Draft {
    let (place, commands) = match case.is(&["wsl", "wsl2"]) {
        true => (Place::Windows, own(&["wsl --shutdown"])),
        false => (Place::Here, own(&["sudo systemctl reboot"])),
    };
    Draft {
        title: Some("reboot, to get the TSC back".to_owned()),
        why: case.so("what is marked unstable stays so until the next boot."),
        place: if case.is_container() { Place::Host } else { place },
        commands,
        verify: case.verify_source(case.next),
        ..Draft::default()
    }
}

/// Vendor and product, if DMI tells them.
fn product(case: &Case) -> Option<String> {
    let field = |wanted: &str| {
        case.facts.signs.iter().find_map(|sign| match &sign.value {
            Sign::Dmi(name, value) if name == wanted => Some(value.trim().to_owned()),
            _ => None,
        })
    };
    match (field("sys_vendor"), field("product_name")) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (vendor, product) => vendor.or(product),
    }
}

/// Not for guests, which have no firmware of their own, nor where the CPU is at fault.
pub(super) fn bios_update(case: &Case) -> Option<Draft> {
    if case.is_guest() || case.may_never_use_tsc() {
        return None;
    }
    let machine = product(case).map(|name| format!(" This machine is {name}.")).unwrap_or_default();
    let mut commands = own(&[
        "grep . /sys/class/dmi/id/bios_{vendor,version,date}",
        "fwupdmgr refresh && fwupdmgr get-updates && fwupdmgr update",
        "# else from the vendor's site",
    ]);
    if case.found(&[Label::TscWarpFirmware, Label::TscWarp, Label::TscOffsetMeasured]) {
        commands.push(
            "sudo systemctl poweroff   # a cold start: a warm one may keep counters".to_owned(),
        );
    }
    let verify = match case.found(&[Label::TscRateWrong]) {
        true => own(&[CHRONY]),
        false => own(&[
            "sudo dmesg | grep -i -e 'tsc warp' -e 'TSC ADJUST' -e 'tsc.*unstable'   # must print nothing",
            "clockscope wrongness   # must find no warp",
        ]),
    };
    Some(Draft {
        why: format!("{}{machine}", case.so("only the firmware can set that right.")),
        commands,
        verify,
        ..Draft::default()
    })
}

/// Not for guests.
pub(super) fn pre_boot_synchroniser(case: &Case) -> Option<Draft> {
    if case.is_guest() {
        return None;
    }
    Some(Draft {
        why: case.so("where the vendor has no update, a program can set the counters before the kernel looks at them."),
        commands: own(&["# for example github.com/Zanasin/tscsync, an EFI program"]),
        verify: case.verify_source(case.next),
        ..Draft::default()
    })
}

/// Not for guests, not without a PC's firmware, which has DMI tables, and not where the kernel turned it off.
pub(super) fn enable_hpet(case: &Case) -> Option<Draft> {
    let no_firmware = case.facts.events().any(|event| event.kind == Kind::DmiAbsent);
    if case.is_guest() || no_firmware || case.is_available("hpet") == Some(true) {
        return None;
    }
    Some(Draft {
        why: case
            .so("an HPET loses no time, and judges the TSC better than ticks or a 24-bit timer."),
        commands: own(&[
            "sudo systemctl reboot --firmware-setup   # look for HPET, High Precision Event Timer",
        ]),
        verify: vec![format!("cat {}   # must have hpet", CURRENT.replace("current", "available"))],
        ..Draft::default()
    })
}

/// ARM.
pub(super) fn use_64_bit(case: &Case) -> Draft {
    Draft {
        why: case.so("64-bit programs read the counter in the vDSO."),
        commands: own(&["uname -m   # must be aarch64: install the 64-bit image"]),
        verify: own(&["clockscope doctor   # must say: fast"]),
        ..Draft::default()
    }
}

/// Kernels up to 3.0.
pub(super) fn vsyscall64(case: &Case) -> Draft {
    Draft {
        why: case.so("with 1 it answers by itself, at once."),
        commands: own(&[
            "sudo sysctl -w kernel.vsyscall64=1",
            "echo kernel.vsyscall64=1 | sudo tee -a /etc/sysctl.conf",
        ]),
        verify: own(&["cat /proc/sys/kernel/vsyscall64   # must print 1", "clockscope doctor"]),
        ..Draft::default()
    }
}

/// Not in a container.
pub(super) fn synchronise(case: &Case) -> Option<Draft> {
    if case.is_container() {
        return None;
    }
    let install = match family(case.facts) {
        Some(Family::Debian) => "sudo apt install chrony",
        Some(Family::RedHat) => "sudo dnf install chrony && sudo systemctl enable --now chronyd",
        Some(Family::Suse) => "sudo zypper install chrony && sudo systemctl enable --now chronyd",
        Some(Family::Arch) | None => "sudo systemctl enable --now systemd-timesyncd",
    };
    Some(Draft {
        why: case.so("a daemon keeps it right."),
        commands: own(&[install]),
        verify: own(&["timedatectl show -p NTPSynchronized   # must print yes, after a minute"]),
        ..Draft::default()
    })
}

/// Who traces, if known.
pub(super) fn stop_tracing(case: &Case) -> Draft {
    let tracing = case.facts.measured.as_ref().map(|measured| &measured.host.syscall_tracing);
    let who = tracing.map(|tracing| tracing.who.join("; ")).filter(|who| !who.is_empty());
    Draft {
        why: match who {
            Some(who) => format!("Each system call pays for it: {who}."),
            None => case.so("it makes each system call dearer, for all processes."),
        },
        commands: own(&[
            "sudo bpftool prog show | grep -e tracepoint -e kprobe",
            "sudo cat /sys/kernel/tracing/set_event   # syscalls:... must not be there",
        ]),
        verify: own(&["clockscope doctor   # must not name it any more"]),
        ..Draft::default()
    }
}

/// What to look at.
pub(super) fn find_stall(case: &Case) -> Draft {
    let mut commands = own(&[
        "journalctl -k -b | grep -B 20 -i 'clocksource.*unstable'   # what came just before?",
    ]);
    if case.is_guest() {
        commands.push("vmstat 1 60   # column st: time that the host took away".to_owned());
    } else {
        commands.push(
            "sudo hwlatdetect --duration=600   # rt-tests: stalls by the firmware (SMI)".to_owned(),
        );
    }
    Draft { why: case.so("it comes back as long as the stall does."), commands, ..Draft::default() }
}

/// The log of this boot.
pub(super) fn read_log(case: &Case) -> Draft {
    let source = case.verdict.source.as_deref().unwrap_or("a slow clocksource");
    Draft {
        title: Some("read why the kernel gave the TSC up".to_owned()),
        why: format!("The kernel printed once why it uses {source}; the fix depends on it."),
        place: if case.is_container() { Place::Host } else { Place::Here },
        commands: own(&[
            &format!("sudo dmesg | {GREP}"),
            &format!(
                "journalctl -k -b | {GREP}   # where dmesg no longer reaches back to the boot"
            ),
            "sudo clockscope doctor   # reads it by itself",
        ]),
        verify: Vec::new(),
        caveats: own(&[
            "Look for `Marking TSC unstable due to ...`, `Measured ... cycles TSC warp`, \
             `Marking clocksource 'tsc' as unstable`.",
        ]),
        ..Draft::default()
    }
}

/// What measurements tell: of the vDSO doctor's own, of the TSC those of wrongness.
pub(super) fn measure(case: &Case) -> Draft {
    if let Some(doubt) = case.doubt().filter(|_| case.because.iter().any(|one| uses_tsc(one))) {
        return before_tsc(case, &doubt.why);
    }
    let vdso =
        [Label::VdsoSupportDependsOnKernel, Label::KvmClockNoVdsoSuspected, Label::EmulatedKernel];
    let mut commands = own(&[
        "clockscope wrongness --time 60   # warp, offsets of the CPUs, rate of the TSC",
        CHRONY,
    ]);
    if case.found(&vdso) {
        return Draft {
            title: Some("measure how the clock is read".to_owned()),
            why: case.so("no file shows it, and a measurement takes a second."),
            commands: own(&[
                "clockscope doctor   # on the machine itself: compares vDSO and system call",
            ]),
            ..Draft::default()
        };
    }
    let mut basis = Basis { measures: true, ..Basis::default() };
    let effect = if case.found(&[Label::NeedsRateMeasurement]) {
        "a minute of measurement can."
    } else if case.found(&[
        Label::TscWarp,
        Label::TscWarpSmall,
        Label::PerCpuSyncSuspicious,
        Label::TscWarpRuntime,
    ]) {
        commands.truncate(1);
        "a measurement shows how far apart they are now."
    } else if case.verdict.source.as_deref().is_some_and(|name| name.starts_with("tsc")) {
        // The kernel's clock is the TSC: only another clock can judge it.
        commands.remove(0);
        basis.measures = false;
        "only another clock, the network's, shows by how much."
    } else {
        "a measurement shows whether the TSC is right."
    };
    Draft { why: case.so(effect), commands, basis, ..Draft::default() }
}

/// What `clockscope wrongness` must find before the TSC is used, where nothing proves it.
fn before_tsc(case: &Case, why: &str) -> Draft {
    let mut commands = vec![MEASURE.replace("first: ", "idle and again under load; must find: ")];
    let reads = "clockscope doctor   # on the machine itself: compares vDSO and system call";
    commands.extend(case.found(&[Label::VdsoSupportDependsOnKernel]).then(|| reads.to_owned()));
    let why = capitalised(why);
    Draft {
        title: Some("measure the TSC before anything uses it".to_owned()),
        why: format!("An entry in the kernel's list is no proof that a TSC is good. {why}."),
        commands,
        caveats: own(&["If it finds anything else, leave the TSC alone."]),
        basis: Basis { measures: true, ..Basis::default() },
        ..Draft::default()
    }
}

/// What programs can do.
pub(super) fn coarse(case: &Case) -> Draft {
    let source = case.verdict.source.as_deref().unwrap_or("");
    let is_arm = case.is(&["arm64", "arm32"]) || source.starts_with("arm");
    let command = match is_arm {
        true => "clock_gettime(CLOCK_MONOTONIC_COARSE, &now);",
        false => "clockscope run --clock coarse -- CMD   # to see what it gains",
    };
    Draft {
        why: case.so("coarse clocks stay cheap, since they read no device."),
        commands: own(&[command]),
        ..Draft::default()
    }
}

/// After a snapshot.
pub(super) fn set_clock(case: &Case) -> Draft {
    let mut caveats = Vec::new();
    if case.is(&["firecracker"]) {
        caveats.push(
            "Better: restore with clock_realtime and kvm-clock as the clocksource.".to_owned(),
        );
    }
    Draft {
        why: case.so("the wall clock has to be stepped once."),
        commands: own(&["sudo chronyc makestep   # or: sudo systemctl restart systemd-timesyncd"]),
        verify: own(&["timedatectl"]),
        caveats,
        ..Draft::default()
    }
}
