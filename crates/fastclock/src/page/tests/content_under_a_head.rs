//! A page whose content changes under a head that was already compared: an attack by its owner, or
//! a memory fault.

use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

/// The time of a clock by every form of reading.
fn all_forms<'a>(reader: &Reader<'a, &'a Machine, &'a Machine>, clock: PageClock) -> [Nanos; 7] {
    let nanos = |spec: TimeSpec| Nanos::from_timespec(spec.sec, spec.nsec);
    let short = |order| reader.try_timespec(clock, order).map_or(Nanos::ZERO, nanos);
    [
        reader.nanos(clock, Order::Ordered),
        reader.nanos(clock, Order::Unordered),
        reader.bounded(clock, Order::Ordered).time,
        nanos(reader.timespec(clock, Order::Ordered)),
        short(Order::Ordered),
        short(Order::Unordered),
        reader.slow(clock).time,
    ]
}

/// A content that is three seconds ahead of another.
fn far_ahead(content: Content) -> Content {
    let mono = Nanos(content.line.mono.0 + 3_000_000_000);
    Content { line: Line { mono, ..content.line }, ..content }
}

/// Writes into the current slot without a new head.
fn overwrite(page: &Page, content: &Content) {
    content.store(&page.slots[(page.head.load(Relaxed) & 1) as usize]);
}

proptest! {
    #[test]
    fn what_was_compared_is_what_is_read(
        base in 0_u64..1 << 41, origin in 0..i64::MAX / 4, fraction in 1_u64 << 58.., span: u64,
        real in 0..i64::MAX / 4, late in 1_u64..1 << 30,
    ) {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        machine.step.set(0);
        let mut writer = Writer::create(&page, [0; 2], 1);
        let good = machine.content(machine.now() - 1_000, 0, 1 << 40);
        writer.publish(good);
        let reader = reader(&page, &trust, &machine);
        prop_assert_eq!(mono(&reader).declined, None);
        overwrite(&page, &Content {
            line: Line { base: Ticks(base), mono: Nanos(origin), tick: TickLength { whole: 0, fraction } },
            span: Ticks(span),
            offsets: Offsets { real: Nanos(real), ..OFFSETS },
            ..good
        });
        machine.pass(late);
        for clock in CLOCKS {
            let expected = good.time(Ticks(machine.now()), clock).unwrap();
            prop_assert_eq!(all_forms(&reader, clock), [expected; 7], "{:?}", clock);
        }
        prop_assert!(machine.declined.borrow().is_empty());
    }
}

#[test]
fn the_line_before_is_the_one_that_was_compared_too() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    machine.step.set(0);
    let mut writer = Writer::create(&page, [0; 2], 1);
    let old = machine.content(machine.now() - 1_000, 0, 1 << 40);
    let ahead = machine.content(machine.now() + 10_000, 0, 1 << 40);
    writer.publish(Content { previous: Some(old.line), ..ahead });
    let reader = reader(&page, &trust, &machine);
    assert_eq!(mono(&reader).declined, None);
    let wrong = Line { mono: Nanos(old.line.mono.0 - 5_000_000), ..old.line };
    overwrite(&page, &Content { previous: Some(wrong), ..ahead });
    for clock in CLOCKS {
        let expected = old.line.at(Ticks(machine.now())).unwrap().0 + old.offset(clock).0;
        let answer = reader.bounded(clock, Order::Ordered);
        assert_eq!((answer.time.0, answer.declined), (expected, None), "{clock:?}");
    }
}

/// The page's owner moves the head on, lets a thread copy the content there, and sets the head
/// back.
#[test]
fn a_head_that_is_set_back_is_not_believed_again() {
    for (first, on) in (2..=5).flat_map(|first| (1..=16).map(move |on| (first, on))) {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        let good = machine.content(machine.now() - 1_000, 0, 1 << 40);
        let bad = far_ahead(good);
        let mut writer = Writer::create(&page, [0; 2], 1);
        while page.head.load(Relaxed) < first {
            writer.publish(good);
        }
        let reader = reader(&page, &trust, &machine);
        assert_eq!(mono(&reader).declined, None);
        bad.store(&page.slots[((first + on) & 1) as usize]);
        page.head.store(first + on, Release);
        assert!(trust.copy(&page, first + on));
        page.head.store(first, Release);
        let expected = || machine.kernel(ClockId::Monotonic);
        for answer in all_forms(&reader, PageClock::Monotonic) {
            let off = expected() - answer.0;
            let is_good = answer == Nanos::ZERO || (0..2_000).contains(&off);
            assert!(is_good, "{first} + {on}: {off} ns off");
        }
    }
}

/// Like an attacking owner: rewrites the slot again and again while it is read.
#[test]
fn no_read_is_wrong_while_the_pages_owner_rewrites_the_slot() {
    let (page, trust) = (Page::new(), Trust::new());
    let (stop, attacks) = (AtomicBool::new(false), AtomicU64::new(0));
    let machine = Machine::new();
    machine.step.set(0);
    let good = machine.content(machine.now() - 1_000, 0, 1 << 40);
    Writer::create(&page, [0; 2], 1).publish(good);
    let reader = reader(&page, &trust, &machine);
    assert_eq!(mono(&reader).declined, None);
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| {
            let bad = far_ahead(good);
            while !stop.load(Acquire) {
                overwrite(&page, &bad);
                overwrite(&page, &good);
                attacks.fetch_add(1, Relaxed);
            }
        });
        let expected = good.time(Ticks(machine.now()), PageClock::Monotonic).unwrap();
        let begun = attacks.load(Relaxed);
        let (mut reads, mut wrong) = (0, 0);
        while reads < 60_000 || attacks.load(Relaxed) < begun + 1_000 {
            reads += 1;
            wrong += u64::from(reader.nanos(PageClock::Monotonic, Order::Ordered) != expected);
        }
        stop.store(true, Release);
        wrong
    });
    assert_eq!(wrong, 0, "reads were wrong");
}
