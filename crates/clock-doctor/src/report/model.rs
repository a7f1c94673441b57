//! The report of doctor as data. This is the JSON schema (`"schema": 1`): fields are added, never renamed; units are in
//! the names; an unknown value is `null`; see docs/doctor.md.

use serde::{Deserialize, Serialize};

use crate::facts::{Evidence, Facts, Unread};
use crate::measured::Measured;
use crate::rules::catalogue::Fix;
use crate::rules::finding::{Advice, Cost, Diagnosis, Finding, Severity, State};
use crate::rules::utc;
use crate::utc::Reference;

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// The result of one `clockscope doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Version of this schema: 1.
    pub schema: u32,
    /// Version of the clockscope that judged.
    pub clockscope: String,
    /// How the clock is read.
    pub state: State,
    /// The worst severity of all findings; `ok` without findings.
    pub severity: Severity,
    /// The reason for `state`, as a clause.
    pub because: String,
    /// The current clocksource.
    pub source: Option<String>,
    /// The lines that show the clocksource.
    pub source_evidence: Vec<Evidence>,
    /// The cost of a read of `CLOCK_MONOTONIC`: measured, or expected from published figures.
    pub cost: Option<Cost>,
    /// The first of `platforms`.
    pub platform: Option<String>,
    /// Machine, hypervisor and cloud, the most specific first.
    pub platforms: Vec<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The kernel's command line.
    pub command_line: Option<String>,
    /// The available clocksources.
    pub available: Option<Vec<String>>,
    /// The best clock outside of this kernel, and how far `CLOCK_REALTIME` is behind it.
    #[serde(default)]
    pub time: Option<Reference>,
    /// The report is of the running machine instead of a capture.
    pub is_live: bool,
    /// State, source, platforms, findings and fixes as a flat list of words.
    pub labels: Vec<String>,
    /// Findings. A cause stands before its consequences, and the worst first.
    pub findings: Vec<FindingRow>,
    /// Advice, the best first.
    pub advice: Vec<Advice>,
    /// Warnings for this machine, a sentence each.
    pub never: Vec<String>,
    /// Help from clockscope until the cause is repaired, a sentence each.
    pub meanwhile: Vec<String>,
    /// Open questions with decisive answers, a clause each.
    pub missing: Vec<String>,
    /// Files that were read, relative to the root.
    pub read: Vec<String>,
    /// Files that exist but were not read.
    pub unread: Vec<Unread>,
    /// Measurements: taken now, or those in the capture.
    pub measured: Option<Measured>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingRow {
    /// Its label, such as `tsc-warp`.
    pub id: String,
    /// Severity on this machine.
    pub severity: Severity,
    /// One line, without a full stop.
    pub title: String,
    /// Details of this machine in whole sentences.
    pub detail: Vec<String>,
    /// The lines that support it.
    pub evidence: Vec<Evidence>,
    /// The meaning and the reason, on any machine.
    pub explanation: String,
    /// The remedy in words, on any machine.
    pub fix: String,
    /// Exceptions; may be empty.
    pub caveat: String,
    /// Advice of this finding, written out for this machine, best first. Fixes that another finding rules out, or that
    /// do not apply here, are left out.
    pub fixes: Vec<Advice>,
    /// Fixes that this finding rules out.
    pub forbids: Vec<String>,
    /// The `id` of the finding that this one follows from.
    pub follows_from: Option<String>,
    /// Kernel files with version, man pages, threads.
    pub reference: Vec<String>,
}

impl FindingRow {
    fn new(finding: &Finding, advice: &[Advice]) -> FindingRow {
        let page = finding.label.page();
        let written_out = |fix: Fix| advice.iter().find(|one| one.is(fix)).cloned();
        FindingRow {
            id: finding.label.to_string(),
            severity: finding.severity,
            title: page.title.to_owned(),
            detail: finding.detail.clone(),
            evidence: finding.evidence.clone(),
            explanation: page.explanation().to_owned(),
            fix: page.paragraph("What helps").to_owned(),
            caveat: page.paragraph("But").to_owned(),
            fixes: finding.fixes.iter().copied().filter_map(written_out).collect(),
            forbids: finding.forbids.iter().map(Fix::to_string).collect(),
            follows_from: finding.follows_from.map(|label| label.to_string()),
            reference: page.references.iter().map(|&text| text.to_owned()).collect(),
        }
    }
}

