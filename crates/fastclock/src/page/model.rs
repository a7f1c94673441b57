//! The page's protocol under a model checker: the real [`Writer`], [`Reader`] and [`Trust`].
//!
//! The counter is a word that every read raises. Reads are `Relaxed` and order nothing by
//! themselves, so all ordering comes from the fences in the code. A separate thread makes the
//! counter leap once, at a moment that the checker chooses: this stands for a writer or reader that
//! loses its CPU. The kernel's clock is half the counter.

extern crate std;

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::*;
use crate::clock_id::ClockId;
use crate::line::{Bound, Line, Offsets, TickLength};
use crate::sync::{Died, die_after};
use crate::units::{Nanos, Ticks};

const BEGIN: u64 = 1 << 40;
const HALF: u64 = 1 << 63;
/// Ticks that each read of the counter adds.
const STEP: u64 = 2;
const LEAD: Ticks = Ticks(64);
/// Size of the counter's leap, in ticks: beyond every announcement, and so large that two lines
/// differ by more than the time that a reading takes.
const LEAP: u64 = 4096;
/// Largest allowed distance of a reading from the kernel's clock here, ns. A mixture of two lines
/// is further off.
const OFF: i64 = 300;
/// The bound that each line states, ns.
const BOUND: i64 = 200;

/// Words of a thread's stack.
const STACK: usize = 1 << 16;

struct World {
    page: Page,
    /// One for each of two processes.
    trusts: [Trust; 2],
    ticks: AtomicU64,
    /// Lower and upper limit of the counter, read without taking part in the model.
    now: [core::sync::atomic::AtomicU64; 2],
    /// The latest reading that any thread has published.
    last: AtomicI64,
}

impl Counter for &World {
    fn ordered(&self) -> Ticks {
        self.pass(STEP)
    }

    fn unordered(&self) -> Ticks {
        self.pass(STEP)
    }
}

impl Kernel for &World {
    fn read(&self, _: ClockId) -> Nanos {
        Nanos((self.pass(STEP).0 / 2) as i64)
    }

    fn declined(&self, _: Decline) {}
}

impl World {
    /// A page with a line that the first `trusted` processes have compared.
    fn new(trusted: usize) -> Arc<Self> {
        Self::with(trusted, line(None, Ticks(BEGIN), HALF + HALF / 16))
    }

    /// A page with this line that the first `trusted` processes have compared.
    fn with(trusted: usize, first: Content) -> Arc<Self> {
        die_after(u64::MAX);
        let world = Arc::new(Self {
            page: Page::new(),
            trusts: [Trust::new(), Trust::new()],
            ticks: AtomicU64::new(BEGIN + 1000),
            now: [0; 2].map(|_: u8| core::sync::atomic::AtomicU64::new(BEGIN + 1000)),
            last: AtomicI64::new(0),
        });
        let mut writer = Writer::create(&world.page, [0; 2], 1);
        writer.publish(first);
        for trust in &world.trusts[..trusted] {
            assert_eq!(world.reader(trust).slow(PageClock::Monotonic).declined, None);
        }
        for trust in &world.trusts {
            trust.checked.model();
        }
        world.ticks.model();
        world.last.model();
        world.page.head.model();
        world.page.head.make_mortal();
        for slot in &world.page.slots {
            model(slot);
            for word in [&slot.base, &slot.span, &slot.mono.nsec] {
                word.make_mortal();
            }
        }
        world
    }

    fn pass(&self, ticks: u64) -> Ticks {
        self.now[1].fetch_add(ticks, Relaxed);
        let before = self.ticks.fetch_add(ticks, Relaxed);
        self.now[0].fetch_add(ticks, Relaxed);
        Ticks(before + ticks)
    }

    fn reader<'a>(&'a self, trust: &'a Trust) -> Reader<'a, &'a World, &'a World> {
        Reader { page: &self.page, trust, counter: self, kernel: self }
    }

