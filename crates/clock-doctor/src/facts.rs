//! All facts about a machine's timekeeping, each with its source. Plain data.
//!
//! An absent fact was not seen. Only if the source was readable and complete, this means that it does not hold: see
//! [`Log::is_complete`] and [`CpuFacts::flags_are_complete`].

pub use super::evidence::{Evidence, Known, Unread};
pub use super::log::Log;
use super::log::{Event, EventKind};
use super::measured::{Cpuid, Measured};

use std::collections::BTreeSet;

/// A kernel, identified by its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Such as `5.10.0-18-amd64`.
    pub release: String,
    /// Such as (5, 10).
    pub version: (u32, u32),
}

impl Kernel {
    /// Reads a release; `None` if it does not begin with two numbers.
    pub fn parse(release: &str) -> Option<Kernel> {
        let release = release.split_whitespace().next()?;
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        // `7` of `7-rc1` is not part of a Linux release.
        let minor = numbers.next()?.parse().ok()?;
        Some(Kernel { release: release.to_owned(), version: (major, minor) })
    }

    /// Whether this is that version or a later one. Vendors backport: see `Kernel::el`.
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    /// The Red Hat Enterprise Linux release that this kernel was built for (8 for `.el8_10`). Its kernels contain parts
    /// of later versions.
    pub(crate) fn el(&self) -> Option<u32> {
        let after = self.release.split(".el").nth(1)?;
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }
}

/// The kernel's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Its words.
    pub words: Vec<String>,
}

impl CommandLine {
    /// Splits a line into its words.
    pub fn parse(text: &str) -> CommandLine {
        CommandLine { words: text.split_whitespace().map(str::to_owned).collect() }
    }

    /// Whether exactly this word is present, such as `tsc=reliable`.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }

    /// VALUE of NAME in `NAME=VALUE`: the last one wins, as in the kernel for `clocksource=`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFacts {
    /// `vendor_id` of `/proc/cpuinfo`, or of the log's CPU line (`GenuineIntel`, `AuthenticAMD`).
    pub vendor: Option<Known<String>>,
    /// `model name`.
    pub model: Option<Known<String>>,
    /// `flags` (`Features` on ARM).
    pub flags: Option<Known<BTreeSet<String>>>,
    /// The list of flags is complete: the file looks real, with more than a handful.
    pub flags_are_complete: bool,
    /// `cpu family`: 15 is AMD's K8.
    pub family: Option<Known<u32>>,
    /// Sockets, by the `physical id` of the processor entries.
    pub sockets: Option<u32>,
    /// Processor entries in `/proc/cpuinfo` are those of a 32-bit ARM.
    pub is_arm32: bool,
    /// `uname -m`, or the machine by the log or `/proc/version` (`x86_64`, `aarch64`).
    pub machine: Option<Known<String>>,
}

impl CpuFacts {
    /// The machine's name by `uname -m`, if known.
    pub(crate) fn machine_name(&self) -> Option<&str> {
        self.machine.as_ref().map(|machine| machine.value.as_str())
    }
    /// Whether the flag is present; `None` if it is not seen but may be present.
    pub fn flag(&self, name: &str) -> Option<bool> {
        let flags = &self.flags.as_ref()?.value;
        let has = flags.contains(name);
        (has || self.flags_are_complete).then_some(has)
    }
}

/// A sign of the machine or hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// A DMI field: name (`sys_vendor`) and value.
    Dmi(String, String),
    /// A guest's hypervisor: `/sys/hypervisor/type`, the signature by CPUID leaf 0x4000_0000 (live or captured only), or
    /// `compatible` of the device tree's `hypervisor` node.
    Hypervisor(String),
    /// `/proc/xen/capabilities` exists, in a guest or in dom0.
    Xen,
    /// A container, by name (`lxc`, `docker`, ...), as far as the files show it.
    Container(String),
}

/// The effect of a seccomp filter or profile on reads of the clock by system call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadFilter {
    /// The filter's owner: `container web`, `process nginx (12)`, or the name of a profile's file.
    pub of: String,
    /// The refused reads, a clause each: `clock_gettime fails with EPERM`.
    pub refuses: Vec<String>,
}

