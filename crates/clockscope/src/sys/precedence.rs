//! Going before other threads for a few milliseconds.

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
    #[must_use]
    pub fn ask() -> Self {
        // SAFETY: takes numbers; 0 is the calling thread.
        let is_ordinary = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
        Self { is_given: is_ordinary && set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1) }
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        if self.is_given {
            set(libc::SCHED_OTHER, 0);
        }
    }
}

fn set(policy: i32, priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is to a local of the right type; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_an_ordinary_one_afterwards() {
        // SAFETY: takes a number; 0 is the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
        let before = policy();
        let precedence = Precedence::ask();
        assert_eq!(policy() == libc::SCHED_RR, precedence.is_given);
        drop(precedence);
        assert_eq!(policy(), before);
    }
}
