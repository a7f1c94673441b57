//! The kernel's perf events for a tree of processes: which are open, and the records they have written.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use clockscope_callers::records::{Reader, Record, Said, sort_by_time};
use clockscope_callers::sample::MemoryEvent;
use clockscope_model::trace::{DeclineRow, Missing};
use clockscope_sys::perf_rings::Ring;
use clockscope_sys::perf_samples::{self, STACK_BYTES, STACK_BYTES_MOST, SampledEvent};
use clockscope_sys::{access, cpu_samples, room, tracefs};
use clockscope_text::foreign::Foreign;
use clockscope_tracee::attach::command_name;

/// Bytes of a ring, if the kernel gives so many: 128 samples.
const RING_BYTES: usize = 2 << 20;
/// Bytes of all rings together, at most.
const RINGS_BYTES: usize = 64 << 20;
/// With more events than this for one process, events cover every CPU instead of every thread: opening and
/// inheriting more takes longer than sampling is worth.
const EVENTS_MAX: usize = 2_000;
/// Bytes of a ring that is read at once.
const PROMPT_BYTES: usize = 256 << 10;
/// "Every thread" for the kernel. Their samples are then told apart by process id.
const EVERY_THREAD: i32 = -1;

/// Processes with the image at the same address, because they are forks of one process.
#[derive(Debug, Default)]
struct Family {
    members: HashSet<i32>,
    /// Open while a member lives; each with the index of its CPU's ring. Dropping them ends the sampling of
    /// all members.
    events: Vec<(usize, OwnedFd)>,
    /// Whether the events write into the rings that are read at once.
    is_prompt: bool,
}

/// Open events, and the rings that they write into.
#[derive(Debug, Default)]
pub(crate) struct Events {
    rings: Vec<Ring>,
    /// The same number of rings in the same order, which are read at once; made when first needed.
    prompt: Vec<Ring>,
    reader: Reader,
    families: HashMap<u32, Family>,
    next_family: u32,
    family_of: HashMap<i32, u32>,
    /// The tracepoint and the samples a second, if system calls are wanted.
    system_calls: Option<(u64, u32)>,
    /// Events of system calls; they stay open until the end.
    system_call_events: Vec<OwnedFd>,
    /// Whether their samples hold more of the stack.
    copies_more: bool,
    /// Processes whose system calls are sampled.
    covered: HashSet<i32>,
    /// Processes that are not sampled, with the reason.
    pub(crate) declines: Vec<DeclineRow>,
    /// The kernel has refused events for every process.
    refused: bool,
}

impl Events {
    /// Creates the rings. `mark` is the value in `r9` of clockscope's own system calls.
    pub(crate) fn new(mark: u64) -> Self {
        room::raise_descriptor_limit();
        let cpus = cpu_samples::online_cpus().unwrap_or_else(|_| vec![0]);
        let size = (RINGS_BYTES / cpus.len().max(1)).min(RING_BYTES);
        let mut events = Self { reader: Reader::new(mark), ..Self::default() };
        for cpu in cpus {
            match Ring::new(cpu, size.next_power_of_two()) {
                Ok(ring) => events.rings.push(ring),
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => {
                    events.refuse(0, &error);
                    break;
                }
            }
        }
        events
    }

    /// Turns on the sampling of system calls, at `per_second` samples a second.
    pub(crate) fn want_system_calls(&mut self, per_second: u32) {
        if self.refused {
            return;
        }
        match tracefs::tracepoint("raw_syscalls", "sys_enter") {
            Ok(tracepoint) => self.system_calls = Some((tracepoint, per_second)),
            // This user may not read its number.
            Err(_) => self.decline(
                0,
                "callers of system calls need the tracepoint raw_syscalls:sys_enter, which only \
                 root may use; try sudo"
                    .to_owned(),
            ),
        }
    }

