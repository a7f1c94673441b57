//! Pairs of clocks with a given fault must get the label of that fault.

use proptest::prelude::*;

use super::find;
use super::interval::Interval;
use super::labels::labels;
use crate::facts::{Evidence, Facts, Log};
use crate::log::event::{Count, Event, EventKind, Mark, Role};
use crate::rules::catalogue::Label;
use crate::rules::finding::Verdict;

const ACPI_PM_HZ: u128 = 3_579_545;
const ACPI_PM_MASK: u64 = 0xff_ffff;
const NS: u128 = 1_000_000_000;

fn facts(kinds: Vec<EventKind>) -> Facts {
    let event = |(index, kind)| {
        let text = format!("line {index}");
        Event { evidence: Evidence::of("dmesg", &text), at: None, kind }
    };
    let events = kinds.into_iter().enumerate().map(event).collect();
    Facts { log: Some(Log { events, ..Log::default() }), ..Facts::default() }
}

/// The labels that the rules give.
fn found(kinds: Vec<EventKind>) -> Vec<Label> {
    find(&facts(kinds), &Verdict::default()).iter().map(|finding| finding.label).collect()
}

/// A pair of clocks at two checks. The numbers are integers, so that the truth is exact.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The TSC's true rate, in Hz.
    tsc_hz: u64,
    /// The rate that the kernel assumes, in kHz.
    kernel_khz: u64,
    /// True time between the checks, in ns.
    elapsed_ns: u64,
    /// Additional time before the reference is read, in ns.
    torn_ns: u64,
    /// Initial values of the counters.
    tsc_start: u64,
    reference_start: u64,
}

impl Pair {
    fn ticks(hz: u128, ns: u64) -> u64 {
        u64::try_from(u128::from(ns) * hz / NS).unwrap()
    }

    /// Log lines as of 4.9 to 5.10, with acpi_pm.
    fn kinds(self) -> Vec<EventKind> {
        let tsc = Self::ticks(self.tsc_hz.into(), self.elapsed_ns);
        let reference = Self::ticks(ACPI_PM_HZ, self.elapsed_ns + self.torn_ns);
        let mhz = self.kernel_khz as f64 / 1e3;
        let last = self.reference_start & ACPI_PM_MASK;
        vec![
            EventKind::Refined(mhz),
            EventKind::Marked { name: "tsc".to_owned(), why: Mark::Skew },
            reading(Role::Reference, "acpi_pm", last, reference, ACPI_PM_MASK),
            reading(Role::Watched, "tsc", self.tsc_start, tsc, u64::MAX),
            EventKind::unstable("clocksource watchdog"),
        ]
    }

    fn labels(self) -> Vec<Label> {
        found(self.kinds())
    }
}

fn reading(role: Role, name: &str, last: u64, ticks: u64, mask: u64) -> EventKind {
    let now = last.wrapping_add(ticks) & mask;
    EventKind::Reading(role, Count { name: name.to_owned(), nsec: None, now, last, mask })
}

fn pair() -> impl Strategy<Value = Pair> {
    (1_000_000_u64..5_000_000, 0_u64..1 << 60, 0_u64..1 << 24).prop_map(
        |(khz, tsc_start, reference_start)| Pair {
            tsc_hz: khz * 1_000,
            kernel_khz: khz,
            elapsed_ns: 500_000_000,
            torn_ns: 0,
            tsc_start,
            reference_start,
        },
    )
}

