//! Real-time priority for a tracer whose tracees are real-time threads.
//!
//! A stopped tracee waits for its tracer. If real-time threads occupy all CPUs that the tracer may use, the tracer runs
//! only in the time that real-time throttling leaves free (`sched_rt_runtime_us`: 50 ms in each second), or never. So
//! the tracer takes a priority above that of its tracees as soon as one of them has a real-time priority, and only
//! while one has. For other threads its work then costs no more than an ordinary thread's. Without the privilege
//! (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`) its priority stays as it is. If `RLIMIT_RTPRIO` sets a limit, the sentinel runs at
//! that priority.
//!
//! Each stop shows the priority of the tracee that waits. A thread that spins never stops, and may have got its
//! priority after its last stop. So a sentinel, a thread of the highest priority, checks ten times a second whether the
//! tracer wants to run and cannot. If so, the sentinel raises the tracer to the highest priority, and the tracer checks
//! all tracees again.
//!
//! A `SCHED_DEADLINE` tracee is above every priority that the tracer can take, for its reserved share of the time.
//!
//! # References
//!
//! `sched(7)`, `sched_setscheduler(2)`

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Interval of the sentinel's checks. It raises a thread that wanted to run but did not run between two checks.
const LOOK: Duration = Duration::from_millis(100);
/// Number of checks after which a thread with a raised priority checks whether it still needs the priority.
const REVIEW: u32 = 10;
/// `SCHED_DEADLINE`, include/uapi/linux/sched.h (Linux 6.18).
const DEADLINE: i32 = 6;
/// The highest priority: `sched(7)`.
const HIGHEST: i32 = 99;

/// The policy of a thread that runs before ordinary ones; its children get the default policy.
const FIRST: i32 = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;

/// How a thread is scheduled: policy and priority.
pub(super) type Scheduling = (i32, i32);

/// Lets the calling thread run before the threads that it serves, until this value is dropped: see the head of this
/// file.
///
/// Services of one thread may nest: they share a sentinel. A priority that an inner one has taken is given back when
/// the outermost one ends, or when an inner one reviews.
#[derive(Debug)]
pub struct Service {
    duty: Rc<Duty>,
    /// The real-time priority taken for this service; 0 for none.
    priority: i32,
    /// The lowest priority that was refused; this one and higher ones are not tried again.
    refused: i32,
}

/// The state that the services of a thread share.
#[derive(Debug)]
struct Duty {
    /// How the thread was scheduled before the outermost service, with `SCHED_RESET_ON_FORK`.
    before: Scheduling,
    /// `None` if no thread could be started.
    sentinel: Option<Sentinel>,
}

thread_local! {
    /// The duty of this thread, while it serves.
    static DUTY: RefCell<Weak<Duty>> = const { RefCell::new(Weak::new()) };
}

impl Service {
    /// Begins to serve, with a sentinel if there is none.
    pub fn begin() -> Self {
        let duty = DUTY.with_borrow_mut(|current| {
            let before = || scheduling(0).unwrap_or((libc::SCHED_OTHER, 0));
            let begun = || Rc::new(Duty { before: before(), sentinel: Sentinel::post() });
            let duty = current.upgrade().unwrap_or_else(begun);
            *current = Rc::downgrade(&duty);
            duty
        });
        // An inner service does not know the priority that an outer one has taken, so it must review.
        if let Some(sentinel) = &duty.sentinel {
            sentinel.shared.is_due.store(true, Relaxed);
        }
        Self { duty, priority: 0, refused: i32::MAX }
    }

    /// Takes a priority above that of `thread`, which waits for the calling one.
    pub fn serve(&mut self, thread: i32) {
        let needed = above(thread);
        if needed > self.priority {
            self.take(needed);
        }
    }

    /// Whether all threads must be looked at: [`Self::review`].
    pub fn is_due(&self) -> bool {
        self.duty.sentinel.as_ref().is_some_and(|sentinel| sentinel.shared.is_due.load(Relaxed))
    }

    /// Takes the priority that these threads, which may wait for the calling one, need; gives up a priority that is no
    /// longer needed.
    pub fn review(&mut self, threads: impl Iterator<Item = i32>) {
        if let Some(sentinel) = &self.duty.sentinel {
            sentinel.shared.is_due.store(false, Relaxed);
        }
        self.take(threads.map(above).max().unwrap_or(0));
    }

    fn take(&mut self, priority: i32) {
        let before = self.duty.before;
        // A priority lower than the one from before is of no use.
        let is_own = priority == 0 || (is_real_time(before.0) && before.1 >= priority);
        if is_own {
            put_back(before);
            self.priority = 0;
        } else if priority < self.refused {
            if set(0, (FIRST, priority)) {
                self.priority = priority;
            } else {
                // The thread keeps its present priority until that is no longer needed.
                self.refused = priority;
            }
        }
        if let Some(sentinel) = &self.duty.sentinel {
            sentinel.shared.is_above.store(self.priority > 0, Relaxed);
        }
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.sentinel = None;
        let now = scheduling(0);
        if now.is_some_and(|now| now != self.before) {
            put_back(self.before);
        }
    }
}

