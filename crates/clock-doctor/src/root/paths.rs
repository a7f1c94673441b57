//! The files that doctor reads: one table for reading directories and archives, and for `capture`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The kind of a file, which decides how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Short: read whole, up to `super::SMALL` bytes.
    Small,
    /// A log of any length: read as a stream.
    Log,
}

/// The two places of a machine's DMI fields; the first is a link to the second.
pub const DMI: [&str; 2] = ["sys/class/dmi/id", "sys/devices/virtual/dmi/id"];
/// DMI fields that name a maker or a product; none of them holds a serial number.
pub(crate) const DMI_FIELDS: [&str; 7] = [
    "sys_vendor",
    "product_name",
    "product_version",
    "board_vendor",
    "board_name",
    "bios_vendor",
    "bios_version",
];
/// Files with the output of `dmidecode`.
pub(crate) const DMIDECODE: [&str; 2] = ["dmidecode", "sos_commands/hardware/dmidecode"];
/// Files with the output of `uname -a`.
pub(crate) const UNAME: [&str; 2] = ["sos_commands/kernel/uname_-a", "uname"];
/// The two places of a device tree; the first is a link to the second.
pub(crate) const DEVICE_TREE: [&str; 2] = ["proc/device-tree", "sys/firmware/devicetree/base"];
/// The files of a device tree that are read.
pub(crate) const DEVICE_TREE_FIELDS: [&str; 3] =
    ["hypervisor/compatible", "timer/compatible", "timer/arm,cpu-registers-not-fw-configured"];
/// Files with chronyd's drift.
pub(crate) const CHRONY_DRIFT: [&str; 3] =
    ["var/lib/chrony/drift", "var/lib/chrony/chrony.drift", "var/lib/chrony.drift"];
/// Files with ntpd's drift.
pub(crate) const NTP_DRIFT: [&str; 5] = [
    "var/lib/ntp/ntp.drift",
    "var/lib/ntp/drift",
    "var/lib/ntpsec/ntp.drift",
    "etc/ntp.drift",
    "etc/ntp/drift",
];
/// The directory of the first (and only) clocksource device.
pub const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// The id of the boot. A capture does not save it, because it would identify the machine of a log line.
pub(crate) const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// Short files that stand alone.
const SINGLE: [&str; 17] = [
    "etc/os-release",
    "usr/lib/os-release",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/arch",
    "proc/sys/kernel/vsyscall64",
    BOOT_ID,
    "proc/version",
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/xen/capabilities",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "sys/devices/system/cpu/online",
    "sys/hypervisor/type",
    "run/systemd/container",
    "run/.containerenv",
    crate::measured::FILE,
];

/// Logs, in order of preference. A `*` at the end stands for any ending.
pub(crate) const LOGS: [&str; 10] = [
    "dmesg",
    "dmesg.txt",
    "var/log/dmesg",
    "sos_commands/kernel/dmesg*",
    "sos_commands/logs/journalctl_--no-pager*",
    "journalctl",
    "journalctl.txt",
    "var/log/kern.log",
    "var/log/messages",
    "var/log/syslog",
];

/// File name endings of archives.
pub(crate) const ARCHIVES: [&str; 9] =
    [".tar", ".tar.zst", ".tar.gz", ".tar.xz", ".tgz", ".txz", ".tzst", ".tar.zstd", ".tar.gzip"];

/// Whether a file has an archive's ending.
pub fn is_archive(name: &str) -> bool {
    ARCHIVES.iter().any(|ending| name.ends_with(ending))
}

/// All short files.
static SMALL: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let below = |at: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{at}/{name}")).collect()
    };
    let single = [&SINGLE[..], &DMIDECODE, &UNAME, &CHRONY_DRIFT, &NTP_DRIFT].concat();
    let mut all: BTreeSet<String> = single.into_iter().map(str::to_owned).collect();
    all.extend(DMI.iter().flat_map(|at| below(at, &DMI_FIELDS)));
    all.extend(DEVICE_TREE.iter().flat_map(|at| below(at, &DEVICE_TREE_FIELDS)));
    all
});

/// The kind of the file, if doctor reads it. `below` is relative to the root, with single slashes.
pub fn content(below: &str) -> Option<Content> {
    let is_log = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => below.strip_prefix(start).is_some_and(is_plain_ending),
        None => pattern == below,
    };
    if LOGS.iter().any(|pattern| is_log(pattern)) {
        return Some(Content::Log);
    }
    SMALL.contains(below).then_some(Content::Small)
}

/// Whether a text may stand for the `*` of a pattern: a short name of plain characters, uncompressed.
pub(crate) fn is_plain_ending(rest: &str) -> bool {
    const LENGTH: RangeInclusive<usize> = 0..=64;
    const PACKED: [&str; 4] = [".gz", ".xz", ".zst", ".bz2"];
    LENGTH.contains(&rest.len())
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !PACKED.iter().any(|ending| rest.ends_with(ending))
}

/// Names at the top of a machine's root, an sosreport or a capture.
pub(crate) const TOP: [&str; 11] = [
    "usr",
    "proc",
    "sys",
    "var",
    "etc",
    "run",
    "sos_commands",
    "clockscope",
    "dmesg",
    "dmesg.txt",
    "journalctl",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_file_is_known_as_what_it_is() {
        assert!(SMALL.len() > 40);
        for path in &*SMALL {
            assert_eq!(content(path), Some(Content::Small), "{path}");
            assert!(TOP.iter().any(|top| path.starts_with(top)) || !path.contains('/'), "{path}");
        }
        for path in LOGS {
            assert_eq!(content(&path.replace('*', "_-T.txt")), Some(Content::Log), "{path}");
        }
        for other in [
            "etc/shadow",
            "proc/kcore",
            "dmesg/",
            "sys/class/dmi/id/product_serial",
            "sos_commands/kernel/dmesg/../../../etc/shadow",
            "sos_commands/kernel/dmesg.gz",
            "",
        ] {
            assert_eq!(content(other), None, "{other}");
        }
    }
}
