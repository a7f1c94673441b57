//! A timer that interrupts [`super::wait::next_or_tick`] at regular intervals.
//!
//! The timer sends a signal to the thread that made it. The thread unblocks the signal only while it waits, so the
//! signal interrupts no other system call. The handler sets one word. A signal that comes while the thread is busy is
//! delivered when the thread unblocks it; the thread reads the word after that and before it waits, so that tick is not
//! lost. Between this read and the system call there are a few instructions in which a signal interrupts nothing. Such
//! a tick sets the word, and the thread sees it at the next event or, because the timer goes on, one interval later.
//! Ticks that come together count as one.
//!
//! # References
//!
//! `timer_create(2)` (`SIGEV_THREAD_ID`), `timer_settime(2)`, `signal(7)` "Interruption of system
//! calls": without `SA_RESTART` a wait ends with `EINTR`. A timer is not inherited by `fork` and
//! does not outlive `execve`: `timer_create(2)` "NOTES".

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::{check, signals};

thread_local! {
    /// The ticker of this thread.
    static CURRENT: Cell<Option<&'static AtomicBool>> = const { Cell::new(None) };
    /// The next due tick is reported only after a look for events of tracees.
    static WAITS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// A running timer of this thread, deleted when dropped.
#[derive(Debug)]
pub struct Ticker {
    timer: libc::timer_t,
    interval: Duration,
}

impl Ticker {
    /// Starts a tick every `interval`, for the calling thread. A thread has one ticker at a time: a second one replaces
    /// the first.
    ///
    /// # Errors
    ///
    /// When the kernel gives no timer (`EAGAIN`: too many queued signals, see `RLIMIT_SIGPENDING`).
    pub fn start(interval: Duration) -> io::Result<Self> {
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = ticked;
        // SAFETY: the handler has the signature that `SA_SIGINFO` asks for, and stores one word.
        unsafe { signals::handle(signal(), handler as usize, libc::SA_SIGINFO)? };
        // The word is never freed: a pending signal may still hold its address.
        let due: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        signals::mask(libc::SIG_BLOCK, &[signal()])?;
        let timer = make_timer(signal(), std::ptr::from_ref(due).cast_mut().cast())?;
        let mut ticker = Self { timer, interval: Duration::ZERO };
        ticker.set(interval)?;
        CURRENT.set(Some(due));
        Ok(ticker)
    }

    /// Ticks every `interval` from now on. Does nothing if that is the present interval.
    ///
    /// # Errors
    ///
    /// `EINVAL` from `timer_settime(2)`, for an invalid timer or time only; both are valid here.
    pub fn set(&mut self, interval: Duration) -> io::Result<()> {
        // An interval of zero would disarm the timer.
        let interval = interval.max(Duration::from_micros(1));
        if interval == self.interval {
            return Ok(());
        }
        set_timer(self.timer, interval, interval)?;
        self.interval = interval;
        Ok(())
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `start` and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
        CURRENT.set(None);
        // A pending signal still finds the handler, and its word.
        let _ = signals::mask(libc::SIG_UNBLOCK, &[signal()]);
    }
}

/// True if the thread has a ticker with a tick that was not reported yet.
pub(super) fn is_due() -> bool {
    CURRENT.get().is_some_and(|due| due.load(Relaxed))
}

/// With a tick due: true if the tick is to be reported now, which clears it; false if events of tracees come first.
/// Alternates between the two.
pub(super) fn take_turn() -> bool {
    let told = !WAITS_FIRST.replace(!WAITS_FIRST.get());
    if told && let Some(due) = CURRENT.get() {
        due.store(false, Relaxed);
    }
    told
}

/// Runs one system call that a tick interrupts, if the thread has a ticker; `None`, without the call, if a tick was due
/// before.
pub(super) fn interruptible<T>(call: impl FnOnce() -> T) -> Option<T> {
    let Some(due) = CURRENT.get() else { return Some(call()) };
    // Both calls succeed: the signal and the operation are valid.
    let _ = signals::mask(libc::SIG_UNBLOCK, &[signal()]);
    let result = (!due.load(Relaxed)).then(call);
    let _ = signals::mask(libc::SIG_BLOCK, &[signal()]);
    result
}

/// The signal: a real-time signal, which neither users nor terminals send.
fn signal() -> i32 {
    libc::SIGRTMIN() + 5
}

/// Stores the tick in the word of its ticker.
extern "C" fn ticked(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid pointer to the handler of a signal (`SA_SIGINFO`).
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value()) };
    if code == libc::SI_TIMER {
        // SAFETY: only timers of `start` send this signal with this code, and the word they name is
        // never freed; an atomic store is safe in a handler.
        unsafe { &*value.sival_ptr.cast::<AtomicBool>() }.store(true, Relaxed);
    }
}

