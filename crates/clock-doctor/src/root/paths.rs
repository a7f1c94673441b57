//! The files that doctor reads: one table for reading directories and archives, and for `capture`.

use std::collections::BTreeSet;
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
/// DMI fields that name a maker or a product; none of them holds a serial number. Their section and key in the output
/// of `dmidecode`, and the name of their file.
pub(crate) const DMI_FIELDS: [(&str, &str, &str); 7] = [
    ("System Information", "Manufacturer", "sys_vendor"),
    ("System Information", "Product Name", "product_name"),
    ("System Information", "Version", "product_version"),
    ("Base Board Information", "Manufacturer", "board_vendor"),
    ("Base Board Information", "Product Name", "board_name"),
    ("BIOS Information", "Vendor", "bios_vendor"),
    ("BIOS Information", "Version", "bios_version"),
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
const SINGLE: [&str; 16] = [
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
    "sys/hypervisor/type",
    "run/systemd/container",
    "run/.containerenv",
    crate::measured::FILE,
];

/// Beginnings of the paths of logs, in order of preference.
pub(crate) const LOGS: [&str; 12] = [
    "dmesg",
    "var/log/dmesg",
    "sos_commands/kernel/dmesg",
    "sos_commands/logs/journalctl_--no-pager",
    "journal",
    "kern.log",
    "messages",
    "syslog",
    "var/log/kern.log",
    "var/log/messages",
    "var/log/syslog",
    "var/log/journal",
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
    all.extend(DMI.iter().flat_map(|at| below(at, &DMI_FIELDS.map(|(.., name)| name))));
    all.extend(DEVICE_TREE.iter().flat_map(|at| below(at, &DEVICE_TREE_FIELDS)));
    all
});

/// The kind of the file, if doctor reads it. `below` is relative to the root, with single slashes.
pub fn content(below: &str) -> Option<Content> {
    if ending_of_log(below).is_some() {
        return Some(Content::Log);
    }
    SMALL.contains(below).then_some(Content::Small)
}

/// What follows the beginning of a log's path, if it is short and of plain characters.
fn ending_of_log(below: &str) -> Option<&str> {
    let rest = LOGS.iter().find_map(|start| below.strip_prefix(start))?;
    let is_plain = rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    (is_plain && rest.len() <= 64).then_some(rest)
}

/// Why a log is not read, as a clause; `None` if it is.
pub(crate) fn is_left_out(below: &str) -> Option<&'static str> {
    const PACKED: [&str; 3] = [".gz", ".xz", ".zst"];
    if below == "var/log/journal" {
        return Some("systemd's journal: print it with `journalctl -k -D DIRECTORY`");
    }
    let rest = ending_of_log(below)?;
    let rest = PACKED.iter().find_map(|ending| rest.strip_suffix(ending)).unwrap_or(rest);
    let last = rest.rsplit(['.', '-']).next().unwrap_or_default();
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    (is_number || rest.ends_with(".old")).then_some("an older log, of an earlier time")
}

/// Names at the top of a machine's root, an sosreport or a capture.
const TOP: [&str; 8] = ["usr", "proc", "sys", "var", "etc", "run", "sos_commands", "clockscope"];

/// Whether a name at the top of a folder shows a machine's root, an sosreport or a capture.
pub(crate) fn is_of_machine(name: &str) -> bool {
    TOP.contains(&name) || !name.contains('/') && content(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_file_is_known_as_what_it_is() {
        assert!(SMALL.len() > 40);
        for path in &*SMALL {
            assert_eq!(content(path), Some(Content::Small), "{path}");
            assert!(is_of_machine(path.split('/').next().unwrap()), "{path}");
        }
        for path in LOGS {
            for ending in ["", ".txt", "_-T.txt", ".gz", ".log.xz"] {
                let path = format!("{path}{ending}");
                if path == "var/log/journal" {
                    continue;
                }
                assert_eq!(
                    (content(&path), is_left_out(&path)),
                    (Some(Content::Log), None),
                    "{path}"
                );
            }
            for ending in [".1", ".2.gz", "-20261124", ".old", "_--boot_-1"] {
                assert!(is_left_out(&format!("{path}{ending}")).is_some(), "{path}{ending}");
            }
        }
        for other in [
            "etc/shadow",
            "proc/kcore",
            "dmesg/",
            "sys/class/dmi/id/product_serial",
            "sos_commands/kernel/dmesg/../../../etc/shadow",
            "var/log/journal/0f/system.journal",
            "",
        ] {
            assert_eq!(content(other), None, "{other}");
        }
    }
}
