//! The clocksource of this machine, so that tests do not expect the clocksource of the machine they were written on.

use super::running::run;

/// Reads that take longer with `run --clock slow`, as `slow_reads.c` names them.
pub(crate) const DELAYED: [&str; 6] = [
    "CLOCK_REALTIME",
    "CLOCK_MONOTONIC",
    "CLOCK_MONOTONIC_RAW",
    "CLOCK_BOOTTIME",
    "CLOCK_TAI",
    "gettimeofday",
];

/// The kernel's current clocksource.
pub(crate) fn current() -> String {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(path).expect("the kernel names its clocksource").trim().to_owned()
}

/// Whether the vDSO can read a clocksource without a system call (`vdso_clock_mode`, Linux 6.18). A hypervisor may
/// forbid this for kvm-clock and hyperv_clocksource_tsc_page.
pub(crate) fn is_read_by_the_vdso(clocksource: &str) -> bool {
    matches!(clocksource, "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page")
}

/// Whether `run --clock tsc` accepts this machine's TSC. If not, checks that the reason given is true.
#[track_caller]
pub(crate) fn counter_is_a_clock() -> bool {
    let output = run(&["--clock", "tsc"], &words!["true"]);
    let clocksource = current();
    if output.status.success() {
        assert!(is_read_by_the_vdso(&clocksource), "it takes the counter, not {clocksource}");
        return true;
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.starts_with("clockscope: --clock tsc: the TSC is refused: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let holds = if clocksource == "tsc" {
        stderr.contains("missing: ") && !counter_is_invariant()
    } else {
        stderr.contains(&format!("the kernel's clocksource is {clocksource}"))
    };
    assert!(holds, "{clocksource}: {stderr}");
    false
}

fn counter_is_invariant() -> bool {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").expect("/proc is there");
    let flags = cpus.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split(' ').any(|one| one == *flag))
}
