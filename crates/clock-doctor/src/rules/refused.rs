//! The reason why the kernel refused the TSC without a test, or after it compared the CPUs' counters at boot.

pub(crate) mod reasons;
pub(crate) mod warp;

use super::finding::{Finding, Verdict};
use super::watchdog::machine::Machine;
use crate::facts::Facts;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let machine = Machine::of(facts, verdict);
    let mut findings = warp::find(facts, &machine);
    findings.extend(reasons::find(facts, &machine));
    findings
}
