//! Machines whose clock is slow: checks the results that `vm/test` brought out of virtual machines without KVM. `make
//! test-vm` makes them and runs these tests; see vm/README.md.
//!
//! Without `CLOCKSCOPE_VM_RESULTS` there are no results, and the tests are skipped.

mod by_counter;
pub(crate) mod machine;
mod time;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::command::Said;
use crate::support::compare::assert_counts;
use crate::support::running::{clockscope, rows, untraced};
use machine::{Boot, boot, boots, slow_boots};

/// If a system call costs less than this many times the vDSO's function, the function has made the system call itself.
const FALLS_BACK: f64 = 1.5;
/// By how many times `run --clock coarse` must be cheaper than `--clock syscall`. Usual are 2 to 20 on hpet and 40 to
/// 100 on acpi_pm.
const COARSE_SAVES: f64 = 1.5;

#[track_caller]
fn labels(verdict: &Value) -> BTreeSet<String> {
    let labels: BTreeSet<String> =
        rows(&verdict["labels"]).filter_map(|label| Some(label.as_str()?.to_owned())).collect();
    assert!(!labels.is_empty(), "no labels in {verdict:#}");
    labels
}

#[track_caller]
fn assert_has(boot: &Boot, labels: &BTreeSet<String>, wanted: &[&str]) {
    for label in wanted {
        assert!(labels.contains(*label), "{boot} lacks {label}: {labels:?}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn no_step_was_stuck_or_crashed() {
    for boot in boots().chain(boot("no-vdso")) {
        let steps = boot.text("steps");
        for line in steps.lines() {
            let mut words = line.split(' ');
            let step = words.next().expect(line);
            let status: i32 = words.next().and_then(|n| n.parse().ok()).expect(line);
            let may_be_refused =
                boot.name == "no-vdso" || ["refused", "vouched", "taken-away"].contains(&step);
            assert!(status <= 2 || may_be_refused && status == 125, "{boot}: {line}");
        }
        assert_eq!(boot.text("status").trim(), "0", "{boot}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_clocksource_is_the_one_asked_for_and_the_vdso_falls_back() {
    for (boot, source) in slow_boots() {
        assert_eq!(boot.text("before.current").trim(), source, "{boot}");
        let bench = boot.json("bench.out");
        let host = &bench["host"];
        assert_eq!(host["vdso"]["falls_back"], true, "{boot}: {host:#}");
        let cost = |route: &str| {
            let path = rows(&bench["paths"])
                .find(|path| path["clock"] == "CLOCK_MONOTONIC" && path["route"] == route);
            path.and_then(|path| path["cost_ps_min"].as_f64()).expect("is measured")
        };
        let ratio = cost("syscall") / cost("vdso");
        assert!(ratio < FALLS_BACK, "{boot}: {ratio}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_survey_finds_who_reads_the_clock_and_what_the_machine_would_win_back() {
    for (boot, _) in slow_boots() {
        let survey = boot.json("survey.out");
        assert_eq!(survey["has_fallen_back"], true, "{boot}: {survey:#}");
        let reader = rows(&survey["processes"]).find(|row| row["command"] == "surveyed");
        let reader = reader.unwrap_or_else(|| panic!("{boot}: {survey:#}"));
        assert_eq!(reader["clocks"][0]["clock"], "CLOCK_MONOTONIC", "{boot}: {reader:#}");
        assert_eq!(reader["clocks"][0]["route"], "fell-back", "{boot}: {reader:#}");
        let [low, high] = ["low_per_second", "high_per_second"]
            .map(|limit| reader["reads"][limit].as_f64().expect("an estimate"));
        let said: Vec<[f64; 2]> = boot.text("surveyed.out").lines().filter_map(numbers).collect();
        let [before, after] = said[..] else { panic!("{boot}: {said:?}") };
        let truth = (after[0] - before[0]) * 1e9 / (after[1] - before[1]);
        // Intervals of 95 % miss the truth one time in twenty, and a test must not.
        assert!(low / 1.5 < truth && truth < high * 1.5, "{boot}: {truth} {reader:#}");
        let gain = rows(&survey["elsewhere"]).find(|row| row["clocksource"] == "tsc");
        let gain = gain.and_then(|row| row["more_cores"].as_f64()).expect("what tsc would save");
        assert!(gain < 0.0, "{boot}: {survey:#}");
    }
}

/// A line of two numbers.
fn numbers(line: &str) -> Option<[f64; 2]> {
    let (first, second) = line.split_once(' ')?;
    Some([first.parse().ok()?, second.parse().ok()?])
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn doctor_names_the_slow_clocksource_and_why() {
    for (boot, source) in slow_boots() {
        for step in ["doctor", "doctor-json", "doctor-metrics"] {
            assert_eq!(boot.status(step), 1, "{boot} {step}");
        }
        assert!(boot.status("doctor-late") > 0, "{boot}");
        let verdict = boot.json("doctor-json.out");
        assert_eq!(verdict["state"], "slow", "{boot}");
        assert_eq!(verdict["source"], source, "{boot}");
        assert_eq!(verdict["cost"]["is_measured"], true, "{boot}");
        let labels = labels(&verdict);
        assert_has(&boot, &labels, &["state:slow", &format!("source:{source}"), "platform:qemu"]);
        let asked = boot.name != "fallback";
        assert_eq!(labels.contains("param-clocksource"), asked, "{boot}: {labels:?}");
        assert_tells_why(&boot, &labels);
        let text = boot.text("doctor.out");
        assert!(text.starts_with(&format!("slow: clocksource {source};")), "{text}");
    }
}

/// Checks that the labels give the TSC's fate and blame no other cause.
#[track_caller]
fn assert_tells_why(boot: &Boot, labels: &BTreeSet<String>) {
    // The watchdog may give up the TSC between the two snapshots.
    let Some((_, available)) = boot.clocksources("before", "after") else { return };
    if available.contains("tsc") {
        assert_has(boot, labels, &["tsc-available-not-selected"]);
        for wrong in ["tsc-absent", "guest-lacks-invtsc", "fix:invtsc"] {
            assert!(!labels.contains(wrong), "{boot}: {labels:?}");
        }
        return;
    }
    assert_has(boot, labels, &["tsc-absent"]);
    let why = ["tsc-unsynchronized", "tsc-watchdog-skew", "tsc-watchdog-readdelay"];
    assert!(why.iter().any(|label| labels.contains(*label)), "{boot}: {labels:?}");
    assert!(!labels.contains("cause-needs-dmesg"), "{boot}: {labels:?}");
    if boot.name != "acpi_pm" {
        assert_has(boot, labels, &["tsc-unsynchronized"]);
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn doctor_finds_nothing_to_mend_where_the_tsc_is_read() {
    let Some(boot) = boot("tsc") else { return };
    for (step, file, before, after) in [
        ("doctor-json", "doctor-json.out", "before", "after"),
        ("doctor-late", "doctor-late.out", "before-late", "after-late"),
    ] {
        // The kernel's watchdog may give up the TSC of an emulated machine at any time.
        let Some((current, _)) = boot.clocksources(before, after) else { continue };
        let labels = labels(&boot.json(file));
        if current.starts_with("tsc") {
            assert_has(&boot, &labels, &["state:fast", &format!("source:{current}")]);
            assert_eq!(boot.status(step), 0, "{labels:?}");
        } else {
            assert!(boot.text("kernel-log").contains("Marking"), "{current} without a reason");
            assert_has(&boot, &labels, &["state:slow", &format!("source:{current}"), "tsc-absent"]);
            let why = ["tsc-watchdog-skew", "tsc-watchdog-readdelay"];
            assert!(why.iter().any(|label| labels.contains(*label)), "{labels:?}");
            assert!(boot.status(step) > 0, "{labels:?}");
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_capture_is_judged_outside_as_the_machine_was_inside() {
    for boot in boots().chain(boot("no-vdso")) {
        boot.assert_succeeded("capture");
        if boot.clocksources("before", "after").is_none() {
            continue;
        }
        let archive = boot.out.join("capture.tar.zst");
        let doctor = words![clockscope(), "doctor", "--format", "json", "--root", archive];
        let said = Said::of(untraced(&doctor));
        assert_eq!(said.code, Some(boot.status("doctor-json")), "{said:?}");
        let outside = said.json();
        let inside = boot.json("doctor-json.out");
        for field in ["state", "source", "platform", "platforms", "kernel"] {
            assert_eq!(outside[field], inside[field], "{boot} {field}");
        }
        assert_eq!(labels(&outside), labels(&inside), "{boot}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_coarse_clock_makes_a_slow_clock_cheap() {
    for (boot, _) in slow_boots() {
        for program in ["c", "static", "go"] {
            let by_syscall = boot.took_ns(&format!("run-syscall-{program}"));
            let coarse = boot.took_ns(&format!("run-coarse-{program}"));
            assert!(
                by_syscall > coarse * COARSE_SAVES,
                "{boot} {program}: {by_syscall} ns by system call, {coarse} ns coarse"
            );
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn answers_are_right_with_every_clock() {
    for boot in boots() {
        for clock in ["kernel", "syscall", "coarse"] {
            let printed = boot.printed(&format!("sandwich-{clock}"));
            let (wrong, right): (Vec<_>, Vec<_>) = printed
                .results
                .iter()
                .filter(|result| result.contains(" wrong "))
                .partition(|result| !result.ends_with(" wrong 0"));
            assert!(wrong.is_empty() && right.len() >= 4, "{boot} {clock}: {printed:?}");
            for program in ["c", "static", "go", "sqlite3"] {
                let printed = boot.printed(&format!("run-{clock}-{program}"));
                assert!(printed.has_result("backwards 0"), "{boot} {clock}: {printed:?}");
            }
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn counts_are_exact() {
    for boot in boots() {
        for trace in [
            "bpf-gettimeofday",
            "bpf-gettimeofday-static",
            "bpf-now",
            "bpf-reads",
            "bpf-sqlite3",
            "ptrace-gettimeofday",
            "ptrace-now",
            "no-tsc",
        ] {
            let step = format!("trace-{trace}");
            boot.assert_succeeded(&step);
            assert_counts(&boot.printed(&step), &boot.report(&step));
        }
        for clock in ["kernel", "syscall", "coarse"] {
            let step = format!("run-{clock}-sqlite3");
            assert_counts(&boot.printed(&step), &boot.report(&step));
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_read_that_the_vdso_passes_on_is_one_read() {
    for (boot, _) in slow_boots() {
        for via in ["bpf", "ptrace"] {
            let file = format!("trace-{via}-gettimeofday.json");
            let report = boot.json(&file);
            let calls = rows(&report["vdso"]).find(|row| row["function"] == "gettimeofday");
            let calls =
                calls.and_then(|row| row["calls"].as_u64()).expect("gettimeofday was called");
            let reads = &report["clock_reads"];
            assert_eq!(reads["passed_on"], calls, "{boot} {file}");
            // The program reads the clock by system call before and after its loop.
            assert_eq!(reads["reads"], calls + 2, "{boot} {file}");
        }
        let text = boot.text("trace-text.err");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!text.contains("Fallen back:"), "{text}");
        // Without `rdtscp` no call is timed, so the report has the counts only.
        let told = ["not answered in user space", "no vDSO call was timed"]
            .iter()
            .any(|line| text.contains(line));
        assert!(told && text.contains("10,007 of them by the kernel"), "{text}");
        let cause = text.split(" Why: ").nth(1).unwrap_or_default();
        assert!(cause.starts_with("the clocksource is "), "{text}");
        assert!(cause.contains("(clockscope doctor)"), "{text}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_program_may_measure_wrongly_with_a_counter_that_the_kernel_refused() {
    let refused = "the kernel refused the TSC without a test (tsc-unsynchronized)";
    for (name, doubt) in [("fallback", Some(refused)), ("tsc", None)] {
        let Some(boot) = boot(name) else { continue };
        let report = boot.json("trace-counter.json");
        assert!(rows(&report["counter_reads"]).any(|row| row["of_system"] == false), "{report}");
        assert_eq!(report["counter_doubt"].as_str(), doubt, "{name}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_kernel_that_gives_no_vdso_is_named() {
    let Some(boot) = boot("no-vdso") else { return };
    assert_eq!(boot.json("bench.out")["host"]["vdso"]["present"], false);
    for step in ["trace-text", "run-coarse-c"] {
        assert_eq!(boot.status(step), 125);
        assert!(boot.text(&format!("{step}.err")).contains("no vDSO (vdso=0?)"));
    }
    let verdict = boot.json("doctor-json.out");
    let labels = labels(&verdict);
    assert_has(&boot, &labels, &["state:slow", "vdso-off", "param-vdso", "platform:qemu"]);
    assert_eq!(boot.status("doctor-json"), 1);
    if boot.text("before.current").trim() == "tsc" {
        assert!(!labels.contains("fix:invtsc"), "the TSC is fine: {labels:?}");
    }
}
