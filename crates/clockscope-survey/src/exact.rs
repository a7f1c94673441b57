//! Which processes `--exact` attaches to. Pure.

use std::collections::HashSet;

/// What is known of a process before anybody attaches to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub pid: i32,
    /// Its name, its unit, its container: what a pattern can name.
    pub names: Vec<String>,
    /// Who traces it; 0 if nobody does.
    pub tracer: i32,
}

impl Candidate {
    /// Whether a pattern names it.
    pub fn is_named(&self, pattern: &str) -> bool {
        self.names.iter().any(|name| matches(pattern, name)) || self.pid.to_string() == pattern
    }

    /// Whether it is among those that are wanted: all are, if none is named.
    pub fn is_wanted(&self, only: &[String]) -> bool {
        only.is_empty() || only.iter().any(|pattern| self.is_named(pattern))
    }
}

/// Why a process is passed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The first process of the host.
    #[error("it is the first process of this host")]
    First,
    /// clockscope itself, or a process that it was started from.
    #[error("it is clockscope, or was it started from")]
    Own,
    /// Somebody traces it.
    #[error("process {0} traces it")]
    Traced(i32),
    /// The user said so.
    #[error("--exclude '{0}' names it")]
    Excluded(String),
}

/// Why clockscope does not attach to a process; `None` if it may. `own` are clockscope and its ancestors.
pub fn reason(candidate: &Candidate, own: &HashSet<i32>, excluded: &[String]) -> Option<Reason> {
    if candidate.pid == 1 {
        Some(Reason::First)
    } else if own.contains(&candidate.pid) {
        Some(Reason::Own)
    } else if candidate.tracer != 0 {
        Some(Reason::Traced(candidate.tracer))
    } else {
        excluded.iter().find(|pattern| candidate.is_named(pattern)).cloned().map(Reason::Excluded)
    }
}

/// Whether a name is that of a pattern, in which `*` stands for any text and `?` for any character.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of_name) = (0, 0);
    // Where to go on when the text of the last `*` has to be longer by one.
    let mut again: Option<(usize, usize)> = None;
    while of_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                again = Some((at + 1, of_name));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[of_name] => {
                at += 1;
                of_name += 1;
            }
            _ => match again {
                Some((behind, taken)) => {
                    (at, of_name) = (behind, taken + 1);
                    again = Some((behind, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

/// The process that traces another, by the text of its `/proc/PID/status`; 0 if nobody does.
pub fn tracer(status: &str) -> i32 {
    number(status, "TracerPid:")
}

/// The parent of a process, by the same text; 0 if it has none.
pub fn parent(status: &str) -> i32 {
    number(status, "PPid:")
}

fn number(status: &str, key: &str) -> i32 {
    let value = status.lines().find_map(|line| line.strip_prefix(key));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_must_not_stand_still_is_passed_over() {
        let own = HashSet::from([100, 90]);
        let candidate = |pid, tracer| Candidate {
            pid,
            names: vec!["postgres".to_owned(), "postgresql@15-main.service".to_owned()],
            tracer,
        };
        let excluded =
            |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        let said = |candidate: &Candidate, patterns: &[&str]| {
            reason(candidate, &own, &excluded(patterns)).map(|reason| reason.to_string())
        };
        assert_eq!(said(&candidate(7, 0), &[]), None);
        assert_eq!(said(&candidate(7, 0), &["post", "redis*", "8"]), None);
        assert_eq!(reason(&candidate(1, 0), &own, &[]), Some(Reason::First));
        assert_eq!(reason(&candidate(90, 0), &own, &[]), Some(Reason::Own));
        assert_eq!(reason(&candidate(100, 0), &own, &[]), Some(Reason::Own));
        assert_eq!(said(&candidate(7, 55), &[]).as_deref(), Some("process 55 traces it"));
        assert!(
            candidate(7, 0).is_wanted(&[]) && !candidate(7, 0).is_wanted(&excluded(&["redis"]))
        );
        for pattern in ["postgres", "post*", "*@15-main.service", "p?stgres", "7"] {
            let wanted = format!("--exclude '{pattern}' names it");
            assert_eq!(said(&candidate(7, 0), &["redis", pattern]), Some(wanted));
            assert!(candidate(7, 0).is_wanted(&excluded(&["redis", pattern])));
        }
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name, is_so) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-c-", false),
            ("*.service", "nginx.service", true),
            ("nginx", "nginx.service", false),
            ("?", "\u{e9}", true),
            ("**a", "aaa", true),
        ] {
            assert_eq!(matches(pattern, name), is_so, "{pattern} {name}");
        }
    }

    #[test]
    fn tracer_and_parent_are_read_from_the_status() {
        let status = "Name:\tredis\nPid:\t7\nPPid:\t3\nTracerPid:\t55\n";
        assert_eq!((tracer(status), parent(status)), (55, 3));
        assert_eq!((tracer(""), parent("PPid:\tx\n")), (0, 0));
    }

    proptest! {
        #[test]
        fn a_pattern_of_stars_and_parts_of_the_name_fits(parts in proptest::collection::vec("[a-c]{0,3}", 1..6)) {
            let (name, pattern) = (parts.concat(), parts.join("*"));
            let longer = name.clone() + "d";
            prop_assert!(matches(&pattern, &name));
            prop_assert!(matches(&name, &name));
            prop_assert!(!matches(&name, &longer));
        }
    }
}
