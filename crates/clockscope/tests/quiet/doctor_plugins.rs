//! `clockscope doctor --format nagios` as monitoring programs run it.

use std::fs;
use std::path::PathBuf;

use crate::support::command::{self, Said};

/// The recorded machines.
fn machines() -> Vec<PathBuf> {
    let entries = fs::read_dir(command::root().join("fixtures/doctor-cases")).unwrap();
    let machines = entries.map(|entry| entry.unwrap().path());
    let machines: Vec<PathBuf> = machines.filter(|path| path.join("case.json").exists()).collect();
    assert!(machines.len() >= 35, "{} machines", machines.len());
    machines
}

fn doctor(args: &[&str]) -> Said {
    command::said(&[&["doctor"], args].concat())
}

#[test]
fn nagios_gets_the_state_that_its_status_says() {
    let mut states = [0; 4];
    for root in machines() {
        let path = root.to_str().unwrap();
        let Said { code, stdout: text, stderr } = doctor(&["--format", "nagios", "--root", path]);
        let plain = doctor(&["--all", "--root", path]);
        assert_eq!((code, &*stderr), (plain.code, ""), "{path}");
        let status = usize::try_from(code.unwrap()).unwrap();
        states[status] += 1;
        let state = ["OK", "WARNING", "CRITICAL", "UNKNOWN"][status];
        let verdict = plain.stdout.lines().next().unwrap().to_owned();
        assert!(text.starts_with(&format!("CLOCK {state} - {verdict}")), "{text}\n{verdict}");
    }
    assert!(states[0] > 0 && states[1] > 0 && states[2] > 0, "{states:?}");
    let live = doctor(&["--format", "nagios"]).stdout;
    let (_, data) = live.lines().next().unwrap().split_once(" | read=").expect("it is measured");
    let seconds: f64 = data.strip_suffix("s;;;0").unwrap().parse().unwrap();
    assert!(seconds > 0.0 && seconds < 1.0 && !data.contains('e'), "{live}");
}

#[test]
fn a_machine_that_cannot_be_read_is_unknown_on_standard_output() {
    let output = doctor(&["--format", "nagios", "--root", "/nonexistent/root"]);
    assert_eq!((output.code, output.stderr.len()), (Some(3), 0), "{output:?}");
    let text = &output.stdout;
    assert!(text.starts_with("CLOCK UNKNOWN - cannot read /"), "{text}");
    assert!(text.lines().count() == 1 && !text.contains("os error"), "{text}");
    let output = doctor(&["--format", "nagios", "--list"]);
    assert_eq!(output.code, Some(3), "{output:?}");
}
