//! The results of one virtual machine, and the list of the machines.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::or_skip;
use crate::support::printed::Printed;
use crate::support::running::Report;

/// The machines of `vm/test` whose kernel chose a slow clocksource or was told to, with that clocksource.
const SLOW: [(&str, &str); 3] = [("hpet", "hpet"), ("acpi_pm", "acpi_pm"), ("fallback", "hpet")];

/// The results of one machine.
pub(crate) struct Boot {
    pub(crate) name: String,
    pub(crate) out: PathBuf,
}

impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Boot {
    /// The machine with this name among the results.
    pub(crate) fn in_results(results: &Path, name: &str) -> Self {
        Self { name: name.to_owned(), out: results.join(name).join("out") }
    }

    #[track_caller]
    pub(crate) fn text(&self, file: &str) -> String {
        let path = self.out.join(file);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; run make test-vm", path.display()))
    }

    #[track_caller]
    pub(crate) fn json(&self, file: &str) -> Value {
        let text = self.text(file);
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{} {file}: {error}\n{text}", self.name))
    }

    /// The report of a step.
    #[track_caller]
    pub(crate) fn report(&self, step: &str) -> Report {
        let report = Report::read(&self.out.join(format!("{step}.json")));
        report.unwrap_or_else(|| panic!("{} {step}: no report", self.name))
    }

    /// The lines of a step's program about its own calls.
    #[track_caller]
    pub(crate) fn printed(&self, step: &str) -> Printed {
        Printed::parse(&self.text(&format!("{step}.out")))
    }

    /// The exit status of a step.
    #[track_caller]
    pub(crate) fn status(&self, step: &str) -> i32 {
        let steps = self.text("steps");
        let of_step = |line: &str| {
            let mut words = line.split(' ');
            (words.next() == Some(step)).then(|| words.next()?.parse().ok()).flatten()
        };
        let found = steps.lines().find_map(of_step);
        found.unwrap_or_else(|| panic!("{} has no step {step}:\n{steps}", self.name))
    }

    /// Checks that a step succeeded.
    #[track_caller]
    pub(crate) fn assert_succeeded(&self, step: &str) {
        let said = || self.text(&format!("{step}.err"));
        assert_eq!(self.status(step), 0, "{} {step}: {}", self.name, said());
    }

    /// The cost of a clock read in nanoseconds, as the step's program prints it.
    #[track_caller]
    pub(crate) fn took_ns(&self, step: &str) -> f64 {
        let said = self.text(&format!("{step}.out"));
        let words = said.lines().find_map(|line| line.strip_prefix("took "));
        let ns = words.and_then(|words| words.strip_suffix(" ns each")?.parse().ok());
        ns.unwrap_or_else(|| panic!("{} {step} said: {said}", self.name))
    }

    /// The current and the available clocksources around a step, if they stayed the same and the kernel logged nothing
    /// about them meanwhile.
    #[track_caller]
    pub(crate) fn clocksources(
        &self,
        before: &str,
        after: &str,
    ) -> Option<(String, BTreeSet<String>)> {
        let at = |name: &str| {
            let available = self.text(&format!("{name}.available"));
            let available: BTreeSet<String> =
                available.split_whitespace().map(str::to_owned).collect();
            let current = self.text(&format!("{name}.current")).trim().to_owned();
            (current, available, self.text(&format!("{name}.said")))
        };
        let state = Some(at(before)).filter(|state| *state == at(after));
        state.map(|(current, available, _)| (current, available))
    }
}

/// The results of one machine; `None` (a skip) without `CLOCKSCOPE_VM_RESULTS`.
pub(crate) fn boot(name: &str) -> Option<Boot> {
    let results = std::env::var_os("CLOCKSCOPE_VM_RESULTS");
    let results = or_skip(results, "no virtual machine was booted: make test-vm")?;
    Some(Boot::in_results(Path::new(&results), name))
}

pub(crate) fn slow_boots() -> impl Iterator<Item = (Boot, &'static str)> {
    SLOW.into_iter().filter_map(|(name, source)| Some((boot(name)?, source)))
}

/// All machines with a vDSO.
pub(crate) fn boots() -> impl Iterator<Item = Boot> {
    SLOW.into_iter().map(|(name, _)| name).chain(["tsc"]).filter_map(boot)
}
