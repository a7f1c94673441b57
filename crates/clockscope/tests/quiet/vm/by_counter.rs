//! `run --clock tsc` on machines whose kernel does not use the TSC, or gives it up.

use serde_json::Value;

use super::machine::{Boot, boot, boots, slow_boots};
use crate::support::compare::assert_counts;
use crate::support::running::rows;

/// Programs on one CPU that ran until the page had begun to answer. The TSC of an emulated machine is a clock as long
/// as one CPU reads it, so these programs must meet all of the page's promises.
const ON_ONE_CPU: [&str; 8] = [
    "by-counter-c",
    "by-counter-static",
    "by-counter-go",
    "by-counter-sqlite3",
    "by-counter-distance",
    "by-counter-turns",
    "stepped",
    "slewed",
];
/// A program on two CPUs, whose reads make the emulated TSC gain. By how much, and whether the page is withdrawn or
/// never begins, depends on the host.
const ON_TWO_CPUS: &str = "by-counter-threads";
/// By how many times a read of the page must be cheaper than a system call where the vDSO falls back.
const COUNTER_SAVES: f64 = 10.0;
/// Change of a clock's rate from 500 ppm too fast to 500 ppm too slow.
const LARGEST_CHANGE_PPM: u64 = 1_000;
/// Nanoseconds after which a line of the page that was not renewed expires, with all that it says.
const LINE_HOLDS: u64 = 3_000_000_000;

impl Boot {
    /// The report on the clock page of a step.
    #[track_caller]
    fn page(&self, step: &str) -> Value {
        let page = self.json(&format!("{step}.json"))["clock_page"].take();
        assert!(page.is_object(), "{} {step} says nothing of a page", self.name);
        page
    }

    /// The largest error of a read by the page's own bound, ns.
    #[track_caller]
    fn worst_bound(&self, step: &str) -> u64 {
        self.page(step)["worst_bound_ns"].as_u64().expect("a bound is a number")
    }

    /// Whether the timekeeper found a jump of the counter or of the kernel's clock. Reads between the jump and its
    /// discovery are outside of any bound.
    #[track_caller]
    fn has_jumped(&self, step: &str) -> bool {
        let jumped = "the counter or the kernel's clock has jumped";
        rows(&self.page(step)["withdrawals"]).any(|row| row["reason"] == jumped)
    }

    /// The number at the end of the line that begins with these words in a step's output.
    #[track_caller]
    fn said(&self, step: &str, words: &str) -> u64 {
        let said = self.text(&format!("{step}.out"));
        let line = said.lines().find_map(|line| line.strip_prefix(words));
        let number = line.and_then(|rest| rest.split(' ').next_back()?.parse().ok());
        number.unwrap_or_else(|| panic!("{} {step} does not say {words}: {said}", self.name))
    }

