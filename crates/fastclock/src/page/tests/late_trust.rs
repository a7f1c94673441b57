//! A thread that has compared a head and is kept from its CPU before it says so, while another one goes over to
//! the kernel.

use core::sync::atomic::Ordering::Release;

use super::*;

/// How far the page is behind the kernel's clock, ns.
const BEHIND: i64 = 15_000;

/// What happens at one look of a thread at the counter or at the kernel's clock.
struct Interrupted<'a> {
    machine: &'a Machine,
    /// Looks that are left until then.
    left: Cell<i32>,
    happens: &'a dyn Fn(),
}

impl Interrupted<'_> {
    fn look(&self) {
        let left = self.left.get();
        self.left.set(left - 1);
        if left == 0 {
            (self.happens)();
        }
    }
}

impl Counter for &Interrupted<'_> {
    fn ordered(&self) -> Ticks {
        let ticks = self.machine.ordered();
        self.look();
        ticks
    }

    fn unordered(&self) -> Ticks {
        self.ordered()
    }
}

impl Kernel for &Interrupted<'_> {
    fn read(&self, clock: ClockId) -> Nanos {
        let time = self.machine.read(clock);
        self.look();
        time
    }

    fn declined(&self, _: Decline) {}
}

/// A thread reads, and at each of its looks once something `happens` in between; then `after`.
fn at_every_look(
    happens: impl Fn(&Page, &Trust, &Machine),
    after: impl Fn(&Page, &Trust, &Machine),
) {
    for left in 0..1_000 {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        machine.step.set(200);
        let content = machine.content(machine.now() - 1_000, -BEHIND, 1 << 40);
        Writer::create(&page, [0; 2], 1).publish(content);
        let happens = || happens(&page, &trust, &machine);
        let counter = Interrupted { machine: &machine, left: Cell::new(left), happens: &happens };
        let thread = Reader { page: &page, trust: &trust, counter: &counter, kernel: &counter };
        let _ = thread.bounded(PageClock::Monotonic, Order::Ordered);
        if counter.left.get() >= 0 {
            // It has fewer looks than that.
            assert!(left > 10, "only {left} looks");
            return;
        }
        after(&page, &trust, &machine);
    }
    panic!("a reading has more looks than that");
}

/// The other thread has an answer `by` some way; its next one is not below that.
fn never_back(by: impl Fn(&Reader<'_, &Machine, &Machine>) -> Bounded) {
    let before = Cell::new(Nanos::ZERO);
    at_every_look(
        |page, trust, machine| before.set(by(&reader(page, trust, machine)).time),
        |page, trust, machine| {
            for clock in [PageClock::Monotonic, PageClock::Boottime] {
                let now = reader(page, trust, machine).bounded(clock, Order::Ordered);
                let offset = if clock == PageClock::Boottime { OFFSETS.boot.0 } else { 0 };
                let back = before.get().0 + offset - now.time.0;
                assert!(back <= 0, "{back} ns back: {now:?}");
            }
        },
    );
}

#[test]
fn an_answer_in_a_hurry_is_followed_by_none_below_it() {
    never_back(|reader| reader.hurried(PageClock::Monotonic));
}

#[test]
fn a_rejection_is_followed_by_no_answer_below_it() {
    never_back(|reader| {
        reader.kernel.set.set(-2_000_000_000);
        let answer = reader.slow(PageClock::Monotonic);
        reader.kernel.set.set(0);
        answer
    });
}

/// As `clockscope`'s tracer does it when a thread has forbidden itself the counter.
#[test]
fn the_counter_is_not_read_when_it_has_been_forbidden() {
    at_every_look(
        |_, trust, machine| {
            let floor = machine.kernel(ClockId::Monotonic) + 20_000;
            trust.forbidden.store(floor, Release);
            trust.checked.store(0, Release);
        },
        |page, trust, machine| {
            let reader = reader(page, trust, machine);
            assert_eq!(reader.at_once(PageClock::Monotonic, Order::Ordered), None);
            assert_eq!(mono(&reader).declined, Some(Decline::Forbidden));
        },
    );
}