/// Schedules the calling thread as before. A thread that has taken a priority by `RLIMIT_RTPRIO`, without
/// `CAP_SYS_NICE`, may not clear `SCHED_RESET_ON_FORK` again: `sched(7)`. For an ordinary thread, the only effect of
/// the flag is that its children have no negative nice value.
pub(super) fn put_back(before: Scheduling) -> bool {
    set(0, before) || set(0, (before.0 | libc::SCHED_RESET_ON_FORK, before.1))
}

/// Gives the calling thread the highest priority that it may have, for good, and tells which, if any is allowed. For
/// threads that sleep until they are needed at once.
pub fn take_the_highest() -> Option<i32> {
    let limit = getrlimit(Resource::Rtprio).current.and_then(|limit| i32::try_from(limit).ok());
    let limit = limit.unwrap_or(HIGHEST).min(HIGHEST);
    [HIGHEST, limit].into_iter().find(|priority| *priority > 0 && set(0, (FIRST, *priority)))
}

/// The thread that checks whether another one is kept from running.
#[derive(Debug)]
struct Sentinel {
    shared: Arc<Watch>,
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Watch {
    /// The watched thread must review all threads.
    is_due: AtomicBool,
    /// The watched thread has a raised priority.
    is_above: AtomicBool,
}

impl Sentinel {
    /// Starts a sentinel that watches the calling thread.
    fn post() -> Option<Self> {
        // SAFETY: takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        let stat = File::open(format!("/proc/self/task/{thread}/stat")).ok()?;
        let time = File::open(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let shared = Arc::new(Watch { is_due: AtomicBool::new(true), ..Watch::default() });
        let watch = Arc::clone(&shared);
        let (end, ended) = channel();
        let stand = move || watch.stand(thread, &stat, &time, &ended);
        let posted = std::thread::Builder::new().name("sentinel".to_owned()).spawn(stand).ok()?;
        Some(Self { shared, end, thread: Some(posted) })
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // An error says that the sentinel has ended by itself.
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Watch {
    /// Checks `thread` until it is `ended`; raises it to the highest priority if it cannot run. Does nothing without the
    /// privilege.
    fn stand(&self, thread: i32, stat: &File, time: &File, ended: &Receiver<()>) {
        let Some(priority) = take_the_highest() else { return };
        let (mut last, mut looks) = (None, 0_u32);
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let seen = wants_to_run(stat).then(|| time_on_cpu(time)).flatten();
            if seen.is_some() && seen == last {
                set(thread, (FIRST, priority));
                self.is_above.store(true, Relaxed);
                self.is_due.store(true, Relaxed);
            }
            last = seen;
            looks = looks.wrapping_add(1);
            if looks % REVIEW == 0 && self.is_above.load(Relaxed) {
                self.is_due.store(true, Relaxed);
            }
        }
    }
}

/// Whether a thread runs or waits for a CPU: `R` in `proc_pid_stat(5)`.
fn wants_to_run(stat: &File) -> bool {
    let mut text = [0; 64];
    let length = stat.read_at(&mut text, 0).unwrap_or(0);
    let behind_name = text[..length].iter().rposition(|byte| *byte == b')');
    behind_name.and_then(|at| text.get(at + 2)) == Some(&b'R')
}

/// CPU time of a thread in ns: the first word of `/proc/PID/schedstat`, Documentation/scheduler/sched-stats.rst (Linux
/// 6.18).
fn time_on_cpu(time: &File) -> Option<u64> {
    let mut text = [0; 64];
    let length = time.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split(' ').next()?.parse().ok()
}

/// The priority just above this thread's; 0 if the thread has no real-time priority, or is gone.
fn above(thread: i32) -> i32 {
    match scheduling(thread) {
        Some((policy, priority)) if is_real_time(policy) => (priority + 1).min(HIGHEST),
        Some((policy, _)) if policy & !libc::SCHED_RESET_ON_FORK == DEADLINE => HIGHEST,
        _ => 0,
    }
}

/// Whether the calling thread has a real-time priority. It then must not wait for its children, which are ordinary.
pub fn is_first() -> bool {
    scheduling(0).is_some_and(|(policy, _)| is_real_time(policy))
}

fn is_real_time(policy: i32) -> bool {
    matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// How a thread is scheduled (0: the calling one); `None` if it is gone.
pub(super) fn scheduling(thread: i32) -> Option<Scheduling> {
    // SAFETY: takes a number.
    let policy = unsafe { libc::sched_getscheduler(thread) };
    if policy == -1 {
        return None;
    }
    if !is_real_time(policy) {
        return Some((policy, 0));
    }
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a local of the right type.
    let result = unsafe { libc::sched_getparam(thread, &raw mut parameters) };
    (result == 0).then_some((policy, parameters.sched_priority))
}

/// Sets how a thread is scheduled (0: the calling one). True if that is allowed.
pub(super) fn set(thread: i32, (policy, priority): Scheduling) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: takes numbers, and a pointer to a local of the right type.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;

    /// Whether this process may have real-time priorities; tried in a thread, which then ends.
    fn is_allowed_or_skip() -> bool {
        let allowed = std::thread::spawn(|| set(0, (FIRST, 40))).join().expect("it ends");
        if !allowed {
            skips::skip("real-time priorities are not allowed here");
        }
        allowed
    }

    #[test]
    fn a_thread_goes_before_whom_it_serves_and_is_as_before_afterwards() {
        let before = scheduling(0);
        let own = || scheduling(0).expect("lives");
        let mut service = Service::begin();
        let (thread, _end) = real_time_thread(40);
        let allowed = scheduling(thread) == Some((FIRST, 40));
        let raised = if allowed { (FIRST, 41) } else { own() };
        service.serve(thread);
        assert_eq!(own(), raised);
        service.review([thread].into_iter());
        assert_eq!(own(), raised);
        service.review(std::iter::empty());
        assert_eq!(Some(own()), before);
        service.serve(thread);
        drop(service);
        assert_eq!(scheduling(0), before);
    }

    /// Starts a thread of this priority; gives its number, and the sender that ends it.
    fn real_time_thread(priority: i32) -> (i32, std::sync::mpsc::Sender<()>) {
        let (tell, number) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            set(0, (FIRST, priority));
            // SAFETY: takes nothing and cannot fail.
            tell.send(unsafe { libc::gettid() }).expect("is heard");
            let _ = ended.recv();
        });
        (number.recv().expect("lives"), end)
    }

