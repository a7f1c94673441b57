//! The processes and threads of a trace, and their counts so far.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use vdso_image::layout::{COUNTERS, Shared};

use super::areas::InProcess;
use super::attach::Patch;
use super::counted_places::CountedReads;
use super::counts::{self, Calls, Timings, Whose};
use super::decline::Decline;
use super::install::has_image;
use super::site_words::SiteWords;
use super::spare_pages::SparePages;
use clockscope_sys::shm::Segment;
use clockscope_sys::wait::Waited;
use clockscope_sys::{access, memory};
use clockscope_text::foreign::Foreign;

/// A process of the tree.
#[derive(Debug, Default)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// The process that made it; `None` for the first process, and if that was not seen.
    pub parent: Option<i32>,
    /// Name of the program that the process last executed.
    pub command: Foreign,
    /// The process's shared pages; children that have not executed a program share them.
    pub pages: Option<Rc<Segment<Shared>>>,
    /// Address of the image's address in the auxiliary vector, if the process was started with an image.
    pub image_slot: Option<u64>,
    /// Whether its only thread may count without looking for its slot, until it makes another task with its memory.
    pub(crate) may_have_only_slot: bool,
    /// Calls collected so far.
    pub calls: Calls,
    /// Calls by thread, where known; the first thread also has the calls of unknown threads.
    pub threads: HashMap<i32, Calls>,
    /// Programs of the process that were not counted: name and reason.
    pub declines: Vec<(Foreign, Decline)>,
    /// The process's areas and jumps for counting system calls.
    pub(crate) sites: InProcess,
    /// The redirection of its vDSO, if clockscope attached to the process or to the process that forked it.
    pub patch: Option<Rc<Patch>>,
    /// False once the process has ended.
    pub alive: bool,
    /// The process's processor time when counting began.
    cpu_before: Duration,
    /// The process's processor time when it ended, or when counting ended.
    cpu_after: Option<Duration>,
    /// Thread id by FS base.
    thread_of_key: HashMap<u64, i32>,
}

/// All processes of the tree, by number.
#[derive(Debug, Default)]
pub struct Processes {
    all: Vec<Process>,
    /// Index of each thread's process.
    by_thread: HashMap<i32, usize>,
    /// Times from pages that no process uses any more; of all processes together after [`Self::close`].
    pub timings: Timings,
    /// Calls without a process, from pages that no process uses any more.
    nobodys: Calls,
    /// Clauses about system calls that code in the processes has not counted.
    pub lost_sites: Vec<String>,
    /// Clauses about reads of the CPU's counter that it has not counted.
    pub lost_counters: Vec<String>,
    /// Reads of the CPU's counter that it has counted, by place.
    pub counted_reads: Vec<CountedReads>,
    /// System calls from pages that no process uses any more.
    site_words: SiteWords,
    /// Whether code in processes counts system calls. If not, reading its table would only make the kernel allocate
    /// memory.
    pub(crate) has_sites: bool,
    /// Number of threads seen.
    pub threads: u64,
    /// Time that ended threads waited for a CPU while they were counted: of all launched ones, and of those of attached
    /// processes that lived until the end.
    pub queued: Duration,
    /// The part of that time before they were counted, by thread.
    queued_before: HashMap<i32, Duration>,
    /// Redirections of attached processes, dead ones included, because their children may still have them.
    patches: Vec<(Rc<Patch>, InProcess)>,
    /// Pages for the next programs.
    pub(crate) spare: SparePages,
}

impl Processes {
    /// Adds a process with its first thread; returns its index.
    pub fn add(&mut self, pid: i32, command: Foreign, pages: Option<Rc<Segment<Shared>>>) -> usize {
        let index = self.all.len();
        self.all.push(Process {
            pid,
            command,
            pages,
            alive: true,
            cpu_before: access::cpu_time(pid).unwrap_or_default(),
            ..Process::default()
        });
        self.by_thread.insert(pid, index);
        self.threads += 1;
        index
    }

