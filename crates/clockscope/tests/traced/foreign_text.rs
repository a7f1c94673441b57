//! Text from other programs never controls a terminal, whichever command prints it.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::attaching::{signal, wait_until};
use crate::support::builds::{self, Link};
use crate::support::command::fixture;
use crate::support::conversation::Conversation;
use crate::support::running::{clockscope, finish, with_input};
use proptest::prelude::*;
use tempfile::TempDir;

/// Terminal control: a window title, a colour, C1, DEL, right-to-left override, and a forged line.
const HOSTILE: &str = "\x1b]0;x\x07\x1b[31m\u{9b}2J\x7f\u{202e}\nclockscope: forged";
/// The same as a process name. The kernel keeps 15 bytes of a name.
const NAME: &[u8] = b"\x1b]0;x\x07\x1b[31m\x7f\xff\n";

/// Fails if the bytes contain terminal controls, invisible characters, or the forged line.
#[track_caller]
fn is_harmless(what: &str, bytes: &[u8]) {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let acts = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
    };
    assert!(!text.contains(acts), "{what}: {text:?}");
    let forged = text.lines().find(|line| *line == "clockscope: forged");
    assert_eq!(forged, None, "{what}: {text:?}");
}

/// Runs a command, and checks that its standard output and error are harmless.
#[track_caller]
fn told(words: &[impl AsRef<OsStr> + Debug]) -> Output {
    let output = with_input(Command::new(clockscope()).args(words), b"");
    is_harmless(&format!("{words:?} on standard output"), &output.stdout);
    is_harmless(&format!("{words:?} on standard error"), &output.stderr);
    output
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// `attachable` under a hostile name.
fn hostile_program(folder: &TempDir) -> Option<PathBuf> {
    let program = builds::c("attachable", Link::Dynamic)?;
    let place = folder.path().join(OsStr::from_bytes(NAME));
    crate::support::placed::program(&program, &place, 0o755);
    Some(place)
}

#[test]
fn a_program_with_a_hostile_name_is_traced_harmlessly() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let Some(program) = hostile_program(&folder) else { return };
    let report = folder.path().join("report");
    for command in [
        &["trace"][..],
        &["trace", "--per-process"],
        &["trace", "--format", "json"],
        &["trace", "--format", "html"],
        &["trace", "--format", "folded", "--callers"],
        &["run", "--stats", "--clock", "coarse"],
        &["run", "--stats", "--clock", "kernel"],
    ] {
        let mut words: Vec<&OsStr> = command.iter().map(OsStr::new).collect();
        words.extend([OsStr::new("--"), program.as_os_str(), OsStr::new("1"), HOSTILE.as_ref()]);
        let output = told(&words);
        assert!(output.status.success() || output.status.code() == Some(7), "{output:?}");
        words.splice(1..1, [OsStr::new("-o"), report.as_os_str()]);
        told(&words);
        is_harmless(&format!("{command:?} in a file"), &fs::read(&report).expect("a report"));
    }
}

