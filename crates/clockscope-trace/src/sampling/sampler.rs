//! Unwinds the records of the rings, and keeps the rate.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fastclock::{ClockId, Ticks};

use super::collected::Collected;
use super::events::Events;
use super::holds::Holds;
use super::rate::{Look, Rate};
use clockscope_callers::frames::{End, FrameAddress};
use clockscope_callers::records::{Record, Said, Taken, sort_by_time};
use clockscope_callers::sample::{Called, MemoryEvent};
use clockscope_callers::symbols::Symbols;
use clockscope_callers::unwind::{Interpreted, Unwinder};
use clockscope_callers::{modules, python};
use clockscope_model::callers::{FrameRow, Waits};
use clockscope_sys::{access, tsc};
use clockscope_text::foreign::Foreign;
use clockscope_tracee::live_pages::CallersOneIn;
use clockscope_tracee::session::ClockPair;

/// Shortest time between two looks at the rate.
const LOOK_AFTER: Duration = Duration::from_millis(4);
/// Largest number of processes whose processor time is read at each look.
const ASKED_MAX: usize = 64;
/// Reason why samples of a process lack the functions of its interpreter.
const SHARES_SLOTS: &str = "it has had more threads than can be told apart: those without a slot of their own do not \
                            wait, and are shown with the interpreter's machine code";
/// With this many samples of system calls, of which one in so many has a stack that is too long to be copied, more of the
/// stack is copied: some microseconds more a sample.
const DEPTH_SAMPLES: u32 = 30;
const TOO_SHORT_ONE_IN: u32 = 20;
/// Limit of records that wait to be unwound; at 16 to 60 KiB of stack each, 32 to 120 MiB.
const WAITING_MAX: usize = 2048;

/// State shared by the tracer's thread and the thread that unwinds.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The events of the kernel.
    pub events: Events,
    /// Records read but not yet unwound.
    waiting: Vec<Record>,
    /// Records dropped because `waiting` was full.
    dropped: u64,
}

/// The present time on the records' clock, in nanoseconds.
fn now() -> u64 {
    u64::try_from(tsc::now(ClockId::Monotonic).0).unwrap_or(u64::MAX)
}

/// Locks the mutex. A poisoned lock is safe to use: every update leaves the value whole.
pub(crate) fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    /// An inbox without records.
    pub(crate) fn new(events: Events) -> Self {
        Self { events, waiting: Vec::new(), dropped: 0 }
    }

    /// Records that the shim is mapped at `image` in a stopped process. `probe` is the address of the sample
    /// probe, if vDSO calls are sampled.
    pub(crate) fn mapped(&mut self, pid: i32, image: u64, probe: Option<u64>) {
        self.drain();
        if let Ok(mappings) = modules::mappings_of(pid) {
            self.tell(MemoryEvent::Begun { pid, mappings });
            self.tell(MemoryEvent::Image { pid, at: image });
        }
        self.events.watch_system_calls(pid);
        if let Some(probe) = probe {
            self.events.watch_sample_probe(pid, probe);
        }
    }

    /// Records that a process has ended or executed a program.
    pub(crate) fn gone(&mut self, pid: i32) {
        self.drain();
        self.tell(MemoryEvent::Ended { pid });
        self.events.gone(pid);
    }

    fn tell(&mut self, event: MemoryEvent) {
        self.waiting.push(Record { time_ns: now(), said: Said::Memory(event) });
    }

    fn drain(&mut self) {
        let before = self.waiting.len();
        self.events.drain(&mut self.waiting);
        if self.waiting.len() > WAITING_MAX {
            // All events of memory are kept, because unwinding needs them; samples are dropped.
            let mut index = 0;
            let mut dropped = 0;
            self.waiting.retain(|record| {
                index += 1;
                let keep =
                    index <= before.max(WAITING_MAX) || !matches!(record.said, Said::Sample(_));
                dropped += u64::from(!keep);
                keep
            });
            self.dropped += dropped;
        }
    }

    /// Takes out the records up to `until`, in the order of time. Later ones stay, because records of other
    /// rings may belong before them.
    fn take(&mut self, until: u64) -> Vec<Record> {
        self.drain();
        let mut records = std::mem::take(&mut self.waiting);
        sort_by_time(&mut records);
        let later = records.partition_point(|record| record.time_ns <= until);
        self.waiting = records.split_off(later);
        records
    }
}

