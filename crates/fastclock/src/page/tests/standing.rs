//! Every state of a page, and the reader's answer in it.

use super::*;

/// A page whose line has run for a while and is `off` ns ahead of the kernel's clock.
fn running<'a>(page: &'a Page, machine: &Machine, off: i64, span: u64) -> Writer<'a> {
    let mut writer = Writer::create(page, [0; 2], 1);
    writer.publish(machine.content(machine.now(), off, span));
    machine.pass(100);
    writer
}

/// Whether this was the kernel's time within the last 200 ns.
fn just_now(time: Nanos, machine: &Machine, clock: ClockId) -> bool {
    (0..200).contains(&(machine.kernel(clock) - time.0))
}

#[test]
fn a_page_of_zeroes_and_one_without_a_line_decline_with_starting() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    assert_eq!(page.check([0; 2]), Err(Decline::PageForeign));
    let reader = reader(&page, &trust, &machine);
    assert_eq!(mono(&reader).declined, Some(Decline::Starting));
    let writer = Writer::create(&page, [3, 4], 7);
    assert_eq!(writer.current(), None);
    assert_eq!(page.check([3, 4]), Ok(()));
    assert_eq!(page.check([3, 5]), Err(Decline::PageOfOtherBoot));
    let answer = mono(&reader);
    assert_eq!(answer.declined, Some(Decline::Starting));
    assert_eq!(answer.bound, Nanos(0));
    assert!(just_now(answer.time, &machine, ClockId::Monotonic));
    assert_eq!(*machine.declined.borrow(), [Decline::Starting; 2]);
}

#[test]
fn a_running_page_answers_all_four_clocks() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    running(&page, &machine, 0, 1 << 30);
    let reader = reader(&page, &trust, &machine);
    for clock in CLOCKS {
        let answer = reader.bounded(clock, Order::Ordered);
        assert_eq!(answer.declined, None);
        assert_eq!(answer.time.0, machine.kernel(clock.id()));
        assert!(answer.bound.0 >= 10);
    }
}

#[test]
fn before_its_base_a_line_needs_one_before_it() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let reader = reader(&page, &trust, &machine);
    let mut writer = Writer::create(&page, [0; 2], 1);
    let to_come = machine.content(machine.now() + 10_000, 0, 1 << 30);
    writer.publish(to_come);
    assert_eq!(mono(&reader).declined, Some(Decline::Starting));
    let before = machine.content(machine.now() - 100, 0, 1 << 30).line;
    writer.publish(Content { previous: Some(before), ..to_come });
    let answer = mono(&reader);
    assert_eq!((answer.declined, answer.time.0), (None, machine.kernel(ClockId::Monotonic)));
    machine.pass(10_000);
    assert_eq!(mono(&reader).declined, None);
}

#[test]
fn a_line_before_that_does_not_lead_to_the_line_is_refused() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let mut writer = Writer::create(&page, [0; 2], 1);
    let before = machine.content(machine.now() - 100, 0, 1 << 30).line;
    let jumps = machine.content(machine.now() + 10_000, 5_000_000, 1 << 30);
    writer.publish(Content { previous: Some(before), ..jumps });
    assert_eq!(mono(&reader(&page, &trust, &machine)).declined, Some(Decline::OtherClock));
}

#[test]
fn a_line_ends_after_span_and_grace() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let mut writer = Writer::create(&page, [0; 2], 1);
    let content = machine.content(machine.now(), 30, 1_000_000);
    writer.publish(Content { grace: Ticks(1_000_000), ..content });
    let reader = reader(&page, &trust, &machine);
    assert_eq!(mono(&reader).declined, None);
    machine.pass(1_500_000);
    assert_eq!(mono(&reader).declined, None, "in its grace");
    machine.pass(1_000_000);
    let answer = mono(&reader);
    assert_eq!(answer.declined, Some(Decline::Expired));
    assert!(just_now(answer.time, &machine, ClockId::Monotonic));
}

