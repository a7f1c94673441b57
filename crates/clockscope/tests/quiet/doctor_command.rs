//! `clockscope doctor` as a user runs it: options, forms of output, exit status.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clock_doctor::report::model::DoctorReport;

const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn case(name: &str) -> String {
    repository().join("fixtures/doctor-cases").join(name).display().to_string()
}

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_clockscope"))
        .arg("doctor")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A root with a current and the available clocksources.
fn root(current: &str, available: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(CLOCKSOURCE);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("current_clocksource"), format!("{current}\n")).unwrap();
    fs::write(folder.join("available_clocksource"), format!("{available}\n")).unwrap();
    root
}

#[test]
fn the_exit_status_is_that_of_monitoring_plugins() {
    let status = |root: &str| doctor(&["--root", root]).status.code();
    assert_eq!(status(&case("qemu-4.15-tsc-healthy")), Some(0));
    assert_eq!(status(&case("vbox-seed-deb7-3.2")), Some(1));
    assert_eq!(status(&case("lkml-cpuid15-wrong-freq-tsc")), Some(2));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(status(empty.path().to_str().unwrap()), Some(3));
    let slow = root("acpi_pm", "acpi_pm");
    assert_eq!(status(slow.path().to_str().unwrap()), Some(1));
}

#[test]
fn wrong_options_and_inputs_are_unknown_and_no_alarm() {
    let cases: [&[&str]; 8] = [
        &["--nonsense"],
        &["--root"],
        &["--format", "yaml"],
        &["--list", "--root", "/"],
        &["--list", "--format", "metrics"],
        &["--explain", "zebra crossing"],
        &["--root", "/nonexistent/root"],
        &["--list", "-o", "/nonexistent/folder/file"],
    ];
    for args in cases {
        let output = doctor(args);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
    for args in [["--help"], ["-h"], ["--version"]] {
        let output = doctor(&args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(stdout(&output).contains("clockscope"), "{args:?}");
    }
    // Other subcommands keep their status.
    let other = Command::new(env!("CARGO_BIN_EXE_clockscope")).args(["bench", "--x"]).output();
    assert_eq!(other.unwrap().status.code(), Some(2));
}

#[test]
fn an_error_is_one_line_that_says_what_to_try() {
    let said = stderr(&doctor(&["--root", "/nonexistent/root"]));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("clockscope: cannot read /nonexistent/root"), "{said}");
    assert!(said.contains("; try "), "{said}");
    let said = stderr(&doctor(&["--explain", "tsc-wrap"]));
    assert_eq!(said, "clockscope: there is no label `tsc-wrap`; did you mean `tsc-warp`?\n");
}

#[test]
fn json_has_the_fields_that_the_page_describes() {
    let output = doctor(&["--format", "json", "--root", &case("vbox-seed-deb7-3.2")]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let page = fs::read_to_string(repository().join("docs/doctor.md")).unwrap();
    let fields = json.as_object().unwrap();
    assert!(fields.len() > 15);
    for field in fields.keys().chain(json["findings"][0].as_object().unwrap().keys()) {
        assert!(page.contains(&format!("`{field}`")), "docs/doctor.md does not name `{field}`");
    }
    let report: DoctorReport = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.source.as_deref(), Some("acpi_pm"));
    assert!(!report.is_live);
    let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert!(ids.iter().all(|id| report.labels.iter().any(|label| label == id)));
}

#[test]
fn the_first_line_is_the_verdict() {
    let line = |name: &str| {
        let text = stdout(&doctor(&["--root", &case(name)]));
        text.lines().next().unwrap_or_default().to_owned()
    };
    let slow = line("vbox-seed-deb7-3.2");
    assert!(slow.starts_with("slow: clocksource acpi_pm; each clock read costs"), "{slow}");
    let fast = line("qemu-4.15-tsc-healthy");
    assert!(fast.starts_with("fast: clocksource tsc"), "{fast}");
}

#[test]
fn a_healthy_machine_gets_a_few_lines() {
    let root = root("tsc", "tsc hpet acpi_pm");
    let text = stdout(&doctor(&["--root", root.path().to_str().unwrap()]));
    assert!(text.starts_with("fast: clocksource tsc"), "{text}");
    assert!(text.lines().count() <= 6 && !text.contains("What to do"), "{text}");
}

#[test]
fn control_characters_of_a_machine_do_not_reach_the_terminal() {
    let root = root("tsc\u{1b}[2J", "tsc\u{1b}[2J hpet");
    fs::create_dir_all(root.path().join("var/log")).unwrap();
    let log = "[    0.1] tsc: Marking TSC unstable due to \u{1b}[31mred\u{7}\n";
    fs::write(root.path().join("var/log/dmesg"), log).unwrap();
    for format in ["text", "metrics"] {
        let text = stdout(&doctor(&["--format", format, "--root", root.path().to_str().unwrap()]));
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{format}: {text:?}");
    }
}

#[test]
fn o_replaces_a_file_at_once_and_prints_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("clockscope.prom"), folder.path().join("link.prom"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let open = fs::File::open(&file).unwrap();
    symlink(&file, &link).unwrap();
    let root = case("vbox-seed-deb7-3.2");
    let args = ["--format", "metrics", "--root", &root, "-o", link.to_str().unwrap()];
    let output = doctor(&args);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("clockscope_doctor_state_info{state=\"slow\"} 1\n"), "{text}");
    assert_eq!(std::io::read_to_string(open).unwrap(), "old", "the old file was written to");
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "who could not read the old file cannot read the new one");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "something was left behind");
}