    /// Adds a process that the process with this index has forked. It counts in the same pages.
    pub(crate) fn add_child(&mut self, pid: i32, of: usize) {
        let parent = &self.all[of];
        let (command, pages) = (parent.command.clone(), parent.pages.clone());
        let (parent, patch, slot) = (parent.pid, parent.patch.clone(), parent.image_slot);
        let (sites, may_have_only_slot) =
            (self.all[of].sites.clone(), self.all[of].may_have_only_slot);
        let child = self.add(pid, command, pages);
        let child = &mut self.all[child];
        child.sites = sites.of_a_child();
        // A child of vfork has the parent's memory.
        child.may_have_only_slot = may_have_only_slot;
        (child.parent, child.patch, child.image_slot) = (Some(parent), patch, slot);
    }

    /// Notes the redirection of an attached process.
    pub(crate) fn redirect(&mut self, index: usize, patch: &Rc<Patch>, sites: &InProcess) {
        // The copy for orphans must not hold a part of the pages: pages are finished when no process uses them.
        self.patches.push((Rc::clone(patch), sites.clone().of_an_orphan()));
        self.all[index].patch = Some(Rc::clone(patch));
        self.all[index].sites = sites.clone();
        self.all[index].may_have_only_slot = true;
    }

    /// Adds a process whose parent is unknown: it has stopped before its first instruction, and its parent is gone. If
    /// clockscope was attached to the parent, the process has the same image and jumps, which must be removed again.
    pub(crate) fn adopt(&mut self, pid: i32, command: Foreign) {
        let mut patches = self.patches.iter();
        let known = patches.find(|(patch, _)| has_image(pid, patch.base)).cloned();
        let index = self.add(pid, command, None);
        if let Some((patch, sites)) = known {
            self.all[index].patch = Some(patch);
            self.all[index].sites = sites;
        }
    }

    /// Adds a thread to the process that `of` belongs to.
    pub(crate) fn add_thread(&mut self, thread: i32, of: i32) {
        if let Some(index) = self.index_of(of) {
            self.by_thread.insert(thread, index);
            self.threads += 1;
        }
    }

    /// Notes the FS base of a thread, so that its calls are attributed to it.
    pub(crate) fn name_key(&mut self, thread: i32, key: u64) {
        if let Some(index) = self.index_of(thread) {
            self.collect_thread(index, key);
            self.all[index].thread_of_key.insert(key, thread);
        }
    }

    /// True if no living thread of the process is known to have this FS base.
    pub fn is_free(&self, index: usize, key: u64) -> bool {
        let owner = self.all[index].thread_of_key.get(&key);
        owner.is_none_or(|thread| !self.by_thread.contains_key(thread))
    }

