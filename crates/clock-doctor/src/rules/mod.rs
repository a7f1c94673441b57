//! Turns facts into findings. This module opens no file, makes no system call and reads no clock.

pub mod advice;
mod age;
mod arm;
pub mod catalogue;
mod filters;
pub mod finding;
mod firmware;
mod harmless;
mod hosts;
mod implied;
mod live;
mod params;
mod platform;
mod present;
mod rank;
mod rate;
mod refused;
mod selection;
mod state;
mod steps;
pub(crate) mod trust;
pub mod utc;
mod watchdog;

#[cfg(test)]
mod machines_tests;

// The words that most rules use: they take them from here.
use self::catalogue::{Fix, Label, Says, TRUST};
use self::finding::{Advice, Diagnosis, Finding, Severity, State, Verdict};
use self::state::is_device;
use self::state::source::{counts_ticks, gives_tsc_up, is_tsc, lists_tsc};
use super::facts::{Evidence, Facts, Kernel, Known, Log, Sign};
use super::log::event::{Count, Event, EventKind, Mark, Role, UnstableReason};

type Rules = fn(&Facts, &Verdict) -> Vec<Finding>;

/// All rules. If two have the same label, the details of the first come first.
const RULES: [Rules; 13] = [
    arm::find,
    filters::find,
    firmware::find,
    harmless::find,
    hosts::find,
    utc::find,
    live::find,
    params::find,
    rate::find,
    refused::find,
    selection::find,
    steps::find,
    watchdog::find,
];

/// Judges a machine by its facts.
pub fn examine(facts: &Facts) -> Diagnosis {
    let (present, contradiction) = present::of(facts).unzip();
    let facts = present.as_ref().unwrap_or(facts);
    let mut verdict = state::verdict(facts);
    let found = RULES.iter().flat_map(|find| find(facts, &verdict));
    let mut findings: Vec<Finding> = found.chain(contradiction.flatten()).collect();
    implied::complete(&mut verdict, &mut findings);
    rank::diagnosis(facts, verdict, findings)
}
