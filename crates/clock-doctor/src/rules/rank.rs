//! Orders the findings, and assembles the diagnosis.

mod fixes;
mod never;
mod open;
mod order;

#[cfg(test)]
mod machines_tests;

use super::{Diagnosis, Facts, Finding, Severity, State, Verdict};

/// Orders findings and writes out their advice. A machine with fast clock reads and with notes at most gets no advice,
/// no warnings and no questions.
pub(crate) fn diagnosis(facts: &Facts, verdict: Verdict, findings: Vec<Finding>) -> Diagnosis {
    let findings = order::ordered(findings);
    let mut diagnosis = Diagnosis { verdict, findings, ..Diagnosis::default() };
    let worst = diagnosis.worst();
    if worst <= Severity::Note && diagnosis.verdict.state == State::Fast {
        return diagnosis;
    }
    diagnosis.advice = fixes::advice(facts, &diagnosis.verdict, &diagnosis.findings);
    if worst > Severity::Note {
        diagnosis.never = never::sentences(facts, &diagnosis);
    }
    diagnosis.meanwhile = open::meanwhile(facts, &diagnosis);
    diagnosis.missing = open::missing(facts, &diagnosis);
    diagnosis
}
