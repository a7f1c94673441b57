//! Doctor's conclusions from facts: plain data between the rules and the report.

use std::fmt::Display;

use clockscope_text::names::distinct;
use serde::{Deserialize, Serialize};

use super::catalogue::{Fix, Label, Says};
pub use super::catalogue::{Severity, State};
use crate::facts::Evidence;

/// The finding of a rule.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The finding's label.
    pub label: Label,
    /// Severity on this machine; the catalogue has the usual one.
    pub severity: Severity,
    /// Details of this machine in whole sentences with the figures, before the explanation.
    pub detail: Vec<String>,
    /// The lines that support it.
    pub evidence: Vec<Evidence>,
    /// Fixes that it suggests, best first.
    pub fixes: Vec<Fix>,
    /// Fixes that it rules out.
    pub forbids: Vec<Fix>,
    /// The label of the finding that this one follows from, if that was found too.
    pub follows_from: Option<Label>,
}

impl Finding {
    /// A finding filled in from the catalogue page of its label.
    pub fn new(label: Label) -> Finding {
        Finding {
            label,
            severity: label.severity(),
            detail: Vec::new(),
            evidence: Vec::new(),
            fixes: Vec::new(),
            forbids: label.bearing().forbids.to_vec(),
            follows_from: None,
        }
    }

    /// Whether the finding's label makes this statement.
    pub(crate) fn says(&self, what: Says) -> bool {
        self.label.bearing().says.contains(&what)
    }

    /// Adds a line of evidence.
    pub fn seen(mut self, evidence: &Evidence) -> Finding {
        if !self.evidence.contains(evidence) {
            self.evidence.push(evidence.clone());
        }
        self
    }

    /// Adds what was measured as evidence.
    pub(crate) fn measured(self, text: impl AsRef<str>) -> Finding {
        self.seen(&Evidence::measured(text))
    }

    /// Adds lines of evidence.
    pub(crate) fn seen_all<'a>(self, lines: impl IntoIterator<Item = &'a Evidence>) -> Finding {
        lines.into_iter().fold(self, Finding::seen)
    }

    /// Adds a sentence about this machine.
    pub fn detail(mut self, sentence: impl Into<String>) -> Finding {
        self.detail.push(sentence.into());
        self
    }

    /// Adds a sentence of its label's page.
    pub(crate) fn tell(self, key: &str) -> Finding {
        self.tell_with(key, &[])
    }

    /// Adds a sentence of its label's page, if it applies.
    pub(crate) fn tell_if(self, applies: bool, key: &str) -> Finding {
        if applies { self.tell(key) } else { self }
    }

    /// Adds such a sentence, with texts for its `{NAME}`s.
    pub(crate) fn tell_with(self, key: &str, values: &[(&str, &dyn Display)]) -> Finding {
        let values: Vec<_> =
            values.iter().map(|(name, value)| (*name, value.to_string())).collect();
        let sentence = self.label.sentence(key, &values);
        self.detail(sentence)
    }

    /// Sets the severity on this machine.
    pub fn severity(mut self, severity: Severity) -> Finding {
        self.severity = severity;
        self
    }

    /// Adds fixes, best first.
    pub fn fix(mut self, fixes: &[Fix]) -> Finding {
        append(&mut self.fixes, fixes.to_vec());
        self
    }

    /// Adds fixes that this finding rules out.
    pub fn forbid(mut self, fixes: &[Fix]) -> Finding {
        self.forbids.extend(fixes);
        self
    }

    /// Names the finding that this one follows from.
    pub fn follows(mut self, label: Label) -> Finding {
        self.follows_from = Some(label);
        self
    }
}

/// One finding for each label, in order of first occurrence, with the content of all findings of that label. `forbid`
/// merges the fixes that the later ones rule out.
pub(crate) fn merged(
    findings: Vec<Finding>,
    forbid: impl Fn(&mut Vec<Fix>, Vec<Fix>),
) -> Vec<Finding> {
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
        forbid(&mut first.forbids, finding.forbids);
    }
    merged
}

