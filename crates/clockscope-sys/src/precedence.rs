//! Scheduling the calling thread sooner: for a few milliseconds before all ordinary threads, or with a short slice.

use super::real_time::{put_back, scheduling, set};

/// Runs the calling thread as `SCHED_RR`, before all ordinary threads, until this value is dropped.
#[derive(Debug)]
pub struct Precedence {
    is_given: bool,
}

impl Precedence {
    /// Asks for `SCHED_RR`; without `CAP_SYS_NICE` nothing changes.
    ///
    /// # References
    ///
    /// `sched(7)`, `sched_setscheduler(2)`
    pub fn ask() -> Self {
        // The thread may still have `SCHED_RESET_ON_FORK` from the last time.
        let is_given = policy() == Some(libc::SCHED_OTHER)
            && set(0, (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1));
        Self { is_given }
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        // A sentinel (`real_time.rs`) may have raised the thread to `SCHED_FIFO` meanwhile; its `Service` lowers it
        // again.
        if !self.is_given || policy() != Some(libc::SCHED_RR) {
            return;
        }
        put_back((libc::SCHED_OTHER, 0));
    }
}

/// Asks for short slices of CPU time for the calling thread. The thread gets no more time than others, but runs soon
/// after it wakes, because the scheduler prefers short requests. Linux before 6.12 ignores the request.
///
/// # References
///
/// `sched_setattr(2)`; `sched_runtime` of `SCHED_OTHER`: kernel/sched/syscalls.c (Linux 6.18)
pub fn take_short_slices() {
    const SHORTEST_NS: u64 = 100_000;
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = u32::try_from(size_of::<libc::sched_attr>()).expect("some bytes");
    // SAFETY: both calls take the address of a structure of the stated size, and concern this thread only.
    unsafe {
        let size = attributes.size;
        let this = &raw mut attributes;
        if libc::syscall(libc::SYS_sched_getattr, 0, this, size, 0) == 0
            && attributes.sched_policy == libc::SCHED_OTHER.cast_unsigned()
        {
            attributes.sched_runtime = SHORTEST_NS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

/// The policy of the calling thread, without `SCHED_RESET_ON_FORK`; `None` if the call fails.
fn policy() -> Option<i32> {
    scheduling(0).map(|(policy, _)| policy & !libc::SCHED_RESET_ON_FORK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_an_ordinary_one_afterwards() {
        let before = policy();
        let precedence = Precedence::ask();
        assert_eq!(policy() == Some(libc::SCHED_RR), precedence.is_given);
        drop(precedence);
        assert_eq!(policy(), before);
    }

    #[test]
    fn short_slices_change_nothing_else() {
        let thread = std::thread::spawn(|| {
            // SAFETY: takes numbers; as a system call it affects this thread only.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) };
            take_short_slices();
            // SAFETY: the same.
            assert_eq!(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }, 3);
            assert_eq!(policy(), Some(libc::SCHED_OTHER));
        });
        thread.join().expect("it ends");
    }

    /// With `RLIMIT_RTPRIO` only, a thread may take a priority but may not clear `SCHED_RESET_ON_FORK`.
    #[test]
    fn without_the_right_to_the_flag_the_thread_is_an_ordinary_one_too() {
        let served = std::thread::spawn(|| {
            let before = policy();
            let precedence = Precedence::ask();
            // SAFETY: takes numbers; as a system call it affects this thread only.
            unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            drop(precedence);
            assert_eq!(policy(), before);
            let again = Precedence::ask();
            drop(again);
            assert_eq!(policy(), before);
        });
        served.join().expect("it ends");
    }
}
