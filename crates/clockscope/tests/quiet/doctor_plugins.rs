//! `clockscope doctor --format nagios` as monitoring programs run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
    let output = doctor(&["--format", "nagios", "--root", "/nonexistent/root"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(3), 0), "{output:?}");
    let text = stdout(&output);
    assert!(text.starts_with("CLOCK UNKNOWN - cannot read /"), "{text}");
    assert!(text.lines().count() == 1 && !text.contains("os error"), "{text}");
    let output = doctor(&["--format", "nagios", "--list"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