    /// With `RLIMIT_RTPRIO` only, a thread may take a priority but may not clear `SCHED_RESET_ON_FORK`.
    #[test]
    fn without_the_right_to_the_flag_a_priority_is_given_back_too() {
        if !is_allowed_or_skip() {
            return;
        }
        let (low, _end_low) = real_time_thread(10);
        let (high, _end_high) = real_time_thread(40);
        let served = std::thread::spawn(move || {
            let mut service = Service::begin();
            service.serve(low);
            assert_eq!(scheduling(0), Some((FIRST, 11)));
            // SAFETY: takes numbers; as a system call it affects this thread only.
            unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            service.serve(high);
            assert_eq!(scheduling(0), Some((FIRST, 11)), "a higher one is refused");
            service.review(std::iter::empty());
            let ordinary = Some((libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0));
            assert_eq!(scheduling(0), ordinary, "and what it has is given back");
            drop(service);
            assert_eq!(scheduling(0), ordinary);
        });
        served.join().expect("it ends");
    }

    #[test]
    fn services_may_nest() {
        if !is_allowed_or_skip() {
            return;
        }
        let (thread, _end) = real_time_thread(40);
        let served = std::thread::spawn(move || {
            let before = scheduling(0);
            let outer = Service::begin();
            // As if the sentinel had raised the thread before it could review.
            set(0, (FIRST, HIGHEST));
            let mut inner = Service::begin();
            assert!(inner.is_due(), "the inner one looks what it needs");
            inner.review(std::iter::empty());
            assert_eq!(scheduling(0), before);
            inner.serve(thread);
            drop(inner);
            assert_eq!(scheduling(0), Some((FIRST, 41)), "the outer one serves on");
            drop(outer);
            assert_eq!(scheduling(0), before);
        });
        served.join().expect("it ends");
    }

    #[test]
    fn a_thread_that_cannot_run_is_lifted() {
        if !is_allowed_or_skip() {
            return;
        }
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        // Both threads run on one CPU, where the other one spins; it ends by itself when the first has run again.
        let served = std::thread::spawn(move || {
            let mut service = Service::begin();
            service.review(std::iter::empty());
            let cpus = affinity::allowed().expect("some");
            affinity::restrict_to(&cpus[..1]).expect("is allowed");
            let spinner = std::thread::spawn(move || {
                set(0, (FIRST, 40));
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while !service.is_due() {
                std::hint::spin_loop();
            }
            let lifted = scheduling(0);
            over.store(true, Relaxed);
            spinner.join().expect("it ends");
            lifted
        });
        assert_eq!(served.join().expect("it ends"), Some((FIRST, HIGHEST)));
    }
}
