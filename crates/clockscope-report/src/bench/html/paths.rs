//! Names of paths in sentences, and paths by what they have in common.

use clockscope_model::bench::PathName;

/// The clock, counter or call.
pub(super) fn subject(name: &PathName) -> &str {
    name.clock.as_deref().or(name.call.as_deref()).unwrap_or("?")
}

/// `CLOCK_MONOTONIC by vdso`; the subject alone where the route says nothing.
pub(super) fn full_name(name: &PathName) -> String {
    if name.route.is_empty() || is_empty_loop(name) {
        subject(name).to_owned()
    } else {
        format!("{} by {}", subject(name), name.route)
    }
}

/// The route with the words that a sentence needs.
pub(super) fn by_route(route: &str) -> String {
    match route {
        "libc" => "through libc".to_owned(),
        "vdso" => "by the vDSO".to_owned(),
        "syscall" => "by system call".to_owned(),
        "" => "as it is".to_owned(),
        other => format!("by {other}"),
    }
}

/// Whether this is the loop without a call.
pub(super) fn is_empty_loop(name: &PathName) -> bool {
    subject(name) == "empty loop"
}

/// Items by subject, in the order in which subjects first appear.
pub(super) fn by_subject<T>(items: &[T], name: impl Fn(&T) -> &PathName) -> Vec<(&str, Vec<&T>)> {
    let mut groups: Vec<(&str, Vec<&T>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for item in items {
        let subject = subject(name(item));
        let place = *places.entry(subject).or_insert(groups.len());
        if place == groups.len() {
            groups.push((subject, Vec::new()));
        }
        groups[place].1.push(item);
    }
    groups
}

/// `a, b and c`; with more than `most` of them `a, b and 7 more`.
pub(super) fn joined(names: &[String], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        _ if names.len() > most => {
            format!("{} and {} more", names[..most].join(", "), names.len() - most)
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_aloud_as_written() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(joined(&names[..0], 3), "");
        assert_eq!(joined(&names[..1], 3), "a");
        assert_eq!(joined(&names[..3], 3), "a, b and c");
        assert_eq!(joined(&names, 3), "a, b, c and 1 more");
    }

    #[test]
    fn paths_of_a_clock_stand_together() {
        let path = |clock: &str, route: &str| PathName {
            clock: Some(clock.to_owned()),
            call: None,
            route: route.to_owned(),
        };
        let paths = [path("a", "libc"), path("b", "libc"), path("a", "vdso")];
        let groups = by_subject(&paths, |path| path);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].1, [&paths[0], &paths[2]]);
        assert_eq!(full_name(&paths[2]), "a by vdso");
        assert_eq!(full_name(&path("empty loop", "tsc")), "empty loop");
    }
}
