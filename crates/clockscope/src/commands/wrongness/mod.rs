//! `clockscope wrongness`: chooses clocks, measures, judges and prints.

mod names;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::measure::WrongnessArgs;
use crate::printing::replace_file::Prepared;
use crate::printing::spinner::Spinner;
use crate::{exit, printing};
use clockscope_measure::host;
use clockscope_measure::wrongness::machine::MachineClocks;
use clockscope_measure::wrongness::measure;
use clockscope_measure::wrongness::plan::WrongnessPlan;
use clockscope_model::host::HostState;
use clockscope_report::wrongness::{text, verdict};
use clockscope_text::names::distinct;

/// Limits of the time: a shorter one misses the ticks of a coarse clock, a longer one is a mistake.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When the time is out of range, a clock does not exist, or the report cannot be written.
pub fn run(args: &WrongnessArgs) -> Result<i32> {
    if !SECONDS.contains(&args.time) {
        bail!(
            "cannot measure for {} seconds; --time takes {} to {}",
            args.time,
            SECONDS.start(),
            SECONDS.end()
        );
    }
    let host = host::collect();
    let mut machine = MachineClocks::this();
    machine.nominal_hz = nominal_hz(&host);
    let plan = plan(args, &machine)?;
    // The file is prepared before measuring, so a typo in its name does not cost that time.
    let file = Prepared::of_option(args.output.as_deref())?;
    let progress = Spinner::start();
    let mut report = measure(&machine, &plan, &|what| progress.tell(what));
    progress.end();
    verdict::judge(&mut report);
    report.host = host;
    printing::report::write(&report, args.format, file, text::render)?;
    Ok(if report.faults.is_empty() { exit::OK } else { exit::FOUND })
}

/// The rate that the counter must have against `CLOCK_MONOTONIC_RAW`: the kernel's own rate for turning ticks
/// into time. `None` if the kernel does not use the counter, or the rate is not exact.
///
/// With another clocksource, the comparison would be of two crystals. A rate from CPUID may be the one before
/// the kernel refined it. Either difference may exceed that of a fault.
fn nominal_hz(host: &HostState) -> Option<f64> {
    let is_tsc = host.clocksource.as_deref() == Some("tsc");
    let source = host.tsc_hz_source.as_deref().unwrap_or("");
    let is_exact = ["perf", "tsc_freq_khz", "kernel log"].iter().any(|good| source.contains(good));
    host.tsc_hz_kernel.filter(|_| is_tsc && is_exact)
}

/// The plan of the measurement.
fn plan(args: &WrongnessArgs, machine: &MachineClocks) -> Result<WrongnessPlan> {
    let known: Vec<&'static str> = machine.subjects.iter().map(|subject| subject.name).collect();
    let named = args.clocks.iter().map(|word| names::resolve(word, &known));
    let mut names = distinct(named.collect::<Result<Vec<_>, _>>()?);
    let is_choice = !names.is_empty();
    if !is_choice {
        names = machine.default_names();
    }
    let time = Duration::from_secs_f64(args.time);
    Ok(WrongnessPlan { names, is_choice, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_held_to_the_rate_that_the_kernel_reckons_with_and_no_other() {
        let host = |clocksource: &str, source: &str| HostState {
            clocksource: Some(clocksource.to_owned()),
            tsc_hz_kernel: Some(2.5e9),
            tsc_hz_source: Some(source.to_owned()),
            ..HostState::default()
        };
        assert_eq!(nominal_hz(&host("tsc", "perf event page")), Some(2.5e9));
        assert_eq!(nominal_hz(&host("tsc", "tsc_freq_khz in /sys")), Some(2.5e9));
        assert_eq!(nominal_hz(&host("tsc", "kernel log")), Some(2.5e9));
        assert_eq!(nominal_hz(&host("tsc", "CPUID")), None);
        assert_eq!(nominal_hz(&host("hpet", "perf event page")), None);
        assert_eq!(nominal_hz(&HostState::default()), None);
    }
}
