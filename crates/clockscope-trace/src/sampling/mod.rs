//! Samples the callers of calls while programs run.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the watcher that opens events in time, and the thread that reads them |
//! | `events.rs` | which events are open, for which processes |
//! | `holds.rs` | processes whose threads wait until their frames are read |
//! | `sampler.rs` | makes stacks of records, keeps the rate |
//! | `rate.rs` | the share of calls to sample |
//! | `collected.rs` | the stacks seen so far |
//! | `weights.rs` | makes call counts of samples |
//! | `build.rs` | makes the report of these |

mod build;
mod collected;
mod events;
mod holds;
mod rate;
mod sampler;
mod weights;

use std::collections::HashMap;
use std::io::PipeWriter;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use vdso_image::layout::INSTALL_MARK;

pub(crate) use build::Exact;

use self::build::Wanted;
use self::events::Events;
use self::rate::Rate;
use self::sampler::{Found, Inbox, Sampler, lock};
use crate::options::CallersOf;
use clockscope_model::callers::Callers;
use clockscope_sys::{access, poll, precedence};
use clockscope_tracee::live_pages::CallersOneIn;
use clockscope_tracee::observers::{Watcher, Wish};
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;

/// Interval of the first looks at the rings, while the rate is not known yet.
const FIRST: Duration = Duration::from_millis(5);
/// Number of looks at that interval.
const FIRST_LOOKS: u32 = 60;
/// Warning that the shares of a process's callers are wrong.
const LOSES_BREAKPOINTS: &str = "a signal has come while a thread was sampled, and that thread is not sampled any more, because its \
                                 system calls are counted by ptrace: shares are wrong; try --via bpf or --via none";
/// Interval of later looks, unless a ring fills up before.
const LATER: Duration = Duration::from_millis(50);

/// A running sampling. The tracer's thread opens events (as its watcher); a thread of its own unwinds the
/// stacks, and programs never wait for that one.
pub(crate) struct Sampling {
    inbox: Arc<Mutex<Inbox>>,
    sample_probe_offset: u32,
    wanted: Wanted,
    one_in: CallersOneIn,
    thread: Option<(JoinHandle<Found>, PipeWriter)>,
}

impl Sampling {
    /// Starts the sampling; the first samples come after an image is mapped. Call it when the program's
    /// process exists, because it starts a thread. `running` are the processes that run already.
    pub(crate) fn start(of: CallersOf, freq: u32, session: &Session, running: &[i32]) -> Self {
        let vdso = matches!(of, CallersOf::Vdso | CallersOf::All);
        let system_calls = matches!(of, CallersOf::Syscalls | CallersOf::All);
        let mut events = Events::new(INSTALL_MARK);
        if system_calls {
            events.want_system_calls(freq);
        }
        let one_in = session.callers_one_in();
        let rate = Rate::new(freq);
        one_in.set(if vdso { rate.one_in() } else { 0 });
        let inbox = Arc::new(Mutex::new(Inbox::new(events)));
        let image = session.ready.bytes.clone();
        let in_thread = Arc::clone(&inbox);
        let before: HashMap<i32, Duration> =
            running.iter().filter_map(|pid| Some((*pid, access::cpu_time(*pid)?))).collect();
        let words = one_in.clone();
        let sampler = move || Sampler::new(in_thread, image, rate, words, before, freq);
        let thread = unwind_in_background(sampler);
        let sample_probe_offset = session.ready.sample_probe_offset;
        let wanted = Wanted { vdso, system_calls, freq };
        Self { inbox, sample_probe_offset, wanted, one_in, thread }
    }

    /// Records why no process is sampled.
    pub(crate) fn decline(&self, reason: &str) {
        lock(&self.inbox).events.decline(0, reason.to_owned());
    }

    /// Ends the sampling and makes the report.
    pub(crate) fn finish(mut self, exact: &Exact<'_>) -> Callers {
        let found = self.stop();
        let declines = lock(&self.inbox).events.declines.clone();
        build::callers(found, declines, &self.wanted, exact)
    }

    /// Stops the thread; `None` if no thread was started.
    fn stop(&mut self) -> Option<Found> {
        self.one_in.set(0);
        let (thread, stop) = self.thread.take()?;
        drop(stop);
        thread.join().ok()
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the thread that unwinds the rings' records, until the writer is dropped.
fn unwind_in_background(
    sampler: impl FnOnce() -> Sampler + Send + 'static,
) -> Option<(JoinHandle<Found>, PipeWriter)> {
    let (stopped, stop) = std::io::pipe().ok()?;
    let unwind = move || {
        // A thread of Python may be waiting to be read.
        precedence::take_short_slices();
        let mut sampler = sampler();
        let mut rings = Vec::new();
        for look in 0_u32.. {
            sampler.follow_rings(&mut rings);
            let mut all: Vec<BorrowedFd<'_>> = vec![stopped.as_fd()];
            all.extend(rings.iter().map(|ring| ring.as_fd()));
            let ready = poll::wait(&all, if look < FIRST_LOOKS { FIRST } else { LATER });
            if ready.map_or(true, |ready| ready.first() == Some(&true)) {
                break;
            }
            sampler.read();
        }
        sampler.finish()
    };
    let thread = std::thread::Builder::new().name("callers".to_owned()).spawn(unwind).ok()?;
    Some((thread, stop))
}

impl Watcher for Sampling {
    fn wants_images(&self) -> bool {
        true
    }

    fn mapped(&mut self, process: i32, image: u64) {
        let probe = self.wanted.vdso.then(|| image + u64::from(self.sample_probe_offset));
        lock(&self.inbox).mapped(process, image, probe);
    }

    fn loses_breakpoints(&mut self, process: i32) {
        lock(&self.inbox).events.decline_once(process, LOSES_BREAKPOINTS);
    }

    fn gone(&mut self, process: i32) {
        lock(&self.inbox).gone(process);
    }

    fn tick(&mut self, _: &Processes) -> Wish {
        Wish::GoOn
    }

    fn interval(&self) -> Duration {
        // Ticks do nothing here.
        Duration::from_secs(3600)
    }
}
