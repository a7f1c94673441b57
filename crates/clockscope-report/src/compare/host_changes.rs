//! Differences between two hosts, or one host at two times, that change the cost of a clock read.

use clockscope_model::host::{HostState, SyscallTracing};
use clockscope_text::foreign::printable;

/// One clause for each difference: `clocksource: tsc, then hpet`. Facts unknown for one side are skipped.
pub fn between(before: &HostState, after: &HostState) -> Vec<String> {
    let of = |text: &str| Some(text.to_owned());
    let number = |value: u32| (value > 0).then(|| value.to_string());
    let clauses = [
        of_fact("CPU", before.cpu_model.clone(), after.cpu_model.clone()),
        of_fact("architecture", of(&before.arch), of(&after.arch)),
        of_fact("CPUs online", number(before.cpus_online), number(after.cpus_online)),
        of_fact("kernel", of(&before.kernel), of(&after.kernel)),
        of_command_line(before, after),
        of_fact("clocksource", before.clocksource.clone(), after.clocksource.clone()),
        of_fact("vDSO", vdso(before), vdso(after)),
        of_fact("ticks a second", before.hz.and_then(number), after.hz.and_then(number)),
        of_fact("virtualisation", before.virtualisation.clone(), after.virtualisation.clone()),
        of_fact("seccomp", before.seccomp.clone(), after.seccomp.clone()),
        of_fact("time namespace", before.time_namespace.clone(), after.time_namespace.clone()),
        of_fact("system calls", tracing(&before.syscall_tracing), tracing(&after.syscall_tracing)),
        of_fact("measuring process", traced(before), traced(after)),
        of_fact("clockscope", of(&before.clockscope), of(&after.clockscope)),
    ];
    clauses.into_iter().flatten().collect()
}

/// A clause if both sides know the fact and differ.
fn of_fact(what: &str, before: Option<String>, after: Option<String>) -> Option<String> {
    let (before, after) = (before?, after?);
    let is_known = !before.is_empty() && !after.is_empty();
    (is_known && before != after).then(|| printable(&format!("{what}: {before}, then {after}")))
}

/// A clause about words on the kernel's command line of one side only.
fn of_command_line(before: &HostState, after: &HostState) -> Option<String> {
    let words = |host: &HostState| -> Option<Vec<String>> {
        Some(host.command_line.as_ref()?.split_whitespace().map(str::to_owned).collect())
    };
    let (before, after) = (words(before)?, words(after)?);
    if before == after || before.is_empty() || after.is_empty() {
        return None;
    }
    let without = |these: &[String], those: &[String]| -> Vec<String> {
        let mut left = those.to_vec();
        let is_new = |word: &&String| match left.iter().position(|other| other == *word) {
            Some(index) => {
                left.swap_remove(index);
                false
            }
            None => true,
        };
        these.iter().filter(is_new).cloned().collect()
    };
    let (gone, new) = (without(&before, &after), without(&after, &before));
    let clause = match (gone.is_empty(), new.is_empty()) {
        (true, true) => "the same words in another order".to_owned(),
        (false, true) => format!("{} the first time only", gone.join(" ")),
        (true, false) => format!("{} the second time only", new.join(" ")),
        (false, false) => format!("{}, then {}", gone.join(" "), new.join(" ")),
    };
    Some(printable(&format!("kernel command line: {clause}")))
}

/// A clause if the measurements ran on different CPUs.
pub(crate) fn of_cpu(before: Option<u32>, after: Option<u32>) -> Option<String> {
    let (before, after) = (before?, after?);
    (before != after).then(|| {
        format!("measured on CPU {before}, then on CPU {after}; bench --cpu N keeps to one")
    })
}

/// A clause if the speed of pure user code differs, by the control loops of the counted batches in nanoseconds. Every path
/// then changes, whatever the change under test.
pub(crate) fn of_speed(before: f64, after: f64) -> Option<String> {
    const SHARE: f64 = 0.05;
    if before <= 0.0 || after <= 0.0 {
        return None;
    }
    let (ratio, word) =
        if after > before { (after / before, "slower") } else { (before / after, "faster") };
    (ratio > 1.0 + SHARE).then(|| {
        format!(
            "speed of the CPU: pure user code ran {:.0} % {word}, so every path changes with it; \
             measure both again, one soon after the other",
            (ratio - 1.0) * 100.0
        )
    })
}

