//! Names of paths in text.

use clockscope_model::bench::PathName;
use clockscope_model::names::short_clock;
use clockscope_text::foreign::printable;

/// Up to this many names are listed in full; of more, only the first [`NAMES_FIRST`].
const NAMES_MAX: usize = 4;
const NAMES_FIRST: usize = 3;

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

/// Names and a verb: `rdtsc adds`, `a and b add`, `a, b, c and 4 others add`.
pub fn list(names: &[String], one: &str, many: &str) -> String {
    match names {
        [] => format!("nothing {one}"),
        [name] => format!("{name} {one}"),
        [first @ .., last] if names.len() <= NAMES_MAX => {
            format!("{} and {last} {many}", first.join(", "))
        }
        _ => {
            let others = names.len() - NAMES_FIRST;
            format!("{} and {others} others {many}", names[..NAMES_FIRST].join(", "))
        }
    }
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

    #[test]
    fn many_names_are_not_listed() {
        let names = |count: usize| -> Vec<String> {
            "abcdefgh".chars().take(count).map(String::from).collect()
        };
        for (count, text) in [
            (0, "nothing adds"),
            (1, "a adds"),
            (2, "a and b add"),
            (4, "a, b, c and d add"),
            (5, "a, b, c and 2 others add"),
            (7, "a, b, c and 4 others add"),
        ] {
            assert_eq!(list(&names(count), "adds", "add"), text);
        }
    }
}