proptest! {
    #[test]
    fn a_stall_of_k_wraps_is_a_wrapped_counter(pair in pair(), wraps in 1_u64..20, rest in 0_u64..4_000) {
        // A stall that ends `rest` ms after the k-th wrap.
        let wrap_ns = 4_686_970_104_u64;
        let stalled = Pair { elapsed_ns: wraps * wrap_ns + rest * 1_000_000, ..pair };
        let labels = stalled.labels();
        prop_assert!(labels.contains(&Label::WatchdogCounterWrapped), "{labels:?}");
        prop_assert!(labels.contains(&Label::TscWatchdogSkew));
        prop_assert!(!labels.contains(&Label::TscJumped), "{labels:?}");
        let facts = facts(stalled.kinds());
        let episode = super::episode::gather(&facts).remove(0);
        let interval = Interval::of(&episode, &super::rates::Rates::of(&facts));
        prop_assert_eq!(interval.wraps().map(u64::from), Some(wraps));
    }

    #[test]
    fn a_wrong_rate_is_a_skew_and_no_wrap(pair in pair(), permille in 20_u64..300, slow: bool) {
        let kernel_khz = match slow {
            true => pair.kernel_khz * (1000 + permille) / 1000,
            false => pair.kernel_khz * 1000 / (1000 + permille),
        };
        let labels = Pair { kernel_khz, ..pair }.labels();
        prop_assert_eq!(labels, vec![Label::TscWatchdogSkew]);
    }

    #[test]
    fn a_small_rate_error_is_undecided(pair in pair(), ppm in 200_u64..5_000) {
        let kernel_khz = pair.kernel_khz + pair.kernel_khz * ppm / 1_000_000;
        let labels = Pair { kernel_khz, ..pair }.labels();
        prop_assert!(labels.contains(&Label::NeedsRateMeasurement), "{labels:?}");
        prop_assert!(!labels.contains(&Label::WatchdogFalsePositiveLikely));
    }

    #[test]
    fn clocks_that_agree_are_a_false_positive(pair in pair(), ms in 400_u64..4_600) {
        let labels = Pair { elapsed_ns: ms * 1_000_000, ..pair }.labels();
        prop_assert!(labels.contains(&Label::WatchdogFalsePositiveLikely), "{labels:?}");
        prop_assert_eq!(labels.contains(&Label::TscWatchdogLongInterval), ms > 2_000);
    }

    #[test]
    fn a_stall_between_the_reads_is_torn(pair in pair(), ms in 3_300_u64..4_100) {
        // The reference is read so late that no TSC is slow enough to explain it.
        let tsc_hz = pair.tsc_hz.min(2_900_000_000);
        let torn = Pair { tsc_hz, kernel_khz: tsc_hz / 1_000, torn_ns: ms * 1_000_000, ..pair };
        let labels = torn.labels();
        let is_slow = tsc_hz / 2 * 1_000 / (500 + ms) < 400_000_000 - 1_000_000;
        if is_slow {
            prop_assert!(labels.contains(&Label::WatchdogReadsTorn), "{labels:?}");
        }
        prop_assert!(!labels.contains(&Label::WatchdogCounterWrapped), "{labels:?}");
    }

    #[test]
    fn a_counter_that_is_lower_went_backwards(last in 1_u64.., back in 1_u64.., rate in 500.0..5_000.0_f64) {
        let now = last - 1 - (back % last).min(last - 1);
        let watched = EventKind::Reading(Role::Watched, Count { name: "tsc".to_owned(), nsec: None, now, last, mask: u64::MAX,
        });
        let labels = found(vec![EventKind::DetectedProcessor(rate), watched]);
        prop_assert!(labels.contains(&Label::TscWentBackwards), "{labels:?}");
        prop_assert!(!labels.contains(&Label::TscJumped));
    }

    #[test]
    fn no_numbers_make_it_panic(kinds in prop::collection::vec(any_kind(), 0..14)) {
        let facts = facts(kinds);
        for finding in find(&facts, &Verdict::default()) {
            prop_assert!(finding.detail.iter().all(|sentence| !sentence.contains("NaN")));
        }
    }

    #[test]
    fn no_interval_makes_it_panic(
        numbers in prop::array::uniform4(prop_oneof![Just(0.0), Just(f64::MAX), Just(-1.0), any::<f64>()]),
        is_new_format: bool,
    ) {
        let [elapsed, counted, skew, wrap] = numbers;
        let interval = Interval {
            reference: Some("acpi_pm".to_owned()),
            elapsed_ns: Some(elapsed),
            counted_ns: Some(counted),
            skew_ns: Some(skew),
            wrap_ns: Some(wrap),
            implied_hz: Some(counted / elapsed),
            is_new_format,
            ..Interval::default()
        };
        prop_assert!(labels(&interval).len() < 9);
    }
}

fn any_name() -> impl Strategy<Value = String> {
    let names =
        ["tsc", "tsc-early", "acpi_pm", "hpet", "kvm-clock", "xen", "jiffies", "sgi_rtc", ""];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(0xff_ffff), Just(1 << 63), any::<u64>()]
}

fn any_signed() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), Just(i64::MIN), Just(i64::MAX), any::<i64>()]
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let role = prop::sample::select(vec![Role::Reference, Role::SecondReference, Role::Watched]);
    let why = prop::sample::select(vec![Mark::Skew, Mark::FrequencySkew, Mark::CpuSkew]);
    let numbers = prop::array::uniform3(any_number());
    let reading = (role.clone(), any_name(), any::<Option<i64>>(), numbers).prop_map(
        |(role, name, nsec, [now, last, mask])| {
            EventKind::Reading(role, Count { name, nsec, now, last, mask })
        },
    );
    let skewed = (any_name(), any_signed(), any_name(), any_signed()).prop_map(
        |(name, skew_ns, reference, interval_ns)| EventKind::Skewed {
            name,
            skew_ns,
            reference,
            interval_ns,
        },
    );
    let registered = (any_name(), prop::array::uniform2(any_number())).prop_map(
        |(name, [max_cycles, max_idle_ns])| EventKind::Registered { name, max_cycles, max_idle_ns },
    );
    prop_oneof![
        reading,
        skewed,
        registered,
        (any_name(), why).prop_map(|(name, why)| EventKind::Marked { name, why }),
        (any_name(), any_signed())
            .prop_map(|(name, delta_ns)| EventKind::OldDelta { name, delta_ns }),
        (role, any_name(), any_signed())
            .prop_map(|(role, name, nsec)| EventKind::Interval(role, name, nsec)),
        (any_number(), any_number())
            .prop_map(|(first, second)| EventKind::CpuCycles { first, second }),
        (any_number(), any::<bool>()).prop_map(|(nsec, marks)| EventKind::ReadDelay {
            name: None,
            nsec: Some(nsec),
            alone: None,
            marks
        }),
        any_name().prop_map(EventKind::Switched),
        any::<f64>().prop_map(EventKind::Refined),
        Just(EventKind::unstable("clocksource watchdog")),
        Just(EventKind::Suspended(true)),
        Just(EventKind::HpetPc10),
    ]
}