/// Also where the line is refused because the kernel's clock has departed from it.
#[test]
fn an_ended_page_says_why() {
    for (reason, departs) in Decline::ALL.into_iter().flat_map(|why| [(why, 0), (why, 500_000)]) {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        let mut writer = running(&page, &machine, 0, 1 << 30);
        let reader = reader(&page, &trust, &machine);
        assert_eq!(mono(&reader).declined, None);
        machine.ahead.set(departs);
        writer.end(&&machine, LEAD, reason);
        let at_once = (departs != 0).then_some(reason);
        assert_eq!(mono(&reader).declined, at_once, "a good line goes on for the lead");
        assert!(machine.now() < writer.current().unwrap().ends().0);
        machine.pass(LEAD.0);
        assert_eq!(mono(&reader).declined, Some(reason));
        assert_eq!(mono(&reader).declined, Some(reason), "and again");
    }
}

#[test]
fn the_end_of_a_line_is_said_ahead_of_it_however_late_the_writer_is() {
    let (page, machine) = (Page::new(), Machine::new());
    let mut writer = running(&page, &machine, 0, 1 << 40);
    machine.step.set(30_000); // each read of the counter takes 15 us
    writer.end(&&machine, LEAD, Decline::Jumped);
    let content = writer.current().copied().unwrap();
    assert!(content.ends().0 > machine.now());
    assert_eq!(content.state, State::Ended(Decline::Jumped));
}

#[test]
fn a_dead_owner_is_noticed_at_once_and_a_new_one_too() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let mut writer = running(&page, &machine, 700, 1 << 30);
    writer.own(4711);
    let reader = reader(&page, &trust, &machine);
    let page_time = mono(&reader);
    assert_eq!(page_time.declined, None);
    page.head.fetch_or(OWNER_DIED, Relaxed);
    let answer = mono(&reader);
    assert_eq!(answer.declined, Some(Decline::WriterDied));
    assert!(answer.time >= page_time.time, "700 ns ahead, and not back");
    let mut next = Writer::resume(&page, [0; 2], 8).unwrap();
    next.own(4712);
    assert_eq!(page.head.load(Relaxed) >> 32, 4712);
    let again = mono(&reader);
    assert_eq!(again.declined, None);
    assert!(again.time >= answer.time);
}

#[test]
fn another_clock_is_refused_in_each_of_the_four() {
    let wrong = [
        |content: &mut Content| content.line.mono.0 += 2_000_000,
        |content: &mut Content| content.line.mono.0 -= 30_000,
        |content: &mut Content| content.offsets.boot.0 += 3_000_000,
        |content: &mut Content| content.offsets.real.0 -= 3_000_000,
        |content: &mut Content| content.offsets.tai.0 += 1_000_000_000,
        // A bound of hours makes no clock right.
        |content: &mut Content| {
            content.line.mono.0 += 500_000_000;
            content.bound.at_base = 1 << 30;
        },
    ];
    for wrong in wrong {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        let mut content = machine.content(machine.now(), 0, 1 << 30);
        wrong(&mut content);
        Writer::create(&page, [0; 2], 1).publish(content);
        let reader = reader(&page, &trust, &machine);
        for clock in [PageClock::Monotonic, PageClock::Realtime] {
            let answer = reader.bounded(clock, Order::Ordered);
            assert_eq!(answer.declined, Some(Decline::OtherClock));
            assert!(just_now(answer.time, &machine, clock.id()));
        }
    }
}

