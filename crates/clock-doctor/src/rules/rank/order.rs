//! Orders findings: causes first, the worst first, each followed by its consequences.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::iter::successors;

use super::super::finding::{append, merged};
use crate::rules::{Finding, Label, Severity};

/// The findings in order, one for each label; `follows_from` is cleared if its finding is absent.
pub(super) fn ordered(findings: Vec<Finding>) -> Vec<Finding> {
    let mut findings = merged(findings, append);
    let parents = parents(&findings);
    for finding in &mut findings {
        finding.follows_from = parents.get(&finding.label).copied();
    }
    let mut ordered = Vec::with_capacity(findings.len());
    add_below(None, &findings, &mut ordered);
    ordered
}

/// The cause of each finding that has one, without cycles: a rule's statement has precedence over the catalogue's.
fn parents(findings: &[Finding]) -> HashMap<Label, Label> {
    let mut parents: HashMap<Label, Label> = HashMap::new();
    let is_found = |label: Label| findings.iter().any(|finding| finding.label == label);
    for is_by_rule in [true, false] {
        for Finding { label, follows_from, .. } in findings {
            let usual = &label.bearing().follows[..];
            let causes = if is_by_rule { follows_from.as_slice() } else { usual };
            let leads_back = |cause: Label| {
                let mut above = successors(Some(cause), |label| parents.get(label).copied());
                above.any(|above| above == *label)
            };
            let mut causes = causes.iter().copied();
            if let Some(cause) = causes.find(|&cause| is_found(cause) && !leads_back(cause)) {
                parents.entry(*label).or_insert(cause);
            }
        }
    }
    parents
}

fn add_below(parent: Option<Label>, findings: &[Finding], ordered: &mut Vec<Finding>) {
    let mut here: Vec<&Finding> =
        findings.iter().filter(|finding| finding.follows_from == parent).collect();
    here.sort_by_key(|finding| {
        (Reverse(worst(finding, findings)), Reverse(finding.label.bearing().weight))
    });
    for finding in here {
        ordered.push(finding.clone());
        add_below(Some(finding.label), findings, ordered);
    }
}

/// The worst severity of a finding and its consequences.
fn worst(finding: &Finding, findings: &[Finding]) -> Severity {
    let below = findings.iter().filter(|one| one.follows_from == Some(finding.label));
    below.map(|one| worst(one, findings)).fold(finding.severity, Severity::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::Evidence;
    use crate::rules::catalogue::Fix;

    fn labels(findings: &[Finding]) -> Vec<Label> {
        findings.iter().map(|finding| finding.label).collect()
    }

    #[test]
    fn a_cause_comes_first_and_its_consequences_under_it() {
        let findings = [
            Label::CalibrationNoteBenign,
            Label::TscAbsent,
            Label::OldKernel,
            Label::TscWarp,
            Label::TscWarpSmall,
        ];
        let ordered = ordered(findings.map(Finding::new).to_vec());
        assert_eq!(
            labels(&ordered),
            [
                Label::TscWarpSmall,
                Label::TscWarp,
                Label::TscAbsent,
                Label::OldKernel,
                Label::CalibrationNoteBenign
            ]
        );
        assert_eq!(ordered[2].follows_from, Some(Label::TscWarp));
    }

    #[test]
    fn what_a_rule_says_comes_before_what_is_usual() {
        let wrapped = Finding::new(Label::WatchdogCounterWrapped).follows(Label::TscWatchdogSkew);
        let ordered = ordered(vec![wrapped, Finding::new(Label::TscWatchdogSkew)]);
        assert_eq!(labels(&ordered), [Label::TscWatchdogSkew, Label::WatchdogCounterWrapped]);
        assert_eq!(ordered[0].follows_from, None);
    }

    #[test]
    fn a_note_with_a_slow_consequence_comes_before_notes_without() {
        let slow = Finding::new(Label::TscAvailableNotSelected).follows(Label::ParamClocksource);
        let findings =
            vec![Finding::new(Label::WatchdogNoise), slow, Finding::new(Label::ParamClocksource)];
        assert_eq!(
            labels(&ordered(findings)),
            [Label::ParamClocksource, Label::TscAvailableNotSelected, Label::WatchdogNoise]
        );
    }

    #[test]
    fn a_label_found_twice_is_told_once_with_all_its_evidence() {
        let one = Finding::new(Label::TscWarp).seen(&Evidence::of("a", "1")).fix(&[Fix::Reboot]);
        let two = Finding::new(Label::TscWarp)
            .seen(&Evidence::of("a", "2"))
            .fix(&[Fix::Reboot, Fix::Measure]);
        let ordered = ordered(vec![one, two]);
        assert_eq!(ordered.len(), 1);
        assert_eq!((ordered[0].evidence.len(), ordered[0].fixes.len()), (2, 2));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_whatever_follows_from_what(
            picks in prop::collection::vec((0..95_usize, prop::option::of(0..95_usize)), 0..30),
        ) {
            let name = |index: usize| Label::ALL[index % Label::ALL.len()];
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
