//! A thread has compared a head and loses its CPU before it trusts the head, while another thread
//! goes over to the kernel.

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::*;

/// Distance of the page from the kernel's clock, in either direction, ns.
const OFF: i64 = 15_000;

/// Interrupts a thread at two of its reads of the counter or of the kernel's clock.
struct Interrupted<'a> {
    machine: &'a Machine,
    /// Reads that are left until the first interruption.
    left: Cell<i32>,
    /// Number of reads between the first interruption and the second.
    again: i32,
    /// Distance by which the thread sees `CLOCK_REALTIME` set; the other thread does not.
    set: Cell<i64>,
    happens: &'a dyn Fn(),
}

impl Interrupted<'_> {
    fn look(&self) {
        let left = self.left.get();
        self.left.set(left - 1);
        if left == 0 || left == -self.again {
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
        let set = if clock == ClockId::Realtime { self.set.get() } else { 0 };
        Nanos(time.0 + set)
    }

    fn declined(&self, _: Decline) {}
}

type Thread<'a> = Reader<'a, &'a Interrupted<'a>, &'a Interrupted<'a>>;

/// A thread reads a page that is `off` ns ahead of the kernel's clock. At each of its reads of a
/// clock, and again at one of the following reads, `happens` runs; then `after` runs.
fn at_every_look(
    off: i64,
    reads: impl Fn(&Thread<'_>),
    happens: impl Fn(&Page, &Trust, &Machine),
    after: impl Fn(&Page, &Trust, &Machine),
) {
    for (looks, again) in (0..1_000).flat_map(|looks| (1..12).map(move |again| (looks, again))) {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        machine.step.set(200);
        let content = machine.content(machine.now() - 1_000, off, 1 << 40);
        Writer::create(&page, [0; 2], 1).publish(content);
        let happens = || happens(&page, &trust, &machine);
        let (left, set) = (Cell::new(looks), Cell::new(0));
        let counter = Interrupted { machine: &machine, left, again, set, happens: &happens };
        let thread = Reader { page: &page, trust: &trust, counter: &counter, kernel: &counter };
        reads(&thread);
        if counter.left.get() >= 0 {
            // The thread does fewer reads than `looks`.
            assert!(looks > 1, "only {looks} looks");
            return;
        }
        after(&page, &trust, &machine);
    }
    panic!("a reading has more looks than that");
}

fn read_once(reader: &Thread<'_>) {
    let _ = reader.bounded(PageClock::Monotonic, Order::Ordered);
}

/// Another thread reads the page, which is ahead, while the first takes the kernel's answer; then
/// the line ends. The other thread's next answer is not below its last.
fn never_back_at_the_end(reads: impl Fn(&Thread<'_>)) {
    let before = Cell::new(Nanos::ZERO);
    at_every_look(
        OFF,
        reads,
        |page, trust, machine| {
            machine.pass(10_000);
            let now = mono(&reader(page, trust, machine)).time;
            assert!(now >= before.get(), "{} ns back", before.get().0 - now.0);
            before.set(now);
        },
        |page, trust, machine| {
            let old = Content::load(&page.slots[(page.head.load(Relaxed) & 1) as usize]);
            let span = Ticks(machine.now() - old.line.base.0);
            let mut writer = Writer::resume(page, [0; 2], 1).unwrap();
            writer.publish(Content { span, ..old });
            let now = mono(&reader(page, trust, machine));
            assert_eq!(now.declined, Some(Decline::Expired));
            let before = before.take();
            assert!(now.time >= before, "{} ns back", before.0 - now.time.0);
        },
    );
}

#[test]
fn a_reading_while_another_thread_is_in_a_hurry_is_followed_by_none_below_it() {
    never_back_at_the_end(|reader| {
        read_once(reader);
        let _ = reader.hurried(PageClock::Monotonic);
    });
}

/// `CLOCK_REALTIME` was set while the thread compared the clocks, and set back: the other thread
/// finds that they agree.
#[test]
fn a_reading_while_another_thread_rejects_the_page_is_followed_by_none_below_it() {
    never_back_at_the_end(|reader| {
        read_once(reader);
        reader.trust.withdraw();
        reader.kernel.set.set(-2_000_000_000);
        read_once(reader);
    });
}

/// A thread loses its CPU while it marks a head as trusted, and goes on when another line is in
/// use.
#[test]
fn a_thread_that_trusts_a_head_too_late_does_not_hide_the_line_in_use() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let writer = RefCell::new(Writer::create(&page, [0; 2], 1));
    let publish = |content| writer.borrow_mut().publish(content);
    publish(machine.content(machine.now() - 1_000, OFF, 1_000_000));
    let head = page.head.load(Relaxed);
    assert!(trust.copy(&page, head));
    let (before, other) = (trust.checked.load(Relaxed), reader(&page, &trust, &machine));
    let ahead = Content {
        bound: Bound { at_base: 20_000, growth: 0 },
        ..machine.content(machine.now() + 1_000_000, OFF, 1 << 40)
    };
    trust.trusts(trust.free().unwrap(), before, head, || {
        machine.pass(2_000_000);
        publish(ahead);
        assert_eq!(mono(&other).declined, None);
        true
    });
    machine.pass(100_000);
    let last = mono(&other);
    assert_eq!(last.declined, None);
    publish(Content { span: Ticks(machine.now() - ahead.line.base.0), ..ahead });
    let after = mono(&other);
    assert_eq!(after.declined, Some(Decline::Expired));
    assert!(after.time >= last.time, "{} ns back", last.time.0 - after.time.0);
}

/// The other thread gets an answer `by` some form of reading; its next answer is not below it.
fn never_back(by: impl Fn(&Reader<'_, &Machine, &Machine>) -> Bounded) {
    let before = Cell::new(Nanos::ZERO);
    at_every_look(
        -OFF,
        read_once,
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

/// Like clockscope's tracer when a thread has forbidden itself the counter.
#[test]
fn the_counter_is_not_read_when_it_has_been_forbidden() {
    at_every_look(
        -OFF,
        read_once,
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