#[test]
fn from_the_page_to_the_kernel_and_back_no_clock_goes_back() {
    for off in [-900, 0, 900, 15_000] {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        let mut writer = running(&page, &machine, off, 1 << 40);
        let reader = reader(&page, &trust, &machine);
        let mut last = Nanos(0);
        let mut fell = 0;
        for round in 0_i64..60 {
            for _ in 0..20 {
                let answer = mono(&reader);
                assert!(answer.time >= last, "{off}: {} after {}", answer.time.0, last.0);
                last = answer.time;
                fell += usize::from(answer.declined.is_some());
            }
            if round % 3 == 0 {
                writer.end(&&machine, LEAD, Decline::Jumped);
                machine.pass(LEAD.0 - 400);
            } else if round % 3 == 2 {
                let content = machine.content(machine.now(), off - round, 1 << 40);
                writer.publish(content);
            }
        }
        assert!(fell > 100);
    }
}

#[test]
fn a_clock_stands_still_for_a_second_at_most() {
    for (ahead, held) in [(900_000_000, true), (1_100_000_000, false)] {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        let mut writer = running(&page, &machine, 0, 1 << 40);
        let reader = reader(&page, &trust, &machine);
        let page_time = mono(&reader).time;
        // The counter has jumped, and with it the page's time; the kernel's clock has not.
        machine.pass(2 * 900_000_000 + 2 * 200_000_000 * u64::from(!held));
        machine.ahead.set(-ahead);
        writer.end(&&machine, Ticks(1), Decline::Jumped);
        let answer = mono(&reader);
        assert_eq!(answer.declined, Some(Decline::Jumped));
        let kernel = machine.kernel(ClockId::Monotonic);
        assert_eq!(answer.time.0 - kernel > 500_000_000, held, "{answer:?} {kernel}");
        assert!(answer.time >= page_time);
        // `CLOCK_REALTIME` is not held: it may legitimately be set back.
        let wall = reader.bounded(PageClock::Realtime, Order::Ordered).time.0;
        assert!(just_now(Nanos(wall), &machine, ClockId::Realtime));
    }
}

#[test]
fn a_page_that_becomes_garbage_does_not_move_the_floor() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let mut writer = running(&page, &machine, 0, 1 << 40);
    let reader = reader(&page, &trust, &machine);
    assert_eq!(mono(&reader).declined, None);
    writer.publish(machine.content(machine.now(), 500_000_000, 1 << 40));
    let answer = mono(&reader);
    assert_eq!(answer.declined, Some(Decline::OtherClock));
    assert!(answer.time.0 - machine.kernel(ClockId::Monotonic) < 1_000, "{answer:?}");
}

#[test]
fn a_counter_that_stands_still_ends_no_reader_in_a_loop() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    running(&page, &machine, -15_000, 1 << 40);
    machine.step.set(0);
    let answer = mono(&reader(&page, &trust, &machine));
    assert_eq!(answer.declined, Some(Decline::CounterStopped));
}

#[test]
fn a_reader_that_slept_through_a_renewal_looks_again() {
    // The head changes between the reads of the content and of the counter.
    struct Sleepy<'a>(&'a Machine, &'a RefCell<Writer<'a>>, Cell<u32>, Cell<u32>);
    impl Counter for &Sleepy<'_> {
        fn ordered(&self) -> Ticks {
            self.2.set(self.2.get() + 1);
            if self.2.get().wrapping_mul(0x9e37_79b1) >> 28 == 0 {
                let renewals = self.3.get() + 1;
                self.3.set(renewals);
                // Alternates by 400 ppm, so that the page stays near the kernel's clock.
                let change = [-400, 400][usize::from(renewals.is_multiple_of(2))];
                let fraction =
                    TICK.fraction.saturating_add_signed(TICK.fraction as i64 / 1_000_000 * change);
                let renewed = self.1.borrow_mut().renew(&self.0, LEAD, |old, begin| {
                    let mono = old.and_then(|old| old.at(begin)).unwrap_or_default();
                    let line = Line { base: begin, mono, tick: TickLength { whole: 0, fraction } };
                    Content { line, ..self.0.content(begin.0, 0, 1 << 40) }
                });
                assert_eq!(renewed, Ok(()));
                self.0.pass(2_000_000);
            }
            (&self.0).ordered()
        }
        fn unordered(&self) -> Ticks {
            self.ordered()
        }
    }
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    let writer = RefCell::new(running(&page, &machine, 5_000, 1 << 45));
    let sleepy = Sleepy(&machine, &writer, Cell::new(0), Cell::new(0));
    let reader = Reader { page: &page, trust: &trust, counter: &sleepy, kernel: &machine };
    let mut last = Nanos(0);
    for _ in 0..2_000 {
        let answer = reader.bounded(PageClock::Monotonic, Order::Ordered);
        assert!(answer.time >= last, "{} after {}", answer.time.0, last.0);
        last = answer.time;
    }
}