    /// Reads after all published readings, and publishes the result.
    fn read(&self, process: usize) {
        self.read_by(process, |reader| reader.bounded(PageClock::Monotonic, Order::Ordered));
    }

    fn read_by(&self, process: usize, read: impl Fn(&Reader<'_, &Self, &Self>) -> Bounded) {
        let before = self.last.load(Acquire);
        let kernel = |most: usize| (self.now[most].load(Relaxed) / 2) as i64;
        let began = kernel(0);
        let answer = read(&self.reader(&self.trusts[process]));
        let time = answer.time.0;
        // A process that has not read the page yet may get the kernel's answer where another
        // process got the page's, which is within its bound.
        let fresh = process > 0 && answer.declined.is_some();
        let least = if fresh { before - BOUND } else { before };
        assert!(time >= least, "{} ns back", before - time);
        assert!((began - OFF..=kernel(1) + OFF).contains(&time), "{time} is no time");
        self.last.fetch_max(time, AcqRel);
    }

    fn renew(&self, mut writer: Writer<'_>) {
        // A writer that loses its CPU again and again publishes nothing.
        let _ = writer.renew(&self, LEAD, |old, begin| line(old, begin, HALF + HALF / 64));
    }

    fn writer(&self) -> Writer<'_> {
        Writer::resume(&self.page, [0; 2], 1).expect("there is a page")
    }
}

/// A line that starts where the old one ends or, without an old one, at the kernel's time.
fn line(old: Option<&Line>, base: Ticks, fraction: u64) -> Content {
    let kernel = Nanos((base.0 / 2) as i64);
    Content {
        line: Line {
            base,
            mono: old.and_then(|old| old.at(base)).unwrap_or(kernel),
            tick: TickLength { whole: 0, fraction },
        },
        span: Ticks(1 << 30),
        grace: Ticks(0),
        previous: None,
        offsets: Offsets::default(),
        bound: Bound { at_base: BOUND.unsigned_abs(), growth: 1 << 40 },
        state: State::Running,
    }
}

/// Models three words of a slot; they stand for all.
fn model(slot: &Slot) {
    for word in [&slot.base, &slot.span, &slot.mono.nsec] {
        word.model();
    }
}

/// Tries every execution with at most this many preemptions.
fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    let body = Arc::new(body);
    builder.check(move || {
        let body = Arc::clone(&body);
        join([roomy(move || body())]);
    });
}

/// A page of modelled words needs a larger stack than the checker gives.
fn roomy(work: impl FnOnce() + Send + 'static) -> loom::thread::JoinHandle<()> {
    loom::thread::Builder::new().stack_size(STACK).spawn(work).expect("start a thread")
}

fn spawn(
    world: &Arc<World>,
    work: impl FnOnce(&World) + Send + 'static,
) -> loom::thread::JoinHandle<()> {
    let world = Arc::clone(world);
    roomy(move || work(&world))
}

