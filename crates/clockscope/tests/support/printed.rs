//! The lines that a tracee prints about itself, as `tests/tracees/README.md` lists them.

use std::collections::BTreeMap;

/// A vDSO function and its clock, or `-` if the function has none.
pub(crate) type Key = (String, String);

/// All lines of a run; numbers of the same kind and name are added up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    /// Calls of vDSO functions.
    pub(crate) vdso: BTreeMap<Key, u64>,
    /// Calls of vDSO functions, besides a constant number of calls by the runtime.
    pub(crate) by_difference: BTreeMap<Key, u64>,
    /// Calls of vDSO functions, besides any number of calls by the runtime.
    pub(crate) at_least: BTreeMap<Key, u64>,
    /// System calls.
    pub(crate) syscalls: BTreeMap<String, u64>,
    /// System calls that failed.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Number of processes.
    pub(crate) processes: Option<u64>,
    /// Number of threads.
    pub(crate) threads: Option<u64>,
    /// Results, sorted, because processes print in any order.
    pub(crate) results: Vec<String>,
}

impl Printed {
    /// Parses a tracee's standard output; skips all other lines.
    ///
    /// # Panics
    ///
    /// If the output has no line of a tracee, which means that the tracee did not run.
    pub(crate) fn parse(output: &str) -> Self {
        let mut printed = Self::default();
        let lines = output.lines().filter(|line| printed.take(line)).count();
        assert!(lines > 0, "the tracee said nothing: {output:?}");
        printed.results.sort();
        printed
    }

    fn take(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let number =
            || words[words.len() - 1].parse::<u64>().expect("a tracee's line ends with a number");
        let key = || (words[1].to_owned(), words[2].to_owned());
        match (words[0], words.len()) {
            ("vdso", 4) => *self.vdso.entry(key()).or_default() += number(),
            ("by-difference", 4) => *self.by_difference.entry(key()).or_default() += number(),
            ("at-least", 4) => *self.at_least.entry(key()).or_default() += number(),
            ("syscall", 3) => *self.syscalls.entry(words[1].to_owned()).or_default() += number(),
            ("errors", 3) => *self.errors.entry(words[1].to_owned()).or_default() += number(),
            ("processes", 2) => self.processes = Some(number()),
            ("threads", 2) => self.threads = Some(number()),
            ("result", _) => self.results.push(words[1..].join(" ")),
            _ => return false,
        }
        true
    }

    /// Whether the tracee printed this result.
    pub(crate) fn has_result(&self, result: &str) -> bool {
        self.results.iter().any(|found| found == result)
    }
}
