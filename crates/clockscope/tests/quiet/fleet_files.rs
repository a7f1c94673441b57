//! The files installed for Prometheus and systemd: rules, their tests, and the units that write metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::command::{Said, root};
use crate::support::running::with_input;

const RULES: [&str; 2] = ["clockscope", "clockscope-node"];
/// The worst exposure that `systemd-analyze security` may find, in tenths of its scale of 0 to 10 (worst).
const EXPOSURE: &str = "--threshold=20";
const TOOL: &str = env!("CARGO_BIN_EXE_clockscope");

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rules(name: &str) -> String {
    read(&format!("packaging/prometheus/{name}.rules.yml"))
}

/// Runs a command in a folder; gives whether it succeeded, and its output.
fn run(folder: &Path, words: &[&str]) -> (bool, String) {
    let mut command = Command::new(words[0]);
    let said = Said::of(with_input(command.args(&words[1..]).current_dir(folder), b""));
    (said.code == Some(0), said.stdout + &said.stderr)
}

#[test]
fn the_rules_fire_on_what_their_tests_say_and_on_nothing_else() {
    let folder = root().join("packaging/prometheus");
    for name in RULES {
        for (does, file) in [("check", "rules"), ("test", "test")] {
            let file = format!("{name}.{file}.yml");
            let (is_well, said) = run(&folder, &["promtool", does, "rules", &file]);
            assert!(is_well, "{said}");
        }
    }
}

/// Planted faults: the file of rules, the begin of the test that must fail, the right text, and the wrong text.
const FAULTS: &str = include_str!("fleet_files/faults.json");

/// A file of tests reduced to the test that begins so.
fn one_test(tests: &str, begin: &str) -> String {
    let mut parts = tests.split("\n  - name: ");
    let head = parts.next().expect("a head");
    let test = parts.find(|test| test.starts_with(begin));
    format!("{head}\n  - name: {}", test.unwrap_or_else(|| panic!("no test `{begin}`")))
}

#[test]
fn a_fault_of_the_rules_is_found() {
    let faults: Vec<[String; 4]> = serde_json::from_str(FAULTS).unwrap();
    for [name, test, right, wrong] in &faults {
        let folder = tempfile::tempdir().unwrap();
        let text = rules(name);
        assert!(text.contains(right), "{name} has no `{right}`");
        let tests = read(&format!("packaging/prometheus/{name}.test.yml"));
        let [rules, test] = [
            (format!("{name}.rules.yml"), text.replace(right, wrong)),
            (format!("{name}.test.yml"), one_test(&tests, test)),
        ]
        .map(|(file, text)| {
            fs::write(folder.path().join(&file), text).unwrap();
            file
        });
        let (checked, said) = run(folder.path(), &["promtool", "check", "rules", &rules]);
        assert!(checked, "`{wrong}` is no rule: {said}");
        let (tested, _) = run(folder.path(), &["promtool", "test", "rules", &test]);
        assert!(!tested, "`{test}` of {name} does not mind `{wrong}` instead of `{right}`");
    }
}

/// The alerts in a file of rules: name, and the text up to the next alert.
fn alerts(rules: &str) -> Vec<(&str, &str)> {
    rules.split("- alert: ").skip(1).filter_map(|part| part.split_once('\n')).collect()
}

#[test]
fn every_alert_has_a_test_a_fix_and_a_runbook_that_is_there() {
    let page = read("docs/fleet.md");
    for name in RULES {
        let (text, tests) = (rules(name), read(&format!("packaging/prometheus/{name}.test.yml")));
        assert!(alerts(&text).len() >= 4, "{name}");
        for (alert, rule) in alerts(&text) {
            for part in
                ["severity: ", "summary: ", "description: ", "hat helps", "runbook_url: 'file://"]
            {
                assert!(rule.contains(part), "{alert} has no `{part}`");
            }
            // The runbook URL leads to the page of the cause, or to this section.
            let section = format!("fleet.md#{}", alert.to_lowercase());
            assert!(rule.contains(&section), "{alert} does not name {section}");
            let row = format!("| [{alert}](#{})", alert.to_lowercase());
            for part in [format!("\n#### {alert}\n"), row] {
                assert!(page.contains(&part), "docs/fleet.md has no `{part}`");
            }
            let fires = format!("alertname: {alert}\n        exp_alerts:");
            assert!(tests.contains(&fires), "no test sees {alert} fire with its words");
        }
    }
}

/// The words in a text that begin like names of clockscope's metrics.
fn metrics(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| word.starts_with("clockscope_"))
        .collect()
}

#[test]
fn rules_and_dashboard_use_metrics_that_doctor_has() {
    let page = read("docs/doctor.md");
    let known: BTreeSet<&str> = metrics(&page);
    let dashboard = read("packaging/grafana/clockscope.json");
    let recorded: String = RULES.map(rules).concat();
    for text in [&recorded, &dashboard] {
        assert!(metrics(text).len() >= 2);
        for metric in metrics(text) {
            assert!(known.contains(metric), "docs/doctor.md does not name {metric}");
        }
    }
    let words = dashboard.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let series: BTreeSet<&str> = words.filter(|word| word.starts_with("clockscope:")).collect();
    assert!(series.len() >= 4);
    for name in series {
        assert!(recorded.contains(&format!("record: {name}\n")), "no rule records {name}");
    }
}

#[test]
fn the_units_are_sound_and_confined() {
    let folder = tempfile::tempdir().unwrap();
    let service = "clockscope-doctor.service";
    for unit in [service, "clockscope-doctor.timer", "clockscope-serve.service"] {
        let text = read(&format!("packaging/{unit}"));
        let here = text.replace("=/usr/bin/clockscope ", &format!("={TOOL} "));
        assert_ne!(text == here, unit.ends_with(".service"), "{unit}");
        fs::write(folder.path().join(unit), here).unwrap();
    }
    // The manual pages that units name need not be installed here: packages install them, and `manual_pages` tests them.
    let verify = "systemd-analyze verify --man=no ./clockscope-doctor.service ./clockscope-doctor.timer ./clockscope-serve.service";
    let verify: Vec<&str> = verify.split(' ').collect();
    assert_eq!(run(folder.path(), &verify), (true, String::new()));
    let here = fs::read_to_string(folder.path().join(service)).unwrap();
    let security = ["systemd-analyze", "security", "--no-pager", "--offline=true", EXPOSURE];
    let security = [&security[..], &["./clockscope-doctor.service"]].concat();
    let (confined, said) = run(folder.path(), &security);
    assert!(confined, "{said}");
    // A less confined and a misspelt unit must fail these checks, or the checks above prove nothing.
    let write_with = |right: &str, wrong: &str| {
        fs::write(folder.path().join(service), here.replace(right, wrong)).unwrap();
    };
    write_with("CapabilityBoundingSet=CAP_SYSLOG", "");
    assert!(!run(folder.path(), &security).0, "less confinement is not found");
    write_with("ProtectHome=yes", "ProtectHomes=yes");
    assert_ne!(run(folder.path(), &verify), (true, String::new()), "a wrong word is not found");
}
