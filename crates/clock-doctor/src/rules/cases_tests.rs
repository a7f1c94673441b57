//! The score on the recorded machines: every expected label, none that would be wrong.

use std::collections::BTreeSet;
use std::path::Path;

use crate::collect;
use crate::root::Root;
use crate::rules;

fn words(case: &serde_json::Value, key: &str) -> BTreeSet<String> {
    let list = case[key].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

#[test]
fn every_recorded_machine_gets_its_labels_and_no_wrong_one() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/doctor-cases");
    let mut misses = Vec::new();
    let (mut count, mut bonus, mut bonus_of) = (0, 0, 0);
    let mut directories: Vec<_> =
        std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    directories.sort();
    for directory in directories {
        let Ok(text) = std::fs::read_to_string(directory.join("case.json")) else {
            continue;
        };
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        let facts = collect::facts(&Root::open(&directory).unwrap());
        let diagnosis = rules::examine(&facts);
        let labels: BTreeSet<String> = diagnosis.labels().into_iter().collect();
        let mut seen = BTreeSet::new();
        for finding in &diagnosis.findings {
            let id = &case["id"];
            assert!(seen.insert(finding.label), "{id}: {} is found twice", finding.label);
        }
        let expected = words(&case, "expected_diagnosis");
        let missing: Vec<_> = expected.difference(&labels).collect();
        let wrong: Vec<_> =
            words(&case, "must_not_diagnose").intersection(&labels).cloned().collect();
        let extra = words(&case, "bonus_diagnosis");
        bonus += extra.intersection(&labels).count();
        bonus_of += extra.len();
        count += 1;
        if !missing.is_empty() || !wrong.is_empty() {
            let id = &case["id"];
            misses.push(format!("{id}: missing {missing:?}, wrong {wrong:?}, said {labels:?}"));
        }
    }
    let score = format!("{} of {count}, bonus {bonus} of {bonus_of}", count - misses.len());
    assert!(count >= 35, "only {count} cases were found");
    assert!(misses.is_empty() && bonus == bonus_of, "{score}\n{}", misses.join("\n"));
}