impl DoctorReport {
    /// The report about a machine.
    pub fn new(facts: &Facts, diagnosis: &Diagnosis) -> DoctorReport {
        let verdict = &diagnosis.verdict;
        let platforms: Vec<String> =
            verdict.platforms.iter().map(|&name| name.to_owned()).collect();
        let rows = diagnosis.findings.iter();
        let rows = rows.map(|finding| FindingRow::new(finding, &diagnosis.advice));
        DoctorReport {
            schema: SCHEMA,
            clockscope: env!("CARGO_PKG_VERSION").to_owned(),
            state: verdict.state,
            severity: diagnosis.worst(),
            because: verdict.because.clone(),
            source: verdict.source.clone(),
            source_evidence: verdict.source_evidence.clone(),
            cost: verdict.cost,
            platform: platforms.first().cloned(),
            platforms,
            kernel: facts.kernel().map(|kernel| kernel.release.clone()),
            command_line: facts.command_line.as_ref().map(|line| line.value.words.join(" ")),
            available: facts.available.as_ref().map(|known| known.value.clone()),
            time: utc::best(facts, verdict),
            is_live: facts.is_live,
            labels: diagnosis.labels(),
            findings: rows.collect(),
            advice: diagnosis.advice.clone(),
            never: diagnosis.never.clone(),
            meanwhile: diagnosis.meanwhile.clone(),
            missing: diagnosis.missing.clone(),
            read: facts.read.clone(),
            unread: facts.unread.clone(),
            measured: facts.measured.clone(),
        }
    }

    /// The cause of a slow or wrong clock and the first advice, in a clause; `None` if nothing is known to mend.
    pub fn in_a_clause(&self) -> Option<String> {
        let cause = self.cause()?;
        let source = self.source.iter().map(|source| format!("the clocksource is {source}: "));
        let fix = self.advice.first().into_iter();
        let fix = fix.map(|advice| format!("; to do: {} [fix:{}]", advice.title, advice.name));
        let cause = std::iter::once(format!("{} [{}]", cause.title, cause.id));
        Some(source.chain(cause).chain(fix).collect())
    }

    /// The first finding that costs time or makes the time wrong.
    pub fn cause(&self) -> Option<&FindingRow> {
        self.findings.iter().find(|row| row.severity > Severity::Note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::case_tests as samples;
    use crate::rules::catalogue::Label;
    use crate::rules::finding::Basis;

    #[test]
    fn what_is_wrong_and_what_to_do_fit_into_a_clause() {
        let wanted = "the clocksource is acpi_pm: the CPUs' counters disagreed when they were compared [tsc-warp]; \
                      to do: use a kernel from 3.3 on [fix:newer-kernel]";
        assert_eq!(samples::warp().in_a_clause().as_deref(), Some(wanted));
    }

    #[test]
    fn the_report_survives_its_own_json() {
        let mut report = samples::warp();
        // The basis of an advice is no part of the JSON.
        let advice = report.findings.iter_mut().flat_map(|row| &mut row.fixes);
        advice.chain(&mut report.advice).for_each(|advice| advice.basis = Basis::default());
        let json = serde_json::to_string_pretty(&report).unwrap();
        assert_eq!(serde_json::from_str::<DoctorReport>(&json).unwrap(), report);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["state"], "slow");
        assert_eq!(value["platform"], "virtualbox");
        assert_eq!(value["findings"][0]["id"], "tsc-warp");
        assert_eq!(value["findings"][0]["evidence"][0]["line"], 3);
        assert_eq!(value["findings"][1]["follows_from"], "tsc-warp");
        assert_eq!(value["labels"][0], "state:slow");
        assert_eq!(value["measured"], serde_json::Value::Null);
    }

    #[test]
    fn a_finding_carries_the_advice_that_it_asks_for_and_that_is_given() {
        let given = samples::warp().advice;
        let finding = Finding::new(Label::TscWarp).fix(&[Fix::EnableHpet, Fix::NewerKernel]);
        let row = FindingRow::new(&finding, &given);
        assert_eq!(row.fixes, given[..1]);
        assert!(!row.fixes[0].commands.is_empty() && !row.fixes[0].caveats.is_empty());
    }

    #[test]
    fn a_finding_carries_what_the_catalogue_says_of_it() {
        for label in Label::ALL {
            let (row, known) = (FindingRow::new(&Finding::new(label), &[]), label.page());
            assert_eq!((row.id.as_str(), row.title.as_str()), (label.name(), known.title));
            assert_eq!(row.reference.len(), known.references.len());
        }
    }
}