/// Makes a timer that sends a signal, with this value, to the calling thread.
pub(super) fn make_timer(signal: i32, value: *mut libc::c_void) -> io::Result<libc::timer_t> {
    // SAFETY: all-zero is a value of this plain struct.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_value = libc::sigval { sival_ptr: value };
    // SAFETY: takes and returns numbers.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer = std::ptr::null_mut();
    // SAFETY: both pointers are to locals of the right type.
    check(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) })?;
    Ok(timer)
}

/// Lets a timer send its signal after a while, and then at each interval. Async-signal-safe.
pub(super) fn set_timer(
    timer: libc::timer_t,
    after: Duration,
    interval: Duration,
) -> io::Result<()> {
    let time = |duration: Duration| libc::timespec {
        tv_sec: duration.as_secs().min(i64::MAX.unsigned_abs()).cast_signed(),
        tv_nsec: duration.subsec_nanos().into(),
    };
    let times = libc::itimerspec { it_interval: time(interval), it_value: time(after) };
    // SAFETY: the caller has the timer from `make_timer`; the pointer is to a local.
    check(unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system call that never ends by itself.
    fn wait_forever() -> io::Error {
        // SAFETY: no pointers to anything.
        unsafe { libc::poll(std::ptr::null_mut(), 0, -1) };
        io::Error::last_os_error()
    }

    /// Waits for a tick, with each interruption checked.
    fn wait_for_tick() {
        while !is_due() {
            let error = interruptible(wait_forever);
            assert!(error.is_none_or(|error| error.kind() == io::ErrorKind::Interrupted));
        }
        while !take_turn() {}
    }

    #[test]
    fn every_tick_ends_a_wait() {
        let _ticker = Ticker::start(Duration::from_millis(2)).expect("a timer");
        for _ in 0..20 {
            wait_for_tick();
        }
    }

    #[test]
    fn a_tick_disturbs_no_other_system_call_and_is_not_lost() {
        let _ticker = Ticker::start(Duration::from_micros(100)).expect("a timer");
        // SAFETY: no pointers to anything. Many ticks come meanwhile, and none interrupts it.
        assert_eq!(unsafe { libc::poll(std::ptr::null_mut(), 0, 20) }, 0);
        assert!(!is_due(), "a tick was delivered outside of a wait");
        assert_eq!(interruptible(|| 7), None, "began to wait although a tick was due");
        assert!(is_due(), "the ticks that came meanwhile are lost");
    }

    #[test]
    fn ticks_and_tracees_come_by_turns() {
        let ticker = Ticker::start(Duration::from_secs(3600)).expect("a timer");
        let turns: Vec<bool> = (0..6).map(|_| take_turn()).collect();
        assert_eq!(turns.iter().filter(|told| **told).count(), 3, "{turns:?}");
        assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
        drop(ticker);
    }

    #[test]
    fn the_interval_can_be_changed_and_tickers_end() {
        let mut ticker = Ticker::start(Duration::from_secs(3600)).expect("a timer");
        ticker.set(Duration::from_millis(1)).expect("another interval");
        wait_for_tick();
        drop(ticker);
        assert!(!is_due());
        assert_eq!(interruptible(|| 7), Some(7));
    }

    #[test]
    fn threads_have_tickers_of_their_own() {
        let _slow = Ticker::start(Duration::from_secs(3600)).expect("a timer");
        let other = std::thread::spawn(|| {
            let _fast = Ticker::start(Duration::from_millis(1)).expect("a timer");
            wait_for_tick();
        });
        other.join().expect("the thread ends");
        assert_eq!(interruptible(|| 7), Some(7));
        assert!(!is_due());
    }
}
