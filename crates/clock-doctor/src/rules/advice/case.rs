//! A machine and the findings that a fix is written out for.

use crate::rules::age::kernel_since;
use crate::rules::trust::{self, Doubt};
use crate::rules::{Facts, Finding, Label, Says, Severity, Sign, Verdict, platform};

/// The context of a fix that is written out.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) facts: &'a Facts,
    pub(super) verdict: &'a Verdict,
    pub(super) because: &'a [&'a Finding],
    /// The clocksources that may be current after the fix and a boot.
    pub(super) next: &'a [&'a str],
}

impl Case<'_> {
    /// Whether the machine is one of these platforms; `names` are separated by blanks.
    pub(super) fn is(&self, names: &str) -> bool {
        names.split(' ').any(|name| self.verdict.platforms.contains(&name))
    }

    /// Whether one of the findings has one of these labels.
    pub(super) fn found(&self, labels: &[Label]) -> bool {
        self.because.iter().any(|finding| labels.contains(&finding.label))
    }

    /// Whether one of the findings says this.
    pub(super) fn says(&self, what: Says) -> bool {
        self.because.iter().any(|finding| finding.says(what))
    }

    /// The objection to using the TSC as it is.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        trust::doubt(self.facts, &self.verdict.platforms)
    }

    /// Whether any fact shows that this is a guest.
    pub(super) fn is_guest(&self) -> bool {
        platform::is_guest(self.facts, &self.verdict.platforms)
    }

    /// Whether this is a container, which has no kernel of its own.
    pub(super) fn is_container(&self) -> bool {
        self.facts.signs.iter().any(|sign| matches!(sign.value, Sign::Container(_)))
    }

    /// As [`kernel_since`].
    pub(super) fn kernel_since(&self, major: u32, minor: u32, el: Option<u32>) -> Option<bool> {
        kernel_since(self.facts, (major, minor), el)
    }

    /// Whether the command line lacks this word, or is unknown.
    pub(super) fn lacks(&self, word: &str) -> bool {
        self.facts.line_with(word).is_none()
    }

    /// The reason for the fix, as a clause: from the costly finding that says most about the cause.
    pub(super) fn clause(&self) -> String {
        let costs = |finding: &&&Finding| finding.severity >= Severity::Slow;
        let tells = |finding: &&&Finding| !finding.says(Says::EffectOnly);
        let found = || self.because.iter();
        let telling = found().filter(costs).find(tells).or_else(|| found().find(costs));
        match telling.or_else(|| found().find(tells)).or(self.because.first()) {
            Some(finding) => {
                let clause = finding.label.bearing().clause;
                if clause.is_empty() { finding.label.page().title } else { clause }.to_owned()
            }
            None => match &self.verdict.source {
                Some(source) => format!("{source} is slow to read"),
                None => "clock reads are slow".to_owned(),
            },
        }
    }
}