/// Appends the values that are not in the list yet.
pub(crate) fn append<T: PartialEq>(to: &mut Vec<T>, from: Vec<T>) {
    for one in from {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

/// The cost of a read of `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Lowest cost; the measured one if measured.
    pub low_ns: f64,
    /// Highest cost; the measured one if measured.
    pub high_ns: f64,
    /// Measured on that machine, instead of expected from published figures.
    pub is_measured: bool,
}

/// The verdict in short.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// How the clock is read.
    pub state: State,
    /// The reason for `state`, as a clause.
    pub because: String,
    /// The current clocksource, if it is known.
    pub source: Option<String>,
    /// The lines that show the source.
    pub source_evidence: Vec<Evidence>,
    /// The cost of a read.
    pub cost: Option<Cost>,
    /// Platforms, the most specific first: `virtualbox`, `aws`, `kvm`, ... (`platform:NAME`).
    pub platforms: Vec<&'static str>,
}

/// A fix, written out for one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The name of the fix; the label is `fix:NAME`.
    pub name: String,
    /// The action in a few words: `boot with tsc=nowatchdog`.
    pub title: String,
    /// Why it helps here, in a sentence or two.
    pub why: String,
    /// The place: `here`, `on the host`, `in the firmware`.
    pub place: String,
    /// Exact commands.
    pub commands: Vec<String>,
    /// Commands that show whether the fix worked, with the expected output.
    pub verify: Vec<String>,
    /// Risks and exceptions; empty if there are none.
    pub caveats: Vec<String>,
    /// References.
    pub reference: Vec<String>,
    /// The change of the kernel's command line, for programs that edit it. `None` if the fix changes none, if another
    /// system sets that line, or if another step has to come first.
    #[serde(default)]
    pub kernel_parameters: Option<KernelParameters>,
    /// Properties that other advice depends on; not part of the report.
    #[serde(skip)]
    pub basis: Basis,
}

/// Words of the kernel's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelParameters {
    /// Words to add.
    pub add: Vec<String>,
    /// Words to remove.
    pub remove: Vec<String>,
}

impl Advice {
    /// Whether this is that fix. A report saved by a later version may contain unknown fixes.
    pub fn is(&self, fix: Fix) -> bool {
        self.name == fix.name()
    }
}

/// Effects and requirements of a fix, in addition to its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Basis {
    /// One of its commands measures the TSC.
    pub measures: bool,
    /// Index of the command that measures and must come before the others, if there is one.
    pub measures_first: Option<usize>,
    /// Whether the fix helps depends on the kernel.
    pub needs_kernel: bool,
    /// The fix adds tsc=reliable in addition to its own parameter.
    pub adds_reliable: bool,
}

/// Doctor's complete diagnosis of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: Verdict,
    /// Findings, causes before their consequences, the worst first.
    pub findings: Vec<Finding>,
    /// Advice, the best first, each once.
    pub advice: Vec<Advice>,
    /// Warnings: each is the text after `Never:`, and ends with the reason.
    pub never: Vec<String>,
    /// Help from clockscope itself until then, with its command; a sentence each.
    pub meanwhile: Vec<String>,
    /// Open questions with decisive answers: one clause each with the command that answers it.
    pub missing: Vec<String>,
}

impl Diagnosis {
    /// The worst severity: `Ok` or `Note` (no repair is needed), `Slow`, or `Wrong`.
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// The flat list of labels: state, source, platforms, findings, fixes.
    pub fn labels(&self) -> Vec<String> {
        let mut labels = vec![format!("state:{}", self.verdict.state.name())];
        labels.extend(self.verdict.source.iter().map(|name| format!("source:{name}")));
        labels.extend(self.verdict.platforms.iter().map(|name| format!("platform:{name}")));
        labels.extend(self.findings.iter().map(|finding| finding.label.to_string()));
        labels.extend(self.advice.iter().map(|advice| format!("fix:{}", advice.name)));
        distinct(labels)
    }
}
