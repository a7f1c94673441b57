//! Offset of one CPU's counter to another's, with a bound, by ping-pong.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::source::Readable;
use clockscope_sys::two_cpus::on_two_cpus;

/// Offset of the second CPU's readings to the first's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Offset from the shortest exchange.
    pub best: i64,
    /// Half of the shortest exchange, which bounds the error of `best`.
    pub error: u64,
    /// Least and greatest offset consistent with all exchanges.
    pub interval: (i64, i64),
    /// Number of exchanges.
    pub exchanges: u64,
    shortest: i64,
}

impl Offset {
    /// The offset from one exchange: the first CPU reads `a`, then the second `b`, then the first `c`.
    pub const fn of(a: i64, b: i64, c: i64) -> Self {
        let shortest = c - a;
        Self {
            best: b - (a + shortest / 2),
            error: (shortest.unsigned_abs()).div_ceil(2),
            interval: (b - c, b - a),
            exchanges: 1,
            shortest,
        }
    }

    /// Combines the results of two sets of exchanges.
    pub fn and(self, other: Self) -> Self {
        let tighter = if other.shortest < self.shortest { other } else { self };
        let least = self.interval.0.max(other.interval.0);
        let most = self.interval.1.min(other.interval.1);
        let exchanges = self.exchanges + other.exchanges;
        Self { interval: (least, most), exchanges, ..tighter }
    }

    /// Whether an offset of zero contradicts some exchange.
    pub const fn is_proven(&self) -> bool {
        self.interval.0 > 0 || self.interval.1 < 0
    }
}

/// Memory shared by the two CPUs: the number of the exchange, odd when the second CPU is to read, and its reading.
#[repr(align(128))]
struct Table {
    turn: AtomicU64,
    answer: AtomicI64,
}

const END: u64 = u64::MAX;

/// Number of exchanges wanted: on a busy machine the two threads seldom run at once.
const ENOUGH: u64 = 1_000;
/// Largest factor by which the time is extended to get them.
const LONGER: u32 = 8;

/// Plays ping-pong for `time`, or longer if exchanges are few; `None` without a single exchange.
///
/// # Errors
///
/// When a thread cannot be pinned to one of the CPUs.
///
/// # References
///
/// - `clocksource_verify_percpu` in `kernel/time/clocksource.c` (Linux 6.18)
pub fn measure(source: &Readable, cpus: (u32, u32), time: Duration) -> io::Result<Option<Offset>> {
    let table = Table { turn: AtomicU64::new(0), answer: AtomicI64::new(0) };
    let (offset, ()) =
        on_two_cpus(cpus, || serve(source, &table, time), || answer(source, &table))?;
    Ok(offset)
}

/// The first CPU: reads, asks, waits and reads again.
fn serve(source: &Readable, table: &Table, time: Duration) -> Option<Offset> {
    let start = Instant::now();
    let mut turn = 1;
    let mut found: Option<Offset> = None;
    let is_over = |elapsed: Duration, found: Option<&Offset>| {
        let is_enough = found.is_some_and(|found| found.exchanges >= ENOUGH);
        elapsed >= time * LONGER || elapsed >= time && is_enough
    };
    while !is_over(start.elapsed(), found.as_ref()) {
        let a = source();
        table.turn.store(turn, Ordering::Release);
        while table.turn.load(Ordering::Acquire) == turn {
            std::hint::spin_loop();
        }
        let c = source();
        let offset = Offset::of(a, table.answer.load(Ordering::Relaxed), c);
        found = Some(found.map_or(offset, |found| found.and(offset)));
        turn += 2;
    }
    table.turn.store(END, Ordering::Release);
    found
}

/// The second CPU: reads when asked.
fn answer(source: &Readable, table: &Table) {
    let mut turn = 1;
    loop {
        match table.turn.load(Ordering::Acquire) {
            END => return,
            asked if asked == turn => {
                table.answer.store(source(), Ordering::Relaxed);
                table.turn.store(turn + 1, Ordering::Release);
                turn += 2;
            }
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_exchange_gives_the_offset_and_all_give_the_interval() {
        let offset = Offset::of(100, 165, 200).and(Offset::of(300, 340, 360));
        assert_eq!((offset.best, offset.error), (10, 30));
        assert_eq!(offset.interval, (-20, 40));
        assert_eq!(offset.exchanges, 2);
        assert!(!offset.is_proven());
    }

    #[test]
    fn an_interval_without_zero_proves_an_offset() {
        assert!(Offset::of(100, 205, 200).is_proven());
        assert!(Offset::of(100, 95, 200).is_proven());
    }
}
