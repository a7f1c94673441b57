//! Which processes and threads there are, and what each has counted so far.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use vdso_image::layout::{COUNTERS, Shared};

use super::attach::Patch;
use super::counts::{self, Calls, Timings, Whose};
use super::decline::Decline;
use super::install::has_image;
use super::sites::{InProcess, SiteWords};
use super::spare_pages::SparePages;
use clockscope_sys::access;
use clockscope_sys::shm::Segment;
use clockscope_text::foreign::Foreign;

/// A process of the tree.
#[derive(Debug, Default)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// The process that made it; `None` for the first, and where that was not seen.
    pub parent: Option<i32>,
    /// Name of the program that it last executed.
    pub command: Foreign,
    /// The shared pages that it counts in; shared with children that have not executed.
    pub pages: Option<Rc<Segment<Shared>>>,
    /// Address in its auxiliary vector that tells where its image is, if it was started with one.
    pub image_slot: Option<u64>,
    /// Calls until now, as far as collected.
    pub calls: Calls,
    /// Calls by thread, where known; the first thread has everything that no other has.
    pub threads: HashMap<i32, Calls>,
    /// Programs of it that were not counted: name and reason.
    pub declines: Vec<(Foreign, Decline)>,
    /// Where its system calls are counted.
    pub(crate) sites: InProcess,
    /// How its vDSO is redirected, if it was attached to, or forked by one that was.
    pub patch: Option<Rc<Patch>>,
    /// False once it has ended.
    pub alive: bool,
    /// Its processor time when counting began.
    cpu_before: Duration,
    /// Its processor time when it ended, or counting did.
    cpu_after: Option<Duration>,
    /// FS base to thread id.
    thread_of_key: HashMap<u64, i32>,
}

/// All processes of the tree, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Processes {
    all: Vec<Process>,
    /// Process of each thread.
    by_thread: HashMap<i32, usize>,
    /// Times of pages that no process uses any more.
    timings: Timings,
    /// Calls that belong to no process, of pages that no process uses any more.
    nobodys: Calls,
    /// System calls that code in the processes has not counted, as clauses.
    pub lost_sites: Vec<String>,
    /// System calls in pages that no process uses any more.
    site_words: SiteWords,
    /// Code in processes counts system calls. Otherwise looking at its table would only make the kernel give it memory.
    pub(crate) has_sites: bool,
    /// Threads seen.
    threads: u64,
    /// How processes were redirected, whether they live or not: children may still be.
    patches: Vec<(Rc<Patch>, InProcess)>,
    /// Pages for programs that are executed next.
    pub(crate) spare: SparePages,
}

impl Processes {
    /// Adds a process with its first thread; gives its index.
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

    /// Adds a process that was forked by the one with this index: it counts in the same pages.
    pub(crate) fn add_child(&mut self, pid: i32, of: usize) {
        let parent = &self.all[of];
        let (command, pages) = (parent.command.clone(), parent.pages.clone());
        let (parent, patch, slot) = (parent.pid, parent.patch.clone(), parent.image_slot);
        let sites = self.all[of].sites.clone();
        let child = self.add(pid, command, pages);
        let child = &mut self.all[child];
        child.sites = sites;
        (child.parent, child.patch, child.image_slot) = (Some(parent), patch, slot);
    }

    /// Says how a process is redirected that was attached to.
    pub(crate) fn redirect(&mut self, index: usize, patch: &Rc<Patch>, sites: &InProcess) {
        // What is remembered for orphans must not keep the pages: they are finished when nobody has them any more.
        self.patches.push((Rc::clone(patch), sites.clone().of_an_orphan()));
        self.all[index].patch = Some(Rc::clone(patch));
        self.all[index].sites = sites.clone();
    }

    /// Adds a process whose parent is not known: it has stopped before its first instruction, and its parent
    /// is gone. If that was attached to, it has the same image and jumps, which are to be taken out again.
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

    /// Says which FS base a thread has, so that its calls are booked to it.
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

    /// The number by which the image knows the process: its index plus one.
    pub fn number(index: usize) -> u64 {
        index as u64 + 1
    }

    /// A task has ended; if it was a process, it had used so much processor time.
    pub fn ended(&mut self, task: i32, cpu: Duration) {
        let index = self.index_of(task).filter(|index| self.all[*index].pid == task);
        if let Some(index) = index {
            self.all[index].cpu_after = Some(cpu);
        }
    }

    /// Takes the processor time of the processes that live: what they use from now on is not counted.
    pub fn stop_cpu(&mut self) {
        for process in self.all.iter_mut().filter(|process| process.cpu_after.is_none()) {
            process.cpu_after = access::cpu_time(process.pid);
        }
    }