    /// The threads of a process that are known to live.
    pub fn threads_of(&self, index: usize) -> impl Iterator<Item = i32> + '_ {
        self.by_thread.iter().filter(move |(_, of)| **of == index).map(|(thread, _)| *thread)
    }

    /// All threads that are known to live.
    pub(crate) fn living(&self) -> impl Iterator<Item = i32> + '_ {
        self.by_thread.keys().copied()
    }

    /// Index of the process of a thread.
    pub fn index_of(&self, thread: i32) -> Option<usize> {
        self.by_thread.get(&thread).copied()
    }

    /// The process with this index.
    pub fn get(&self, index: usize) -> &Process {
        &self.all[index]
    }

    /// The process with this index.
    pub fn get_mut(&mut self, index: usize) -> &mut Process {
        &mut self.all[index]
    }

    /// The image's number for the process: its index plus one.
    pub fn number(index: usize) -> u64 {
        index as u64 + 1
    }

    /// Notes the times of a process or thread that has ended.
    pub(crate) fn ended(&mut self, task: &Waited) {
        let Some(index) = self.index_of(task.pid) else { return };
        if self.all[index].pid == task.pid {
            self.all[index].cpu_after = Some(task.own_cpu);
        }
        let before = self.queued_before.remove(&task.pid).unwrap_or_default();
        self.queued += task.queued.saturating_sub(before);
    }

    /// Notes for how long the threads of a running process have waited for a CPU until now.
    pub(crate) fn queue_from_now(&mut self, pid: i32) {
        let times =
            access::threads_of(pid).into_iter().map(|thread| (thread, access::queued(thread)));
        self.queued_before.extend(times);
    }

    /// Reads the times of living processes: later use is not counted.
    pub fn stop_cpu(&mut self) {
        for process in self.all.iter_mut().filter(|process| process.cpu_after.is_none()) {
            process.cpu_after = access::cpu_time(process.pid);
            for thread in access::threads_of(process.pid) {
                let before = self.queued_before.remove(&thread).unwrap_or_default();
                self.queued += access::queued(thread).saturating_sub(before);
            }
        }
    }

    /// Processor time of all processes while they were counted: the sum of each process's own time.
    pub fn cpu(&self) -> Duration {
        let own = |process: &Process| process.cpu_after?.checked_sub(process.cpu_before);
        self.all.iter().filter_map(own).sum()
    }

    /// Forgets a thread. The process has ended if this is its first thread, which is reported last.
    pub fn remove(&mut self, thread: i32) {
        let Some(index) = self.by_thread.remove(&thread) else { return };
        if self.all[index].pid == thread {
            self.let_go(index);
            self.all[index].alive = false;
        }
    }

    /// Notes that a process has executed another program: all threads but the first are gone, and so are its pages.
    pub fn executed(&mut self, index: usize) {
        let pid = self.all[index].pid;
        self.by_thread.retain(|thread, process| *process != index || *thread == pid);
        self.let_go(index);
    }

    /// Collects the counts of a process from its pages, and releases the pages.
    fn let_go(&mut self, index: usize) {
        (self.all[index].patch, self.all[index].image_slot) = (None, None);
        self.all[index].sites = InProcess::default();
        self.all[index].may_have_only_slot = false;
        let Some(pages) = self.all[index].pages.take() else { return };
        self.all[index].collect(pages.get(), Self::number(index));
        counts::release(pages.get(), Self::number(index));
        self.all[index].thread_of_key.clear();
        if let Some(pages) = Rc::into_inner(pages) {
            self.finish(pages.get());
            self.spare.keep(pages);
        }
    }

    /// Collects the calls without a process, and the times, from pages.
    fn finish(&mut self, shared: &Shared) {
        for (_, calls) in counts::slots_of(shared, Whose::Nobody) {
            counts::add(&mut self.nobodys, &calls);
        }
        self.timings.add(shared);
        if self.has_sites {
            self.site_words.add(shared);
        }
    }

    /// The sums of the table of system calls until now, over all processes.
    pub fn site_words(&self) -> SiteWords {
        let mut words = self.site_words.clone();
        if self.has_sites {
            self.open().into_iter().for_each(|pages| words.add(pages.get()));
        }
        words
    }

    /// Counts an `exit_group` of a process whose pages are not known.
    pub(crate) fn count_end(&mut self) {
        if self.has_sites {
            self.site_words.count_end();
        }
    }

    /// Attributes the calls counted under an FS base to the thread that had it until now. That thread has ended, and
    /// the new one has not run yet.
    fn collect_thread(&mut self, index: usize, key: u64) {
        let process = &mut self.all[index];
        if let Some(thread) = process.thread_of_key.get(&key)
            && let Some(pages) = &process.pages
            && let Some(calls) = counts::take_key(pages.get(), Self::number(index), key)
        {
            counts::add(&mut process.calls, &calls);
            counts::add(process.threads.entry(*thread).or_insert([0; COUNTERS]), &calls);
        }
    }

    /// Calls of all processes until now, those that have ended included: each call that had been counted when its slot
    /// was read, once.
    pub fn snapshot(&self) -> Calls {
        let mut total = self.total();
        for pages in self.open() {
            for (_, calls) in counts::slots_of(pages.get(), Whose::Anybody) {
                counts::add(&mut total, &calls);
            }
        }
        total
    }

    /// Times of all processes until now. A call that is being timed meanwhile may be in some of the sums only.
    pub fn timings_so_far(&self) -> Timings {
        let mut timings = self.timings.clone();
        self.open().into_iter().for_each(|pages| timings.add(pages.get()));
        timings
    }

    /// The pages in use, each once.
    fn open(&self) -> Vec<&Rc<Segment<Shared>>> {
        let mut seen = HashSet::new();
        let in_use = self.all.iter().filter_map(|process| process.pages.as_ref());
        in_use.filter(|pages| seen.insert(Rc::as_ptr(pages))).collect()
    }

    /// Ends the count: collects the counts from the pages of running processes.
    pub fn close(&mut self) {
        self.stop_cpu();
        let open: Vec<Rc<Segment<Shared>>> = self.open().into_iter().cloned().collect();
        for (index, process) in self.all.iter_mut().enumerate() {
            if let Some(pages) = process.pages.take() {
                process.collect(pages.get(), Self::number(index));
            }
        }
        open.iter().for_each(|pages| self.finish(pages.get()));
    }

    /// All processes, in the order in which they were seen.
    pub fn all(&self) -> &[Process] {
        &self.all
    }

    /// The living processes.
    pub(crate) fn alive_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.all.iter_mut().filter(|process| process.alive)
    }

    /// The living processes with jumps for counting system calls.
    pub fn with_code(&self) -> impl Iterator<Item = &Process> {
        self.all.iter().filter(|process| process.alive && process.sites.has_jumps())
    }

    /// Calls of all processes together.
    pub fn total(&self) -> Calls {
        let mut total = self.nobodys;
        self.all.iter().for_each(|process| counts::add(&mut total, &process.calls));
        total
    }
}

