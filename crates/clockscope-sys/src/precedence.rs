//! Raises the calling thread to `SCHED_RR` for a few milliseconds.

use super::real_time::{put_back, scheduling, set};

/// This thread goes before all that have no real-time priority, until this value is dropped.
#[derive(Debug)]
pub struct Precedence {
    is_given: bool,
}

impl Precedence {
    /// Asks for it; who has no right to (`CAP_SYS_NICE`) does without.
    ///
    /// # References
    ///
    /// `sched(7)`, `sched_setscheduler(2)`
    pub fn ask() -> Self {
        // The flag may be there from the last time.
        let is_given = policy() == Some(libc::SCHED_OTHER)
            && set(0, (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1));
        Self { is_given }
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        // Somebody else may have lifted the thread higher meanwhile (`real_time.rs`), who also lets it down.
        if !self.is_given || policy() != Some(libc::SCHED_RR) {
            return;
        }
        put_back((libc::SCHED_OTHER, 0));
    }
}

/// The policy of the calling thread, without the flag for what it makes; `None` if it is not known.
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

    /// As of a user with `RLIMIT_RTPRIO`, who may have a priority and may not take away the flag.
    #[test]
    fn without_the_right_to_the_flag_the_thread_is_an_ordinary_one_too() {
        let served = std::thread::spawn(|| {
            let before = policy();
            let precedence = Precedence::ask();
            // SAFETY: takes numbers; as a system call it is about this thread only.
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