fn vdso(host: &HostState) -> Option<String> {
    // A file of an older version, or a hand-made one, has no entry for the vDSO.
    if !host.vdso.present && host.kernel.is_empty() {
        return None;
    }
    Some(match (host.vdso.present, host.vdso.falls_back) {
        (false, _) => "none".to_owned(),
        (true, Some(true)) => "falls back to system calls".to_owned(),
        (true, Some(false)) => "answers by itself".to_owned(),
        (true, None) => return None,
    })
}

fn tracing(tracing: &SyscallTracing) -> Option<String> {
    tracing.active.map(|active| {
        if !active {
            "not traced".to_owned()
        } else if tracing.who.is_empty() {
            "traced by somebody".to_owned()
        } else {
            format!("traced by {}", tracing.who.join(" and "))
        }
    })
}

fn traced(host: &HostState) -> Option<String> {
    Some(
        if host.traced_by.is_some() { "traced by ptrace" } else { "not traced by ptrace" }
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::host::VdsoState;

    fn host() -> HostState {
        HostState {
            kernel: "6.1.0".to_owned(),
            arch: "x86_64".to_owned(),
            cpus_online: 4,
            clocksource: Some("tsc".to_owned()),
            vdso: VdsoState { present: true, falls_back: Some(false), ratio: Some(5.8) },
            syscall_tracing: SyscallTracing { active: Some(false), ..SyscallTracing::default() },
            ..HostState::default()
        }
    }

    #[test]
    fn a_host_does_not_differ_from_itself_at_another_time() {
        let later = HostState { date: "2026-01-02".to_owned(), load: Some(3.0), ..host() };
        assert_eq!(between(&host(), &later), [""; 0]);
        assert_eq!(between(&host(), &HostState::default()), [""; 0], "nothing is known");
    }

    #[test]
    fn of_the_command_line_only_what_differs_is_said() {
        let host = |line: &str| HostState { command_line: Some(line.to_owned()), ..host() };
        for (before, after, clause) in [
            ("ro quiet", "ro quiet tsc=unstable", "tsc=unstable the second time only"),
            ("ro nohz quiet", "ro quiet", "nohz the first time only"),
            ("root=/dev/a ro", "root=/dev/b ro", "root=/dev/a, then root=/dev/b"),
            ("console=a console=a", "console=a", "console=a the first time only"),
            ("a b", "b a", "the same words in another order"),
        ] {
            let expected = format!("kernel command line: {clause}");
            assert_eq!(between(&host(before), &host(after)), [expected]);
        }
        assert_eq!(between(&host(""), &host("ro")), [""; 0], "it could not be read");
    }

    #[test]
    fn another_cpu_is_named() {
        assert_eq!(of_cpu(Some(1), Some(1)), None);
        assert_eq!(of_cpu(None, Some(1)), None);
        assert!(of_cpu(Some(1), Some(0)).unwrap().starts_with("measured on CPU 1, then on CPU 0"));
    }

    #[test]
    fn another_speed_of_the_cpu_is_named_in_both_directions() {
        assert_eq!(of_speed(3250.0, 3300.0), None);
        assert_eq!(of_speed(0.0, 3300.0), None, "an older file does not say");
        assert!(of_speed(3250.0, 4130.0).unwrap().contains("ran 27 % slower"));
        assert!(of_speed(4130.0, 3250.0).unwrap().contains("ran 27 % faster"));
    }

    #[test]
    fn each_difference_is_a_clause() {
        let mut other = host();
        other.clocksource = Some("hpet".to_owned());
        other.kernel = "6.2.0".to_owned();
        other.vdso.falls_back = Some(true);
        let who = vec!["a BPF program".to_owned()];
        other.syscall_tracing = SyscallTracing { active: Some(true), who, note: None };
        other.traced_by = Some(7);
        let expected = [
            "kernel: 6.1.0, then 6.2.0",
            "clocksource: tsc, then hpet",
            "vDSO: answers by itself, then falls back to system calls",
            "system calls: not traced, then traced by a BPF program",
            "measuring process: not traced by ptrace, then traced by ptrace",
        ];
        assert_eq!(between(&host(), &other), expected);
    }
}
