//! A page under real threads, the real counter, and a writer that writes all the time.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::thread;

use fastclock::TickLength;
use fastclock::arch::CpuCounter;
use fastclock::page::{Order, Page, PageClock, Reader, Trust, Writer};

use super::lines::{Host, line, measured};

const READS: u64 = 3_000_000;

fn write(writer: &mut Writer<'_>, tick: TickLength, round: u64) {
    // A writer that comes too late tries again in the next round.
    let _ =
        writer.renew(&CpuCounter, tick.ticks(20_000), |old, begin| line(tick, round, old, begin));
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
                    Reader { page: &page, trust: &trust, counter: CpuCounter, kernel: Host };
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
    println!("{renewals} renewals, {page_reads} of {} reads from the page", 2 * READS);
    assert!(renewals > 100 && page_reads > READS / 2, "{renewals} {page_reads}");
}