fn join(threads: impl IntoIterator<Item = loom::thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

fn two_readings_and_a_leap(world: &Arc<World>) -> [loom::thread::JoinHandle<()>; 2] {
    let reads = spawn(world, |world| {
        world.read(0);
        world.read(0);
    });
    let leaps = spawn(world, |world| {
        world.pass(LEAP);
    });
    [reads, leaps]
}

/// One process reads while the line is renewed and the counter leaps.
pub fn a_reader_sees_whole_lines_and_no_time_before_the_last() {
    check(2, || {
        let world = World::new(1);
        let threads = two_readings_and_a_leap(&world);
        world.renew(world.writer());
        join(threads);
        world.read(0);
    });
}

/// Two threads of one process: a thread never reads a time before one that the other has published.
pub fn two_threads_of_a_process_see_no_time_before_that_of_the_other() {
    check(1, || {
        let world = World::new(1);
        let threads = [0, 0].map(|process| spawn(&world, move |world| world.read(process)));
        world.renew(world.writer());
        world.pass(LEAP);
        join(threads);
    });
}

/// Two processes, the second of which has never read the page, like a forked child.
pub fn two_processes_see_no_time_before_that_of_the_other() {
    check(1, || {
        let world = World::new(1);
        let threads = [0, 1].map(|process| spawn(&world, move |world| world.read(process)));
        world.renew(world.writer());
        join(threads);
    });
}

/// The writer reuses a slot while a late reader still reads it.
pub fn three_publications_do_not_mix_under_a_reader() {
    check(1, || {
        let world = World::new(1);
        let thread = spawn(&world, |world| world.read(1));
        let mut writer = world.writer();
        for later in 1..=3 {
            // Base distance larger than the allowed error of a reading.
            let base = Ticks(BEGIN - later * 1000);
            writer.publish(line(None, base, HALF + HALF / 32));
        }
        join([thread]);
    });
}

/// The writer ends its line; the process goes over to the kernel, and back with the next line.
pub fn a_withdrawal_and_a_return_do_not_set_time_back() {
    check(2, || {
        let world = World::new(1);
        let threads = two_readings_and_a_leap(&world);
        let mut writer = world.writer();
        writer.end(&&*world, LEAD, Decline::Jumped);
        world.renew(writer);
        join(threads);
    });
}

/// The writer is killed before any of its stores, and another writer goes on.
pub fn a_writer_may_be_killed_anywhere_and_another_goes_on() {
    // An announcement and a line store three words and a head each; with 8 stores the writer is not
    // killed.
    for stores in 0..=8 {
        check(1, move || {
            let world = World::new(1);
            let thread = spawn(&world, |world| {
                world.read(0);
                world.read(0);
            });
            die_after(stores);
            let first = catch_unwind(AssertUnwindSafe(|| world.renew(world.writer())));
            die_after(u64::MAX);
            if let Err(cause) = first
                && !cause.is::<Died>()
            {
                std::panic::resume_unwind(cause);
            }
            // The first writer held the file's lock; the next gets it after the first has died.
            world.pass(LEAP);
            world.renew(world.writer());
            join([thread]);
            world.read(0);
        });
    }
}

/// One thread has compared a head and loses its CPU; another thread meanwhile takes the kernel's
/// answer, which lies above the page's.
pub fn a_late_comparison_does_not_undo_what_another_thread_found() {
    check(2, || {
        let mut behind = line(None, Ticks(BEGIN), HALF);
        behind.line.mono.0 -= 20;
        let world = World::with(0, behind);
        let thread = spawn(&world, |world| world.read(0));
        world.read_by(0, |reader| reader.hurried(PageClock::Monotonic));
        world.read(0);
        join([thread]);
        world.read(0);
    });
}

/// Two threads read a page that the process has not read yet: one copies and compares the line, the
/// other reads the copy.
pub fn a_copy_is_whole_before_its_head_is_trusted() {
    check(1, || {
        let world = World::new(0);
        world.trusts[0].model_copies(|slot| slot.mono.nsec.model());
        let thread = spawn(&world, |world| world.read(0));
        world.read(0);
        join([thread]);
    });
}

/// The page's owner moves the head on, a thread copies the content there, and the owner sets the
/// head back.
pub fn a_head_that_is_set_back_shows_nothing_uncompared() {
    check(1, || {
        let world = World::new(1);
        world.trusts[0].model_copies(|slot| slot.mono.nsec.model());
        let thread = spawn(&world, |world| world.read(0));
        let head = world.page.head.load(Acquire);
        let mut wrong = line(None, Ticks(BEGIN), HALF);
        wrong.line.mono.0 += 1_000_000;
        world.writer().publish(wrong);
        world.trusts[0].copy(&world.page, world.page.head.load(Acquire));
        world.page.head.store(head, Release);
        world.read(0);
        join([thread]);
    });
}
