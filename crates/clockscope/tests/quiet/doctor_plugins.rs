//! `clockscope doctor --format nagios` and `--format npd` as those programs run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What node-problem-detector reads of a plugin's output, in bytes.
const NPD_READS: usize = 4096;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The recorded machines.
fn machines() -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join("fixtures/doctor-cases")).unwrap();
    let machines = entries.map(|entry| entry.unwrap().path());
    let machines: Vec<PathBuf> = machines.filter(|path| path.join("case.json").exists()).collect();
    assert!(machines.len() >= 35, "{} machines", machines.len());
    machines
}

fn doctor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
    command.arg("doctor").args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Status and standard output of a machine.
fn check(format: &str, root: &Path) -> (Option<i32>, String) {
    let output = doctor(&["--format", format, "--root", root.to_str().unwrap()]);
    assert!(output.stderr.is_empty(), "{}: {output:?}", root.display());
    (output.status.code(), stdout(&output))
}

#[test]
fn nagios_gets_the_state_that_its_status_says() {
    let mut states = [0; 4];
    for root in machines() {
        let (status, text) = check("nagios", &root);
        let plain = doctor(&["--root", root.to_str().unwrap()]);
        assert_eq!(status, plain.status.code(), "{}", root.display());
        let status = usize::try_from(status.unwrap()).unwrap();
        states[status] += 1;
        let state = ["OK", "WARNING", "CRITICAL", "UNKNOWN"][status];
        let verdict = stdout(&plain).lines().next().unwrap().to_owned();
        assert!(text.starts_with(&format!("CLOCK {state} - {verdict}")), "{text}\n{verdict}");
    }
    assert!(states[0] > 0 && states[1] > 0 && states[2] > 0, "{states:?}");
    let live = stdout(&doctor(&["--format", "nagios"]));
    let (_, data) = live.lines().next().unwrap().split_once(" | read=").expect("it is measured");
    let seconds: f64 = data.strip_suffix("s;;;0").unwrap().parse().unwrap();
    assert!(seconds > 0.0 && seconds < 1.0 && !data.contains('e'), "{live}");
}

#[test]
fn a_machine_that_cannot_be_read_is_unknown_on_standard_output() {
    for (format, begins) in
        [("nagios", "CLOCK UNKNOWN - cannot read /"), ("npd", "unknown: cannot read /")]
    {
        let output = doctor(&["--format", format, "--root", "/nonexistent/root"]);
        assert_eq!((output.status.code(), output.stderr.len()), (Some(3), 0), "{output:?}");
        let text = stdout(&output);
        assert!(text.starts_with(begins) && text.lines().count() == 1, "{text}");
        assert!(!text.contains("os error"), "{text}");
    }
    for format in ["nagios", "npd"] {
        let output = doctor(&["--format", format, "--list"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
}

/// The packaged configuration of node-problem-detector.
fn npd_config() -> Value {
    let text = fs::read_to_string(repository().join("packaging/npd/clockscope.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Go writes `30s` and `10m`.
fn seconds(duration: &Value) -> u64 {
    let (number, unit) = duration.as_str().unwrap().split_at(duration.as_str().unwrap().len() - 1);
    number.parse::<u64>().unwrap() * if unit == "m" { 60 } else { 1 }
}

/// Runs a rule as node-problem-detector does: kills it after its timeout, reads 4 KiB, takes blanks off both
/// ends and cuts at `max_output_length` bytes. Gives the condition's status and the message.
fn as_npd_does(config: &Value, more: &[&str]) -> (&'static str, String) {
    let rule = &config["rules"][0];
    let args = rule["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let output = Command::new("timeout")
        .args(["--signal=KILL", &seconds(&rule["timeout"]).to_string()])
        .arg(env!("CARGO_BIN_EXE_clockscope"))
        .args(args)
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = stdout(&output);
    let text = text[..text.len().min(NPD_READS)].trim();
    let longest = config["pluginConfig"]["max_output_length"].as_u64().unwrap();
    let message = text[..text.len().min(usize::try_from(longest).unwrap())].to_owned();
    assert_eq!(message, text, "it is cut");
    let status = match output.status.code() {
        Some(0) => "False",
        Some(1) => "True",
        _ => "Unknown",
    };
    (status, message)
}

#[test]
fn node_problem_detector_takes_slow_and_wrong_for_the_problem() {
    let config = npd_config();
    for root in machines() {
        let plain = doctor(&["--root", root.to_str().unwrap()]).status.code().unwrap();
        let (status, message) = as_npd_does(&config, &["--root", root.to_str().unwrap()]);
        assert_eq!(status, ["False", "True", "True", "Unknown"][usize::try_from(plain).unwrap()]);
        let begins = ["fast", "slow", "wrong time possible", "not enough evidence"];
        assert!(message.starts_with(begins[usize::try_from(plain).unwrap()]), "{message}");
        assert!(message.is_ascii() && !message.contains('\n'), "{message}");
    }
    let empty = tempfile::tempdir().unwrap();
    let (status, message) = as_npd_does(&config, &["--root", empty.path().to_str().unwrap()]);
    assert_eq!((status, message.as_str()), ("Unknown", "not enough evidence"));
    let (status, _) = as_npd_does(&config, &["--root", "/nonexistent"]);
    assert_eq!(status, "Unknown");
    // Of a machine that it measures it says the same twice, or conditions would flap.
    assert_eq!(as_npd_does(&config, &[]), as_npd_does(&config, &[]));
}

/// What `Validate` of node-problem-detector refuses (`pkg/custompluginmonitor/types/config.go`).
#[test]
fn node_problem_detector_accepts_the_packaged_configuration() {
    let config = npd_config();
    assert_eq!(config["plugin"], "custom");
    let global = &config["pluginConfig"];
    let rules = config["rules"].as_array().unwrap();
    let conditions = config["conditions"].as_array().unwrap();
    assert_eq!((rules.len(), conditions.len()), (1, 1), "two rules of a condition would flap");
    for rule in rules {
        assert!(seconds(&rule["timeout"]) <= seconds(&global["timeout"]));
        assert!(seconds(&global["timeout"]) < seconds(&global["invoke_interval"]));
        assert!(conditions.iter().any(|condition| condition["type"] == rule["condition"]));
        assert_ne!(rule["reason"], conditions[0]["reason"]);
    }
}
