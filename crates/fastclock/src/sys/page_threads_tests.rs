//! A page under real threads, the real counter, and a writer that writes all the time.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::thread;

use crate::arch::CpuCounter;
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::line::{Bound, Line, TickLength};
use crate::page::{Content, Kernel, Order, Page, PageClock, Reader, State, Trust, Writer};
use crate::sys;
use crate::units::{Nanos, Ticks};

const READS: u64 = 3_000_000;

struct Host;

impl Kernel for &Host {
    fn read(&self, clock: ClockId) -> Nanos {
        sys::now(clock)
    }

    fn declined(&self, _: Decline) {}
}

/// Length of a tick on this machine, exact enough for lines of a millisecond.
fn measured() -> TickLength {
    let first = sys::look(&CpuCounter, 64);
    loop {
        let last = sys::look(&CpuCounter, 64);
        let passed = Nanos(last.mono.0 - first.mono.0);
        if passed.0 > 50_000_000 {
            return TickLength::from_elapsed(Ticks(last.ticks.0 - first.ticks.0), passed).unwrap();
        }
    }
}

fn write(writer: &mut Writer<'_>, tick: TickLength, round: u64) {
    let look = sys::look(&CpuCounter, 1);
    let lead = tick.ticks(20_000);
    // A writer that comes too late tries again in the next round.
    let _ = writer.renew(&CpuCounter, lead, |old, begin| {
        let ahead = tick.nanos(begin.0.saturating_sub(look.ticks.0)) as i64;
        let kernel = look.mono.0 + ahead;
        let mono = old.and_then(|old| old.at(begin)).unwrap_or(Nanos(kernel + 100));
        let off = mono.0 - kernel;
        // Back towards the kernel's clock, alternating by 500 ppm.
        let ppm = if off > 2_000 {
            -500
        } else if off < -2_000 {
            500
        } else {
            [-400, 400][usize::from(round % 2 == 0)]
        };
        let fraction =
            tick.fraction.saturating_add_signed((tick.fraction / 1_000_000) as i64 * ppm);
        Content {
            line: Line { base: begin, mono, tick: TickLength { fraction, ..tick } },
            span: tick.ticks(50_000_000),
            grace: Ticks(0),
            previous: None,
            offsets: look.offsets,
            bound: Bound { at_base: off.unsigned_abs() + 2_000, growth: fraction / 1_000 },
            state: State::Running,
        }
    });
}

#[test]
fn no_thread_sees_time_run_backwards_under_a_writer_that_never_rests() {
    let (page, trust) = (Page::new(), Trust::new());
    let tick = measured();
    let mut writer = Writer::create(&page, [0; 2], 1);
    write(&mut writer, tick, 0);
    let (stop, last) = (AtomicBool::new(false), AtomicI64::new(0));
    let (page_reads, renewals) = (AtomicU64::new(0), AtomicU64::new(0));
    let mono = PageClock::Monotonic;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Acquire) {
                round += 1;
                write(&mut writer, tick, round);
            }
            renewals.store(round, Release);
        });
        let readers = [0, 1].map(|_| {
            scope.spawn(|| {
                let reader =
                    Reader { page: &page, trust: &trust, counter: CpuCounter, kernel: &Host };
                let mut fast = 0;
                for _ in 0..READS {
                    let before = last.load(Acquire);
                    let answer = reader.bounded(mono, Order::Ordered);
                    assert!(answer.time.0 >= before, "{} ns back", before - answer.time.0);
                    last.fetch_max(answer.time.0, AcqRel);
                    fast += u64::from(answer.declined.is_none());
                }
                page_reads.fetch_add(fast, AcqRel);
            })
        });
        let ended = readers.map(|reader| reader.join().is_ok());
        stop.store(true, Release);
        assert_eq!(ended, [true, true]);
    });
    let (page_reads, renewals) = (page_reads.into_inner(), renewals.into_inner());
    std::println!("{renewals} renewals, {page_reads} of {} reads from the page", 2 * READS);
    assert!(renewals > 100 && page_reads > READS / 2, "{renewals} {page_reads}");
}
