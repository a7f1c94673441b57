//! Clocks in forked children, in signal handlers and in threads that may not read the counter.

use core::sync::atomic::AtomicI64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io::Error;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use super::fork_cell::ForkCell;
use super::now_by_syscall;
use crate::clock::Clock;
use crate::clock_id::ClockId;

const LONG: Duration = Duration::from_secs(20);

/// The exit status of a child that does `work`, which must be safe in a child of a program with
/// threads.
pub(crate) fn in_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child only makes async-signal-safe calls, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let code = i32::from(!work());
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        child => {
            assert!(child > 0, "{}", Error::last_os_error());
            let mut status = 0;
            // SAFETY: the pointer is to a local int.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -status }
        }
    }
}

/// Whether `readings` readings in a row lie within their bounds between two of the kernel's.
pub(crate) fn keeps_to_the_kernel(clock: &Clock, readings: usize) -> bool {
    (0..readings).all(|_| {
        let before = now_by_syscall(ClockId::Monotonic).0;
        let reading = clock.now_bounded();
        let after = now_by_syscall(ClockId::Monotonic).0;
        let time = reading.time.as_nanos();
        before <= time + reading.bound.0 && time - reading.bound.0 <= after
    })
}

#[test]
fn a_forked_child_goes_on_with_the_clock() {
    let clock = Clock::alone();
    let fast = clock.calibrate(LONG).is_fast();
    let last = clock.now();
    let code = in_child(|| {
        let first = clock.now_bounded();
        first.time >= last
            && first.declined.is_none() == fast
            && keeps_to_the_kernel(&clock, 1_000)
            && clock.renew_for_test() == fast
            && clock.now_bounded().declined.is_none() == fast
            && keeps_to_the_kernel(&clock, 1_000)
    });
    assert_eq!(code, 0);
    assert!(keeps_to_the_kernel(&clock, 1_000));
}

#[test]
fn a_child_makes_anew_what_its_parent_was_changing() {
    let cell = ForkCell::new();
    cell.try_with(|| 1, |value| *value = 2);
    assert_eq!(in_child(|| cell.try_with(|| 9, |value| *value) == Some(2)), 0);
    let (held, is_held) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let cell = &cell;
        scope.spawn(move || {
            cell.try_with(
                || 0,
                |value| {
                    *value = 3;
                    held.send(()).unwrap();
                    is_released.recv().unwrap();
                },
            )
            .unwrap();
        });
        is_held.recv().unwrap();
        assert_eq!(in_child(|| cell.is_fresh() && cell.try_with(|| 9, |v| *v) == Some(9)), 0);
        assert_eq!(cell.try_with(|| 0, |value| *value), None, "the parent's is still held");
        release.send(()).unwrap();
    });
    assert_eq!(cell.try_with(|| 0, |value| *value), Some(3));
}

static HANDLED: OnceLock<Clock> = OnceLock::new();
static HANDLED_TIMES: AtomicI64 = AtomicI64::new(0);
static WENT_BACK: AtomicBool = AtomicBool::new(false);

extern "C" fn read_in_handler(_: libc::c_int) {
    let Some(clock) = HANDLED.get() else { return };
    let first = clock.now();
    clock.renew_for_test();
    if clock.now() < first || clock.realtime().as_nanos() == 0 {
        WENT_BACK.store(true, Relaxed);
    }
    HANDLED_TIMES.fetch_add(1, Relaxed);
}

#[test]
fn a_signal_handler_reads_the_clock_that_it_interrupts() {
    let clock = HANDLED.get_or_init(Clock::alone);
    clock.calibrate(LONG);
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeroes are a valid action. The handler only reads clocks, which the test shows to be
    // safe in a handler. Nothing else in this program uses the signal.
    let installed = unsafe {
        (*action.as_mut_ptr()).sa_sigaction =
            read_in_handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
        (*action.as_mut_ptr()).sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR2, action.as_ptr(), core::ptr::null_mut())
    };
    assert_eq!(installed, 0);
    // SAFETY: gives this thread's number. A thread handle is a pointer in some C libraries, which
    // other threads may not get.
    let reader = unsafe { libc::gettid() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Acquire) {
                // SAFETY: that thread waits for this one to end.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), reader, libc::SIGUSR2) };
                std::thread::yield_now();
            }
        });
        let mut last = clock.now();
        let mut rounds = 0;
        while rounds < 1_000 || HANDLED_TIMES.load(Relaxed) < 200 {
            clock.renew_for_test();
            let next = clock.now();
            assert!(next >= last);
            last = next;
            rounds += 1;
        }
        done.store(true, Release);
    });
    assert!(!WENT_BACK.load(Relaxed));
    assert!(keeps_to_the_kernel(clock, 1_000));
}

#[test]
fn looking_at_the_kernels_clock_leaves_errno_alone() {
    let clock = Clock::alone();
    // SAFETY: closes nothing: there is no such file descriptor.
    unsafe { libc::close(-1) };
    clock.renew_for_test();
    let _ = (clock.now(), clock.coarse(), clock.second());
    assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::EBADF));
}

/// Puts later children of this process into a time namespace whose clock is 1,000 s ahead.
fn leave_time() -> bool {
    // SAFETY: takes a number; only children forked from now on are concerned.
    if unsafe { libc::unshare(0x80) } != 0 {
        return false;
    }
    let text = b"monotonic 1000 0\n";
    // SAFETY: the path ends with a zero, and the kernel reads as many bytes as the text has.
    unsafe {
        let fd = libc::open(c"/proc/self/timens_offsets".as_ptr(), libc::O_WRONLY);
        libc::write(fd, text.as_ptr().cast(), text.len()) > 0
    }
}

/// Needs root; without root the test checks nothing.
#[test]
fn a_child_in_another_time_namespace_has_the_time_there() {
    let clock = Clock::alone();
    let fast = clock.calibrate(LONG).is_fast();
    let outside = clock.now();
    let code = in_child(|| {
        !leave_time()
            || in_child(|| {
                let inside = clock.now_bounded();
                let mut answers = inside.time.saturating_since(outside).0 > 999_000_000_000
                    && inside.declined.is_some()
                    && keeps_to_the_kernel(&clock, 100);
                // The child measures the counter against its own clock, and goes on.
                while fast && answers && clock.now_bounded().declined.is_some() {
                    clock.renew_for_test();
                    answers = keeps_to_the_kernel(&clock, 1);
                }
                answers && keeps_to_the_kernel(&clock, 1_000)
            }) == 0
    });
    assert_eq!(code, 0);
    assert!(keeps_to_the_kernel(&clock, 100));
}
