//! Times in which a tight loop did not run.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use super::source::Readable;
use clockscope_stats::distribution::Distribution;
use clockscope_sys::affinity;

/// What counts as a gap, in nanoseconds.
pub(crate) const THRESHOLD_NS: u64 = 1_000;
/// Turns of the loop between two looks at the time.
const BATCH: u32 = 4_096;
/// If a look at the interrupts takes longer than this, gaps are not classified.
const LOOK_MAX: Duration = Duration::from_millis(1);

/// Gaps of the loop.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    /// How long each gap was, in nanoseconds.
    pub lengths: Distribution,
    /// Time in the loop, in nanoseconds, without that of looking at the interrupts.
    pub looked_ns: u64,
    /// Gaps without an interrupt or switch of this kernel; `None` if that cannot be told.
    pub foreign: Option<u64>,
}

/// Loops on the CPU that the thread is on.
///
/// # References
///
/// - sysjitter; `kernel/trace/trace_osnoise.c` (Linux 6.18) for the classification
pub fn measure(counter: &dyn Readable, ns_per_unit: f64, cpu: u32, time: Duration) -> Gaps {
    let mut gaps = Gaps::default();
    let mut activity = Activity::watch(cpu);
    gaps.foreign = activity.as_ref().map(|_| 0);
    let start = Instant::now();
    while start.elapsed() < time {
        let first = counter.read();
        let mut last = first;
        let mut outside = 0;
        for _ in 0..BATCH {
            let now = counter.read();
            let gap = now.saturating_sub(last);
            last = now;
            let gap_ns = to_ns(gap, ns_per_unit);
            if gap_ns >= THRESHOLD_NS {
                gaps.lengths.add(gap_ns);
                if let (Some(activity), Some(foreign)) = (&mut activity, &mut gaps.foreign) {
                    *foreign += u64::from(!activity.has_changed());
                    last = counter.read();
                    outside += last - now;
                }
            }
        }
        gaps.looked_ns += to_ns(last - first - outside, ns_per_unit);
    }
    gaps
}

fn to_ns(units: i64, ns_per_unit: f64) -> u64 {
    let ns = units.max(0) as f64 * ns_per_unit;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    let ns = ns as u64;
    ns
}

/// Interrupts of one CPU and switches of this thread, as this kernel counts them.
struct Activity {
    interrupts: File,
    text: Vec<u8>,
    cpu: u32,
    last: (u64, u64),
}

impl Activity {
    /// Begins to watch; `None` where it is not possible or takes too long.
    fn watch(cpu: u32) -> Option<Self> {
        let interrupts = File::open("/proc/interrupts").ok()?;
        let text = vec![0; 1 << 18];
        let mut activity = Self { interrupts, text, cpu, last: (0, 0) };
        activity.last = activity.look()?;
        let start = Instant::now();
        activity.look()?;
        (start.elapsed() <= LOOK_MAX).then_some(activity)
    }

    fn look(&mut self) -> Option<(u64, u64)> {
        let mut length = 0;
        while let Ok(read @ 1..) =
            self.interrupts.read_at(&mut self.text[length..], u64::try_from(length).ok()?)
        {
            length += read;
        }
        let text = std::str::from_utf8(&self.text[..length]).ok()?;
        Some((interrupts_of(text, self.cpu)?, affinity::involuntary_switches()))
    }

    /// Whether there was an interrupt or a switch since the last look.
    fn has_changed(&mut self) -> bool {
        let now = self.look().unwrap_or((u64::MAX, 0));
        std::mem::replace(&mut self.last, now) != now
    }
}

/// All interrupts of a CPU in the text of `/proc/interrupts`; `None` without a column for it.
fn interrupts_of(text: &str, cpu: u32) -> Option<u64> {
    let mut lines = text.lines();
    let name = format!("CPU{cpu}");
    let column = lines.next()?.split_whitespace().position(|head| head == name)?;
    let count = |line: &str| line.split_whitespace().nth(column + 1)?.parse::<u64>().ok();
    Some(lines.filter_map(count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU3\n  \
          1:         10          2   IO-APIC   1-edge  i8042\n\
        LOC:       1000        300   Local timer interrupts\n\
        ERR:          7\n";

    #[test]
    fn interrupts_are_added_by_cpu() {
        assert_eq!(interrupts_of(INTERRUPTS, 0), Some(1_017));
        assert_eq!(interrupts_of(INTERRUPTS, 3), Some(302));
        assert_eq!(interrupts_of(INTERRUPTS, 1), None);
        assert_eq!(interrupts_of("", 0), None);
    }

    struct Jumps(std::sync::atomic::AtomicI64);

    impl Readable for Jumps {
        /// Goes on by 10, and by 5,000 at each thousandth reading.
        fn read(&self) -> i64 {
            let turn = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            turn * 10 + turn / 1_000 * 5_000
        }
    }

    #[test]
    fn steps_above_the_threshold_are_gaps() {
        let jumps = Jumps(std::sync::atomic::AtomicI64::new(0));
        // On a busy machine the shortest may be over before a tenth jump.
        let mut gaps = (0..10).map(|doublings| {
            let time = Duration::from_millis(5 << doublings);
            measure(&jumps, 2.0, affinity::current(), time)
        });
        let gaps = gaps.find(|gaps| gaps.lengths.count() >= 10).unwrap();
        assert_eq!((gaps.lengths.min(), gaps.lengths.max()), (10_020, 10_020));
        let share = gaps.lengths.sum() as f64 / gaps.looked_ns as f64;
        assert!((0.2..0.45).contains(&share), "{share}");
    }
}
