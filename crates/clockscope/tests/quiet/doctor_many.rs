//! `clockscope doctor` on many machines: lines of JSON, resuming, the summary.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::command::{self, Said};
use clock_doctor::report::fleet::{MachineLine, Summary};

fn cases() -> PathBuf {
    command::root().join("fixtures/doctor-cases")
}

fn doctor(args: &[&str], input: &str) -> Said {
    command::said_in(Path::new("."), &[&["doctor"], args].concat(), input)
}

/// The options that write a line for each machine of a folder into a file.
fn lines_into<'a>(folder: &'a Path, file: &'a Path) -> [&'a str; 6] {
    let [folder, file] = [folder, file].map(|path| path.to_str().unwrap());
    ["--root", folder, "--format", "json-lines", "-o", file]
}

fn lines(text: &str) -> Vec<MachineLine> {
    let mut lines: Vec<MachineLine> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by(|one, other| one.root.cmp(&other.root));
    lines
}

fn names(lines: &[MachineLine]) -> BTreeSet<String> {
    lines.iter().map(|line| line.host.clone()).collect()
}

/// A folder with a complete archive, a truncated one, a file that is no archive despite its name, and a file that is
/// no capture.
fn captures() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all("capture", cases().join("vbox-seed-deb7-3.2")).unwrap();
    let whole = builder.into_inner().unwrap();
    let rack = folder.path().join("rack-1");
    fs::create_dir(&rack).unwrap();
    fs::write(rack.join("whole.tar"), &whole).unwrap();
    fs::write(rack.join("cut.tar"), &whole[..700]).unwrap();
    fs::write(rack.join("none.tar.gz"), "<html>").unwrap();
    fs::write(rack.join("SHA256SUMS"), "0 whole.tar\n").unwrap();
    folder
}

#[test]
fn each_machine_of_a_folder_has_a_line_that_says_what_doctor_says_of_it_alone() {
    let folder = cases();
    let output = doctor(&["--root", folder.to_str().unwrap(), "--format", "json-lines"], "");
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    let lines = lines(&output.stdout);
    assert!(lines.len() >= 35, "{} lines", lines.len());
    for line in lines.iter().step_by(7) {
        let alone = doctor(&["--root", &line.root, "--format", "json"], "");
        let report = alone.json();
        assert_eq!(serde_json::to_value(&line.labels).unwrap(), report["labels"], "{}", line.root);
        assert_eq!(Some(line.status), alone.code, "{}", line.root);
    }
}

#[test]
fn one_bad_archive_never_stops_the_others_and_each_is_named() {
    let folder = captures();
    let output = doctor(&["--root", folder.path().to_str().unwrap(), "--format", "json-lines"], "");
    let lines = lines(&output.stdout);
    assert_eq!(names(&lines), ["cut", "none", "whole"].map(str::to_owned).into());
    let errors: Vec<bool> = lines.iter().map(|line| line.error.is_some()).collect();
    assert_eq!(errors, [true, true, false], "{lines:?}");
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("3 machines; 2 could not be read"), "{}", output.stderr);
}

#[test]
fn without_machines_the_line_is_that_of_this_one() {
    let output = doctor(&["--format", "json-lines"], "");
    let [line] = &lines(&output.stdout)[..] else { panic!("{output:?}") };
    assert_eq!(Some(line.status), output.code, "{}", output.stderr);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!((line.root.as_str(), line.host.as_str()), ("/", host.trim()));
    assert_eq!(line.error, None);
}

#[test]
fn a_list_on_standard_input_names_the_machines() {
    let (one, other) = (cases().join("vmware-seed"), cases().join("gce-kvm-clock"));
    let list = format!("{}\n\n{}\n/nonexistent/capture.tar\n", one.display(), other.display());
    let output = doctor(&["--root", "-", "--format", "json-lines"], &list);
    let lines = lines(&output.stdout);
    assert_eq!(
        names(&lines),
        ["capture", "gce-kvm-clock", "vmware-seed"].map(str::to_owned).into()
    );
    let missing = lines.iter().find(|line| line.host == "capture").unwrap();
    assert!(missing.error.as_deref().unwrap().contains("no such file"), "{missing:?}");
}

#[test]
fn what_was_done_is_not_done_again_and_half_a_line_is() {
    let folder = cases();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("machines.jsonl");
    let args = lines_into(&folder, &file);
    let first = doctor(&args, "");
    let whole = fs::read_to_string(&file).unwrap();
    assert!(first.stderr.contains("machines; 0 could not be read"), "{}", first.stderr);

    // The file as a kill in the middle of a line leaves it.
    let at = whole.len() / 2;
    fs::write(&file, &whole[..at]).unwrap();
    let kept = whole[..at].matches('\n').count();
    let resumed = doctor(&[&args[..], &["--resume"]].concat(), "");
    assert_eq!(lines(&fs::read_to_string(&file).unwrap()), lines(&whole));
    assert!(resumed.stderr.contains(&format!("{kept} of them before")), "{}", resumed.stderr);
    assert_eq!(resumed.code, first.code);

    // A file with other text is left unchanged.
    fs::write(&file, "a diary\n").unwrap();
    let refused = doctor(&[&args[..], &["--resume"]].concat(), "");
    assert_eq!((refused.code, fs::read(&file).unwrap()), (Some(3), b"a diary\n".to_vec()));
    assert!(refused.stderr.contains("other text"), "{}", refused.stderr);
}

#[test]
fn a_summary_of_machines_and_of_their_lines_is_the_same() {
    let folder = cases();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("machines.jsonl");
    doctor(&lines_into(&folder, &file), "");
    let summary = |root: &Path| {
        let output =
            doctor(&["--summary", "--format", "json", "--root", root.to_str().unwrap()], "");
        assert_eq!(output.code, Some(2), "{}", output.stderr);
        serde_json::from_str::<Summary>(&output.stdout).unwrap()
    };
    let (judged, read) = (summary(&folder), summary(&file));
    assert_eq!(judged, read);
    assert_eq!(judged.verdict.iter().map(|group| group.machines).sum::<u64>(), judged.machines);
    assert!(judged.cause.iter().any(|group| group.name == "tsc-warp" && group.machines >= 3));
    let text = doctor(&["--summary", "--root", file.to_str().unwrap()], "").stdout;
    for heading in ["Verdict", "Cause", "Best advice", "Platform", "Kernel"] {
        assert!(text.contains(&format!("\n{heading}\n")), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
