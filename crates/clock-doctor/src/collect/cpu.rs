//! The CPUs, from `/proc/cpuinfo` and its neighbours.

use std::collections::BTreeSet;

use super::{Files, field, first_line};
use crate::facts::{CpuFacts, Known};
use crate::root::paths;

const FILE: &str = "proc/cpuinfo";
/// Minimum number of flags for a complete list: every CPU that runs Linux on x86-64 has more.
const FEWEST_FLAGS: usize = 20;

/// The facts of the CPUs.
pub(super) fn facts(files: &mut Files) -> CpuFacts {
    let text = files.text(FILE).unwrap_or_default();
    let known = |name: &str| {
        field(&text, name).filter(|value| !value.is_empty()).map(|value| {
            Known::new(value.to_owned(), FILE, &first_line(&format!("{name}: {value}")))
        })
    };
    let flags = known("flags").or_else(|| known("Features")).map(|known| Known {
        value: known.value.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>(),
        evidence: known.evidence,
    });
    let is_real = field(&text, "processor").is_some();
    CpuFacts {
        vendor: known("vendor_id"),
        model: known("model name").or_else(|| known("Model")).or_else(|| known("Processor")),
        flags_are_complete: is_real
            && flags.as_ref().is_some_and(|flags| flags.value.len() >= FEWEST_FLAGS),
        flags,
        family: known("cpu family").and_then(|known| {
            Some(Known { value: known.value.parse().ok()?, evidence: known.evidence })
        }),
        sockets: sockets(&text),
        is_arm32: is_real && is_arm32(&text),
        machine: machine(files),
    }
}

/// The sockets that processor entries name; `None` if they name none.
fn sockets(cpuinfo: &str) -> Option<u32> {
    let ids = cpuinfo.lines().filter_map(|line| line.strip_prefix("physical id")?.split_once(':'));
    let ids: BTreeSet<&str> = ids.map(|(_, id)| id.trim()).collect();
    u32::try_from(ids.len()).ok().filter(|sockets| *sockets > 0)
}

/// Whether entries are those of a 32-bit ARM: `CPU architecture: 7`, with flags that have other names on AArch64
/// (`arch/arm/kernel/setup.c`: hwcap_str). A 32-bit process on a 64-bit kernel sees the same list, but with `CPU
/// architecture: 8`.
fn is_arm32(cpuinfo: &str) -> bool {
    let architecture = field(cpuinfo, "CPU architecture").unwrap_or_default();
    let number = architecture.chars().take_while(char::is_ascii_digit).collect::<String>();
    matches!(number.as_str(), "4" | "5" | "6" | "7")
        || field(cpuinfo, "model name").is_some_and(|name| name.starts_with("ARMv7"))
}

/// Machine names of `uname -m`.
const MACHINES: &str = "x86_64 i386 i486 i586 i686 aarch64 armv5tel armv6l armv7l armv8l ppc ppc64 \
    ppc64le s390x riscv64 loongarch64 mips mips64 sparc64";
/// Parts of a kernel's release or compiler name that show the machine.
const HINTS: [(&str, &str); 9] = [
    ("x86_64", "x86_64"),
    ("-amd64", "x86_64"),
    ("aarch64", "aarch64"),
    ("-arm64", "aarch64"),
    ("armv7l", "armv7l"),
    ("-armmp", "armv7l"),
    ("i686", "i686"),
    ("ppc64le", "ppc64le"),
    ("s390x", "s390x"),
];

fn machine(files: &mut Files) -> Option<Known<String>> {
    let by_word = |text: &str| {
        let mut words = text.split_whitespace();
        words.find(|word| MACHINES.split(' ').any(|name| name == *word)).map(str::to_owned)
    };
    let by_hint = |text: &str| {
        let hint = HINTS.iter().find(|(hint, _)| text.contains(hint));
        hint.map(|(_, machine)| (*machine).to_owned())
    };
    let either = |text: &str| by_word(text).or_else(|| by_hint(text));
    files
        .value("proc/sys/kernel/arch", by_word)
        .or_else(|| files.first(&paths::UNAME, either))
        .or_else(|| files.value("proc/version", either))
        .or_else(|| files.value("proc/sys/kernel/osrelease", by_hint))
}