/// All facts about a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The facts are of the running machine; otherwise of a captured one.
    pub is_live: bool,
    /// The kernel, from `/proc/sys/kernel/osrelease`, `/proc/version`, `uname`, or the log.
    pub kernel: Option<Known<Kernel>>,
    /// The id of the boot, from `/proc/sys/kernel/random/boot_id`. Captures do not contain it.
    pub boot_id: Option<Known<String>>,
    /// From `/proc/cmdline` or the log.
    pub command_line: Option<Known<CommandLine>>,
    /// `ID` and then `ID_LIKE` of `etc/os-release`, separated by blanks: `ubuntu debian`.
    pub distribution: Option<Known<String>>,
    /// The content of `current_clocksource`. The rules judge the log's lines on it.
    pub current: Option<Known<String>>,
    /// The content of `available_clocksource`.
    pub available: Option<Known<Vec<String>>>,
    /// The CPUs.
    pub cpu: CpuFacts,
    /// Signs of the machine or hypervisor, besides the log.
    pub signs: Vec<Known<Sign>>,
    /// The kernel's log.
    pub log: Option<Log>,
    /// Drift of the kernel's clock against the network's, in parts per million, as chrony or ntpd
    /// recorded it.
    pub drift_ppm: Option<Known<f64>>,
    /// `/proc/sys/kernel/vsyscall64`; kernels up to 3.0 have it.
    pub vsyscall64: Option<Known<i64>>,
    /// `arm,cpu-registers-not-fw-configured` is in the device tree's timer node.
    pub arm_registers_not_configured: Option<Evidence>,
    /// `/proc/device-tree/timer/compatible`.
    pub arm_timer: Option<Known<String>>,
    /// The machine's own measurements: taken now, or those in a capture.
    pub measured: Option<Measured>,
    /// The seccomp filters of processes and containers, and the profiles, to judge.
    pub read_filters: Vec<ReadFilter>,
    /// Files that were read, relative to the root.
    pub read: Vec<String>,
    /// Files that exist but were not read.
    pub unread: Vec<Unread>,
}

impl Facts {
    /// The events of the log; none if there is no log.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.log.iter().flat_map(|log| &log.events)
    }

    /// Adds the measured signature of the hypervisor to the signs.
    pub fn with_signature(mut self) -> Facts {
        if let Some(signature) = self.cpuid().and_then(|cpuid| cpuid.hypervisor.clone()) {
            let text = format!("CPUID leaf 0x40000000 says {signature:?}");
            self.signs.push(Known::new(Sign::Hypervisor(signature), "measured", &text));
        }
        self
    }

    /// The first log line of this kind.
    pub(crate) fn logged(&self, is_it: impl Fn(&EventKind) -> bool) -> Option<&Event> {
        self.events().find(|event| is_it(&event.kind))
    }

    /// Whether this clocksource can be selected; `None` if the list is unknown.
    pub(crate) fn lists(&self, name: &str) -> Option<bool> {
        Some(self.available.as_ref()?.value.iter().any(|one| one == name))
    }

    /// The command line, if it contains exactly this word.
    pub(crate) fn line_with(&self, word: &str) -> Option<&Known<CommandLine>> {
        self.command_line.as_ref().filter(|line| line.value.has(word))
    }

    /// Whether the vDSO was measured to make a system call for each read.
    pub(crate) fn falls_back(&self) -> Option<bool> {
        self.measured.as_ref()?.host.vdso.falls_back
    }

    /// The CPUID leaves of the measurement.
    pub(crate) fn cpuid(&self) -> Option<&Cpuid> {
        self.measured.as_ref()?.cpuid.as_ref()
    }

    /// Whether the CPU has this flag of an invariant TSC (`constant_tsc`, `nonstop_tsc`), by CPUID or its list.
    pub(crate) fn tsc_flag(&self, name: &str) -> Option<bool> {
        let is_invariant = self.cpuid().is_some_and(|cpuid| cpuid.invariant_tsc);
        if is_invariant { Some(true) } else { self.cpu.flag(name) }
    }

    /// The kernel's version, if known.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref().map(|known| &known.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_or_refused() {
        let version = |text: &str| Kernel::parse(text).map(|kernel| kernel.version);
        assert_eq!(version("5.10.0-18-amd64"), Some((5, 10)));
        assert_eq!(version("3.2\n"), Some((3, 2)));
        assert_eq!(version("6.3.0-rc1 #1 SMP"), Some((6, 3)));
        for bad in ["", "linux", "7", "7-rc", "99999999999.1"] {
            assert_eq!(version(bad), None, "{bad}");
        }
        let el8 = Kernel::parse("4.18.0-553.16.1.el8_10.x86_64").unwrap();
        assert_eq!((el8.el(), el8.at_least(4, 18), el8.at_least(4, 19)), (Some(8), true, false));
    }

    #[test]
    fn the_last_value_of_a_parameter_wins() {
        let line = CommandLine::parse("ro clocksource=hpet  tsc=reliable clocksource=tsc notsc");
        assert_eq!(line.value("clocksource"), Some("tsc"));
        assert_eq!(line.value("clock"), None);
        assert!(line.has("notsc") && !line.has("tsc"));
    }

    #[test]
    fn a_flag_is_absent_only_from_a_complete_list() {
        let flags = BTreeSet::from(["constant_tsc".to_owned()]);
        let mut cpu = CpuFacts { flags: Some(Known::new(flags, "", "")), ..CpuFacts::default() };
        assert_eq!((cpu.flag("constant_tsc"), cpu.flag("nonstop_tsc")), (Some(true), None));
        cpu.flags_are_complete = true;
        assert_eq!(cpu.flag("nonstop_tsc"), Some(false));
        assert_eq!(CpuFacts::default().flag("tsc"), None);
    }
}