/// Results of the sampling.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The stacks.
    pub collected: Collected,
    /// The functions at each frame of the stacks: inlined ones first.
    pub names: HashMap<FrameAddress, Vec<FrameRow>>,
    /// Reason why stacks end early, the file of the last frame's code, and the number of samples.
    pub cut: Vec<(End, Option<Foreign>, u64)>,
    /// Processes with unnamed functions in code made at run time, and the reason.
    pub unnamed: Vec<(i32, String)>,
    /// Files without function names, and the package or file that would supply them: a sentence each.
    pub stripped: Vec<String>,
    /// Number of records lost.
    pub lost: u64,
    /// Cost of all samples, in nanoseconds.
    pub spent_ns: f64,
    /// Cost of waiting for samples.
    pub waits: Option<Waits>,
}

/// All frames of all stacks.
fn frames(collected: &Collected) -> impl Iterator<Item = FrameAddress> {
    collected.stacks.iter().flat_map(|(stack, _)| stack.frames.iter().copied())
}

/// The frames that should have names. Left out are stacks with managed frames, because their machine code is
/// that of a runtime, and the outermost frame of complete stacks, which starts the program or thread.
fn named_frames(collected: &Collected) -> impl Iterator<Item = FrameAddress> + Clone {
    let is_managed = |frame: &FrameAddress| matches!(frame, FrameAddress::Managed(_));
    let stacks = collected.stacks.iter().map(|(stack, _)| stack);
    stacks.filter(move |stack| !stack.frames.iter().any(is_managed)).flat_map(|stack| {
        let first = usize::from(stack.complete);
        stack.frames.iter().take(stack.frames.len().saturating_sub(first)).copied()
    })
}

/// Unwinds samples; belongs to one thread.
pub(crate) struct Sampler {
    inbox: Arc<Mutex<Inbox>>,
    unwinder: Unwinder,
    symbols: Symbols,
    collected: Collected,
    rate: Rate,
    lost: u64,
    one_in: CallersOneIn,
    started: ClockPair,
    started_at: Instant,
    looked_at: Instant,
    samples: u64,
    throttled: bool,
    /// Last known processor time by process.
    cpu: HashMap<i32, Duration>,
    /// Processor time from before the sampling, by process. It does not count: sampling may take a share of
    /// the sampled time only.
    before: HashMap<i32, Duration>,
    holds: Holds,
    /// Address of clockscope's image in each process.
    images: HashMap<i32, u64>,
    /// Processes that have mapped a file of an interpreter.
    may_interpret: HashSet<i32>,
    /// Processes with threads that cannot wait, because they have no slot of their own.
    sharing_slots: BTreeSet<i32>,
    /// Samples whose interpreted functions were not read in time.
    missed: u64,
    /// Samples of system calls, and those among them whose stack is longer than what was copied.
    of_system_calls: (u32, u32),
}

impl Sampler {
    /// `image` is the image mapped into the processes, `one_in` the word that their calls read, `before` the
    /// processor time that processes used before the sampling.
    pub(crate) fn new(
        inbox: Arc<Mutex<Inbox>>,
        image: Vec<u8>,
        rate: Rate,
        one_in: CallersOneIn,
        before: HashMap<i32, Duration>,
        per_second: u32,
    ) -> Self {
        let now = Instant::now();
        Self {
            inbox,
            unwinder: Unwinder::new(image),
            symbols: Symbols::default(),
            collected: Collected::default(),
            rate,
            lost: 0,
            one_in,
            started: ClockPair::read(),
            started_at: now,
            looked_at: now,
            samples: 0,
            throttled: false,
            cpu: HashMap::new(),
            before,
            holds: Holds::new(per_second),
            images: HashMap::new(),
            may_interpret: HashSet::new(),
            sharing_slots: BTreeSet::new(),
            missed: 0,
            of_system_calls: (0, 0),
        }
    }