    /// Processor time of all processes while they were counted: each its own, and each once.
    pub fn cpu(&self) -> Duration {
        let own = |process: &Process| process.cpu_after?.checked_sub(process.cpu_before);
        self.all.iter().filter_map(own).sum()
    }

    /// Forgets a thread; the process has ended if it was the last one to be reported, its first.
    pub fn remove(&mut self, thread: i32) {
        let Some(index) = self.by_thread.remove(&thread) else { return };
        if self.all[index].pid == thread {
            self.let_go(index);
            self.all[index].alive = false;
        }
    }

    /// The process executed another program: all threads but the first are gone, and its pages.
    pub fn executed(&mut self, index: usize) {
        let pid = self.all[index].pid;
        self.by_thread.retain(|thread, process| *process != index || *thread == pid);
        self.let_go(index);
    }

    /// Takes the counts of a process out of its pages and gives the pages up.
    fn let_go(&mut self, index: usize) {
        (self.all[index].patch, self.all[index].image_slot) = (None, None);
        self.all[index].sites = InProcess::default();
        let Some(pages) = self.all[index].pages.take() else { return };
        self.all[index].collect(pages.get(), Self::number(index));
        counts::release(pages.get(), Self::number(index));
        self.all[index].thread_of_key.clear();
        if let Some(pages) = Rc::into_inner(pages) {
            self.finish(pages.get());
            self.spare.keep(pages);
        }
    }

    /// Takes what belongs to no process, and the times, out of pages.
    fn finish(&mut self, shared: &Shared) {
        for (_, calls) in counts::slots_of(shared, Whose::Nobody) {
            counts::add(&mut self.nobodys, &calls);
        }
        self.timings.add(shared);
        if self.has_sites {
            self.site_words.add(shared);
        }
    }

    /// The words of the table of system calls until now, of all processes together.
    pub fn site_words(&self) -> SiteWords {
        let mut words = self.site_words.clone();
        if self.has_sites {
            self.open().into_iter().for_each(|pages| words.add(pages.get()));
        }
        words
    }

    /// Books what was counted under an FS base to the thread that had it until now; that thread has
    /// ended and the new one has not run yet.
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

    /// Calls of all processes together until now, those that still run and those that have ended:
    /// every call that a thread had counted when its slot was read, once.
    pub fn snapshot(&self) -> Calls {
        let mut total = self.total();
        for pages in self.open() {
            for (_, calls) in counts::slots_of(pages.get(), Whose::Anybody) {
                counts::add(&mut total, &calls);
            }
        }
        total
    }

    /// Times of all processes together until now. A call that is being timed meanwhile may be in
    /// one of the sums and not yet in another.
    pub fn timings_so_far(&self) -> Timings {
        let mut timings = self.timings.clone();
        for pages in self.open() {
            timings.add(pages.get());
        }
        timings
    }

    /// The pages that are in use, each once.
    fn open(&self) -> Vec<&Rc<Segment<Shared>>> {
        let mut seen = HashSet::new();
        let in_use = self.all.iter().filter_map(|process| process.pages.as_ref());
        in_use.filter(|pages| seen.insert(Rc::as_ptr(pages))).collect()
    }

    /// Ends the count: collects from the pages of processes that still run.
    pub fn close(&mut self) {
        self.stop_cpu();
        let open: Vec<Rc<Segment<Shared>>> = self.open().into_iter().cloned().collect();
        for (index, process) in self.all.iter_mut().enumerate() {
            if let Some(pages) = process.pages.take() {
                process.collect(pages.get(), Self::number(index));
            }
        }
        for pages in open {
            self.finish(pages.get());
        }
    }

    /// All processes, in the order in which they were seen.
    pub fn all(&self) -> &[Process] {
        &self.all
    }

    /// The processes that live and have code of ours in them which counts system calls.
    pub fn with_code(&self) -> impl Iterator<Item = &Process> {
        self.all.iter().filter(|process| process.alive && process.sites.has_jumps())
    }

    /// Number of threads seen.
    pub fn threads(&self) -> u64 {
        self.threads
    }

    /// Calls of all processes together.
    pub fn total(&self) -> Calls {
        let mut total = self.nobodys;
        for process in &self.all {
            counts::add(&mut total, &process.calls);
        }
        total
    }

    /// Times of all processes together; complete after [`Self::close`].
    pub fn timings(&self) -> &Timings {
        &self.timings
    }
}

impl Process {
    /// No code of ours is to be taken out of it any more.
    pub(crate) fn forget_jumps(&mut self) {
        self.patch = None;
        self.sites = InProcess::default();
    }

    /// Adds what stands in the pages.
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
