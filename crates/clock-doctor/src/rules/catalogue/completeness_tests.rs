//! Nothing stands in the catalogue without its words.

use std::collections::HashSet;

use super::super::advice;
use super::super::finding::{State, Verdict};
use super::*;
use crate::facts::Facts;

/// The labels of the recorded machines: states, what was found, in the order of their list.
const VOCABULARY: &str = "
state:fast state:slow state:slow-unless-pvclock-vdso
tsc-warp tsc-warp-small tsc-warp-firmware tsc-warp-hotplug tsc-warp-runtime tsc-unsynchronized
tsc-halts-in-idle tsc-absent tsc-early hyperv-tsc-unstable-benign missing-nonstop_tsc
tsc-watchdog-skew tsc-watchdog-readdelay tsc-watchdog-glitch tsc-watchdog-long-interval
tsc-watchdog-short-interval tsc-went-backwards tsc-jumped watchdog-noise watchdog-bad-reference
watchdog-counter-wrapped watchdog-reads-torn watchdog-false-positive-likely
per-cpu-sync-suspicious needs-rate-measurement tsc-rate-wrong vm-paused
tsc-available-not-selected override-rejected param-clocksource param-clocksource-unavailable
param-tsc-reliable param-tsc-unstable tsc-reliable-ignored rate-risk-ticks cause-needs-dmesg
tsc-trusted-by-hypervisor guest-lacks-invtsc kvm-clock-present kvm-clock-no-vdso-suspected
nested-or-overloaded after-resume migration-risk vmware-guest-support-missing old-kernel
vdso-support-depends-on-kernel arm-erratum-vdso-off arm-erratum-compat-only arm-cntvct-trapped
arm32-vdso-off firmware-tsc-adjust firmware-p0-warning hpet-not-enabled-in-bios
hpet-pc10-benign early-switch-benign calibration-note-benign";

/// Whether it begins like a sentence, or with a command or a parameter, and ends like one.
fn is_prose(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let begins = !first.is_whitespace();
    let last = text.trim_end_matches(['`', ')']).chars().last().unwrap_or(' ');
    let mut said = HashSet::new();
    let repeats = text.split(". ").any(|sentence| !said.insert(sentence.trim_end_matches('.')));
    begins && ".?".contains(last) && !text.contains("  ") && !repeats
}

fn sentences(text: &str) -> usize {
    text.matches(". ").count() + 1
}

#[test]
fn every_label_has_its_explanation_fix_and_reference() {
    for label in Label::ALL.map(Label::row) {
        let name = label.label.name();
        assert!(label.title.len() > 10 && !label.title.ends_with('.'), "{name}: {}", label.title);
        assert!(is_prose(label.explanation), "{name}: {}", label.explanation);
        let least = if name.contains(':') { 1 } else { 2 };
        let count = sentences(label.explanation);
        assert!((least..=6).contains(&count), "{name}: {count} sentences");
        assert!(is_prose(label.fix), "{name}: {}", label.fix);
        assert!(label.caveat.is_empty() || is_prose(label.caveat), "{name}: {}", label.caveat);
        assert!(!label.references.is_empty(), "{name}: no reference");
        assert!(
            label.references.iter().all(|text| text.len() > 5),
            "{name}: {:?}",
            label.references
        );
    }
}

#[test]
fn every_fix_says_what_it_does_and_where_that_stands() {
    for fix in FIXES {
        let name = fix.fix;
        assert!(fix.title.len() > 5 && !fix.title.ends_with('.'), "{name}: {}", fix.title);
        assert!(is_prose(fix.what), "{name}: {}", fix.what);
        assert!(!fix.since.ends_with('.'), "{name}: {}", fix.since);
        assert!(fix.risk.is_empty() || is_prose(fix.risk), "{name}: {}", fix.risk);
        assert!(!fix.references.is_empty(), "{name}: no reference");
    }
}

#[test]
fn names_are_unique_and_fit_a_list_of_labels() {
    let mut seen = HashSet::new();
    for name in Label::ALL.map(Label::name).into_iter().chain(Fix::ALL.map(Fix::name)) {
        assert!(seen.insert(name), "{name} twice");
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_:=".contains(c);
        assert!(name.chars().all(fits), "{name}");
    }
}

#[test]
fn the_shared_vocabulary_is_here() {
    for name in VOCABULARY.split_whitespace() {
        assert!(Label::named(name).is_some(), "{name}");
    }
    assert!(Label::named("tsc-wrap").is_none() && Fix::named("tsc=reliable-alone").is_none());
}

#[test]
fn every_fix_can_be_written_for_some_machine() {
    let platforms = ["virtualbox", "vmware", "kvm", "wsl", "bare-metal"];
    let writes = |fix: Fix| {
        platforms.iter().any(|platform| {
            let verdict = Verdict {
                state: State::Slow,
                because: String::new(),
                source: Some("acpi_pm".to_owned()),
                source_evidence: Vec::new(),
                cost: None,
                platforms: vec![platform],
            };
            let facts = facts_for(fix);
            let causes = [Label::ParamTscUnstable, Label::OldKernel]
                .map(super::super::finding::Finding::new);
            let causes: Vec<_> = causes.iter().collect();
            advice::write(fix, &facts, &verdict, &causes).is_some()
        })
    };
    for fix in Fix::ALL {
        assert!(writes(fix), "{fix} is never written");
    }
}

fn facts_for(fix: Fix) -> Facts {
    use crate::facts::{CommandLine, Known};
    let mut facts = Facts::default();
    if fix == Fix::RemoveParameter {
        let line = CommandLine::parse("ro tsc=unstable");
        facts.command_line = Some(Known::new(line, "proc/cmdline", "ro tsc=unstable"));
    }
    if fix == Fix::SwitchSource {
        let names = vec!["hpet".to_owned(), "acpi_pm".to_owned()];
        facts.available = Some(Known::new(names, "available_clocksource", "hpet acpi_pm"));
    }
    facts
}
