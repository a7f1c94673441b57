//! Comparisons on one CPU after another, to find an offset between their counters.

use clockscope_sys::affinity;

/// Rotates over the CPUs of this thread. Only useful if the kernel's clock is not made from the counter: otherwise both
/// have the same offset.
#[derive(Debug)]
pub(super) struct CpuRotation {
    own: Vec<u32>,
    next: usize,
}

impl CpuRotation {
    /// Rotates over the CPUs that this thread may use; `None` if there is only one.
    pub(super) fn new() -> Option<Self> {
        let own = affinity::allowed().ok().filter(|cpus| cpus.len() > 1)?;
        Some(Self { own, next: 0 })
    }

    /// Runs `work` on the next CPU; afterwards the thread may use all CPUs again.
    pub(super) fn on_next<T>(&mut self, work: impl FnOnce() -> T) -> T {
        // The CPUs of this process may have changed meanwhile.
        if let Ok(own) = affinity::allowed() {
            self.own = own;
        }
        self.next = (self.next + 1) % self.own.len().max(1);
        let went =
            self.own.get(self.next).is_some_and(|cpu| affinity::restrict_to(&[*cpu]).is_ok());
        let done = work();
        if went {
            // Fails if a CPU was removed just now; the kernel has then chosen others.
            let _ = affinity::restrict_to(&self.own);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_turn_and_all_are_given_back() {
        let before = affinity::allowed().unwrap();
        let Some(mut rotation) = CpuRotation::new() else {
            assert_eq!(before.len(), 1);
            return;
        };
        let mut seen: Vec<u32> =
            (0..before.len()).map(|_| rotation.on_next(affinity::current)).collect();
        seen.sort_unstable();
        assert_eq!(seen, before);
        assert_eq!(affinity::allowed().unwrap(), before);
    }
}
