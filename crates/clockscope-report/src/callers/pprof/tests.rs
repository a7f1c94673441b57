use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;
use crate::tests::server;

fn decoded(report: &TraceReport) -> Profile {
    let packed = render(report, 1_700_000_002_000_000_000).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    Profile::decode(bytes.as_slice()).unwrap()
}

fn text(profile: &Profile, index: i64) -> &str {
    &profile.string_table[usize::try_from(index).unwrap()]
}

/// Names of the lines of each location of a sample.
fn stack(profile: &Profile, sample: &Sample) -> Vec<Vec<String>> {
    let name = |line: &Line| {
        let function = profile.function.iter().find(|f| f.id == line.function_id).unwrap();
        format!("{}:{}", text(profile, function.name), line.line)
    };
    let place = |id: &u64| {
        let location = profile.location.iter().find(|location| location.id == *id).unwrap();
        location.line.iter().map(name).collect()
    };
    sample.location_id.iter().map(place).collect()
}

#[test]
fn stacks_become_samples_with_inlined_lines() {
    let profile = decoded(&server());
    assert_eq!(text(&profile, 0), "");
    let types: Vec<(&str, &str)> = profile
        .sample_type
        .iter()
        .map(|kind| (text(&profile, kind.r#type), text(&profile, kind.unit)))
        .collect();
    assert_eq!(types, [("calls", "count"), ("time", "nanoseconds")]);
    assert_eq!(profile.duration_nanos, 2_000_000_000);
    assert_eq!(profile.time_nanos, 1_700_000_000_000_000_000);
    let inlined = &profile.sample[3];
    assert_eq!(
        stack(&profile, inlined),
        [
            &["clock_gettime(MONOTONIC):0"] as &[&str],
            &["clock_gettime:0"],
            &["stamp:17", "log_line:40"],
            &["receiver:88"],
            &["start_thread:0"],
            &["clone3:0"],
        ]
    );
    assert_eq!(inlined.value, [40_000, 960_000]);
    let cut = stack(&profile, &profile.sample[5]);
    assert_eq!(cut.last().unwrap(), &["[cut]:0"]);
    assert_eq!(cut[2], ["libplugin.so.2+0x77:0"]);
}

#[test]
fn labels_say_who_and_how() {
    let profile = decoded(&server());
    let labels: Vec<(&str, &str, i64)> = profile.sample[0]
        .label
        .iter()
        .map(|label| (text(&profile, label.key), text(&profile, label.str), label.num))
        .collect();
    assert_eq!(
        labels,
        [
            ("pid", "", 4_021),
            ("command", "diameterd", 0),
            ("via", "vdso", 0),
            ("clock", "CLOCK_MONOTONIC", 0)
        ]
    );
}

#[test]
fn counts_are_exact_also_of_what_was_not_sampled() {
    let profile = decoded(&server());
    let calls: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
    assert_eq!(calls, 400_001 + 100_001 + 7);
    let last = profile.sample.last().unwrap();
    assert_eq!(stack(&profile, last), [["getcpu:0"]]);
    assert_eq!(last.value, [7, 0]);
}

#[test]
fn every_reference_leads_somewhere() {
    let profile = decoded(&server());
    let in_table = |index: i64| usize::try_from(index).unwrap() < profile.string_table.len();
    for (index, mapping) in profile.mapping.iter().enumerate() {
        assert_eq!(mapping.id, index as u64 + 1);
        assert!(in_table(mapping.filename) && mapping.memory_limit > 0);
    }
    for (index, function) in profile.function.iter().enumerate() {
        assert_eq!(function.id, index as u64 + 1);
        assert!(in_table(function.name) && in_table(function.filename));
    }
    for (index, location) in profile.location.iter().enumerate() {
        assert_eq!(location.id, index as u64 + 1);
        assert!(location.mapping_id <= profile.mapping.len() as u64);
        assert!(location.line.iter().all(|l| l.function_id <= profile.function.len() as u64));
    }
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), profile.sample_type.len());
        assert!(sample.location_id.iter().all(|id| *id <= profile.location.len() as u64));
    }
}

#[test]
fn nothing_sampled_is_an_empty_profile() {
    let profile = decoded(&TraceReport::default());
    assert_eq!(profile.sample, []);
    assert_eq!(profile.sample_type.len(), 1);
}
