//! Machines that were written from knowledge about their kind, instead of recorded: labels that they must get, and
//! labels that they must not get.

use std::collections::BTreeSet;

use crate::collect::tests::facts_of;
use crate::report::model::DoctorReport;
use crate::rules;
use crate::rules::finding::Diagnosis;

/// The machines, in the form that its first lines describe.
const MACHINES: &str = include_str!("machines.txt");
const LOG: &str = "var/log/dmesg";

/// Labels that no healthy machine gets.
const ALARMS: &str = "state:slow tsc-warp tsc-watchdog-skew tsc-absent cause-needs-dmesg override-rejected guest-lacks-invtsc migration-risk log-incomplete tsc-refused needs-rate-measurement nested-or-overloaded vdso-support-depends-on-kernel tsc-available-not-selected better-source-available kvm-clock-no-vdso-suspected";

fn examined(files: &[(&str, &str)]) -> (Diagnosis, DoctorReport) {
    let facts = facts_of(files);
    let diagnosis = rules::examine(&facts);
    let report = DoctorReport::new(&facts, &diagnosis);
    (diagnosis, report)
}

fn labels(files: &[(&str, &str)]) -> BTreeSet<String> {
    examined(files).1.labels.into_iter().collect()
}

/// Whether a line `LABEL VERB REST` is true of the finding of that label.
fn is_so(line: &str, diagnosis: &Diagnosis) -> bool {
    let [label, verb, rest] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { return false };
    let Some(finding) = diagnosis.findings.iter().find(|one| one.label.name() == label) else {
        return false;
    };
    let asked: Vec<&str> = finding.fixes.iter().map(|fix| fix.name()).collect();
    match verb {
        "says" => finding.detail.join(" ").contains(rest),
        "says-not" => !finding.detail.join(" ").contains(rest),
        "says-all" => finding.detail.join(" ") == rest,
        "asks" if rest == "nothing" => asked.is_empty(),
        "asks" => asked.join(" ") == rest,
        "follows" => finding.follows_from.is_some_and(|cause| cause.name() == rest),
        "is" => format!("{:?}", finding.severity) == rest,
        _ => false,
    }
}

#[test]
fn every_machine_gets_its_labels_and_none_that_is_wrong() {
    let mut complaints = Vec::new();
    let machines = MACHINES.split("\n# ").skip(1);
    assert!(machines.clone().count() > 160);
    for machine in machines {
        let machine = machine.replace("\\0", "\0");
        let mut parts = machine.split("\n@ ");
        let head = parts.next().unwrap();
        let files: Vec<(&str, &str)> =
            parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect();
        let (diagnosis, report) = examined(&files);
        let status = report.exit_status();
        let labels: BTreeSet<String> = report.labels.into_iter().collect();
        let wanted = head.lines().find_map(|line| line.strip_prefix("= ")).unwrap();
        let is_healthy = wanted.ends_with(" healthy");
        if is_healthy && status != 0 {
            complaints.push(format!("{head}: exit status {status}"));
        }
        let wanted = wanted.trim_end_matches(" healthy").split(' ');
        let (wrong, missing): (Vec<&str>, Vec<&str>) =
            wanted.partition(|word| word.starts_with('!'));
        let alarms = ALARMS.split(' ').filter(|alarm| is_healthy && !missing.contains(alarm));
        let wrong = wrong.iter().map(|word| &word[1..]).chain(alarms);
        let wrong: Vec<&str> = wrong.filter(|word| labels.contains(*word)).collect();
        let missing: Vec<&str> =
            missing.into_iter().filter(|word| !labels.contains(*word)).collect();
        let stated = head.lines().filter_map(|line| line.strip_prefix("~ "));
        let untrue: Vec<&str> = stated.filter(|line| !is_so(line, &diagnosis)).collect();
        if !wrong.is_empty() || !missing.is_empty() || !untrue.is_empty() {
            complaints
                .push(format!("{head}: missing {missing:?}, wrong {wrong:?}, not so {untrue:?}"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn nothing_is_said_of_nothing() {
    let nothing = labels(&[]);
    assert_eq!(nothing, BTreeSet::from(["state:unknown".to_owned()]));
}

#[test]
fn a_record_that_only_one_platform_prints_names_it() {
    for row in include_str!("platforms.txt").lines() {
        let (platform, line) = row.split_once(" | ").unwrap();
        let found = labels(&[(LOG, &format!("[    0.000000] {line}\n"))]);
        let said: Vec<&str> =
            found.iter().filter_map(|label| label.strip_prefix("platform:")).collect();
        let wanted = if platform == "unseen" { vec![] } else { vec![platform] };
        assert_eq!(said, wanted, "{line}");
    }
}
