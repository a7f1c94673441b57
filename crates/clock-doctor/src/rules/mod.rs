//! From facts to findings. Nothing here opens a file, calls the kernel or reads a clock.

pub mod advice;
pub mod arm;
pub mod catalogue;
pub mod finding;
pub mod firmware;
pub mod harmless;
pub mod hosts;
pub mod live;
pub mod params;
pub mod platform;
pub mod rank;
pub mod rate;
pub mod refused;
pub mod selection;
pub mod state;
pub mod watchdog;

#[cfg(test)]
mod cases_tests;
#[cfg(test)]
mod machines_tests;

use self::finding::{Diagnosis, Finding, Verdict};
use super::facts::Facts;

type Rules = fn(&Facts, &Verdict) -> Vec<Finding>;

/// All rules; their order does not matter.
const RULES: [Rules; 10] = [
    arm::find,
    firmware::find,
    harmless::find,
    hosts::find,
    live::find,
    params::find,
    rate::find,
    refused::find,
    selection::find,
    watchdog::find,
];

/// Judges a machine by what is known of it.
pub fn examine(facts: &Facts) -> Diagnosis {
    let verdict = state::verdict(facts);
    let findings = RULES.iter().flat_map(|find| find(facts, &verdict)).collect();
    rank::diagnosis(facts, verdict, findings)
}
