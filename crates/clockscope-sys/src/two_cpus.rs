//! Two threads, each on a CPU of its own.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder};

use super::affinity;

/// Runs `first` and `second` at the same time, each on its CPU.
///
/// # Errors
///
/// If one of the CPUs or threads is not available; then neither runs.
pub fn on_two_cpus<A: Send, B: Send>(
    cpus: (u32, u32),
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> io::Result<(A, B)> {
    let barrier = Barrier::new(2);
    let failed = AtomicBool::new(false);
    let (a, b) = thread::scope(|scope| {
        let a = Builder::new().spawn_scoped(scope, || on_cpu(cpus.0, &barrier, &failed, first))?;
        let b = Builder::new()
            .spawn_scoped(scope, || on_cpu(cpus.1, &barrier, &failed, second))
            .inspect_err(|_| {
                failed.store(true, Ordering::Release);
                barrier.wait();
            })?;
        io::Result::Ok((a.join(), b.join()))
    })?;
    let lost = |_| io::Error::other("a measuring thread ended early");
    Ok((a.map_err(lost)??, b.map_err(lost)??))
}

fn on_cpu<T>(
    cpu: u32,
    barrier: &Barrier,
    failed: &AtomicBool,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    let pinned = affinity::restrict_to(&[cpu]);
    failed.fetch_or(pinned.is_err(), Ordering::AcqRel);
    barrier.wait();
    pinned?;
    if failed.load(Ordering::Acquire) {
        return Err(io::Error::other("the other CPU cannot be had"));
    }
    Ok(work())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runs_on_its_cpu_or_neither_runs() {
        let cpu = affinity::allowed().unwrap()[0];
        let same = on_two_cpus((cpu, cpu), affinity::current, affinity::current).unwrap();
        assert_eq!(same, (cpu, cpu));
        let ran = AtomicBool::new(false);
        let work = || ran.store(true, Ordering::Relaxed);
        assert!(on_two_cpus((cpu, 8191), work, work).is_err());
        assert!(!ran.load(Ordering::Relaxed));
    }
}
