//! Clocks with known faults, through the code that measures the real machine: each fault is reported as its own class
//! and no other. The unchanged machine has no fault.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::support::or_skip;
use fastclock::ClockId;

use clockscope_measure::wrongness::machine::{COUNTERS, MachineClocks, ORDERED};
use clockscope_measure::wrongness::measure;
use clockscope_measure::wrongness::plan::WrongnessPlan;
use clockscope_measure::wrongness::source::Readable;
use clockscope_model::wrongness::WrongnessReport;
use clockscope_report::wrongness::verdict;
use clockscope_sys::{affinity, tsc};

/// One measurement at a time: each wants all CPUs.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures these clocks of a machine for a second; all default clocks if none is named.
fn report(machine: &MachineClocks, names: &[&'static str]) -> WrongnessReport {
    let _alone = alone();
    let is_choice = !names.is_empty();
    let names = if is_choice { names.to_vec() } else { machine.default_names() };
    let time = Duration::from_secs(1);
    let plan = WrongnessPlan { names, is_choice, time };
    let mut report = measure(machine, &plan, &|_| {});
    verdict::judge(&mut report);
    report
}

/// Kind and clock of each fault.
fn faults(report: &WrongnessReport) -> Vec<(&str, &str)> {
    report.faults.iter().map(|fault| (fault.kind.as_str(), fault.clock.as_str())).collect()
}

/// As [`report`], for a fault of one clock between two CPUs. Repeats until `is_seen`: on a busy machine two threads may
/// hardly run at the same time, and then the fault does not show.
fn report_of_two_cpus(
    machine: &MachineClocks,
    name: &'static str,
    is_seen: impl Fn(&WrongnessReport) -> bool,
) -> WrongnessReport {
    let reports = (0..30).map(|_| report(machine, &[name]));
    let mut right = reports.inspect(|report| {
        let found = faults(report);
        assert!(found.is_empty() || found == [("warp", name)], "{:?}", report.faults);
    });
    right.find(is_seen).expect("the fault is found")
}

/// A source whose readings are changed by a function.
fn changed(
    real: &Arc<Readable>,
    bend: impl Fn(i64) -> i64 + Send + Sync + 'static,
) -> Arc<Readable> {
    let real = Arc::clone(real);
    Arc::new(move || bend(real()))
}

/// This machine, with all routes of one clock bent.
fn bent<F: Fn(i64) -> i64 + Send + Sync + 'static>(name: &str, bend: F) -> MachineClocks {
    let mut machine = MachineClocks::this();
    let bend = Arc::new(bend);
    let subject = machine.subjects.iter_mut().find(|subject| subject.name == name).unwrap();
    for (_, source) in &mut subject.routes {
        let bend = Arc::clone(&bend);
        *source = changed(source, move |now| bend(now));
    }
    machine
}

/// A clock that is behind on one CPU.
fn behind_on(cpu: u32, by: i64) -> impl Fn(i64) -> i64 + Send + Sync {
    move |now| if affinity::current() == cpu { now - by } else { now }
}

/// A CPU other than the one that single-CPU tests use; `None` (a skip) if there is only one.
fn other_cpu_or_skip() -> Option<u32> {
    let cpus = affinity::allowed().unwrap();
    or_skip((cpus.len() > 1).then(|| cpus[0]), "there is only one CPU")
}

#[test]
fn the_machine_as_it_is_has_no_fault() {
    let report = report(&MachineClocks::this(), &[]);
    assert_eq!(faults(&report), [], "{:?}", report.faults);
    assert!(report.clocks.iter().all(|clock| clock.reads > 0));
}

