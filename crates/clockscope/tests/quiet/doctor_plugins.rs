//! `clockscope doctor --format nagios` as monitoring programs run it.

use crate::support::command::{self, Said};

fn doctor(args: &[&str]) -> Said {
    command::said(&[&["doctor"], args].concat())
}

#[test]
fn nagios_gets_the_state_that_its_status_says() {
    for (status, name) in
        ["qemu-4.15-tsc-healthy", "vbox-seed-deb7-3.2", "lkml-cpuid15-wrong-freq-tsc"]
            .iter()
            .enumerate()
    {
        let path = &command::fixture(&format!("doctor-cases/{name}"));
        let Said { code, stdout: text, stderr } = doctor(&["--format", "nagios", "--root", path]);
        let plain = doctor(&["--all", "--root", path]);
        assert_eq!((code, &*stderr), (plain.code, ""), "{path}");
        assert_eq!(code, i32::try_from(status).ok(), "{name}");
        let state = ["OK", "WARNING", "CRITICAL"][status];
        let verdict = plain.stdout.lines().next().unwrap().to_owned();
        assert!(text.starts_with(&format!("CLOCK {state} - {verdict}")), "{text}\n{verdict}");
    }
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
