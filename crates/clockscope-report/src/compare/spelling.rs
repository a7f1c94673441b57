//! Names of paths as people read them: as `bench` and `trace` spell them.

/// A label as `bench` and `trace` spell it: `MONOTONIC by vdso`, `rdtsc`.
pub(super) fn spelled(label: &str) -> String {
    let (subject, route) = label.split_once(" by ").unwrap_or((label, ""));
    let subject = subject.strip_prefix("CLOCK_").unwrap_or(subject);
    let subject = subject.strip_suffix("_ID").unwrap_or(subject);
    match route {
        "" | "tsc" | "none" => subject.to_owned(),
        route => format!("{subject} by {route}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_spelled_as_bench_spells_them() {
        for (label, name) in [
            ("CLOCK_TAI by vdso", "TAI by vdso"),
            ("CLOCK_PROCESS_CPUTIME_ID by libc", "PROCESS_CPUTIME by libc"),
            ("read by syscall", "read by syscall"),
            ("rdtsc by tsc", "rdtsc"),
            ("?", "?"),
        ] {
            assert_eq!(spelled(label), name);
        }
    }
}
