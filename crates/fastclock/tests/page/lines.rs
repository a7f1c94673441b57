//! Lines over the real counter, and the kernel's clock for their readers.

use fastclock::arch::CpuCounter;
use fastclock::page::{Content, Kernel, State};
use fastclock::{Bound, ClockId, Decline, Line, Nanos, TickLength, Ticks, sys};

/// Time for which a line holds, ns: longer than the start of the next writer on a busy machine, and
/// so short that a line which is off by the steepest rate stays within a millisecond.
const SPAN_NS: u64 = 1_000_000_000;

pub(crate) struct Host;

impl Kernel for Host {
    fn read(&self, clock: ClockId) -> Nanos {
        sys::now(clock)
    }

    fn declined(&self, _: Decline) {}
}

/// Length of a tick on this machine.
pub(crate) fn measured() -> TickLength {
    let first = sys::look(&CpuCounter, 256);
    loop {
        let last = sys::look(&CpuCounter, 256);
        let passed = Nanos(last.mono.0 - first.mono.0);
        if passed.0 > 200_000_000 {
            return TickLength::from_elapsed(Ticks(last.ticks.0 - first.ticks.0), passed).unwrap();
        }
    }
}

/// A line that alternates around the kernel's clock by 2 us.
pub(crate) fn line(tick: TickLength, round: u64, old: Option<&Line>, begin: Ticks) -> Content {
    let look = sys::look(&CpuCounter, 4);
    let ahead = begin.0 as i64 - look.ticks.0 as i64;
    let nanos = tick.nanos(ahead.unsigned_abs()) as i64 * ahead.signum();
    let kernel = look.mono.0 + nanos;
    let mono = old.and_then(|old| old.at(begin)).unwrap_or(Nanos(kernel + 100));
    let off = mono.0 - kernel;
    let ppm = match off {
        2_000.. => -500,
        ..-2_000 => 500,
        _ => [-400, 400][usize::from(round % 2 == 0)],
    };
    let change = (tick.fraction / 1_000_000) as i64 * ppm;
    let fraction = tick.fraction.saturating_add_signed(change);
    let uncertain = tick.nanos(look.half_width.0) + 500;
    Content {
        line: Line { base: begin, mono, tick: TickLength { fraction, ..tick } },
        span: tick.ticks(SPAN_NS),
        grace: Ticks(0),
        previous: None,
        offsets: look.offsets,
        bound: Bound { at_base: off.unsigned_abs() + uncertain, growth: fraction / 1_000 },
        state: State::Running,
    }
}
