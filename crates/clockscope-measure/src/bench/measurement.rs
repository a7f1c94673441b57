//! Runs a measurement, from its plan to the report.

use std::io;
use std::time::Instant;

use anyhow::{Result, bail};

use super::launches;
use super::{Plan, evaluation, instructions, launch};
use crate::host;
use crate::system_calls::Chosen;
use clockscope_model::bench::BenchReport;
use clockscope_report::bench::notes;
use clockscope_sys::affinity;

/// The part of a plan that this machine can measure.
pub struct Measurement {
    start: Instant,
    plan: Plan,
    chosen: Chosen,
    cpu: u32,
}

impl Measurement {
    /// Checks the plan, and chooses the CPU.
    ///
    /// # Errors
    ///
    /// When the CPU may not be used, or no path can be measured.
    pub fn new(plan: Plan, chosen: Chosen) -> Result<Self> {
        let start = Instant::now();
        if chosen.paths.len() == 1 {
            let reason = chosen.declined.first().map(|one| one.reason.as_str());
            bail!("nothing can be measured: {}", reason.unwrap_or("nothing was asked for"));
        }
        let cpu = cpu(plan.cpu, affinity::allowed())?;
        Ok(Self { start, plan, chosen, cpu })
    }

    /// Number of fresh processes that will measure.
    pub fn launches(&self) -> u32 {
        self.plan.launches.unwrap_or(launch::LAUNCHES)
    }

    /// Measures; `show` gets the number of the launch and its share done.
    ///
    /// # Errors
    ///
    /// When a launch fails.
    pub fn run(self, show: &mut dyn FnMut(u32, f64)) -> Result<BenchReport> {
        let host = host::collect();
        let collected = launches::run(&self.plan.request, self.launches(), self.cpu, show)?;
        let mut report = evaluation::report(&collected, host, self.plan.net);
        report.notes = notes::of(&report, collected.pinning_refused.as_deref());
        if self.plan.instructions {
            let (instructions, notes) = instructions::of(&self.chosen.paths);
            report.instructions = Some(instructions);
            report.notes.extend(notes);
        }
        let elapsed_ms = self.start.elapsed().as_millis();
        report.method.elapsed_ms = u64::try_from(elapsed_ms).unwrap_or(u64::MAX);
        Ok(report)
    }
}

/// The CPU to measure on: `wanted`, or the current one.
fn cpu(wanted: Option<u32>, allowed: io::Result<Vec<u32>>) -> Result<u32> {
    let Some(wanted) = wanted else { return Ok(affinity::current()) };
    match allowed {
        Ok(allowed) if !allowed.contains(&wanted) => {
            let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            bail!("cannot measure on CPU {wanted}; this process may use {}", list.join(", "))
        }
        // If the allowed CPUs are unknown, the launch finds out.
        _ => Ok(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cpu_that_is_allowed_can_be_asked_for() {
        assert_eq!(cpu(Some(3), Ok(vec![0, 3])).unwrap(), 3);
        let error = cpu(Some(4), Ok(vec![0, 3])).unwrap_err().to_string();
        assert_eq!(error, "cannot measure on CPU 4; this process may use 0, 3");
        assert_eq!(cpu(Some(4), Err(io::ErrorKind::PermissionDenied.into())).unwrap(), 4);
    }
}
