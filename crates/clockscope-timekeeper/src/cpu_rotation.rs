//! Looking from one CPU after another, so that an offset between their counters shows.

use clockscope_sys::affinity;

/// The CPUs of this thread, one after another. Only of use where the kernel's clock is not made
/// from the counter: otherwise both are off by the same.
#[derive(Debug)]
pub(super) struct CpuRotation {
    own: Vec<u32>,
    next: usize,
}

impl CpuRotation {
    /// Over the CPUs that this thread may use; `None` if there is only one.
    pub(super) fn new() -> Option<Self> {
        let own = affinity::allowed().ok().filter(|cpus| cpus.len() > 1)?;
        Some(Self { own, next: 0 })
    }

    /// Does something on the next CPU, and may use all of them again afterwards.
    pub(super) fn on_next<T>(&mut self, work: impl FnOnce() -> T) -> T {
        // Somebody may have given this process other CPUs meanwhile.
        if let Ok(own) = affinity::allowed() {
            self.own = own;
        }
        self.next = (self.next + 1) % self.own.len().max(1);
        let went =
            self.own.get(self.next).is_some_and(|cpu| affinity::restrict_to(&[*cpu]).is_ok());
        let done = work();
        if went {
            // That fails if a CPU was taken away just now; the kernel has then chosen others.
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
