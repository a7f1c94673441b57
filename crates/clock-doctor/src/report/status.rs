//! The exit status of doctor, as in the convention of monitoring plugins, where 1 is a warning and 2
//! an alarm.

use super::model::DoctorReport;
use crate::rules::finding::{Severity, State};

/// No repair is needed.
pub const NOTHING_TO_MEND: i32 = 0;
/// The clock is slow, or may be.
pub const SLOW: i32 = 1;
/// Wrong time is possible.
pub const WRONG: i32 = 2;
/// Not enough evidence, wrong options, or an input that cannot be read.
pub const UNKNOWN: i32 = 3;

impl DoctorReport {
    /// Doctor's exit status for this report: the worst finding decides; without findings the state does.
    pub fn exit_status(&self) -> i32 {
        match (self.severity, self.state) {
            (Severity::Wrong, _) => WRONG,
            (Severity::Slow, _) | (_, State::Slow | State::SlowUnlessPvclockVdso) => SLOW,
            (_, State::Unknown) => UNKNOWN,
            (_, State::Fast) => NOTHING_TO_MEND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::rules::catalogue::Label;
    use crate::rules::finding::{Diagnosis, Finding, Verdict};

    fn status_of(state: State, severity: Option<Severity>) -> i32 {
        let verdict = Verdict { state, ..Verdict::default() };
        let findings = severity.map(|severity| Finding::new(Label::TscWarp).severity(severity));
        let diagnosis =
            Diagnosis { verdict, findings: findings.into_iter().collect(), ..Diagnosis::default() };
        DoctorReport::new(&Facts::default(), &diagnosis).exit_status()
    }

    #[test]
    fn the_worst_finding_decides_and_then_the_state() {
        let table = [
            (State::Fast, None, 0),
            (State::Fast, Some(Severity::Note), 0),
            (State::Fast, Some(Severity::Slow), 1),
            (State::Fast, Some(Severity::Wrong), 2),
            (State::Slow, None, 1),
            (State::Slow, Some(Severity::Ok), 1),
            (State::Slow, Some(Severity::Wrong), 2),
            (State::SlowUnlessPvclockVdso, None, 1),
            (State::Unknown, None, 3),
            (State::Unknown, Some(Severity::Note), 3),
            (State::Unknown, Some(Severity::Slow), 1),
            (State::Unknown, Some(Severity::Wrong), 2),
        ];
        for (state, severity, status) in table {
            assert_eq!(status_of(state, severity), status, "{state:?} {severity:?}");
        }
    }
}
