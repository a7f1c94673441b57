//! Recorded machines, faulty and healthy, and doctor's report on each.
//!
//! A case in fixtures/doctor-cases names the labels that follow from its files, and labels that would be wrong. Its
//! text is a snapshot in `snapshots`. After a deliberate change `INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo test -p
//! clock-doctor case_tests` rewrites the snapshots; read them before you commit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::model::DoctorReport;
use super::status::{SLOW, WRONG};
use super::text::{self, TextOptions};
use crate::collect;
use crate::root::Root;
use crate::rules;

/// Minimum number of cases; if there are fewer, the folder was not found.
const CASES_MIN: usize = 35;

/// The checked fields of `case.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(super) id: String,
    pub(super) expected_diagnosis: BTreeSet<String>,
    #[serde(default)]
    pub(super) bonus_diagnosis: BTreeSet<String>,
    pub(super) must_not_diagnose: BTreeSet<String>,
}

/// The cases with their folders, in the order of their names.
pub(crate) fn cases() -> Vec<(Case, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/doctor-cases");
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path.join("case.json").exists()).collect();
    folders.sort();
    assert!(folders.len() >= CASES_MIN, "{} cases in {}", folders.len(), folder.display());
    let read = |folder: PathBuf| {
        let text = fs::read_to_string(folder.join("case.json")).unwrap();
        (serde_json::from_str(&text).unwrap(), folder)
    };
    folders.into_iter().map(read).collect()
}

/// Doctor's report on the recorded machine with this name.
pub(super) fn report_on(id: &str) -> DoctorReport {
    let (_, folder) = cases().into_iter().find(|(case, _)| case.id == id).unwrap();
    report(&folder)
}

/// A guest with CPUs that disagreed at boot; its platform is added, because none of its files names it.
pub(super) fn warp() -> DoctorReport {
    let platform = "virtualbox".to_owned();
    let platforms = vec![platform.clone()];
    DoctorReport { platform: Some(platform), platforms, ..report_on("vbox-seed-deb7-3.2") }
}

pub(super) fn healthy() -> DoctorReport {
    report_on("qemu-4.15-tsc-healthy")
}

pub(super) fn report(root: &Path) -> DoctorReport {
    let facts = collect::facts(&Root::open(root).unwrap());
    DoctorReport::new(&facts, &rules::examine(&facts))
}

fn text(report: &DoctorReport) -> String {
    text::render(report, &TextOptions { all: true, ..TextOptions::default() })
}

#[test]
fn every_case_gets_its_labels_and_none_that_is_wrong() {
    let mut complaints = Vec::new();
    for (case, root) in cases() {
        let report = report(&root);
        let ids: BTreeSet<&String> = report.findings.iter().map(|row| &row.id).collect();
        assert_eq!(ids.len(), report.findings.len(), "{}: a label is found twice", case.id);
        let labels: BTreeSet<String> = report.labels.into_iter().collect();
        let wanted: BTreeSet<_> = case.expected_diagnosis.union(&case.bonus_diagnosis).collect();
        let missing: Vec<_> = wanted.into_iter().filter(|label| !labels.contains(*label)).collect();
        let wrong: Vec<_> = case.must_not_diagnose.intersection(&labels).collect();
        if !missing.is_empty() || !wrong.is_empty() {
            complaints.push(format!("{}: missing {missing:?}, wrong {wrong:?}", case.id));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The text must not depend on the machine that judges.
#[test]
fn the_text_of_every_case_is_as_it_was_read() {
    for (case, root) in cases() {
        let report = report(&root);
        let (text, status) = (text(&report), report.exit_status());
        insta::assert_snapshot!(case.id.as_str(), format!("{text}(exit status {status})\n"));
    }
}

/// Each cited line must exist, so that a user can look it up. Prefixes of loggers, and blanks between stamp and words,
/// are not compared.
#[test]
fn evidence_stands_where_it_is_said_to_stand() {
    let mut cited = 0;
    for (case, root) in cases() {
        let report = report(&root);
        let evidence = report.findings.iter().flat_map(|finding| &finding.evidence);
        for evidence in evidence.chain(&report.source_evidence) {
            let Some(line) = evidence.line else { continue };
            let text = fs::read(root.join(&evidence.file)).unwrap();
            let text = String::from_utf8_lossy(&text);
            let index = usize::try_from(line).unwrap().checked_sub(1).unwrap();
            let there = unfolded(&text, index);
            let (stamp, words) = evidence.text.split_once("] ").unwrap_or(("", &evidence.text));
            let is_there = there.contains(stamp) && there.contains(words.trim());
            assert!(is_there, "{}: {evidence}", case.id);
            cited += 1;
        }
    }
    assert!(cited >= CASES_MIN, "only {cited} lines are cited");
}

/// The line at `index`, and the one after it, as folds join them.
fn unfolded(text: &str, index: usize) -> String {
    let line = |at: usize| text.lines().nth(at).unwrap_or_default().trim();
    let (one, next) = (line(index), line(index + 1).trim_start_matches("> "));
    format!("{one} {next}\n{}{next}", one.trim_end_matches('='))
}

/// Advice must give its reason; if nothing helps, the report must say so.
#[test]
fn every_sick_case_is_told_what_to_do_or_that_nothing_helps() {
    let mut complaints = Vec::new();
    for (case, root) in cases() {
        let report = report(&root);
        let is_sick = matches!(report.exit_status(), SLOW | WRONG);
        let says_so = text(&report).contains("Nothing that doctor knows of");
        if is_sick && report.advice.is_empty() && (!report.findings.is_empty() || !says_so) {
            complaints.push(format!("{}: sick without advice", case.id));
        }
        for advice in &report.advice {
            if advice.why.is_empty() {
                complaints.push(format!("{}: {} does not say why", case.id, advice.name));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
