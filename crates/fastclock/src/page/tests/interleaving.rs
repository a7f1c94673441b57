//! A writer that loses its CPU at any read of the counter, while readers go on.

use super::*;

/// A counter that, at each read by the writer, lets readers read and time pass.
struct Delayed<'a> {
    machine: &'a Machine,
    delays: &'a [u32],
    next: Cell<usize>,
    page: &'a Page,
    trusts: &'a [Trust],
    seen: &'a RefCell<Seen>,
}

/// The readers' answers: the last answer at each tick is compared with the next.
#[derive(Default)]
struct Seen {
    /// Readers that have read a head and a slot, and not yet the counter.
    asleep: Vec<(u64, Content)>,
    answers: Vec<(u64, Nanos)>,
    from_page: usize,
}

impl Delayed<'_> {
    fn pause(&self) {
        let next = self.next.get();
        self.next.set(next + 1);
        self.wake();
        self.read_all();
        self.machine.pass(u64::from(self.delays[next % self.delays.len()]));
        self.wake();
        self.read_all();
        self.machine.pass(20);
    }

    fn read_all(&self) {
        let mut seen = self.seen.borrow_mut();
        for trust in self.trusts {
            let answer = mono(&reader(self.page, trust, self.machine));
            if answer.declined.is_none() {
                seen.answers.push((self.machine.now(), answer.time));
                seen.from_page += 1;
            }
        }
    }

    /// Wakes a reader that was interrupted between its reads of the head and of the counter. It
    /// reads the head again; its answer counts only if the head is the same.
    fn wake(&self) {
        let mut seen = self.seen.borrow_mut();
        let head = self.page.head.load(Relaxed);
        let now = self.machine.now();
        for (read_under, content) in core::mem::take(&mut seen.asleep) {
            if read_under == head
                && let Some(time) = content.time(Ticks(now), PageClock::Monotonic)
            {
                seen.answers.push((now, time));
            }
        }
        let slot = Content::load(&self.page.slots[(head & 1) as usize]);
        seen.asleep.push((head, slot));
    }
}

impl Counter for &Delayed<'_> {
    fn ordered(&self) -> Ticks {
        // Pauses before the read of the counter, and after the read, before the value is used.
        self.pause();
        let ticks = self.machine.now();
        self.pause();
        Ticks(ticks)
    }

    fn unordered(&self) -> Ticks {
        self.ordered()
    }
}

fn delay() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0_u32..100, 2 => 0_u32..50_000, 1 => 0_u32..5_000_000, 1 => Just(19_999)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn time_is_one_function_of_the_counter_that_never_falls(
        delays in proptest::collection::vec(delay(), 1..40),
        lines in proptest::collection::vec((-500_i64..500, 1_000_u64..20_000_000, 0_u8..10), 1..20),
    ) {
        let (page, machine) = (Page::new(), Machine::new());
        let trusts = [Trust::new(), Trust::new()];
        let seen = RefCell::default();
        let counter = Delayed { machine: &machine, delays: &delays, next: Cell::new(0), page: &page, trusts: &trusts, seen: &seen };
        let mut writer = Writer::create(&page, [0; 2], 1);
        for (ppm, span, action) in lines {
            let fraction = TICK.fraction.saturating_add_signed(TICK.fraction as i64 / 1_000_000 * ppm);
            let tick = TickLength { whole: 0, fraction };
            let result = writer.renew(&&counter, LEAD, |old, begin| {
                let right = machine.content(begin.0, 300, span);
                let mono = old.and_then(|old| old.at(begin)).unwrap_or(right.line.mono);
                let off = mono.0.abs_diff(right.line.mono.0);
                Content { line: Line { mono, tick, ..right.line }, bound: Bound { at_base: 300 + off, growth: fraction / 1000 }, ..right }
            });
            prop_assert!(result.is_ok() || delays.iter().any(|&delay| delay > 10_000));
            (&&counter).ordered();
            match action {
                0 => writer.end(&&counter, LEAD, Decline::Jumped),
                // Killed at this point and started again.
                1 | 2 => writer = Writer::resume(&page, [0; 2], 2).unwrap(),
                _ => {}
            }
        }
        let mut answers = seen.into_inner().answers;
        answers.sort_by_key(|(ticks, _)| *ticks);
        let mut reached = (0, Nanos(0));
        for (ticks, time) in answers {
            prop_assert!(time >= reached.1, "{} at {ticks} after {:?}", time.0, reached);
            reached = (ticks, time);
        }
    }
}