    /// Unwinds new records, and adapts the rate when it is due.
    pub(crate) fn read(&mut self) {
        self.read_until(now());
        if self.looked_at.elapsed() >= LOOK_AFTER {
            self.look();
        }
    }

    fn read_until(&mut self, until: u64) {
        let (records, dropped) = {
            let mut inbox = lock(&self.inbox);
            (inbox.take(until), std::mem::take(&mut inbox.dropped))
        };
        self.lost += dropped;
        // Threads wait to be read: their frames come first.
        let interpreted: Vec<Option<Interpreted>> =
            records.iter().map(|record| self.read_held(record)).collect();
        for (record, interpreted) in records.into_iter().zip(interpreted) {
            self.take(record, interpreted.as_ref());
        }
    }

    /// The interpreted functions of a thread that waits.
    fn read_held(&mut self, record: &Record) -> Option<Interpreted> {
        let Said::Sample(taken) = &record.said else { return None };
        let Taken { sample, slot, wait: Some(number), .. } = &**taken else { return None };
        let unwinder = &mut self.unwinder;
        let read = |thread| unwinder.interpreted(sample.pid, sample.time_ns, thread);
        self.holds.read(sample.pid, *slot, *number, read)
    }

    /// Adds rings made since the last call, for polling; rings stay until the end.
    pub(crate) fn follow_rings(&self, known: &mut Vec<OwnedFd>) {
        let inbox = lock(&self.inbox);
        let rings = inbox.events.rings().filter_map(|ring| ring.as_fd().try_clone_to_owned().ok());
        if inbox.events.rings().count() != known.len() {
            *known = rings.collect();
        }
    }

    /// Unwinds the remaining records, and names all frames.
    pub(crate) fn finish(mut self) -> Found {
        self.holds.end();
        self.read_until(u64::MAX);
        self.rate.spend(self.samples);
        let symbols = &mut self.symbols;
        symbols.prepare(&mut self.unwinder, frames(&self.collected), 0);
        let all: HashSet<FrameAddress> = frames(&self.collected).collect();
        for frame in &all {
            symbols.names(&mut self.unwinder, *frame);
        }
        // The debuginfod servers are asked once the missing names are known.
        let stripped = symbols.stripped(&mut self.unwinder, named_frames(&self.collected));
        let name = |frame| (frame, symbols.names(&mut self.unwinder, frame));
        let names = all.into_iter().map(name).collect();
        let module = |end: End| end.module().and_then(|module| self.unwinder.module_name(module));
        let cut = self.collected.cut().map(|(end, samples)| (end, module(end), samples)).collect();
        let spent_ns = self.rate.spent_ns + self.holds.spent_ns();
        let mut unnamed = self.unwinder.unnamed();
        unnamed.extend(self.sharing_slots.iter().map(|pid| (*pid, SHARES_SLOTS.to_owned())));
        let (lost, waits) = (self.lost, self.holds.waits(self.missed));
        Found { cut, names, unnamed, stripped, lost, spent_ns, waits, collected: self.collected }
    }

    fn take(&mut self, record: Record, interpreted: Option<&Interpreted>) {
        match record.said {
            Said::Sample(taken) => self.sample(&taken, interpreted),
            Said::Memory(event) => {
                self.follow(&event);
                self.unwinder.event(&event);
            }
            Said::Lost(records) => {
                self.lost += records;
                self.samples += records;
            }
            Said::Throttled => self.throttled = true,
        }
    }

    fn sample(&mut self, taken: &Taken, interpreted: Option<&Interpreted>) {
        let pid = taken.sample.pid;
        let cost = (taken.cost_ticks != 0).then(|| self.nanoseconds(taken.cost_ticks));
        if taken.wait.is_some() {
            self.holds.sampled(pid, cost);
        } else {
            self.samples += 1;
            if let Some(cost) = cost {
                self.rate.cost(cost);
            }
        }
        // Without its interpreted functions the sample would be reported as one of another place. The samples
        // that have them stand for it.
        let is_of_vdso = matches!(taken.sample.called, Called::Vdso(_));
        let is_to_wait = is_of_vdso && self.holds.asks(pid);
        if is_to_wait && interpreted.is_none() && self.unwinder.interprets(pid) {
            if !self.holds.is_of_cpu(pid, taken.slot) {
                self.missed += u64::from(taken.sample.weight > 0);
                return;
            }
            self.sharing_slots.insert(pid);
        }
        let unwound = self.unwinder.stack_with(&taken.sample, interpreted);
        if !is_of_vdso {
            self.of_system_calls.0 += 1;
            self.of_system_calls.1 += u32::from(unwound.end == End::StackTooShort);
        }
        self.collected.add(&taken.sample, unwound);
    }