#[test]
fn a_clock_that_steps_back_is_found() {
    let reads = AtomicU64::new(0);
    let machine = bent("CLOCK_BOOTTIME", move |now| {
        let is_bad = reads.fetch_add(1, Ordering::Relaxed) % 10_000 == 9_999;
        now - if is_bad { 3_000 } else { 0 }
    });
    let report = report(&machine, &["CLOCK_BOOTTIME", "CLOCK_MONOTONIC"]);
    assert_eq!(faults(&report), [("backward", "CLOCK_BOOTTIME")], "{:?}", report.faults);
    let clock = &report.clocks[0];
    assert!((1..=3_000).contains(&clock.worst_backward), "{}", clock.worst_backward);
    assert!(clock.burst.windows(2).any(|pair| pair[1] < pair[0]), "{:?}", clock.burst);
}

#[test]
fn a_warp_of_500_ns_between_cpus_is_found() {
    let Some(behind) = other_cpu_or_skip() else { return };
    let machine = bent("CLOCK_MONOTONIC", behind_on(behind, 500));
    let is_seen = |report: &WrongnessReport| !report.faults.is_empty();
    let report = report_of_two_cpus(&machine, "CLOCK_MONOTONIC", is_seen);
    let warp = report.warps.iter().find(|warp| warp.cpus.0 == behind).unwrap();
    assert_eq!((warp.behind, warp.random), (Some(behind), false));
    assert!((1..=500).contains(&warp.max_warp), "{warp:?}");
}

#[test]
fn a_counter_that_is_behind_on_one_cpu_is_a_warp_with_its_offset() {
    let Some(behind) = other_cpu_or_skip() else { return };
    let machine = bent(ORDERED, behind_on(behind, 20_000));
    let is_seen = |report: &WrongnessReport| {
        !report.faults.is_empty() && report.offsets.iter().any(|offset| offset.proven)
    };
    let report = report_of_two_cpus(&machine, ORDERED, is_seen);
    let offset = report.offsets.iter().find(|offset| offset.cpus.0 == behind).unwrap();
    let error = i64::try_from(offset.error).unwrap();
    assert!(offset.proven && (offset.offset - 20_000).abs() <= error, "{offset:?}");
}

#[test]
fn a_warp_that_both_cpus_see_is_random() {
    let Some(other) = other_cpu_or_skip() else { return };
    let machine = bent("CLOCK_MONOTONIC_RAW", move |now| {
        let is_odd = now / 1_000_000 % 2 == 1;
        if affinity::current() != other {
            now
        } else if is_odd {
            now - 2_000
        } else {
            now + 2_000
        }
    });
    let is_seen = |report: &WrongnessReport| report.warps.iter().any(|warp| warp.random);
    let report = report_of_two_cpus(&machine, "CLOCK_MONOTONIC_RAW", is_seen);
    assert_eq!(faults(&report), [("warp", "CLOCK_MONOTONIC_RAW")], "{:?}", report.faults);
    assert!(report.warps.iter().any(|warp| warp.random && warp.behind.is_none()));
}

#[test]
fn a_coarse_clock_that_is_ahead_or_stale_by_3_ticks_is_found() {
    for name in ["CLOCK_REALTIME_COARSE", "CLOCK_MONOTONIC_COARSE"] {
        let machine = MachineClocks::this();
        let tick = machine.subject(name).unwrap().getres_ns.unwrap().cast_signed();
        // A clock that is ahead of the precise one is in the wrong order.
        for (fault, off) in [("stale", -3 * tick), ("ahead", 1_000_000_000)] {
            let report = report(&bent(name, move |now| now + off), &[name]);
            assert_eq!(faults(&report), [(fault, name)], "{:?}", report.faults);
        }
    }
}

fn fast_by(ppm: i64) -> impl Fn(i64) -> i64 + Send + Sync {
    let origin = AtomicI64::new(i64::MIN);
    move |now| {
        let first = origin.compare_exchange(i64::MIN, now, Ordering::Relaxed, Ordering::Relaxed);
        let elapsed = now - first.map_or_else(|origin| origin, |_| now);
        now + elapsed * ppm / 1_000_000
    }
}

