//! The checks of docs/startup-check.md decide right.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::command::root;
use crate::support::running::clockscope;

/// Slow machines that the clocksource's name does not show.
const NOT_BY_NAME: [&str; 2] = ["allwinner-unknown1", "arm64-vim4-858921"];

/// The first block of the page in this language.
fn block(language: &str) -> String {
    let page = fs::read_to_string(root().join("docs/startup-check.md")).expect("the page");
    let rest = page.split_once(&format!("```{language}\n")).expect("a block").1;
    rest.split_once("```").expect("an end").0.to_owned()
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[test]
fn the_shell_warns_of_no_fast_machine_and_of_each_slow_one_that_has_a_slow_name() {
    let cases = root().join("fixtures/doctor-cases");
    let doctor = ["doctor", "--format", "json-lines", "--root"];
    let lines = output(Command::new(clockscope()).args(doctor).arg(cases)).stdout;
    let script = block("sh");
    assert!(script.lines().count() <= 20, "twenty lines");
    let (mut fast, mut slow) = (0, 0);
    for line in String::from_utf8(lines).expect("JSON").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let Some(source) = line["source"].as_str() else { continue };
        let name = Path::new(line["root"].as_str().expect("a path")).file_name().expect("a name");
        let machine = tempfile::tempdir().expect("a folder");
        let folder = machine.path().join("sys/devices/system/clocksource/clocksource0");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("current_clocksource"), format!("{source}\n")).expect("a file");
        let said = output(Command::new("sh").args(["-c", &script, "check"]).arg(machine.path()));
        let status = said.status.code().expect("a status");
        assert_eq!(said.stderr.is_empty(), status != 1, "{said:?}");
        match line["state"].as_str().expect("a state") {
            "fast" => {
                fast += 1;
                assert_eq!(status, 0, "{name:?}: {source}");
            }
            "slow" if NOT_BY_NAME.iter().all(|one| *one != name) => {
                slow += 1;
                assert_eq!(status, 1, "{name:?}: {source}");
            }
            _ => assert_ne!(status, 1, "{name:?}: {source}"),
        }
    }
    assert!(fast >= 10 && slow >= 15, "{fast} fast, {slow} slow");
    let nowhere = output(Command::new("sh").args(["-c", &script, "check", "/does/not/exist"]));
    assert_eq!(nowhere.status.code(), Some(3));
}

#[test]
fn the_header_sees_whether_the_vdso_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (header, source, program) =
        (folder.path().join("check.h"), folder.path().join("main.c"), folder.path().join("check"));
    fs::write(header, block("c")).expect("a file");
    let main = "#include <stdio.h>\n#include \"check.h\"\nint main(void) { printf(\"%d\", clock_is_fast()); }\n";
    fs::write(&source, main).expect("a file");
    let options = ["-O2", "-Wall", "-Wextra", "-Werror", "-o"];
    let compiled = output(Command::new("cc").args(options).arg(&program).arg(source));
    assert!(compiled.status.success(), "{compiled:?}");
    let said = |command: &mut Command| String::from_utf8(output(command).stdout).expect("a digit");
    let doctor = said(Command::new(clockscope()).args(["doctor", "--format", "json"]));
    let doctor: Value = serde_json::from_str(&doctor).expect("JSON");
    let falls_back = doctor["measured"]["host"]["vdso"]["falls_back"].as_bool();
    let is_fast = said(&mut Command::new(&program)) == "1";
    assert_eq!(is_fast, falls_back == Some(false), "{falls_back:?}");
    let slowed = said(Command::new(clockscope()).args(["run", "--clock", "syscall"]).arg(&program));
    assert_eq!(slowed, "0", "its reads were made system calls");
}
