//! `fastclock::Instant` and the standard library's: the same program with each gives the same
//! results and the same panics.

#![cfg(feature = "std")]

use std::collections::HashMap;
use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};
use std::time::Duration;

use fastclock::{Clock, Monotonic, Nanos};
use proptest::prelude::*;

/// A year of 365 days.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Typical uses of an `Instant`, for the type that is given.
macro_rules! program {
    ($name:ident, $instant:ty) => {
        mod $name {
            use super::*;

            type Instant = $instant;

            fn is_a_plain_value<T>(_: T)
            where
                T: Copy + Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + std::fmt::Debug + Ord,
                T: std::hash::Hash + 'static,
            {
            }

            /// All results of two durations applied to an instant, as durations from it; `None` on
            /// overflow.
            pub(super) fn outcomes(add: Duration, subtract: Duration) -> Vec<Option<Duration>> {
                let base = Instant::now();
                let after = |instant: Instant| instant.checked_duration_since(base);
                let before = |instant: Instant| base.checked_duration_since(instant);
                let later = base.checked_add(add);
                let earlier = base.checked_sub(subtract);
                let mut outcomes = vec![
                    later.and_then(after),
                    later.and_then(before),
                    earlier.and_then(after),
                    earlier.and_then(before),
                    later.map(|later| later.duration_since(base)),
                    later.map(|later| base.duration_since(later)),
                    later.map(|later| base.saturating_duration_since(later)),
                    later.map(|later| base - later),
                    later.map(|later| later - base),
                    later.and_then(|later| later.checked_sub(subtract)).and_then(after),
                    earlier.and_then(|earlier| earlier.checked_add(add)).and_then(after),
                    catch_unwind(|| base + add).ok().and_then(after),
                    catch_unwind(|| base - subtract).ok().and_then(before),
                    catch_unwind(|| (base + add) - base).ok(),
                ];
                outcomes.extend(later.zip(earlier).map(|(later, earlier)| {
                    assert_eq!(later.cmp(&base), add.cmp(&Duration::ZERO));
                    assert_eq!(earlier.cmp(&base), Duration::ZERO.cmp(&subtract));
                    assert_eq!(later == base, add.is_zero());
                    Some(later - earlier)
                }));
                outcomes
            }

            /// The message of a panic.
            fn said(work: impl FnOnce() -> Instant + UnwindSafe) -> String {
                let panic = catch_unwind(work).unwrap_err();
                *panic.downcast::<String>().unwrap()
            }

            fn changed(mut instant: Instant, change: impl FnOnce(&mut Instant)) -> Instant {
                change(&mut instant);
                instant
            }

            pub(super) fn panics() -> [String; 4] {
                let now = Instant::now();
                [
                    said(move || now + Duration::MAX),
                    said(move || now - Duration::MAX),
                    said(move || changed(now, |sum| *sum += Duration::MAX)),
                    said(move || changed(now, |difference| *difference -= Duration::MAX)),
                ]
            }

            #[test]
            fn a_program_times_its_work() {
                let start = Instant::now();
                is_a_plain_value(start);
                let deadline = start + Duration::from_millis(2);
                let mut turns = 0_u64;
                while Instant::now() < deadline {
                    turns += 1;
                }
                assert!(turns > 0 && start.elapsed() >= Duration::from_millis(2));
                assert_eq!((start + YEAR).elapsed(), Duration::ZERO, "in the future");

                let mut moved = start;
                moved += Duration::from_secs(3);
                moved -= Duration::from_secs(1);
                assert_eq!(moved.duration_since(start), Duration::from_secs(2));

                let mut seen = HashMap::from([(start, "start"), (moved, "moved")]);
                seen.insert(start, "again");
                assert_eq!((seen.len(), seen[&start]), (2, "again"));
                assert_eq!([moved, start, deadline].iter().max(), Some(&moved));
                assert!(!format!("{start:?}").is_empty());
            }
        }
    };
}

program!(ours, fastclock::Instant);
program!(standard, std::time::Instant);

#[test]
fn it_panics_in_the_standard_librarys_words() {
    assert_eq!(ours::panics(), standard::panics());
}

proptest! {
    #[test]
    fn it_adds_and_subtracts_as_the_standard_librarys(
        add in durations(), subtract in durations(),
    ) {
        prop_assert_eq!(ours::outcomes(add, subtract), standard::outcomes(add, subtract));
    }
}

/// Durations that both types can add and subtract, and durations that neither can.
fn durations() -> impl Strategy<Value = Duration> {
    let nanos = |most: Duration| 0..=u64::try_from(most.as_nanos()).unwrap();
    prop_oneof![
        8 => nanos(YEAR * 100).prop_map(Duration::from_nanos),
        2 => nanos(Duration::from_millis(1)).prop_map(Duration::from_nanos),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

#[test]
fn it_ends_after_two_hundred_and_ninety_two_years() {
    let last = fastclock::Instant::from(Monotonic(Nanos(i64::MAX)));
    assert_eq!(last.checked_add(Duration::from_nanos(1)), None);
    assert_eq!(last.checked_add(Duration::ZERO), Some(last));
    let first = fastclock::Instant::from(Monotonic(Nanos(i64::MIN)));
    assert_eq!(first.checked_sub(Duration::from_nanos(1)), None);
    assert_eq!(last.duration_since(first), Duration::from_nanos(u64::MAX));
    assert_eq!(first.checked_add(Duration::from_nanos(u64::MAX)), Some(last));
    assert_eq!(last.checked_sub(Duration::from_nanos(u64::MAX)), Some(first));
}

#[test]
fn it_is_a_reading_of_the_global_clock() {
    let before = Clock::global().now();
    let instant = fastclock::Instant::now();
    assert!(before <= instant.into() && Monotonic::from(instant) <= Clock::global().now());
    assert_eq!(Monotonic::from(fastclock::Instant::from(before)), before);
    let first = fastclock::Instant::now_fast();
    assert!(fastclock::Instant::now_fast() >= first);
}