#[test]
fn every_label_is_explained_and_listed() {
    let list = stdout(&doctor(&["--list"]));
    let json = doctor(&["--list", "--format", "json"]);
    let json: Vec<serde_json::Value> = serde_json::from_slice(&json.stdout).unwrap();
    let pages = clock_doctor::rules::catalogue::pages();
    assert_eq!(json.len(), pages.len());
    for page in pages {
        let label = page.label;
        assert!(list.contains(&format!("  {label} ")), "{label} is not listed");
        let output = doctor(&["--explain", label]);
        assert_eq!(output.status.code(), Some(0), "{label}: {}", stderr(&output));
        assert!(stdout(&output).starts_with(label), "{}", stdout(&output));
    }
    let page = doctor(&["--explain", "tsc-warp", "--format", "json"]);
    let page: serde_json::Value = serde_json::from_slice(&page.stdout).unwrap();
    assert_eq!(page["label"], "tsc-warp");
}

/// Runs `promtool check metrics`; gives what it complains of.
fn promtool(metrics: &[u8]) -> String {
    use std::io::Write as _;
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs: it is in Debian's package prometheus, see scripts/setup.sh");
    child.stdin.take().unwrap().write_all(metrics).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stdout(&output) + &stderr(&output);
    let failed = if output.status.success() { "" } else { "promtool failed\n" };
    format!("{failed}{said}")
}

#[test]
fn promtool_accepts_the_metrics() {
    for name in ["vbox-seed-deb7-3.2", "qemu-4.15-tsc-healthy", "lkml-cpuid15-wrong-freq-tsc"] {
        let output = doctor(&["--format", "metrics", "--root", &case(name)]);
        assert!(output.stdout.starts_with(b"# HELP clockscope_"), "{name}");
        assert_eq!(promtool(&output.stdout), "", "{name}");
    }
    // With measurements, and with names that need escaping.
    let live = doctor(&["--format", "metrics"]);
    assert!(stdout(&live).contains("clockscope_doctor_status "), "{}", stderr(&live));
    assert_eq!(promtool(&live.stdout), "");
    let root = root("a\"b\\c", "a\"b\\c tsc");
    let odd = doctor(&["--format", "metrics", "--root", root.path().to_str().unwrap()]);
    assert!(stdout(&odd).contains(r#"clocksource="a\"b\\c""#), "{}", stdout(&odd));
    assert_eq!(promtool(&odd.stdout), "");
    assert_ne!(promtool(b"# TYPE wrong counter\nwrong 1\n"), "", "promtool is no judge");
}

#[test]
fn no_series_is_one_that_node_exporter_has() {
    let output = doctor(&["--format", "metrics", "--root", &case("vbox-seed-deb7-3.2")]);
    let text = stdout(&output);
    let names = text.lines().filter(|line| !line.starts_with('#'));
    assert!(names.clone().count() > 5);
    for line in names {
        assert!(line.starts_with("clockscope_"), "{line}");
    }
}