    /// The cost of a read in the cheapest round, ns.
    #[track_caller]
    fn cost(&self, clock: &str) -> f64 {
        let rounds = ["1", "2", "3", "4", "5", "6"]
            .map(|round| self.took_ns(&format!("cost-{clock}-{round}")));
        rounds.into_iter().fold(f64::INFINITY, f64::min)
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_counter_is_refused_where_the_kernel_does_not_use_it() {
    for (boot, source) in slow_boots() {
        for step in ["refused", "vouched"] {
            assert_eq!(boot.status(step), 125, "{boot} {step}");
            let why = boot.text(&format!("{step}.err"));
            let clocksource = format!("the kernel's clocksource is {source}, not the counter");
            assert!(why.contains(&clocksource) && why.contains("--force"), "{boot}: {why}");
            assert_eq!(why.lines().count(), 1, "{boot}: {why}");
            assert_eq!(why.contains("nonstop_tsc"), step == "refused", "{boot}: {why}");
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_counter_is_used_where_nothing_speaks_against_it() {
    let Some(boot) = boot("tsc") else { return };
    assert_eq!(boot.status("refused"), 125);
    let why = boot.text("refused.err");
    assert!(why.contains("missing: nonstop_tsc"), "{why}");
    // The kernel's watchdog may give up the TSC of an emulated machine at any time.
    let Some((current, _)) = boot.clocksources("before-vouched", "after-vouched") else { return };
    let expected = if current == "tsc" { 0 } else { 125 };
    assert_eq!(boot.status("vouched"), expected, "{current}: {}", boot.text("vouched.err"));
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_kernel_without_a_vdso_is_no_place_for_a_clock_by_the_counter() {
    let Some(boot) = boot("no-vdso") else { return };
    assert_eq!(boot.status("refused"), 125);
    assert!(boot.text("refused.err").contains("no vDSO (vdso=0?)"));
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn every_read_is_counted_and_none_goes_back() {
    for boot in boots() {
        for step in ON_ONE_CPU.into_iter().chain([ON_TWO_CPUS]) {
            boot.assert_succeeded(step);
            let printed = boot.printed(step);
            assert_counts(&printed, &boot.report(step));
            assert!(printed.has_result("backwards 0"), "{boot} {step}: {printed:?}");
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_page_answers_once_the_counter_is_measured() {
    for boot in boots() {
        for step in ON_ONE_CPU.into_iter().chain([ON_TWO_CPUS]) {
            let page = boot.page(step);
            let first = &page["withdrawals"][0]["reason"];
            let starting = "the counter has not been measured for long enough yet";
            assert_eq!(first, starting, "{boot} {step}: {page:#}");
            let answered = page["answered"].as_u64();
            let must_answer = step != ON_TWO_CPUS;
            assert!(answered > Some(0) || !must_answer, "{boot} {step}: {page:#}");
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn nothing_jumps_where_one_cpu_reads_the_counter() {
    for boot in boots() {
        // The kernel's watchdog may give up the TSC of an emulated machine at any time. The kernel's clock then
        // changes its rate.
        if boot.clocksources("before-counter", "after-counter").is_none() {
            continue;
        }
        for step in ON_ONE_CPU {
            assert!(!boot.has_jumped(step), "{boot} {step}: {:#}", boot.page(step));
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_kernel_disagrees_by_no_more_than_the_bound() {
    for boot in boots() {
        for step in ["by-counter-distance", "by-counter-turns"] {
            if boot.has_jumped(step) {
                continue;
            }
            let bound = boot.worst_bound(step);
            for clock in ["CLOCK_MONOTONIC", "CLOCK_REALTIME", "CLOCK_BOOTTIME", "CLOCK_TAI"] {
                let outside = boot.said(step, &format!("outside {clock} "));
                assert!(outside <= bound, "{boot} {step} {clock}: {outside} of {bound}");
            }
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_step_of_the_time_of_day_is_seen_and_moves_nothing_else() {
    for boot in boots() {
        for way in ["forwards", "back"] {
            let seen_after = boot.said("stepped", &format!("seen {way} "));
            assert!(seen_after < LINE_HOLDS, "{boot} {way}: {seen_after} ns");
        }
        if boot.has_jumped("stepped") {
            continue;
        }
        let bound = boot.worst_bound("stepped");
        for clock in ["CLOCK_MONOTONIC", "CLOCK_REALTIME"] {
            let outside = boot.said("stepped", &format!("outside {clock} "));
            assert!(outside <= bound, "{boot} {clock}: {outside} ns of {bound}");
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_slew_is_followed() {
    for boot in boots().filter(|boot| !boot.has_jumped("slewed")) {
        let bound = boot.worst_bound("slewed");
        // A line of the page misses a change of rate until its renewal, and the timekeeper cannot renew it while
        // the machine stands still.
        let unknown = boot.said("slewed", "held up ") * LARGEST_CHANGE_PPM / 1_000_000;
        for ppm in ["500", "-500", "0"] {
            let outside = boot.said("slewed", &format!("outside at {ppm} ppm: "));
            assert!(
                outside <= bound + unknown,
                "{boot} {ppm} ppm: {outside} ns of {bound} and {unknown}"
            );
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_clock_by_the_counter_is_an_order_of_magnitude_cheaper() {
    for (boot, source) in slow_boots() {
        let kernel = boot.cost("kernel");
        for clock in ["tsc", "tsc-fast"] {
            let cost = boot.cost(clock);
            let ratio = kernel / cost;
            println!("{boot} ({source}): {clock} {cost} ns, {ratio:.1} times cheaper");
            assert!(ratio >= COUNTER_SAVES, "{boot}: {kernel} ns, {clock} {cost} ns");
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn the_page_gives_way_when_the_kernel_takes_another_clocksource() {
    let Some(boot) = boot("tsc") else { return };
    if boot.text("after-vouched.current").trim() != "tsc" {
        return;
    }
    let step = "taken-away";
    if boot.status(step) == 125 {
        // The kernel's watchdog gave up the TSC before the script did.
        assert_ne!(boot.text("after-taken-away.available"), boot.text("after-vouched.available"));
        let why = boot.text("taken-away.err");
        assert!(why.contains(", not the counter"), "{why}");
        return;
    }
    boot.assert_succeeded(step);
    let page = boot.page(step);
    let changed = "the kernel's clocksource has changed";
    assert!(rows(&page["withdrawals"]).any(|row| row["reason"] == changed), "{page:#}");
    let by_kernel = rows(&page["by_kernel"]).find(|row| row["reason"] == changed);
    assert!(by_kernel.is_some_and(|row| row["reads"].as_u64() > Some(0)), "{page:#}");
    assert!(boot.text("taken-away.err").contains(changed));
    let printed = boot.printed("taken-away");
    assert!(printed.has_result("backwards 0"), "{printed:?}");
    assert_counts(&printed, &boot.report("taken-away"));
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_served_page_is_right_and_its_timekeeper_may_be_started_again() {
    for boot in boots() {
        for (step, status) in [
            ("serve", 0),
            ("serve-status", 0),
            ("serve-again", 0),
            ("served", 0),
            ("serve-status-again", 0),
            ("serve-status-ended", 1),
        ] {
            let err = boot.text(&format!("{step}.err"));
            assert_eq!(boot.status(step), status, "{boot} {step}: {err}");
        }
        let writer = |step: &str| boot.json(&format!("{step}.out"))["writer"].clone();
        assert_ne!(writer("serve-status"), writer("serve-status-again"), "{boot}");
        let ended = boot.json("serve-status-ended.out");
        assert_eq!(ended["reason"], "the process that wrote the page has ended its work");

        let printed = boot.printed("served");
        assert!(printed.has_result("backwards 0"), "{boot}: {printed:?}");
        for clock in ["CLOCK_MONOTONIC", "CLOCK_REALTIME"] {
            // Compared over the whole run, not read by read: a timekeeper that starts compares the CPUs' counters,
            // which makes an emulated machine's counters gain (vm/README.md).
            let outside = boot.said("served", &format!("outside {clock} "));
            let bound = boot.said("served", &format!("bound {clock} "));
            assert!(outside <= bound, "{boot} {clock}: {outside} ns of {bound}");
        }
        let declined = boot.text("served.out");
        let declined = declined.lines().find_map(|line| line.strip_prefix("page declined "));
        let (by_kernel, reads) =
            declined.and_then(|rest| rest.split_once(" of ")).expect("is said");
        assert!(by_kernel.parse::<u64>().ok() < reads.parse().ok(), "{boot}: {by_kernel}");
    }
}
