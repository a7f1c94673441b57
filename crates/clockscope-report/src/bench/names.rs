//! Names of paths in text.

use clockscope_model::bench::PathName;
use clockscope_model::names::short_clock;
use clockscope_text::foreign::printable;

/// `MONOTONIC by vdso`, `read by syscall`, `rdtsc`: clock names without `CLOCK_` and `_ID`.
pub fn of_row(name: &PathName) -> String {
    match name.route.as_str() {
        "tsc" | "none" => subject(name),
        route => printable(&format!("{} by {route}", subject(name))),
    }
}

/// The name of a clock without `CLOCK_` and `_ID`, or of a system call.
pub(super) fn subject(name: &PathName) -> String {
    let name = name.clock.as_deref().or(name.call.as_deref()).unwrap_or("?");
    printable(short_clock(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_subject_and_a_route() {
        let name = |clock: Option<&str>, call: Option<&str>, route: &str| PathName {
            clock: clock.map(str::to_owned),
            call: call.map(str::to_owned),
            route: route.to_owned(),
        };
        assert_eq!(of_row(&name(Some("CLOCK_TAI"), None, "vdso")), "TAI by vdso");
        let process = name(Some("CLOCK_PROCESS_CPUTIME_ID"), None, "libc");
        assert_eq!(of_row(&process), "PROCESS_CPUTIME by libc");
        assert_eq!(of_row(&name(None, Some("read"), "syscall")), "read by syscall");
        assert_eq!(of_row(&name(Some("rdtsc"), None, "tsc")), "rdtsc");
        assert_eq!(of_row(&name(Some("a\u{1b}[2J"), None, "tsc")), "a?[2J");
    }
}
