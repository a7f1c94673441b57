//! A writer that is killed again and again, at any instruction, while readers must not notice.
//!
//! The test starts itself as the writer and as a reader in another process: see [`ROLE`].
#![allow(unsafe_code, reason = "a page lies in a file that is mapped")]

use std::env;
use std::fs::File;
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use fastclock::arch::CpuCounter;
use fastclock::page::{
    Base, Content, Counter, Order, Page, PageClock, Reader, SIZE, Slot, Trust, Writer,
};
use fastclock::{ClockId, Nanos, TickLength, sys};

use super::lines::{Host, line, measured};

const KILLS: u32 = 1_000;
/// `writer` or `reader`: the role of the started process.
const ROLE: &str = "FASTCLOCK_KILL_ROLE";
const PAGE: &str = "FASTCLOCK_KILL_PAGE";
/// The length of a tick, which a writer that lives for milliseconds cannot measure.
const TICK: &str = "FASTCLOCK_KILL_TICK";
/// Written to [`Page::flags`] by the parent when the test is over.
const OVER: u32 = 1;
/// Low bits in which the bound and the distance of `CLOCK_TAI` carry the same mark, so that a
/// half-written slot can be recognised.
const MARK: u64 = 0xff;

fn map(path: &str) -> &'static Page {
    let file = File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: the file belongs to this test, keeps its length, and is only used as a `Page`, which
    // consists of atomics: other processes may write it at any time.
    let mapping = Box::leak(Box::new(unsafe { memmap2::MmapMut::map_mut(&file).unwrap() }));
    assert_eq!(mapping.len(), SIZE);
    // SAFETY: a mapping begins at a page's boundary, has a page's size and is never unmapped; any
    // content is a valid `Page`.
    unsafe { &*mapping.as_mut_ptr().cast::<Page>() }
}

#[allow(clippy::cast_sign_loss, reason = "modulo 2^64")]
fn marked(mut content: Content, mark: u64) -> Content {
    content.bound.at_base = (content.bound.at_base | MARK) + 1 + (mark & MARK);
    let tai = (content.offsets.tai.0 as u64 & !MARK) | mark & MARK;
    content.offsets.tai = Nanos(tai as i64);
    content
}

/// Writes as fast as possible until the process is killed.
fn write(page: &Page, tick: TickLength) {
    let resumed = Writer::resume(page, [0; 2], std::process::id());
    let mut writer = resumed.unwrap_or_else(|_| Writer::create(page, [0; 2], std::process::id()));
    let parent = parent_id();
    let lead = tick.ticks(20_000);
    for round in 0_u64.. {
        // If the renewal fails, the next round tries again.
        let _ = writer
            .renew(&CpuCounter, lead, |old, begin| marked(line(tick, round, old, begin), round));
        // Publishes the same line again, so that a good part of the time goes into publishing.
        let content = writer.current().copied();
        for (again, content) in content.into_iter().cycle().take(20).enumerate() {
            writer.publish(marked(content, round + again as u64));
        }
        if round % 256 == 0 && parent_id() != parent {
            return;
        }
    }
}

/// What a reader has done so far.
#[derive(Debug, Default)]
struct Done {
    reads: AtomicU64,
    /// Reads that the page answered.
    answered: AtomicU64,
}

/// Reads until `over`.
fn read(page: &Page, trust: &Trust, last: &AtomicI64, done: &Done, over: impl Fn() -> bool) {
    let reader = Reader { page, trust, counter: CpuCounter, kernel: Host };
    while !over() {
        for _ in 0..500 {
            let reached = last.load(Acquire);
            let before = sys::now(ClockId::Monotonic).0;
            let answer = reader.bounded(PageClock::Monotonic, Order::Ordered);
            let after = sys::now(ClockId::Monotonic).0;
            let (time, bound) = (answer.time.0, answer.bound.0);
            assert!(time >= reached, "{} ns back: {answer:?}", reached - time);
            last.fetch_max(time, AcqRel);
            done.reads.fetch_add(1, Relaxed);
            if answer.declined.is_none() {
                done.answered.fetch_add(1, Relaxed);
                let outside = (before - bound - time).max(time - after - bound);
                assert!(outside <= 0, "{outside} ns outside its bound: {answer:?}");
            } else {
                // The answer may be held at the time that the page has reached.
                assert!(time >= before && time - after < 1_000_000, "{answer:?}");
            }
        }
        // Leaves CPU time for starting and killing writers on machines with few CPUs.
        thread::park_timeout(Duration::from_micros(200));
    }
}

