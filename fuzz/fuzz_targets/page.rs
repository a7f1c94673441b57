//! Any bytes are a clock page: reading it ends, and the first reading under a head is the kernel's or agrees with the
//! kernel's.
#![no_main]

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use fastclock::page::{Counter, Kernel, Order, Page, PageClock, Reader, Slot, Trust, Writer};
use fastclock::{ClockId, Decline, Nanos, Ticks};

/// Bytes of the head and of the twenty words of each slot.
const CONTENT: usize = 8 + 2 * 20 * 8;
/// Allowed error of a reading: 1 ms of bound and 20 us of comparison, and a little more for the time that passes.
const WRONG_MAX: u64 = 1_100_000;
/// Most reads of the counter, of 10 ns each, in one reading.
const READS_MAX: u64 = 3_000_000;
const CLOCKS: [PageClock; 4] =
    [PageClock::Monotonic, PageClock::Realtime, PageClock::Boottime, PageClock::Tai];

/// A counter of 2 GHz, and a kernel clock that follows the counter.
struct Machine {
    ticks: Cell<u64>,
    reads: Cell<u64>,
}

impl Machine {
    fn kernel(&self, clock: ClockId) -> i64 {
        let mono = (self.ticks.get() / 2).cast_signed();
        match clock {
            ClockId::Realtime => mono + 1_700_000_000_000_000_000,
            ClockId::Boottime => mono + 5_000_000_000,
            ClockId::Tai => mono + 1_700_000_037_000_000_000,
            _ => mono,
        }
    }
}

impl Counter for &Machine {
    fn ordered(&self) -> Ticks {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() < READS_MAX, "a reading does not end");
        self.ticks.set(self.ticks.get() + 20);
        Ticks(self.ticks.get())
    }

    fn unordered(&self) -> Ticks {
        self.ordered()
    }
}

impl Kernel for &Machine {
    fn read(&self, clock: ClockId) -> Nanos {
        self.ticks.set(self.ticks.get() + 20);
        Nanos(self.kernel(clock))
    }

    fn declined(&self, _: Decline) {}
}

fn fill(page: &Page, words: &[u64]) {
    page.head.store(words[0], Relaxed);
    for (slot, words) in page.slots.iter().zip(words[1..].chunks(20)) {
        fill_slot(slot, words);
    }
}

/// Stores the words into the slot's fields, in the order of docs/PAGE.md.
fn fill_slot(slot: &Slot, words: &[u64]) {
    let unsigned = [
        (&slot.base, 0),
        (&slot.span, 1),
        (&slot.whole, 2),
        (&slot.fraction, 3),
        (&slot.mono.nsec, 5),
        (&slot.bound, 6),
        (&slot.growth, 7),
        (&slot.real.nsec, 9),
        (&slot.boot.nsec, 11),
        (&slot.tai.nsec, 13),
        (&slot.grace, 14),
        (&slot.reason, 15),
        (&slot.previous_base, 16),
        (&slot.previous_whole, 17),
        (&slot.previous_fraction, 18),
    ];
    for (field, at) in unsigned {
        field.store(words[at], Relaxed);
    }
    let signed = [
        (&slot.mono.sec, 4),
        (&slot.real.sec, 8),
        (&slot.boot.sec, 10),
        (&slot.tai.sec, 12),
        (&slot.previous_mono, 19),
    ];
    for (field, at) in signed {
        field.store(words[at].cast_signed(), Relaxed);
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let machine = Machine { ticks: Cell::new(1 << 40), reads: Cell::new(0) };
    let (page, trust) = (Page::new(), Trust::new());
    for (round, content) in bytes.chunks_exact(CONTENT).take(4).enumerate() {
        let words: Vec<u64> = content
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
            .collect();
        fill(&page, &words);
        for clock in CLOCKS {
            // A new process trusts no line yet, so no wrong rate can have led its readings away.
            let (now, fresh) = (machine.ticks.get(), Trust::new());
            let reader = Reader { page: &page, trust: &fresh, counter: &machine, kernel: &machine };
            machine.reads.set(0);
            let answer = reader.bounded(clock, Order::Ordered);
            let wrong = answer.time.0.abs_diff(machine.kernel(clock.id()));
            assert!(
                wrong < WRONG_MAX,
                "{clock:?} in round {round}: {answer:?} is wrong by {wrong} ns"
            );
            assert!(machine.ticks.get() - now < 20 * 2 * READS_MAX, "a reading takes too long");
        }
        let reader = Reader { page: &page, trust: &trust, counter: &machine, kernel: &machine };
        for clock in CLOCKS {
            machine.reads.set(0);
            let spec = reader.timespec(clock, Order::Unordered);
            assert!((0..1_000_000_000).contains(&spec.nsec), "{spec:?}");
        }
    }
    let _ = Writer::resume(&page, [0; 2], 1);
});
