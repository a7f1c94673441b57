//! Causes first, the worst first, each followed by what follows from it.

use std::cmp::Reverse;

use super::super::finding::Finding;

/// What is rather a cause (high) or a consequence (low); 50 for the rest.
const WEIGHTS: [(u8, &[&str]); 4] = [
    (
        90,
        &[
            "tsc-warp-firmware",
            "tsc-rate-wrong",
            "tsc-halts-in-idle",
            "tsc-unsynchronized",
            "tsc-warp-runtime",
            "tsc-offset-measured",
            "param-tsc-unstable",
            "param-vdso",
        ],
    ),
    (
        70,
        &[
            "param-clocksource-unavailable",
            "tsc-available-not-selected",
            "tsc-warp-hotplug",
            "vmware-guest-support-missing",
            "watchdog-bad-reference",
            "watchdog-counter-wrapped",
            "guest-lacks-invtsc",
            "arm-erratum-vdso-off",
        ],
    ),
    (20, &["tsc-watchdog-skew", "tsc-warp", "tsc-absent", "watchdog-false-positive-likely"]),
    (
        10,
        &[
            "vdso-falls-back",
            "cause-needs-dmesg",
            "log-incomplete",
            "missing-nonstop_tsc",
            "old-kernel",
        ],
    ),
];

/// What a finding follows from if its rule does not say: the first of these that was found.
const PARENTS: [(&str, &[&str]); 15] = [
    ("tsc-warp", &["tsc-warp-firmware", "tsc-warp-hotplug", "tsc-warp-small"]),
    ("tsc-unsynchronized", &["guest-lacks-invtsc"]),
    (
        "tsc-watchdog-skew",
        &[
            "tsc-rate-wrong",
            "watchdog-bad-reference",
            "watchdog-counter-wrapped",
            "vm-paused",
            "tsc-watchdog-short-interval",
            "tsc-watchdog-readdelay",
            "tsc-watchdog-glitch",
            "watchdog-reads-torn",
            "tsc-went-backwards",
            "tsc-jumped",
            "tsc-reliable-ignored",
            "vmware-guest-support-missing",
            "tsc-watchdog-long-interval",
        ],
    ),
    ("watchdog-counter-wrapped", &["nested-or-overloaded"]),
    ("watchdog-reads-torn", &["nested-or-overloaded"]),
    ("tsc-watchdog-readdelay", &["nested-or-overloaded"]),
    ("tsc-went-backwards", &["after-resume"]),
    ("tsc-early", &["tsc-watchdog-skew"]),
    ("watchdog-false-positive-likely", &["tsc-watchdog-skew"]),
    ("needs-rate-measurement", &["tsc-watchdog-skew"]),
    (
        "tsc-absent",
        &[
            "tsc-unsynchronized",
            "tsc-halts-in-idle",
            "param-tsc-unstable",
            "tsc-refused",
            "tsc-warp",
            "tsc-watchdog-skew",
        ],
    ),
    ("kvm-clock-no-vdso-suspected", &["kvm-host-tsc-backwards", "tsc-warp", "tsc-absent"]),
    ("arm-cntvct-trapped", &["arm-erratum-vdso-off"]),
    ("cause-needs-dmesg", &["tsc-absent", "tsc-available-not-selected"]),
    (
        "vdso-falls-back",
        &[
            "kvm-clock-no-vdso-suspected",
            "vdso-support-depends-on-kernel",
            "arm-erratum-vdso-off",
            "arm32-vdso-off",
            "tsc-available-not-selected",
            "better-source-available",
            "tsc-warp",
            "tsc-watchdog-skew",
            "tsc-absent",
        ],
    ),
];

fn weight(label: &str) -> u8 {
    let entry = WEIGHTS.iter().find(|(_, labels)| labels.contains(&label));
    entry.map_or(50, |(weight, _)| *weight)
}

/// Each label once, in order; `follows_from` names a finding that is there, or nothing.
pub(super) fn ordered(findings: Vec<Finding>) -> Vec<Finding> {
    let mut findings = merged(findings);
    let parents = parents(&findings);
    for (index, finding) in findings.iter_mut().enumerate() {
        // Labels are 'static, so that a finding can name its parent's.
        finding.follows_from = parents[index].0;
    }
    let parents: Vec<Option<usize>> = parents.into_iter().map(|(_, index)| index).collect();
    let tree = Tree { findings: &findings, parents: &parents };
    let mut order = Vec::with_capacity(findings.len());
    tree.visit(None, &mut order);
    let mut taken: Vec<Option<Finding>> = findings.into_iter().map(Some).collect();
    order.into_iter().filter_map(|index| taken[index].take()).collect()
}

/// One finding for each label, with all that was said under it.
fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        let Some(first) = merged.iter_mut().find(|one| one.label == finding.label) else {
            merged.push(finding);
            continue;
        };
        first.severity = first.severity.max(finding.severity);
        first.follows_from = first.follows_from.or(finding.follows_from);
        append(&mut first.detail, finding.detail);
        append(&mut first.evidence, finding.evidence);
        append(&mut first.fixes, finding.fixes);
        append(&mut first.forbids, finding.forbids);
    }
    merged
}

