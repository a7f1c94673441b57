//! What differs between two hosts, or one host at two times, that changes what a clock costs.

use clock_doctor::state::{HostState, SyscallTracing};
use clockscope_text::foreign::printable;

/// One clause for each difference: `clocksource: tsc, then hpet`. What one side does not know is
/// passed over.
pub fn between(before: &HostState, after: &HostState) -> Vec<String> {
    let mut clauses = Vec::new();
    let mut add = |what: &str, before: Option<String>, after: Option<String>| {
        if let (Some(before), Some(after)) = (before, after)
            && before != after
            && !before.is_empty()
            && !after.is_empty()
        {
            clauses.push(printable(&format!("{what}: {before}, then {after}")));
        }
    };
    let of = |text: &str| Some(text.to_owned());
    let number = |value: u32| (value > 0).then(|| value.to_string());
    add("CPU", before.cpu_model.clone(), after.cpu_model.clone());
    add("architecture", of(&before.arch), of(&after.arch));
    add("CPUs online", number(before.cpus_online), number(after.cpus_online));
    add("kernel", of(&before.kernel), of(&after.kernel));
    add("kernel command line", before.command_line.clone(), after.command_line.clone());
    add("clocksource", before.clocksource.clone(), after.clocksource.clone());
    add("vDSO", vdso(before), vdso(after));
    add("ticks a second", before.hz.and_then(number), after.hz.and_then(number));
    add("virtualisation", before.virtualisation.clone(), after.virtualisation.clone());
    add("seccomp", before.seccomp.clone(), after.seccomp.clone());
    add("time namespace", before.time_namespace.clone(), after.time_namespace.clone());
    add("system calls", tracing(&before.syscall_tracing), tracing(&after.syscall_tracing));
    add("measuring process", traced(before), traced(after));
    add("clockscope", of(&before.clockscope), of(&after.clockscope));
    clauses
}

/// A clause if another CPU was measured on.
pub(crate) fn of_cpu(before: Option<u32>, after: Option<u32>) -> Option<String> {
    let (before, after) = (before?, after?);
    (before != after).then(|| {
        format!("measured on CPU {before}, then on CPU {after}; bench --cpu N keeps to one")
    })
}

/// A clause if the machine ran pure user code at another speed, by its shortest control loops in
/// nanoseconds: then every path changes, and nothing that was to be compared is the cause.
pub(crate) fn of_speed(before: u64, after: u64) -> Option<String> {
    const SHARE: f64 = 0.05;
    if before == 0 || after == 0 {
        return None;
    }
    let (before, after) = (before as f64, after as f64);
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
    // A file of an older version, or a made one, knows nothing of the vDSO.
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
    use clock_doctor::state::VdsoState;

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
    fn another_cpu_is_named() {
        assert_eq!(of_cpu(Some(1), Some(1)), None);
        assert_eq!(of_cpu(None, Some(1)), None);
        assert!(of_cpu(Some(1), Some(0)).unwrap().starts_with("measured on CPU 1, then on CPU 0"));
    }

    #[test]
    fn another_speed_of_the_cpu_is_named_in_both_directions() {
        assert_eq!(of_speed(3250, 3300), None);
        assert_eq!(of_speed(0, 3300), None, "an older file does not say");
        assert!(of_speed(3250, 4130).unwrap().contains("ran 27 % slower"));
        assert!(of_speed(4130, 3250).unwrap().contains("ran 27 % faster"));
    }

    #[test]
    fn each_difference_is_a_clause() {
        let mut other = host();
        other.clocksource = Some("hpet".to_owned());
        other.kernel = "6.2.0".to_owned();
        other.vdso.falls_back = Some(true);
        other.syscall_tracing = SyscallTracing {
            active: Some(true),
            who: vec!["a BPF program".to_owned()],
            note: None,
        };
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