fn start(role: &str, page: &str, tick: TickLength) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "arch::kill::a_process_of_the_kill_test", "--nocapture"])
        .env(ROLE, role)
        .env(PAGE, page)
        .env(TICK, tick.as_wide().to_string())
        .stdout(if role == "reader" { Stdio::piped() } else { Stdio::null() })
        .spawn()
        .unwrap()
}

#[test]
fn a_process_of_the_kill_test() {
    let Ok(role) = env::var(ROLE) else { return };
    let page = map(&env::var(PAGE).unwrap());
    let tick = TickLength::from_wide(env::var(TICK).unwrap().parse().unwrap());
    if role == "writer" {
        write(page, tick);
    } else {
        let parent = parent_id();
        let over = || page.flags.load(Relaxed) == OVER || parent_id() != parent;
        let done = Done::default();
        read(page, &Trust::new(), &AtomicI64::new(0), &done, over);
        println!("\n{done:?}");
        assert!(done.answered.load(Relaxed) > 0);
    }
}

/// Traces of killed writers in the page.
#[derive(Debug, Default)]
struct Left {
    /// The current slot announces a line's end, and no line follows.
    announced: u32,
    /// The slot that is not current is half old, half new.
    half_written: u32,
}

impl Left {
    #[allow(clippy::cast_sign_loss, reason = "modulo 2^64")]
    fn look(&mut self, page: &Page) {
        let head = page.head.load(Acquire);
        let slots = [&page.slots[0], &page.slots[1]];
        let (current, other) = (slots[(head & 1) as usize], slots[(!head & 1) as usize]);
        let time = |base: &Base| {
            Nanos::from_timespec(base.sec.load(Relaxed), base.nsec.load(Relaxed) as i64).0
        };
        let torn = |slot: &Slot| {
            let tai = time(&slot.tai).wrapping_sub(time(&slot.mono));
            slot.bound.load(Relaxed) & MARK != tai as u64 & MARK
        };
        assert!(!torn(current), "the page is torn");
        self.half_written += u32::from(torn(other));
        let span = |slot: &Slot| slot.span.load(Relaxed);
        self.announced += u32::from(span(current) < span(other));
    }
}

/// Kills each writer only after each of `readers` has got an answer from its page.
fn kill_writers(
    page: &'static Page,
    path: &str,
    tick: TickLength,
    readers: &[(&Done, ScopedJoinHandle<'_, ()>)],
) -> Left {
    let mut left = Left::default();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..KILLS {
        let before = page.writer.load(Acquire);
        let head = page.head.load(Acquire);
        let mut writer = start("writer", path, tick);
        while page.writer.load(Acquire) == before || page.head.load(Acquire) == head {
            assert!(writer.try_wait().unwrap().is_none(), "the writer ended by itself");
            thread::yield_now();
        }
        for (reader, thread) in readers {
            let (answered, reads) = (reader.answered.load(Relaxed), reader.reads.load(Relaxed));
            while reader.answered.load(Relaxed) == answered {
                let declined = reader.reads.load(Relaxed) - reads;
                assert!(declined < 10_000_000, "a living writer's page declines: {reader:?}");
                assert!(!thread.is_finished(), "a reader ended: {reader:?}");
                thread::yield_now();
            }
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let until = CpuCounter.ordered().0 + tick.ticks(random % 3_000_000).0;
        while CpuCounter.ordered().0 < until {
            std::hint::spin_loop();
        }
        writer.kill().unwrap();
        assert_eq!(writer.wait().unwrap().signal(), Some(9));
        left.look(page);
    }
    left
}

#[test]
fn a_thousand_killed_writers_leave_a_page_that_readers_can_trust() {
    let path = env::temp_dir().join(format!("fastclock-kill-{}", std::process::id()));
    File::create(&path).unwrap().set_len(SIZE as u64).unwrap();
    let path_text = path.to_str().unwrap();
    let page = map(path_text);
    let tick = measured();
    let (over, trust, last) = (AtomicBool::new(false), Trust::new(), AtomicI64::new(0));
    let readers = [Done::default(), Done::default()];
    let (left, said) = thread::scope(|scope| {
        let read_into = |done| read(page, &trust, &last, done, || over.load(Acquire));
        let threads = readers.each_ref().map(|done| (done, scope.spawn(move || read_into(done))));
        let other = start("reader", path_text, tick);
        let left = scope.spawn(move || kill_writers(page, path_text, tick, &threads)).join();
        over.store(true, Release);
        page.flags.store(OVER, Release);
        let output = other.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        (left.unwrap(), said)
    });
    std::fs::remove_file(&path).unwrap();
    let said = said.lines().find(|line| line.starts_with("Done ")).unwrap();
    println!("{KILLS} writers killed: {left:?}; another process: {said}; two threads: {readers:?}");
    assert!(left.half_written > 0 && left.announced > 0, "{left:?}: no kill met a publication");
}
