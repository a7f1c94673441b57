//! `clockscope doctor` as a user runs it: options, forms of output, exit status.

use std::fs;
use std::process::Command;

use crate::support::command::{self, Said, fixture, said};
use crate::support::running::with_input;
use clock_doctor::report::model::DoctorReport;

const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";

fn case(name: &str) -> String {
    fixture(&format!("doctor-cases/{name}"))
}

fn doctor(args: &[&str]) -> Said {
    said(&[&["doctor"], args].concat())
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
    let status = |root: &str| doctor(&["--root", root]).code;
    assert_eq!(status(&case("qemu-4.15-tsc-healthy")), Some(0));
    assert_eq!(status(&case("vbox-seed-deb7-3.2")), Some(1));
    assert_eq!(status(&case("lkml-cpuid15-wrong-freq-tsc")), Some(2));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(status(empty.path().to_str().unwrap()), Some(3));
    let slow = root("acpi_pm", "acpi_pm");
    assert_eq!(status(slow.path().to_str().unwrap()), Some(1));
}

#[test]
fn quiet_is_one_line_or_none() {
    let quiet = |name: &str| doctor(&["--quiet", "--root", &case(name)]);
    let healthy = quiet("qemu-4.15-tsc-healthy");
    assert_eq!((healthy.code, &healthy.stdout[..]), (Some(0), ""));
    let slow = quiet("vbox-seed-deb7-3.2");
    assert_eq!((slow.code, slow.stdout.matches('\n').count()), (Some(1), 1));
    assert!(slow.stdout.starts_with("slow: clocksource acpi_pm; "), "{slow:?}");
    assert!(slow.stdout.ends_with(" [tsc-warp]\n"), "{slow:?}");
}

#[test]
fn the_answer_about_the_time_has_its_own_status_and_a_line_that_fits_it() {
    for limit in ["1ms", "10s"] {
        let [loud, quiet] =
            [&["--utc-within", limit][..], &["--utc-within", limit, "--quiet"]].map(doctor);
        let begin = match loud.code {
            Some(0) => "the time is within ",
            Some(2) => "the time is not within ",
            _ => "not known whether the time is within ",
        };
        assert!(
            loud.stdout.starts_with(begin) && loud.stdout.matches('\n').count() == 1,
            "{loud:?}"
        );
        assert_eq!(quiet.stdout.is_empty(), quiet.code == Some(0), "{quiet:?}");
        assert!(loud.stderr.is_empty() && [0, 2, 3].contains(&loud.code.unwrap()), "{loud:?}");
    }
}

/// `refusals.rs` tests more command lines.
#[test]
fn help_is_no_alarm() {
    for args in [["--help"], ["-h"], ["--version"]] {
        let output = doctor(&args);
        assert_eq!(output.code, Some(0), "{args:?}");
        assert!(output.stdout.contains("clockscope"), "{args:?}");
    }
}

#[test]
fn json_has_the_fields_that_the_page_describes() {
    let output = doctor(&["--format", "json", "--root", &case("vbox-seed-deb7-3.2")]);
    let json = output.json();
    let page = fs::read_to_string(command::root().join("docs/doctor.md")).unwrap();
    let fields = json.as_object().unwrap();
    assert!(fields.len() > 15);
    for field in fields.keys().chain(json["findings"][0].as_object().unwrap().keys()) {
        assert!(page.contains(&format!("`{field}`")), "docs/doctor.md does not name `{field}`");
    }
    let report: DoctorReport = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report.source.as_deref(), Some("acpi_pm"));
    assert!(!report.is_live);
    let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert!(ids.iter().all(|id| report.labels.iter().any(|label| label == id)));
}

#[test]
fn a_healthy_machine_gets_one_line() {
    let root = root("tsc", "tsc hpet acpi_pm");
    let text = doctor(&["--root", root.path().to_str().unwrap()]).stdout;
    assert!(text.starts_with("fast: clocksource tsc"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let all = doctor(&["--all", "--root", root.path().to_str().unwrap()]).stdout;
    assert!(all.contains("because") && !all.contains("What to do"), "{all}");
}

#[test]
fn o_replaces_a_file_at_once_and_prints_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clockscope.prom");
    fs::write(&file, "old").unwrap();
    let open = fs::File::open(&file).unwrap();
    let root = case("vbox-seed-deb7-3.2");
    let output = doctor(&["--format", "metrics", "--root", &root, "-o", file.to_str().unwrap()]);
    assert_eq!((output.code, output.stdout), (Some(1), String::new()));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("clockscope_doctor_state_info{state=\"slow\"} 1\n"), "{text}");
    assert_eq!(std::io::read_to_string(open).unwrap(), "old", "the old file was written to");
}

#[test]
fn every_label_is_explained_and_listed() {
    let list = doctor(&["--list"]).stdout;
    let json = doctor(&["--list", "--format", "json"]).json();
    let pages = clock_doctor::rules::catalogue::pages();
    assert_eq!(json.as_array().map(Vec::len), Some(pages.len()));
    for page in pages {
        let label = page.label;
        assert!(list.contains(&format!("  {label} ")), "{label} is not listed");
        let output = doctor(&["--explain", label]);
        assert_eq!(output.code, Some(0), "{label}: {}", output.stderr);
        assert!(output.stdout.starts_with(label), "{}", output.stdout);
    }
    let page = doctor(&["--explain", "tsc-warp", "--format", "json"]).json();
    assert_eq!(page["label"], "tsc-warp");
}

/// Runs `promtool check metrics`; gives its complaints.
fn promtool(metrics: &str) -> String {
    let mut command = Command::new("promtool");
    let said = Said::of(with_input(command.args(["check", "metrics"]), metrics.as_bytes()));
    let failed = if said.code == Some(0) { "" } else { "promtool failed\n" };
    failed.to_owned() + &said.stdout + &said.stderr
}

#[test]
fn promtool_accepts_the_metrics() {
    for name in ["vbox-seed-deb7-3.2", "qemu-4.15-tsc-healthy", "lkml-cpuid15-wrong-freq-tsc"] {
        let output = doctor(&["--format", "metrics", "--root", &case(name)]);
        assert!(output.stdout.starts_with("# HELP clockscope_"), "{name}");
        assert_eq!(promtool(&output.stdout), "", "{name}");
        // No series may be one that node_exporter has.
        let series = output.stdout.lines().filter(|line| !line.starts_with('#'));
        assert!(series.clone().all(|line| line.starts_with("clockscope_")), "{name}");
        assert!(series.count() > 5, "{name}");
    }
    // On this machine with measurements, and with what is no name.
    let live = doctor(&["--format", "metrics"]);
    assert!(live.stdout.contains("clockscope_doctor_status "), "{}", live.stderr);
    assert_eq!(promtool(&live.stdout), "");
    let root = root("a\"b\\c", "a\"b\\c tsc");
    let odd = doctor(&["--format", "metrics", "--root", root.path().to_str().unwrap()]);
    assert!(!odd.stdout.contains("a\\"), "{}", odd.stdout);
    assert_eq!(promtool(&odd.stdout), "");
    assert_ne!(promtool("# TYPE wrong counter\nwrong 1\n"), "", "promtool is no judge");
}

// `--format nagios`, as monitoring programs run it.

#[test]
fn nagios_gets_the_state_that_its_status_says() {
    for (status, name) in
        ["qemu-4.15-tsc-healthy", "vbox-seed-deb7-3.2", "lkml-cpuid15-wrong-freq-tsc"]
            .iter()
            .enumerate()
    {
        let path = &case(name);
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
