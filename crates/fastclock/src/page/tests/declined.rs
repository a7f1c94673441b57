//! If a process has gone over to the kernel, the short way gives the same answer as the long way.

use super::*;

/// The history of a page that a process reads.
type Story = fn(&Page, &Trust, &Machine);

fn used<'a>(page: &'a Page, trust: &Trust, machine: &Machine, off: i64) -> Writer<'a> {
    let mut writer = Writer::create(page, [0; 2], 1);
    writer.own(4711);
    writer.publish(machine.content(machine.now(), off, 1 << 30));
    machine.pass(100);
    assert_eq!(mono(&reader(page, trust, machine)).declined, None);
    writer
}

/// States in which the kernel answers, now and later.
const STORIES: [Story; 10] = [
    |_, _, _| (),
    |page, _, _| Writer::create(page, [0; 2], 1).own(4711),
    |page, _, _| {
        Writer::create(page, [0; 2], 1).own(4711);
        page.head.fetch_or(OWNER_DIED, Relaxed);
    },
    |page, _, _| Writer::create(page, [0; 2], 1).publish(Content::none(Decline::Warp)),
    |page, trust, machine| {
        used(page, trust, machine, 0);
        page.head.fetch_or(OWNER_DIED, Relaxed);
    },
    |page, trust, machine| {
        used(page, trust, machine, 15_000);
        page.head.fetch_or(OWNER_DIED, Relaxed);
    },
    |page, trust, machine| {
        used(page, trust, machine, 0);
        machine.pass(1 << 31);
    },
    |page, trust, machine| {
        used(page, trust, machine, 9_000).end(&machine, LEAD, Decline::Jumped);
        machine.pass(LEAD.0);
    },
    |page, trust, machine| {
        let wrong = machine.content(machine.now(), 500_000_000, 1 << 40);
        used(page, trust, machine, 0).publish(wrong);
    },
    |page, trust, machine| {
        let mut wrong = machine.content(machine.now(), 0, 1 << 40);
        wrong.bound.at_base = 1 << 40;
        used(page, trust, machine, 0).publish(wrong);
    },
];

#[test]
fn it_says_the_same_in_every_state() {
    for (number, story) in STORIES.into_iter().enumerate() {
        for first in CLOCKS {
            let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
            story(&page, &trust, &machine);
            let reader = reader(&page, &trust, &machine);
            let clocks = [first].into_iter().chain(CLOCKS);
            for (clock, set) in clocks.flat_map(|clock| [(clock, 0), (clock, -20_000_000)]) {
                machine.set.set(set);
                let _ = reader.bounded(clock, Order::Ordered);
                // The machine's time stands still, so that both ways see the same time.
                machine.step.set(0);
                let [long, short] = [reader.slowly(clock), reader.slow(clock)];
                machine.step.set(20);
                assert!(long.declined.is_some(), "state {number}");
                assert_eq!(short, long, "state {number}, {clock:?}, set by {set}");
                let declined = machine.declined.take();
                assert_eq!(declined[declined.len() - 2..], [long.declined.unwrap(); 2]);
            }
        }
    }
}

#[test]
fn it_is_gone_without_a_look_at_the_counter() {
    for (number, story) in STORIES.into_iter().enumerate() {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        story(&page, &trust, &machine);
        let reader = reader(&page, &trust, &machine);
        let _ = mono(&reader);
        machine.pass(1_000_000); // past the floor
        let looks = machine.reads.get();
        for clock in [PageClock::Monotonic, PageClock::Realtime, PageClock::Tai] {
            assert!(reader.is_short(clock), "state {number}, {clock:?}");
        }
        assert_eq!(machine.reads.get(), looks);
    }
}

#[test]
fn it_is_not_gone_below_the_floor_nor_where_the_counter_is_forbidden() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    used(&page, &trust, &machine, 15_000);
    page.head.fetch_or(OWNER_DIED, Relaxed);
    let reader = reader(&page, &trust, &machine);
    let held = mono(&reader);
    assert!(held.time.0 > machine.kernel(ClockId::Monotonic));
    assert!(!reader.is_short(PageClock::Monotonic));
    assert_eq!(mono(&reader).time, held.time);
    machine.pass(1_000_000);
    assert!(reader.is_short(PageClock::Monotonic));
    trust.forbidden.store(machine.kernel(ClockId::Monotonic), Relaxed);
    assert!(!reader.is_short(PageClock::Monotonic));
    assert_eq!(mono(&reader).declined, Some(Decline::Forbidden));
}

#[test]
fn a_page_that_comes_back_is_used_again() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let mut writer = used(&page, &trust, &machine, 500);
    writer.end(&&machine, LEAD, Decline::Jumped);
    machine.pass(LEAD.0);
    let reader = reader(&page, &trust, &machine);
    let mut last = mono(&reader);
    for _ in 0..100 {
        let next = mono(&reader);
        assert_eq!(next.declined, Some(Decline::Jumped));
        assert!(next.time >= last.time);
        last = next;
    }
    writer.publish(machine.content(machine.now(), -500, 1 << 30));
    let back = mono(&reader);
    assert_eq!(back.declined, None);
    assert!(back.time >= last.time);
}
