//! The shortest way to seconds and nanoseconds.

use super::*;

const LOW: u64 = 0xffff_ffff;

fn trusted<'a, C: Counter>(
    page: &'a Page,
    trust: &'a Trust,
    machine: &'a Machine,
    counter: C,
    base: u64,
) -> Reader<'a, C, &'a Machine> {
    let mut content = machine.content(1 << 40, 0, 1 << 33);
    content.line.base = Ticks(base);
    Writer::create(page, [0; 2], 1).publish(content);
    trust.keep(page, page.head.load(Relaxed));
    Reader { page, trust, counter, kernel: machine }
}

#[test]
fn it_is_the_same_time_also_after_the_low_half_began_anew() {
    for low in [0, 5, 1 << 31, LOW - 1000, LOW] {
        for passed in [0, 1, 1000, LOW / 2, LOW - 5, LOW, LOW + 2, (1 << 33) - 1] {
            let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
            let base = (77 << 32) + low;
            let reader = trusted(&page, &trust, &machine, &machine, base);
            machine.step.set(0);
            machine.ticks.set(base + passed);
            for clock in [PageClock::Monotonic, PageClock::Realtime] {
                for order in [Order::Ordered, Order::Unordered] {
                    let short = reader.try_timespec(clock, order);
                    let long = reader.timespec(clock, order);
                    // A time more than a second above the base's second takes the long way.
                    let near = short.is_some() || passed > 1_000_000_000;
                    assert!(near && short.is_none_or(|short| short == long), "{low} {passed}");
                }
            }
            machine.ticks.set(base + (1 << 33));
            assert_eq!(reader.try_timespec(PageClock::Monotonic, Order::Ordered), None);
        }
    }
}

/// Checks a CPU's own forms of [`Counter`] on this machine's counter.
pub(crate) fn check_counter<C: Counter + Copy>(counter: C) {
    let now = counter.ordered().0;
    // 0 in the first seconds after a boot if the counter is slow.
    let anew = now & !LOW;
    for base in [now, now - 1000, anew, anew.saturating_sub(1), anew.saturating_sub(10_000)] {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        let reader = trusted(&page, &trust, &machine, counter, base);
        let mut last = TimeSpec::default();
        for _ in 0..1000 {
            let before = reader.timespec(PageClock::Monotonic, Order::Ordered);
            let short = reader.try_timespec(PageClock::Monotonic, Order::Ordered);
            let after = reader.timespec(PageClock::Monotonic, Order::Ordered);
            let far = counter.ordered().0 - base > 2_000_000_000;
            let Some(short) = short else {
                assert!(far, "{now:#x} {base:#x}");
                continue;
            };
            assert!(last <= before && before <= short && short <= after, "{now:#x} {base:#x}");
            last = after;
        }
    }
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let bases = [Some(now + (1 << 40)), now.checked_sub(1 << 40), Some(now + 1_000_000_000)];
    for base in bases.into_iter().flatten() {
        let reader = trusted(&page, &trust, &machine, counter, base);
        assert_eq!(reader.try_timespec(PageClock::Monotonic, Order::Ordered), None);
    }
}

/// The counter of a CPU whose counter is not known.
#[derive(Clone, Copy)]
struct Standing;

impl Counter for Standing {
    fn ordered(&self) -> Ticks {
        Ticks((77 << 32) + 5_000)
    }

    fn unordered(&self) -> Ticks {
        Ticks((77 << 32) + 5_000)
    }
}

#[test]
fn a_counter_that_stands_gives_it_too() {
    check_counter(Standing);
}