#[test]
fn a_process_with_a_hostile_name_is_attached_to_harmlessly() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let Some(program) = hostile_program(&folder) else { return };
    let mut target = Conversation::start(&words![program, "1"]);
    let pid = target.pid().to_string();
    let words = ["trace", "-p", &pid, "--duration", "0.2"];
    let output = told(&words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(stderr.contains("attached to ?]0;x??[31m?"), "{stderr:?}");
    let shown = told(&["vdso", "--pid", &pid]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    // While another tracer has the process, attaching is refused.
    let mut other = Command::new(clockscope())
        .args(["trace", "-p", &pid, "-o", "/dev/null"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("start clockscope");
    let mut line = Vec::new();
    let mut said = BufReader::new(other.stderr.as_mut().expect("is piped"));
    said.read_until(b'\n', &mut line).expect("read what it says");
    is_harmless("attached", &line);
    let refused = told(&words);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    let stderr = String::from_utf8(refused.stderr).expect("UTF-8");
    assert!(stderr.contains("cannot attach to ?]0;x??[31m?"), "{stderr:?}");
    signal("INT", other.id().try_into().expect("a pid"));
    finish(other);
    target.say("end");
    assert_eq!(target.status().code(), Some(7));
}

#[test]
fn a_hostile_image_is_shown_harmlessly() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let mut bytes = fs::read(fixture("vdso/x86_64-6.18.so")).expect("an image");
    // Replacements of the same length, so that the image stays valid.
    for (from, to) in [
        (&b"linux-vdso.so.1"[..], &b"\x1b]0;x\x07\x1b[31m\x7f\xc2\x9b\n"[..]),
        (b"__vdso_gettimeofday", b"\x1b]0;x\x07\x1b[31m\n\xe2\x80\xaefor"),
        (b"LINUX_2.6", b"\x1b[2J\xc2\x9b\nx"),
    ] {
        let places: Vec<usize> = bytes
            .windows(from.len())
            .enumerate()
            .filter(|(_, at)| *at == from)
            .map(|at| at.0)
            .collect();
        assert!(!places.is_empty(), "{from:?} is in the image");
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    let image = folder.path().join(OsStr::from_bytes(NAME));
    fs::write(&image, bytes).expect("write the image");
    for option in [&[][..], &["--format", "json"]] {
        let mut words = vec![OsStr::new("vdso"), OsStr::new("--file"), image.as_os_str()];
        words.extend(option.iter().map(OsStr::new));
        let output = told(&words);
        assert!(!output.stdout.is_empty(), "{output:?}");
    }
    fs::write(&image, "no image").expect("write a file");
    told(&[OsStr::new("vdso"), OsStr::new("--file"), image.as_os_str()]);
}

/// A saved measurement with this text appended to every string, and samples of about this cost.
fn measurement(text: &str, cost: u64) -> String {
    let saved = fs::read(fixture("bench/before.json")).expect("a saved measurement");
    let mut json: serde_json::Value = serde_json::from_slice(&saved).expect("JSON");
    json["host"]["date"] = format!("{cost}").into();
    changed(&mut json, text);
    for path in json["paths"].as_array_mut().expect("paths") {
        path["samples_ps"] = (0..9).map(|step| cost + step % 5).collect::<Vec<_>>().into();
        path["regimes"] = text.into();
    }
    json["host"]["kernel"] = format!("{cost}{text}").into();
    json["host"]["command_line"] = format!("{cost}{text}").into();
    json.to_string()
}

fn changed(json: &mut serde_json::Value, text: &str) {
    match json {
        serde_json::Value::String(string) => string.push_str(text),
        serde_json::Value::Array(list) => list.iter_mut().for_each(|one| changed(one, text)),
        serde_json::Value::Object(map) => map.values_mut().for_each(|one| changed(one, text)),
        _ => {}
    }
}

/// Compares two measurements in each format, and checks that no comparison panics.
#[track_caller]
fn compared(folder: &TempDir, before: &str, after: &str) -> Vec<Output> {
    let files = ["before", "after"].map(|name| folder.path().join(format!("{name}{HOSTILE}")));
    fs::write(&files[0], before).expect("write a file");
    fs::write(&files[1], after).expect("write a file");
    let formats = ["text", "json"];
    let of = |format: &str| {
        let output = told(&["compare", path(&files[0]), path(&files[1]), "--format", format]);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
        output
    };
    formats.map(of).into()
}

#[test]
fn hostile_measurements_with_labels_of_any_length_are_compared_harmlessly() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let long = "x".repeat(200_000);
    let letters = "e\u{301}\u{1f469}\u{200d}\u{1f680}時計";
    for text in [HOSTILE, "", letters, "<script>alert(1)</script>", &long] {
        for output in compared(&folder, &measurement(text, 900), &measurement(text, 2000)) {
            assert_eq!(output.status.code(), Some(0), "{text:.80}: {:?}", output.stderr);
        }
    }
    let cut = &measurement(HOSTILE, 1)[..60];
    for output in compared(&folder, cut, &format!("{{\"schema\": \"{HOSTILE}\", \"paths\": []}}")) {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    }
}

#[test]
fn a_symbol_of_any_length_is_shown() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let source = format!("int {}(void) {{ return 1; }}\n", "x".repeat(70_000));
    let (from, to) = (folder.path().join("long.c"), folder.path().join("long.so"));
    fs::write(&from, source).expect("write the source");
    let built =
        Command::new("gcc").args(["-shared", "-nostdlib", "-o"]).args([&to, &from]).status();
    assert!(built.expect("run gcc").success());
    let output = told(&["vdso", "--file", path(&to)]);
    assert_eq!(output.status.code(), Some(0), "{:?}", output.stderr);
}

#[test]
fn hostile_files_of_a_machine_are_explained_harmlessly() {
    let root = tempfile::tempdir().expect("make a temporary directory");
    let clocksource = "sys/devices/system/clocksource/clocksource0";
    let log = format!(
        "[    0.000000] Linux version 6.1.0{HOSTILE}\n[    0.000000] Command line: ro {HOSTILE}\n\
         [    1.0] tsc: Marking TSC unstable due to \x1b[31m{HOSTILE}\n\
         [    2.0] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc\u{202e}\x1b[2J' as unstable"
    );
    for (name, text) in [
        ("proc/version", format!("Linux version 6.1.0{HOSTILE}\n")),
        ("proc/cmdline", format!("ro clocksource={HOSTILE}\n")),
        ("proc/cpuinfo", format!("model name : {HOSTILE}\nflags : {HOSTILE}\n")),
        (&format!("{clocksource}/current_clocksource"), HOSTILE.to_owned()),
        (&format!("{clocksource}/available_clocksource"), HOSTILE.to_owned()),
        ("sys/class/dmi/id/sys_vendor", HOSTILE.to_owned()),
        ("var/log/dmesg", log),
    ] {
        let place = root.path().join(name);
        fs::create_dir_all(place.parent().expect("has a folder")).expect("make folders");
        fs::write(place, text).expect("write a file");
    }
    for format in ["text", "json", "metrics"] {
        let output = told(&["doctor", "--root", path(root.path()), "--format", format]);
        assert!(matches!(output.status.code(), Some(0..=3)), "{output:?}");
    }
    told(&["doctor", "--root", &format!("/nonexistent/{HOSTILE}")]);
    told(&["doctor", "--explain", HOSTILE]);
}

#[test]
fn what_is_wrong_with_a_command_line_is_said_harmlessly() {
    for words in [
        &["trace", "--", HOSTILE][..],
        &["run", "--", HOSTILE],
        &["trace", "-e", HOSTILE, "--", "true"],
        &["trace", HOSTILE],
        &[HOSTILE],
        &["--format", HOSTILE],
        &["compare", HOSTILE],
        &["compare", "--min-effect", HOSTILE, "/dev/null", "/dev/null"],
        &["bench", HOSTILE],
        &["wrongness", HOSTILE],
        &["vdso", "--file", HOSTILE],
        &["serve", "--status", HOSTILE],
        &["serve", "--user", HOSTILE],
    ] {
        let output = told(words);
        assert!(!output.status.success(), "{words:?}: {output:?}");
    }
}

#[test]
fn devices_without_end_are_refused() {
    for words in [
        &["vdso", "--file", "/dev/zero"][..],
        &["compare", "/dev/zero", "/dev/null"],
        &["compare", "--ministat", "/dev/zero"],
        &["doctor", "--root", "/dev/zero"],
        &["serve", "--status", "/dev/zero"],
    ] {
        let output = told(words);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{words:?}: {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stderr.lines().count(), 1, "{words:?}: {stderr}");
    }
}

/// An output file of an interrupted measurement is complete, or as it was before.
#[test]
fn an_interrupted_measurement_leaves_files_as_they_were() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
    for command in
        [&["bench", "--save"][..], &["bench", "-o"], &["wrongness", "--time", "60", "-o"]]
    {
        for file in [&old, &new] {
            fs::write(&old, "old").expect("write a file");
            // A shell starts background programs, and so these tests, with SIGINT ignored.
            let mut child = Command::new("env")
                .arg("--default-signal=INT")
                .arg(clockscope())
                .args(command)
                .arg(file)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("start clockscope");
            // When the command measures, which takes seconds of processor time, it has already looked at the file.
            wait_until("it measures", || {
                let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()));
                let stat = stat.expect("it runs");
                let fields: Vec<&str> =
                    stat.rsplit(')').next().expect("fields").split(' ').collect();
                let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
                ticks(12) + ticks(13) + ticks(14) + ticks(15) > 20
            });
            signal("INT", child.id().try_into().expect("a pid"));
            child.wait().expect("wait for clockscope");
            assert_eq!(fs::read(&old).expect("is there"), b"old", "{command:?}");
            assert!(!new.exists(), "{command:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_measurement_makes_compare_panic(
        text in ".{0,80}",
        other in "[\u{0}-\u{10ffff}]{0,30}",
        cost in prop_oneof![Just(0), Just(1), Just(u64::MAX - 5), any::<u32>().prop_map(u64::from)],
    ) {
        let folder = tempfile::tempdir().expect("make a temporary directory");
        compared(&folder, &measurement(&text, cost), &measurement(&other, 7));
    }
}
