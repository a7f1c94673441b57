//! Orders findings: causes first, the worst first, each followed by its consequences.

use std::cmp::Reverse;

use super::super::catalogue::Label;
use super::super::finding::{Finding, append, merged};

/// The findings in order, one for each label; `follows_from` is cleared if its finding is absent.
pub(super) fn ordered(findings: Vec<Finding>) -> Vec<Finding> {
    let mut findings = merged(findings, append);
    let parents = parents(&findings);
    for (index, finding) in findings.iter_mut().enumerate() {
        finding.follows_from = parents[index].0;
    }
    let parents: Vec<Option<usize>> = parents.into_iter().map(|(_, index)| index).collect();
    let tree = Tree { findings: &findings, parents: &parents };
    let mut order = Vec::with_capacity(findings.len());
    tree.visit(None, &mut order);
    let mut taken: Vec<Option<Finding>> = findings.into_iter().map(Some).collect();
    order.into_iter().filter_map(|index| taken[index].take()).collect()
}

/// The parent of each finding, without cycles: a rule's statement has precedence over the catalogue's.
fn parents(findings: &[Finding]) -> Vec<(Option<Label>, Option<usize>)> {
    let find = |label: Label| findings.iter().position(|finding| finding.label == label);
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
        let mut usual = finding.label.bearing().follows.iter();
        if parents[index].is_none() {
            parents[index] = usual.find_map(|&label| {
                find(label).filter(|&parent| !leads_to(&parents, parent, index))
            });
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
            (Reverse(self.worst(index)), Reverse(finding.label.bearing().weight), index)
        });
        for index in here {
            order.push(index);
            self.visit(Some(index), order);
        }
    }

    /// The worst severity of a finding and its consequences.
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
