//! Findings that a label implies by the catalogue, and the state if no other fact shows it.

use super::{Finding, Label, Severity, State, Verdict};

/// Adds implied findings that no rule has found. A mere note implies no other finding, because a measurement
/// contradicts it.
pub(crate) fn complete(verdict: &mut Verdict, findings: &mut Vec<Finding>) {
    let counts = |finding: &&Finding| {
        finding.severity > Severity::Note || finding.severity == finding.label.severity()
    };
    let mut added: Vec<Finding> = Vec::new();
    for finding in findings.iter().filter(counts) {
        for &label in &finding.label.bearing().implies {
            let is_known = findings.iter().chain(&added).any(|other| other.label == label);
            if label == Label::StateSlow {
                if verdict.state == State::Unknown {
                    verdict.state = State::Slow;
                    verdict.because = format!("{} [{}]", finding.label.page().title, finding.label);
                }
            } else if !is_known {
                added.push(Finding::new(label).follows(finding.label).seen_all(&finding.evidence));
            }
        }
    }
    findings.extend(added);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::rules::state;

    fn completed(label: Label, severity: Severity) -> (State, Vec<Label>) {
        let mut verdict = state::verdict(&Facts::default());
        let mut findings = vec![Finding::new(label).severity(severity)];
        complete(&mut verdict, &mut findings);
        (verdict.state, findings.iter().map(|finding| finding.label).collect())
    }

    #[test]
    fn a_label_that_says_how_the_clock_is_read_decides_the_state() {
        assert_eq!(completed(Label::Arm32VdsoOff, Severity::Slow).0, State::Slow);
        assert_eq!(completed(Label::Arm32VdsoOff, Severity::Note).0, State::Unknown, "measured");
        assert_eq!(completed(Label::TscWarp, Severity::Slow).0, State::Unknown);
    }

    #[test]
    fn a_special_case_implies_the_general_one() {
        let (_, labels) = completed(Label::TscWatchdogShortInterval, Severity::Slow);
        assert_eq!(labels, [Label::TscWatchdogShortInterval, Label::WatchdogFalsePositiveLikely]);
    }

    #[test]
    fn what_is_implied_is_a_finding_or_the_state() {
        for label in Label::ALL {
            for implied in &label.bearing().implies {
                let is_finding = !implied.name().contains(':');
                assert!(is_finding || *implied == Label::StateSlow, "{label} implies {implied}");
            }
        }
    }
}