#[test]
fn the_count_of_a_head_goes_round_without_zero() {
    let (page, machine) = (Page::new(), Machine::new());
    page.head.store(0xffff_fffd, Relaxed);
    let mut writer = Writer::create(&page, [0; 2], 1);
    writer.own(9);
    let mut slots = Vec::new();
    for _ in 0..4 {
        writer.publish(machine.content(machine.now(), 0, 1 << 30));
        slots.push(page.head.load(Relaxed));
    }
    let owner = 9 << 32;
    assert_eq!(slots, [owner | 0xffff_ffff, owner | 2, owner | 3, owner | 4]);
}

#[test]
fn only_a_sound_page_of_this_boot_is_resumed() {
    let (page, machine) = (Page::new(), Machine::new());
    assert_eq!(Writer::resume(&page, [1, 2], 3).unwrap_err(), Decline::PageForeign);
    running(&page, &machine, 0, 1 << 30);
    page.boot_id[0].store(1, Relaxed);
    assert_eq!(Writer::resume(&page, [1, 2], 3).unwrap_err(), Decline::PageOfOtherBoot);
    assert!(Writer::resume(&page, [1, 0], 3).is_ok());
    page.version.store(2, Relaxed);
    assert_eq!(Writer::resume(&page, [1, 0], 3).unwrap_err(), Decline::PageVersion);
    page.version.store(VERSION, Relaxed);
    page.size.store(8192, Relaxed);
    assert_eq!(Writer::resume(&page, [1, 0], 3).unwrap_err(), Decline::PageDamaged);
    page.size.store(4096, Relaxed);
    page.slots[0].fraction.store(1, Relaxed);
    page.slots[1].fraction.store(1, Relaxed);
    assert_eq!(Writer::resume(&page, [1, 0], 3).unwrap_err(), Decline::PageDamaged);
}

#[test]
fn a_line_after_a_pause_begins_no_lower_than_the_one_before_it_ended() {
    let (page, machine) = (Page::new(), Machine::new());
    running(&page, &machine, 9_000, 1_000);
    machine.pass(10_000);
    let mut writer = Writer::resume(&page, [0; 2], 2).unwrap();
    let end = writer.current().unwrap().end_time();
    writer
        .renew(&&machine, Ticks(10), |old, begin| {
            assert_eq!(old, None);
            machine.content(begin.0, 0, 1 << 30)
        })
        .unwrap();
    assert_eq!(writer.current().unwrap().line.mono, end);
    // A line further below is a jump, and is not raised.
    writer.publish(machine.content(machine.now() - 500, 2_000_000, 100));
    writer.renew(&&machine, Ticks(10), |_, begin| machine.content(begin.0, 0, 1 << 30)).unwrap();
    assert!(writer.current().unwrap().line.mono.0 < machine.kernel(ClockId::Monotonic) + 100);
}

#[test]
fn a_line_far_ahead_cannot_be_renewed() {
    let (page, machine) = (Page::new(), Machine::new());
    let mut writer = Writer::create(&page, [0; 2], 1);
    writer.publish(machine.content(machine.now() + (1 << 30), 0, 1 << 30));
    let renewed = writer.renew(&&machine, LEAD, |_, _| unreachable!("asks for no line"));
    assert_eq!(renewed, Err(TooLate));
}