fn append<T: PartialEq>(to: &mut Vec<T>, from: Vec<T>) {
    for one in from {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

/// Each finding's parent, without circles: what rules say comes before [`PARENTS`].
fn parents(findings: &[Finding]) -> Vec<(Option<&'static str>, Option<usize>)> {
    let find = |label: &str| findings.iter().position(|finding| finding.label == label);
    let mut parents: Vec<Option<usize>> = vec![None; findings.len()];
    let leads_to = |parents: &[Option<usize>], from: usize, to: usize| {
        let mut at = Some(from);
        while let Some(index) = at {
            if index == to {
                return true;
            }
            at = parents[index];
        }
        false
    };
    for (index, finding) in findings.iter().enumerate() {
        let said = finding.follows_from.and_then(find);
        parents[index] = said.filter(|&parent| !leads_to(&parents, parent, index));
    }
    for (index, finding) in findings.iter().enumerate() {
        let usual = PARENTS.iter().find(|(label, _)| *label == finding.label);
        let mut usual = usual.iter().flat_map(|(_, labels)| labels.iter());
        if parents[index].is_none() {
            parents[index] = usual
                .find_map(|label| find(label).filter(|&parent| !leads_to(&parents, parent, index)));
        }
    }
    parents.into_iter().map(|index| (index.map(|index| findings[index].label), index)).collect()
}

struct Tree<'a> {
    findings: &'a [Finding],
    parents: &'a [Option<usize>],
}

impl Tree<'_> {
    fn visit(&self, parent: Option<usize>, order: &mut Vec<usize>) {
        let all = 0..self.findings.len();
        let mut here: Vec<usize> = all.filter(|&index| self.parents[index] == parent).collect();
        here.sort_by_key(|&index| {
            let finding = &self.findings[index];
            (Reverse(self.worst(index)), Reverse(weight(finding.label)), index)
        });
        for index in here {
            order.push(index);
            self.visit(Some(index), order);
        }
    }

    /// The worst of a finding and what follows from it.
    fn worst(&self, index: usize) -> super::Severity {
        let children = (0..self.findings.len()).filter(|&one| self.parents[one] == Some(index));
        let below = children.map(|child| self.worst(child)).max();
        self.findings[index].severity.max(below.unwrap_or(super::Severity::Ok))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::Evidence;
    use crate::rules::catalogue;

    fn labels(findings: &[Finding]) -> Vec<&'static str> {
        findings.iter().map(|finding| finding.label).collect()
    }

    #[test]
    fn a_cause_comes_first_and_its_consequences_under_it() {
        let findings =
            ["calibration-note-benign", "tsc-absent", "old-kernel", "tsc-warp", "tsc-warp-small"];
        let ordered = ordered(findings.map(Finding::new).to_vec());
        assert_eq!(
            labels(&ordered),
            ["tsc-warp-small", "tsc-warp", "tsc-absent", "old-kernel", "calibration-note-benign"]
        );
        assert_eq!(ordered[2].follows_from, Some("tsc-warp"));
    }

    #[test]
    fn what_a_rule_says_comes_before_what_is_usual() {
        let wrapped = Finding::new("watchdog-counter-wrapped").follows("tsc-watchdog-skew");
        let ordered = ordered(vec![wrapped, Finding::new("tsc-watchdog-skew")]);
        assert_eq!(labels(&ordered), ["tsc-watchdog-skew", "watchdog-counter-wrapped"]);
        assert_eq!(ordered[0].follows_from, None);
    }

    #[test]
    fn a_note_with_a_slow_consequence_comes_before_notes_without() {
        let slow = Finding::new("tsc-available-not-selected").follows("param-clocksource");
        let findings =
            vec![Finding::new("watchdog-noise"), slow, Finding::new("param-clocksource")];
        assert_eq!(
            labels(&ordered(findings)),
            ["param-clocksource", "tsc-available-not-selected", "watchdog-noise"]
        );
    }

    #[test]
    fn a_label_found_twice_is_told_once_with_all_its_evidence() {
        let one = Finding::new("tsc-warp").seen(&Evidence::of("a", "1")).fix(&["reboot"]);
        let two =
            Finding::new("tsc-warp").seen(&Evidence::of("a", "2")).fix(&["reboot", "measure"]);
        let ordered = ordered(vec![one, two]);
        assert_eq!(ordered.len(), 1);
        assert_eq!((ordered[0].evidence.len(), ordered[0].fixes.len()), (2, 2));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_whatever_follows_from_what(
            picks in prop::collection::vec((0..95_usize, prop::option::of(0..95_usize)), 0..30),
        ) {
            let names: Vec<&'static str> = catalogue::labels().map(|label| label.name).collect();
            let name = |index: usize| names[index % names.len()];
            let findings: Vec<Finding> = picks
                .iter()
                .map(|&(label, parent)| {
                    let mut finding = Finding::new(name(label));
                    finding.follows_from = parent.map(name);
                    finding
                })
                .collect();
            let mut expected = labels(&findings);
            expected.sort_unstable();
            expected.dedup();
            let ordered = ordered(findings);
            let mut got = labels(&ordered);
            for (index, finding) in ordered.iter().enumerate() {
                if let Some(parent) = finding.follows_from {
                    prop_assert!(got[..index].contains(&parent), "{parent} comes after its consequence");
                }
            }
            got.sort_unstable();
            prop_assert_eq!(got, expected);
        }
    }
}