    /// Tracks the processes that may have an interpreter.
    fn follow(&mut self, event: &MemoryEvent) {
        match event {
            MemoryEvent::Begun { pid, mappings } => {
                self.images.remove(pid);
                self.holds.gone(*pid);
                self.may_interpret.remove(pid);
                if mappings.iter().any(python::is_of_python) {
                    self.may_interpret.insert(*pid);
                }
            }
            MemoryEvent::Image { pid, at } => {
                self.images.insert(*pid, *at);
                if self.may_interpret.contains(pid) {
                    self.wait_for(*pid, *at);
                }
            }
            MemoryEvent::Forked { pid, parent } => {
                if let Some(image) = self.images.get(parent).copied() {
                    self.images.insert(*pid, image);
                }
                self.holds.forked(*pid, *parent);
            }
            MemoryEvent::Mapped { pid, mapping } => {
                if python::is_of_python(mapping) && !self.holds.knows(*pid) {
                    self.may_interpret.insert(*pid);
                    if let Some(image) = self.images.get(pid).copied() {
                        self.wait_for(*pid, image);
                    }
                }
            }
            MemoryEvent::Ended { pid } => {
                self.collected.forget_process(*pid);
                self.images.remove(pid);
                self.may_interpret.remove(pid);
                self.holds.gone(*pid);
            }
        }
    }

    /// Lets the threads of a process wait for their samples, if the samples can be read at once.
    fn wait_for(&mut self, pid: i32, image: u64) {
        if lock(&self.inbox).events.make_prompt(pid) {
            self.holds.begin(pid, image);
        }
    }

    /// Converts ticks of the time-stamp counter to nanoseconds.
    fn nanoseconds(&self, ticks: u64) -> f64 {
        self.started.scale_until_now().to_picos(Ticks(ticks)).0 as f64 / 1e3
    }

    /// Adapts the rate, and how much of the stack is copied.
    fn look(&mut self) {
        let (all, too_short) = self.of_system_calls;
        if all >= DEPTH_SAMPLES && too_short >= all / TOO_SHORT_ONE_IN {
            lock(&self.inbox).events.copy_more();
        }
        let since = self.looked_at.elapsed();
        self.looked_at = Instant::now();
        let processes: Vec<i32> = lock(&self.inbox).events.processes().take(ASKED_MAX).collect();
        for pid in processes {
            if let Some(time) = access::cpu_time(pid) {
                let before = self.before.get(&pid).copied().unwrap_or_default();
                self.cpu.insert(pid, time.saturating_sub(before));
            }
        }
        let cpu = |pid| self.cpu.get(&pid).copied();
        self.holds.look(since, cpu);
        self.rate.look(&Look {
            since,
            samples: std::mem::take(&mut self.samples),
            throttled: std::mem::take(&mut self.throttled),
            // Of a process that waits, too: its threads without a slot of their own do not.
            cpu: self.cpu.values().sum(),
            wall: self.started_at.elapsed(),
        });
        // 0 means that the sampling has ended.
        if self.one_in.get() != 0 {
            self.one_in.set(self.rate.one_in());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn records_are_taken_in_the_order_of_time_and_not_too_early() {
        let mut inbox = Inbox::new(Events::default());
        let lost = |time_ns| Record { time_ns, said: Said::Lost(time_ns) };
        inbox.waiting = [5, 3, 9, 4].map(lost).to_vec();
        assert_eq!(inbox.take(5), [3, 4, 5].map(lost));
        assert_eq!(inbox.take(8), []);
        assert_eq!(inbox.take(u64::MAX), [9].map(lost));
    }
}