#[test]
fn a_rate_that_is_wrong_by_50_ppm_is_found() {
    let report = report(&bent("CLOCK_MONOTONIC", fast_by(50)), &["CLOCK_MONOTONIC"]);
    assert_eq!(faults(&report), [("rate", "CLOCK_MONOTONIC")], "{:?}", report.faults);
    let rate = &report.rates[0];
    let off = rate.ppm - rate.expected_ppm.unwrap() - 50.0;
    assert!(off.abs() <= rate.bound_ppm + 1.0, "{rate:?}");
}

#[test]
fn a_counter_that_is_off_its_nominal_rate_is_found() {
    let mut machine = bent(ORDERED, fast_by(50));
    let healthy = report(&MachineClocks::this(), &[ORDERED]);
    machine.nominal_hz = healthy.rates[0].hz;
    let report = report(&machine, &[ORDERED]);
    assert_eq!(faults(&report), [("rate", ORDERED)], "{:?}", report.faults);
}

#[test]
fn a_slewed_realtime_has_a_wrong_rate_but_no_step() {
    let report = report(&bent("CLOCK_REALTIME", fast_by(-400)), &["CLOCK_REALTIME"]);
    assert_eq!(faults(&report), [("rate", "CLOCK_REALTIME")], "{:?}", report.faults);
}

#[test]
fn a_step_of_realtime_is_found_and_nothing_else_is_blamed() {
    for step in [300_000_000, -300_000_000] {
        // The step comes half a second after the first reading.
        let when = OnceLock::new();
        let machine = bent("CLOCK_REALTIME", move |now| {
            let time = tsc::now(ClockId::Monotonic).0;
            if time < *when.get_or_init(|| time + 500_000_000) { now } else { now + step }
        });
        let report = report(&machine, &["CLOCK_REALTIME", "CLOCK_REALTIME_COARSE", "CLOCK_TAI"]);
        assert_eq!(faults(&report), [("step", "CLOCK_REALTIME")], "{:?}", report.faults);
        let way = if step < 0 { "0.300 s back" } else { "0.300 s forward" };
        assert!(report.faults[0].sentence.contains(way), "{:?}", report.faults);
    }
}

#[test]
fn a_route_that_disagrees_with_the_kernel_is_found() {
    let mut machine = MachineClocks::this();
    let subject = machine.subjects.iter_mut().find(|s| s.name == "CLOCK_TAI").unwrap();
    let first = &mut subject.routes[0];
    first.1 = changed(&first.1, |now| now - 50_000_000);
    let report = report(&machine, &["CLOCK_TAI"]);
    assert_eq!(faults(&report), [("backward", "CLOCK_TAI")], "{:?}", report.faults);
    assert!(report.faults[0].sentence.contains("only from one route to another"));
}

#[test]
fn an_unordered_counter_that_warps_is_no_fault_of_the_machine() {
    let Some(behind) = other_cpu_or_skip() else { return };
    let unordered = COUNTERS[0];
    let machine = bent(unordered, behind_on(behind, 20_000));
    let report = report(&machine, &[unordered]);
    assert_eq!(faults(&report), [], "{:?}", report.faults);
    assert!(report.warps.iter().any(|warp| warp.unordered && warp.warps > 0), "{:?}", report.warps);
}

/// With one CPU, and with CPUs on which no thread can be kept.
#[test]
fn where_no_cpus_can_be_compared_that_is_said_and_the_rest_is_measured() {
    for (cpus, why) in [
        (MachineClocks::this().cpus[..1].to_vec(), "only one CPU"),
        (vec![8_190, 8_191], "kept on different CPUs"),
    ] {
        let machine = MachineClocks { cpus, ..MachineClocks::this() };
        let report = report(&machine, &["CLOCK_MONOTONIC", ORDERED]);
        assert_eq!(faults(&report), [], "{why}: {:?}", report.faults);
        assert!(report.warps.is_empty() && report.offsets.is_empty(), "{why}");
        assert!(report.declines.iter().any(|decline| decline.1.contains(why)), "{why}");
    }
}