impl Process {
    /// Base address of the shim, seen through a thread of the process: from the attachment, or from the auxiliary
    /// vector if there is an image at that address. The shared pages contain it too, but another process of the user
    /// can write those.
    pub(crate) fn image(&self, through: i32) -> Option<u64> {
        if let Some(patch) = &self.patch {
            return Some(patch.base);
        }
        let base = memory::read_u64(through, self.image_slot?).ok()?;
        has_image(through, base).then_some(base)
    }

    /// Forgets jumps that need not be removed any more.
    pub(crate) fn forget_jumps(&mut self) {
        self.patch = None;
        self.sites = InProcess::default();
    }

    /// Adds the counts in the pages.
    fn collect(&mut self, shared: &Shared, number: u64) {
        for (key, calls) in counts::slots_of(shared, Whose::Process(number)) {
            counts::add(&mut self.calls, &calls);
            let thread = self.thread_of_key.get(&key).copied().unwrap_or(self.pid);
            counts::add(self.threads.entry(thread).or_insert([0; COUNTERS]), &calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use vdso_image::layout::{CPU_SLOTS, SHARED_SIZE};

    use super::*;

    fn pages() -> Rc<Segment<Shared>> {
        Rc::new(Segment::new(SHARED_SIZE, 0o600).expect("shared memory"))
    }

    /// Counts calls as the image does, in a slot of a process (0: of a CPU).
    fn count(pages: &Segment<Shared>, index: usize, number: u64, counter: usize, calls: u64) {
        let shared = pages.get();
        shared.header.slots_used[index / 64].fetch_or(1 << (index % 64), Relaxed);
        shared.slots[index].owner.store(number << 1 | 1, Relaxed);
        shared.slots[index].key.store(index as u64 + 1, Relaxed);
        shared.slots[index].calls[counter].fetch_add(calls, Relaxed);
    }

    #[test]
    fn a_snapshot_has_every_call_once_whoever_lives() {
        let mut processes = Processes::default();
        let (shared, own) = (pages(), pages());
        let parent = processes.add(100, "parent".into(), Some(Rc::clone(&shared)));
        let child = processes.add(101, "child".into(), Some(Rc::clone(&shared)));
        let other = processes.add(102, "other".into(), Some(Rc::clone(&own)));
        count(&shared, CPU_SLOTS, Processes::number(parent), 1, 1_000);
        count(&shared, CPU_SLOTS + 1, Processes::number(child), 1, 200);
        count(&shared, CPU_SLOTS + 2, 1 << 31, 1, 30);
        count(&shared, 3, 0, 1, 4);
        count(&own, CPU_SLOTS + 7, Processes::number(other), 24, 50_000);
        let both = |processes: &Processes| (processes.snapshot()[1], processes.snapshot()[24]);
        assert_eq!(both(&processes), (1_234, 50_000));
        processes.remove(101);
        assert_eq!(both(&processes), (1_234, 50_000), "a process that ended keeps its calls");
        count(&shared, CPU_SLOTS, Processes::number(parent), 1, 1_000);
        processes.executed(other);
        drop(own);
        assert_eq!(both(&processes), (2_234, 50_000), "a program executed keeps them too");
        processes.name_key(100, CPU_SLOTS as u64);
        processes.name_key(100, CPU_SLOTS as u64);
        assert_eq!(both(&processes), (2_234, 50_000), "and booking to threads moves them only");
        drop(shared);
        processes.close();
        assert_eq!(processes.snapshot(), processes.total());
        assert_eq!(both(&processes), (2_234, 50_000));
    }
}
