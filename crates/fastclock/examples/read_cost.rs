//! Measures the cost of a read of the page, of the bare counter and of the C library: minimum of
//! 300 batches of 5,000 reads each, all kinds in turns. If a read adds nothing to the counter's own
//! cost, the page's clocks cost the same as the counter.
//!
//! `cargo run --release -p fastclock --example read_cost`

#![allow(clippy::cast_sign_loss, reason = "only to have them used")]

use std::hint::black_box;

use fastclock::arch::CpuCounter;
use fastclock::page::{
    Content, Counter, Kernel, Order, Page, PageClock, Reader, State, Trust, Writer,
};
use fastclock::{Bound, ClockId, Decline, Line, Nanos, TickLength, Ticks, sys};

const BATCHES: usize = 300;
const READS: usize = 5_000;

#[derive(Clone, Copy)]
struct Host;

impl Kernel for Host {
    fn read(&self, clock: ClockId) -> Nanos {
        sys::now(clock)
    }

    fn declined(&self, _: Decline) {}
}

type PageReader<'a> = Reader<'a, CpuCounter, Host>;
/// A call from a program that cannot inline the read.
type Pointer = fn(&PageReader<'_>, Order) -> u64;

#[inline(never)]
fn nanos(reader: &PageReader<'_>, order: Order) -> u64 {
    reader.nanos(PageClock::Monotonic, order).0 as u64
}

#[inline(never)]
fn timespec(reader: &PageReader<'_>, order: Order) -> u64 {
    // Like a function that writes the answer through a pointer.
    let mut time = reader.timespec(PageClock::Monotonic, order);
    black_box(&mut time).nsec as u64
}

#[allow(clippy::cast_precision_loss, reason = "for display only")]
fn batch(read: impl Fn() -> u64) -> f64 {
    let begin = CpuCounter.ordered().0;
    let mut sum = 0_u64;
    for _ in 0..READS {
        sum = sum.wrapping_add(read());
    }
    black_box(sum);
    (CpuCounter.ordered().0 - begin) as f64 / READS as f64
}

fn renew(writer: &mut Writer<'_>, tick: TickLength) {
    let reading = sys::look(&CpuCounter, 16);
    let renewed = writer.renew(&CpuCounter, tick.ticks(20_000), |old, begin| {
        let ahead = tick.nanos(begin.0.saturating_sub(reading.ticks.0)) as i64;
        let mono = old.and_then(|old| old.at(begin)).unwrap_or(Nanos(reading.mono.0 + ahead));
        Content {
            line: Line { base: begin, mono, tick },
            span: tick.ticks(3_000_000_000),
            grace: Ticks(0),
            previous: None,
            offsets: reading.offsets,
            bound: Bound { at_base: 100_000, growth: 1 << 40 },
            state: State::Running,
        }
    });
    assert_eq!(renewed, Ok(()));
    let begin = writer.current().map_or(Ticks(0), |content| content.line.base);
    while CpuCounter.ordered() < begin {}
}

fn measured() -> TickLength {
    let first = sys::look(&CpuCounter, 64);
    loop {
        let last = sys::look(&CpuCounter, 64);
        let passed = Nanos(last.mono.0 - first.mono.0);
        if passed.0 > 200_000_000 {
            let ticks = Ticks(last.ticks.0 - first.ticks.0);
            return TickLength::from_elapsed(ticks, passed).unwrap_or_default();
        }
    }
}

#[allow(clippy::cast_precision_loss, clippy::print_stdout, reason = "prints a table")]
fn main() {
    let (page, trust, tick) = (Page::new(), Trust::new(), measured());
    let mut writer = Writer::create(&page, [0; 2], std::process::id());
    renew(&mut writer, tick);
    let reader = Reader { page: &page, trust: &trust, counter: CpuCounter, kernel: Host };
    let r = black_box(&reader);
    let [nanos, timespec]: [Pointer; 2] = black_box([nanos, timespec]);
    let bounded = |order| {
        let reading = r.bounded(PageClock::Monotonic, order);
        (reading.time.0 ^ reading.bound.0) as u64
    };
    let inlined = |order| r.nanos(PageClock::Monotonic, order).0 as u64;
    let coarse = || sys::now(ClockId::MonotonicCoarse).0 as u64;
    let libc = || sys::now(ClockId::Monotonic).0 as u64;
    let (first, then) = (Order::Ordered, Order::Unordered);
    let kinds: [(&str, &dyn Fn() -> f64); 12] = [
        ("counter, unordered", &|| batch(|| CpuCounter.unordered().0)),
        ("counter, ordered", &|| batch(|| CpuCounter.ordered().0)),
        ("libc clock_gettime", &|| batch(libc)),
        ("page, unordered", &|| batch(|| inlined(then))),
        ("page, ordered", &|| batch(|| inlined(first))),
        ("with bound, unordered", &|| batch(|| bounded(then))),
        ("with bound, ordered", &|| batch(|| bounded(first))),
        ("by pointer, unordered", &|| batch(|| nanos(r, then))),
        ("by pointer, ordered", &|| batch(|| nanos(r, first))),
        ("timespec, unordered", &|| batch(|| timespec(r, then))),
        ("timespec, ordered", &|| batch(|| timespec(r, first))),
        ("libc, coarse", &|| batch(coarse)),
    ];
    let mut best = [f64::MAX; 12];
    for round in 0..BATCHES {
        if round % 20 == 0 {
            renew(&mut writer, tick);
        }
        for (best, (_, kind)) in best.iter_mut().zip(kinds) {
            *best = best.min(kind());
        }
    }
    let nanos = |ticks: f64| ticks * tick.nanos(1 << 40) as f64 / (1_u64 << 40) as f64;
    println!("{:24}{:>8}{:>10}{:>9}", "", "ns", "x counter", "x libc");
    for (ticks, (name, _)) in best.iter().zip(kinds) {
        println!("{name:24}{:8.2}{:10.2}{:9.3}", nanos(*ticks), ticks / best[0], ticks / best[2]);
    }
}