    /// The rings, for polling.
    pub(crate) fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.rings.iter().chain(&self.prompt)
    }

    /// Redirects the events of a process into rings that are read at once. False if the kernel gives no
    /// memory for these rings, or the process is not sampled.
    pub(crate) fn make_prompt(&mut self, pid: i32) -> bool {
        let Some(number) = self.family_of.get(&pid) else { return false };
        let Some(family) = self.families.get_mut(number) else { return false };
        if family.is_prompt {
            return true;
        }
        if self.prompt.is_empty() {
            let rings = self.rings.iter().map(|ring| Ring::prompt(ring.cpu(), PROMPT_BYTES));
            self.prompt = rings.collect::<io::Result<_>>().unwrap_or_default();
        }
        let redirected = family.events.iter().all(|(ring, event)| {
            self.prompt.get(*ring).is_some_and(|ring| perf_samples::redirect(event, ring).is_ok())
        });
        family.is_prompt = redirected;
        redirected
    }

    /// Processes that are sampled.
    pub(crate) fn processes(&self) -> impl Iterator<Item = i32> {
        self.family_of.keys().copied()
    }

    /// Whether a process is one of ours: events of a whole CPU also see other processes.
    fn is_ours(&self, pid: i32) -> bool {
        self.family_of.contains_key(&pid) || self.covered.contains(&pid)
    }

    /// Opens events at the sample probe for all threads of a stopped process.
    pub(crate) fn watch_sample_probe(&mut self, pid: i32, probe: u64) {
        if self.refused {
            return;
        }
        match self.open_all(SampledEvent::Execution { address: probe }, pid) {
            Ok(events) => {
                let number = self.next_family;
                self.next_family += 1;
                let members = HashSet::from([pid]);
                self.families.insert(number, Family { members, events, is_prompt: false });
                self.family_of.insert(pid, number);
            }
            Err(error) => self.refuse(pid, &error),
        }
    }

    /// Opens events for the system calls of a process, unless it has inherited them.
    pub(crate) fn watch_system_calls(&mut self, pid: i32) {
        let Some((tracepoint, frequency)) = self.system_calls else { return };
        if !self.covered.insert(pid) {
            return;
        }
        let stack = if self.copies_more { STACK_BYTES_MOST } else { STACK_BYTES };
        let event = SampledEvent::SystemCalls { tracepoint, frequency, stack };
        match self.open_all(event, pid) {
            Ok(events) => {
                self.system_call_events.extend(events.into_iter().map(|(_, event)| event))
            }
            Err(error) => {
                self.system_calls = None;
                self.decline(pid, format!("callers of system calls: {}", reason(&error)));
            }
        }
    }

    /// Samples system calls with more of the stack from now on, because stacks are longer than what was copied.
    pub(crate) fn copy_more(&mut self) {
        if self.copies_more {
            return;
        }
        self.copies_more = true;
        self.system_call_events.clear();
        for pid in std::mem::take(&mut self.covered) {
            self.watch_system_calls(pid);
        }
    }

    /// Opens one event for each thread and CPU, or one for each CPU if those were too many.
    fn open_all(&self, subject: SampledEvent, pid: i32) -> io::Result<Vec<(usize, OwnedFd)>> {
        let threads = threads_of(pid);
        let each = |threads: &[i32]| -> io::Result<Vec<(usize, OwnedFd)>> {
            let mut events = Vec::new();
            for thread in threads {
                for (number, ring) in self.rings.iter().enumerate() {
                    match perf_samples::open(subject, *thread, ring.cpu(), ring) {
                        Ok(event) => events.push((number, event)),
                        // The thread has ended meanwhile, or the CPU is off.
                        Err(error) if is_gone(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(events)
        };
        if threads.len() * self.rings.len() > EVENTS_MAX {
            return each(&[EVERY_THREAD]).or_else(|_| each(&threads));
        }
        match each(&threads) {
            Err(error) if is_too_many(&error) => each(&[EVERY_THREAD]).map_err(|_| error),
            result => result,
        }
    }

    /// Records a fork: the child inherits the events.
    fn forked(&mut self, pid: i32, parent: i32) {
        if let Some(number) = self.family_of.get(&parent).copied() {
            self.family_of.insert(pid, number);
            if let Some(family) = self.families.get_mut(&number) {
                family.members.insert(pid);
            }
        }
        if self.covered.contains(&parent) {
            self.covered.insert(pid);
        }
    }

    /// Records that a process has ended or executed a program.
    pub(crate) fn gone(&mut self, pid: i32) {
        let Some(number) = self.family_of.remove(&pid) else { return };
        let Some(family) = self.families.get_mut(&number) else { return };
        family.members.remove(&pid);
        if family.members.is_empty() {
            self.families.remove(&number);
        }
    }

    /// Appends the records of our processes written since the last call, in the order of time.
    pub(crate) fn drain(&mut self, into: &mut Vec<Record>) {
        let reader = &self.reader;
        let mut fresh = Vec::new();
        for ring in self.rings.iter_mut().chain(&mut self.prompt) {
            ring.drain(|raw| fresh.extend(reader.read(raw)));
        }
        sort_by_time(&mut fresh);
        for record in &fresh {
            if let Said::Memory(MemoryEvent::Forked { pid, parent }) = record.said {
                self.forked(pid, parent);
            }
        }
        into.extend(fresh.into_iter().filter(|record| match &record.said {
            Said::Sample(taken) => self.is_ours(taken.sample.pid),
            Said::Memory(MemoryEvent::Mapped { pid, .. } | MemoryEvent::Forked { pid, .. }) => {
                self.is_ours(*pid)
            }
            _ => true,
        }));
    }

    fn refuse(&mut self, pid: i32, error: &io::Error) {
        let for_all = matches!(
            error.raw_os_error(),
            Some(libc::EACCES | libc::EPERM | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENODEV)
        );
        self.refused |= for_all;
        self.decline(if for_all { 0 } else { pid }, reason(error));
    }

    /// Records once why a process is not sampled as it should be.
    pub(super) fn decline_once(&mut self, pid: i32, reason: &str) {
        if !self.declines.iter().any(|decline| decline.pid == pid && decline.reason == reason) {
            self.decline(pid, reason.to_owned());
        }
    }

    /// Records why a process, or every process (`pid` 0), is not sampled.
    pub(crate) fn decline(&mut self, pid: i32, reason: String) {
        let what = Missing::Callers;
        let command = if pid == 0 { Foreign::default() } else { command_name(pid) };
        self.declines.push(DeclineRow { pid, command, what, reason });
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

fn is_too_many(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Reason why the kernel opens no events, as a clause.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let paranoid = paranoid.unwrap_or_default();
            let now = match paranoid.trim() {
                "" => String::new(),
                level => format!(" (kernel.perf_event_paranoid is {level})"),
            };
            let user = if access::effective_uid() == 0 { "this container" } else { "this user" };
            format!(
                "the kernel lets {user} sample nobody{now}; try as root, or sudo sysctl \
                 kernel.perf_event_paranoid=2"
            )
        }
        Some(libc::ENOSPC) => {
            "all hardware breakpoints are in use, by a debugger or by perf".to_owned()
        }
        Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::ENODEV | libc::ENOENT) => {
            "this kernel or machine has no hardware breakpoints".to_owned()
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "too many threads for the open files that are allowed (ulimit -n)".to_owned()
        }
        _ => format!("the kernel opens no event: {error}"),
    }
}

/// The threads of a process; `pid` alone if they cannot be listed.
fn threads_of(pid: i32) -> Vec<i32> {
    let threads = access::threads_of(pid);
    if threads.is_empty() { vec![pid] } else { threads }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_family_stay_until_its_last_member_is_gone() {
        let mut events = Events { covered: HashSet::from([7]), ..Events::default() };
        events.watch_sample_probe(7, 0x1000);
        events.forked(8, 7);
        events.forked(9, 100);
        assert!(events.is_ours(8) && !events.is_ours(9) && events.covered.contains(&8));
        events.gone(7);
        assert_eq!(events.families.len(), 1);
        events.gone(8);
        assert!(events.families.is_empty() && !events.family_of.contains_key(&8));
    }

    #[test]
    fn what_the_kernel_refuses_to_all_is_said_once() {
        let mut events = Events::new(0);
        events.refused = false;
        events.declines.clear();
        events.refuse(5, &io::Error::from_raw_os_error(libc::EACCES));
        events.watch_sample_probe(6, 0x1000);
        let [decline] = &events.declines[..] else { panic!("{:?}", events.declines) };
        assert_eq!((decline.pid, decline.what), (0, Missing::Callers));
        assert!(decline.reason.contains("perf_event_paranoid"), "{}", decline.reason);
    }

    /// Stands for the sample probe in this test's process.
    #[inline(never)]
    extern "C" fn passed_by_threads(number: u64) -> u64 {
        std::hint::black_box(number + 1)
    }

    #[test]
    fn every_thread_that_is_there_already_is_watched() {
        let own = i32::try_from(std::process::id()).unwrap();
        let started = std::sync::Barrier::new(4);
        let watched = std::sync::Barrier::new(4);
        let mut records = Vec::new();
        let mut events = Events::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (started, watched) = (&started, &watched);
                scope.spawn(move || {
                    started.wait();
                    watched.wait();
                    (0..5).map(|turn| passed_by_threads(thread * turn)).sum::<u64>()
                });
            }
            started.wait();
            events.watch_sample_probe(own, (passed_by_threads as *const ()).addr() as u64);
            watched.wait();
        });
        events.drain(&mut records);
        if let Some(decline) = events.declines.first() {
            return skips::skip(format_args!("nobody may sample here: {}", decline.reason));
        }
        let mut threads = HashMap::new();
        for record in &records {
            if let Said::Sample(taken) = &record.said {
                *threads.entry(taken.sample.tid).or_insert(0) += 1;
                assert!(!taken.sample.stack.is_empty());
            }
        }
        assert_eq!(threads.into_values().collect::<Vec<_>>(), [5, 5, 5]);
    }
}
