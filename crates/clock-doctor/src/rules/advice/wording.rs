//! What the drafts have in common: the case's properties and sentences.

use super::{CURRENT, Case};
use crate::facts::Sign;
use crate::rules::catalogue;
use crate::rules::finding::{Finding, Severity};
use crate::rules::hosts::age;
use crate::rules::platform;

/// Labels that say that something happened rather than why.
const GENERAL: [&str; 6] = [
    "tsc-watchdog-skew",
    "tsc-warp",
    "tsc-early",
    "tsc-absent",
    "cause-needs-dmesg",
    "kvm-clock-present",
];
/// Clauses for labels whose titles are none, or could be said better.
const CLAUSES: [(&str, &str); 21] = [
    ("tsc-watchdog-glitch", "one bad sample cost the TSC"),
    ("tsc-watchdog-readdelay", "the reference was slow to read, which says nothing of the TSC"),
    ("tsc-watchdog-short-interval", "noise between two close checks looked like skew"),
    ("watchdog-counter-wrapped", "the reference wrapped, the TSC counted right"),
    ("watchdog-reads-torn", "a stall between two reads looked like skew"),
    ("watchdog-false-positive-likely", "the watchdog's own numbers show a good TSC"),
    ("vm-paused", "the guest was stopped, which looked like skew"),
    ("nested-or-overloaded", "virtual CPUs that were not run looked like skew"),
    ("needs-rate-measurement", "the watchdog's sample cannot tell a stall from a wrong rate"),
    ("tsc-warp-small", "the warp is no larger than the comparison itself"),
    ("tsc-warp-hotplug", "the added CPU counts from another start"),
    ("tsc-unsynchronized", "the CPU does not promise synchronised counters"),
    ("tsc-halts-in-idle", "the counter stops in deep sleep"),
    ("tsc-absent", "the kernel refused the TSC at some time since the boot"),
    ("tsc-rate-wrong", "the kernel takes the TSC to run at another rate than it does"),
    ("rate-risk-ticks", "time is counted in ticks"),
    ("after-resume", "a suspend or restore changed the counters"),
    ("migration-risk", "tsc=reliable would hide a changed rate after a migration"),
    ("syscalls-traced", "each system call is traced"),
    ("old-kernel", "this kernel is old"),
    ("kvm-clock-no-vdso-suspected", "the vDSO may not be able to read kvm-clock"),
];

impl Case<'_> {
    /// Whether the machine is one of these platforms.
    pub(super) fn is(&self, names: &[&str]) -> bool {
        self.verdict.platforms.iter().any(|name| names.contains(name))
    }

    /// Whether one of the findings has one of these labels.
    pub(super) fn found(&self, labels: &[&str]) -> bool {
        self.because.iter().any(|finding| labels.contains(&finding.label))
    }

    /// Whether something says that this is a guest.
    pub(super) fn is_guest(&self) -> bool {
        platform::is_guest(self.facts, &self.verdict.platforms)
    }

    /// Whether this is a container, which has no kernel of its own.
    pub(super) fn is_container(&self) -> bool {
        self.facts.signs.iter().any(|sign| matches!(sign.value, Sign::Container(_)))
    }

    /// Whether the kernel is that version, a later one, or `el` of Red Hat; `None` if unknown. A log
    /// without a version still tells by its words between which ones the kernel lies.
    pub(super) fn kernel_since(&self, major: u32, minor: u32, el: Option<u32>) -> Option<bool> {
        let Some(kernel) = self.facts.kernel() else {
            return age(self.facts).since(major, minor);
        };
        let backported = el.is_some_and(|el| kernel.el().is_some_and(|this| this >= el));
        Some(kernel.at_least(major, minor) || backported)
    }

    /// Whether that clocksource can be selected; `None` if the list is not known.
    pub(super) fn is_available(&self, name: &str) -> Option<bool> {
        let available = self.facts.available.as_ref()?;
        Some(available.value.iter().any(|one| one == name))
    }

    /// Whether the command line has this word.
    pub(super) fn has_parameter(&self, word: &str) -> bool {
        self.facts.command_line.as_ref().is_some_and(|line| line.value.has(word))
    }

    /// Why, as a clause: by the finding that costs something and tells most of the cause.
    fn clause(&self) -> String {
        let costs = |finding: &&&Finding| finding.severity >= Severity::Slow;
        let tells = |finding: &&&Finding| !GENERAL.contains(&finding.label);
        let found = || self.because.iter();
        let telling = found().filter(costs).find(tells).or_else(|| found().find(costs));
        match telling.or_else(|| found().find(tells)).or(self.because.first()) {
            Some(finding) => clause(finding),
            None => match &self.verdict.source {
                Some(source) => format!("{source} is slow to read"),
                None => "clock reads are slow".to_owned(),
            },
        }
    }

    /// The clause, a semicolon, and what the fix does about it: two in one sentence.
    pub(super) fn so(&self, effect: &str) -> String {
        capitalised(&format!("{}; {effect}", self.clause()))
    }
}

fn clause(finding: &Finding) -> String {
    let said = CLAUSES.iter().find(|(label, _)| *label == finding.label).map(|(_, text)| *text);
    let title = || catalogue::label(finding.label).map(|label| label.title);
    said.or_else(title).unwrap_or(finding.label).to_owned()
}

/// With a capital at its beginning, unless it begins with a name.
pub(super) fn capitalised(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or("");
    if first.contains(['=', '-', '_', ',']) || ["tsc", "hpet", "xen", "jiffies"].contains(&first) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |letter| letter.to_uppercase().chain(letters).collect())
}

/// Commands that show which clocksource is current, and whether it is fast.
pub(super) fn verify_source(expected: &str) -> Vec<String> {
    let source = format!("cat {CURRENT}   # must print {expected}");
    vec![source, "clockscope doctor   # must say: fast".to_owned()]
}

/// The same after a boot, with the line of the log that would tell otherwise.
pub(super) fn verify_boot(parameter: &str) -> Vec<String> {
    let mut commands = vec![format!("cat /proc/cmdline   # must have {parameter}")];
    commands.extend(verify_source("tsc"));
    commands.push(
        "sudo dmesg | grep -i 'tsc.*unstable'   # must print nothing; else it names the reason"
            .to_owned(),
    );
    commands
}
