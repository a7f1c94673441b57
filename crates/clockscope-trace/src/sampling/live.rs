//! What is known of callers while programs run: the thread that unwinds writes it down now and then,
//! if somebody looks.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::build::{called_row, frame_row};
use super::collected::Collected;
use clockscope_callers::frames::FrameAddress;
use clockscope_callers::sample::Called;
use clockscope_callers::symbols::Name;
use clockscope_model::wrappers;

/// No more often than this, because all stacks are looked at.
const EVERY: Duration = Duration::from_millis(500);

/// Functions and their shares (0 to 1) of a call, most calls first.
pub type Shares = Vec<(String, f64)>;

/// What is known, for everybody who has a copy of this.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Somebody has asked: there is a reason to write.
    asked: AtomicBool,
    shares: Mutex<HashMap<Called, Shares>>,
}

impl Live {
    /// The functions that make a call, most calls first, with their share (0 to 1) of its calls so far.
    pub fn callers_of(&self, called: Called) -> Shares {
        self.0.asked.store(true, Relaxed);
        self.shares().get(&called).cloned().unwrap_or_default()
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<Called, Shares>> {
        self.0.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes it.
#[derive(Debug)]
pub struct Writer {
    live: Live,
    written_at: Instant,
}

impl Writer {
    /// Nothing is written yet.
    pub fn new(live: Live) -> Self {
        Self { live, written_at: Instant::now() }
    }

    /// Whether it is time, and somebody looks.
    pub fn is_due(&self) -> bool {
        self.live.0.asked.load(Relaxed) && self.written_at.elapsed() >= EVERY
    }

    /// Writes what has been collected so far, if it is time; `names` gives the functions at a frame.
    pub fn write(&mut self, collected: &Collected, names: impl FnMut(FrameAddress) -> Vec<Name>) {
        if self.is_due() {
            let shares = shares(collected, names);
            *self.live.shares() = shares;
            self.written_at = Instant::now();
        }
    }
}

/// Who makes the calls, by the weights of the samples.
#[expect(clippy::cast_precision_loss, reason = "estimates")]
fn shares(
    collected: &Collected,
    mut names: impl FnMut(FrameAddress) -> Vec<Name>,
) -> HashMap<Called, Shares> {
    let mut weights: HashMap<Called, HashMap<String, f64>> = HashMap::new();
    for (stack, seen) in collected.stacks().iter().filter(|(_, seen)| seen.weight > 0) {
        let Some(called) = called_row(stack.called) else { continue };
        let frames = stack.frames.iter().flat_map(|frame| names(*frame)).map(frame_row);
        let caller = wrappers::caller(&frames.collect::<Vec<_>>(), &called, stack.complete);
        *weights.entry(stack.called).or_default().entry(caller).or_default() += seen.weight as f64;
    }
    weights.into_iter().map(|(called, weights)| (called, ordered(weights))).collect()
}

fn ordered(weights: HashMap<String, f64>) -> Shares {
    let all: f64 = weights.values().sum();
    let mut shares: Shares =
        weights.into_iter().map(|(name, weight)| (name, weight / all)).collect();
    shares.sort_by(|(a, one), (b, other)| other.total_cmp(one).then_with(|| a.cmp(b)));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_callers::frames::{End, Unwound};
    use clockscope_callers::sample::{Registers, Sample};
    use clockscope_callers::symbols::Kind;

    fn collected(seen: &[(u64, u64)]) -> Collected {
        let mut collected = Collected::default();
        for (at, weight) in seen {
            let sample = Sample {
                called: Called::Vdso(1),
                pid: 7,
                tid: 7,
                time_ns: 0,
                weight: *weight,
                after_ticks: None,
                registers: Registers::default(),
                stack: Vec::new(),
                frame_pointers: Vec::new(),
            };
            let frames = vec![FrameAddress::Unknown { at: *at }];
            collected.add(&sample, Unwound { frames, end: End::Complete });
        }
        collected
    }

    fn names(frame: FrameAddress) -> Vec<Name> {
        let FrameAddress::Unknown { at } = frame else { return Vec::new() };
        let name = |function: &str, module: &str| Name {
            function: Some(function.into()),
            module: Some(module.into()),
            address: 0,
            file: None,
            line: None,
            kind: Kind::Native,
        };
        let own = if at < 10 { "post" } else { "pop" };
        vec![name("clock_gettime", "/lib/libc.so.6"), name(own, "/bin/server")]
    }

    #[test]
    fn shares_are_those_of_the_programs_own_functions() {
        let live = Live::default();
        let mut writer = Writer::new(live.clone());
        assert_eq!(live.callers_of(Called::Vdso(1)), []);
        writer.written_at -= EVERY;
        writer.write(&collected(&[(1, 2), (2, 4), (10, 18), (11, 0)]), names);
        let expected = [("pop".to_owned(), 0.75), ("post".to_owned(), 0.25)];
        assert_eq!(live.callers_of(Called::Vdso(1)), expected);
        assert_eq!(live.callers_of(Called::Vdso(2)), []);
        assert_eq!(live.callers_of(Called::Syscall(1)), []);
    }

    #[test]
    fn nothing_is_written_if_nobody_asked_or_too_early() {
        let live = Live::default();
        let mut writer = Writer::new(live.clone());
        writer.written_at -= EVERY;
        writer.write(&collected(&[(1, 2)]), names);
        assert_eq!(live.callers_of(Called::Vdso(1)), []);
        writer.write(&collected(&[(1, 2)]), names);
        assert_eq!(live.callers_of(Called::Vdso(1)).len(), 1);
        writer.write(&Collected::default(), names);
        assert_eq!(live.callers_of(Called::Vdso(1)).len(), 1);
    }
}
