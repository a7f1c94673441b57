//! What is known of callers while programs run: the thread that unwinds writes it down now and then,
//! if somebody looks.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::build::{Index, called_row, frame_row};
use super::collected::Collected;
use clockscope_callers::frames::FrameAddress;
use clockscope_callers::sample::Called;
use clockscope_callers::symbols::Name;
use clockscope_model::callers::{Callers, FrameRow, StackRow};

/// No more often than this, because all stacks are looked at.
const EVERY: Duration = Duration::from_millis(500);

/// What is known, for everybody who has a copy of this.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Somebody has asked: there is a reason to write.
    asked: AtomicBool,
    callers: Mutex<HashMap<Called, Arc<Callers>>>,
}

impl Live {
    /// The stacks of a call so far; it is the only row of `called`, and `calls` of a stack is the weight of its
    /// samples.
    pub fn callers_of(&self, called: Called) -> Arc<Callers> {
        self.0.asked.store(true, Relaxed);
        self.callers().get(&called).cloned().unwrap_or_default()
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<Called, Arc<Callers>>> {
        self.0.callers.lock().unwrap_or_else(PoisonError::into_inner)
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
            let callers = by_call(collected, names);
            *self.live.callers() = callers;
            self.written_at = Instant::now();
        }
    }
}

/// The stacks of each call.
#[expect(clippy::cast_precision_loss, reason = "estimates")]
fn by_call(
    collected: &Collected,
    mut names: impl FnMut(FrameAddress) -> Vec<Name>,
) -> HashMap<Called, Arc<Callers>> {
    let mut all: HashMap<Called, (Callers, Index<FrameRow>)> = HashMap::new();
    for (stack, seen) in collected.stacks().iter().filter(|(_, seen)| seen.weight > 0) {
        let Some(called) = called_row(stack.called) else { continue };
        let (callers, rows) = all.entry(stack.called).or_insert_with(|| {
            (Callers { called: vec![called], ..Callers::default() }, Index::new())
        });
        let names = stack.frames.iter().flat_map(|frame| names(*frame)).map(frame_row);
        callers.stacks.push(StackRow {
            called: 0,
            pid: stack.pid,
            frames: names.map(|row| rows.of(row)).collect(),
            samples: seen.samples,
            calls: seen.weight as f64,
            complete: stack.complete,
        });
    }
    let whole = |(called, (callers, rows)): (Called, (Callers, Index<FrameRow>))| {
        (called, Arc::new(Callers { frames: rows.all, ..callers }))
    };
    all.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_callers::frames::{End, Unwound};
    use clockscope_callers::sample::{Registers, Sample};
    use clockscope_callers::symbols::Kind;
    use clockscope_text::foreign::Foreign;

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
            start: None,
            file: None,
            line: None,
            kind: Kind::Native,
        };
        let own = if at < 10 { "post" } else { "pop" };
        vec![name("clock_gettime", "/lib/libc.so.6"), name(own, "/bin/server")]
    }

    #[test]
    fn stacks_are_those_of_the_call() {
        let live = Live::default();
        let mut writer = Writer::new(live.clone());
        assert_eq!(*live.callers_of(Called::Vdso(1)), Callers::default());
        writer.written_at -= EVERY;
        writer.write(&collected(&[(1, 2), (2, 4), (10, 18), (11, 0)]), names);
        let callers = live.callers_of(Called::Vdso(1));
        assert_eq!(callers.called.len(), 1);
        assert_eq!(callers.called[0].clock.as_deref(), Some("CLOCK_MONOTONIC"));
        let name = |index: &usize| callers.frames[*index].function.clone().unwrap_or_default();
        let seen: Vec<(Vec<Foreign>, f64)> = callers
            .stacks
            .iter()
            .map(|stack| (stack.frames.iter().map(name).collect(), stack.calls))
            .collect();
        let stack = |own: &str, calls| (vec!["clock_gettime".into(), own.into()], calls);
        assert_eq!(seen, [stack("post", 2.0), stack("post", 4.0), stack("pop", 18.0)]);
        assert_eq!(callers.frames.len(), 3, "each function once");
        assert_eq!(*live.callers_of(Called::Vdso(2)), Callers::default());
        assert_eq!(*live.callers_of(Called::Syscall(1)), Callers::default());
    }

    #[test]
    fn nothing_is_written_if_nobody_asked_or_too_early() {
        let live = Live::default();
        let mut writer = Writer::new(live.clone());
        writer.written_at -= EVERY;
        writer.write(&collected(&[(1, 2)]), names);
        assert_eq!(live.callers_of(Called::Vdso(1)).stacks, []);
        writer.write(&collected(&[(1, 2)]), names);
        assert_eq!(live.callers_of(Called::Vdso(1)).stacks.len(), 1);
        writer.write(&Collected::default(), names);
        assert_eq!(live.callers_of(Called::Vdso(1)).stacks.len(), 1);
    }
}
