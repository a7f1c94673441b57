//! Threads that read clocks while the CPUs are sampled, to measure the cost of a read in samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastclock::ClockId;

use clockscope_sys::loops::Loop;
use clockscope_sys::{affinity, clock_reads};

/// Number of slices of the work, spread over the survey and over the CPUs.
const SLICES: u32 = 20;
/// The first slice has so many slices' work, so that a survey that is ended early knows the cost, too.
const FIRST: u32 = 3;
/// Reads between two checks of the time.
const READS: u64 = 500;

/// A thread that reads a clock.
#[derive(Debug)]
pub(crate) struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
    /// Thread id.
    pub(crate) tid: i32,
}

impl Reader {
    /// Starts the thread. It reads for `cpu` of CPU time in all, spread over `window`; after `window` it reads without
    /// a pause until it is ended.
    pub(crate) fn start(calling: Loop, cpu: Duration, window: Duration) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = std::sync::mpsc::channel();
        let asked = Arc::clone(&stop);
        let work = move || {
            let _ = send.send(own_tid());
            read(&calling, cpu, window, &asked)
        };
        let thread = thread::Builder::new().name("reader".to_owned()).spawn(work).ok()?;
        let tid = receive.recv().ok()??;
        Some(Self { stop, thread, tid })
    }

    /// Ends the thread; gives the number of its reads.
    pub(crate) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(0)
    }
}

fn own_tid() -> Option<i32> {
    std::fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

/// CPU time of this thread, by our own system call, which differs from the reads that are measured.
fn cpu_time() -> Option<Duration> {
    let (seconds, nanos) = clock_reads::by_syscall(ClockId::ThreadCputime)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?))
}

fn read(calling: &Loop, cpu: Duration, window: Duration, stop: &AtomicBool) -> u64 {
    let (started, cpu_before) = (Instant::now(), cpu_time().unwrap_or_default());
    let cpus = affinity::allowed().unwrap_or_default();
    let mut reads = 0;
    for slice in 0..SLICES {
        if let Some(cpu) = cpus.iter().cycle().nth(slice as usize) {
            // If the CPU has just gone offline, the kernel has moved the thread, which does not matter.
            let _ = affinity::restrict_to(&[*cpu]);
        }
        let until = started + window * (slice + 1) / SLICES;
        // On a busy host, a slice makes up for the time that earlier slices lacked.
        let enough = cpu_before + cpu * (slice + FIRST) / (SLICES - 1 + FIRST);
        while !stop.load(Ordering::Relaxed)
            && cpu_time().is_some_and(|now| now < enough)
            && Instant::now() < until
        {
            calling.run(READS);
            reads += READS;
        }
        while !stop.load(Ordering::Relaxed) && Instant::now() < until {
            thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
    while !stop.load(Ordering::Relaxed) {
        calling.run(READS);
        reads += READS;
    }
    reads
}
