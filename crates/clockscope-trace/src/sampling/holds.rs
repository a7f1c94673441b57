//! Processes whose threads wait for their samples, because an interpreter's frames change with the next
//! instruction.
//!
//! On request, the image lets a call wait behind the sample probe (`vdso_image::layout::Threads`). The tracer
//! releases the thread after reading its frames. A thread goes on without release after 2 ms if the tracer has not begun
//! to read by then, or else 20 ms later. The frames count only if the thread waited all the time.
//!
//! The words of the request are in private memory of the process; clockscope writes them with
//! `process_vm_writev(2)`. Before each write it checks that its image is there: the process may have executed
//! another program meanwhile.

use std::collections::HashMap;
use std::mem::offset_of;
use std::time::{Duration, Instant};

use vdso_image::layout::{
    CPU_SLOTS, Constants, SESSION_MARK, SESSION_OFFSET, SHARED_OFFSET, Shared, Slot,
    THREADS_OFFSET, Threads,
};

use super::rate::{Look, Rate};
use clockscope_model::callers::Waits;
use clockscope_sys::memory;

/// Waits without a result after which an interpreter counts as not found.
const VAIN_MAX: u32 = 50;
/// Longest time between two writes of the request; a write also ends the pause after a wait without a result.
const TOLD_AFTER: Duration = Duration::from_millis(50);

/// A process whose threads wait.
#[derive(Debug)]
struct Process {
    /// Address of the image.
    image: u64,
    rate: Rate,
    /// Start of the waiting.
    begun: Instant,
    /// The last request (one call in how many waits) and its time.
    told: Option<(u64, Instant)>,
    /// Samples since the last look.
    samples: u64,
    /// Waits in a row without a result.
    in_vain: u32,
    /// Waiting has ended: the process has no interpreter with readable frames.
    is_over: bool,
}

/// All processes whose threads wait.
#[derive(Debug)]
pub(crate) struct Holds {
    processes: HashMap<i32, Process>,
    per_second: u32,
    /// Cost of the samples of processes that are gone, in nanoseconds.
    spent_ns: f64,
    /// Number of waits until the frames were read.
    waited: u64,
    /// Samples of known cost, and the sum of these costs in nanoseconds.
    known: (u32, f64),
}

impl Holds {
    /// `per_second` is the rate of samples that was asked for.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { processes: HashMap::new(), per_second, spent_ns: 0.0, waited: 0, known: (0, 0.0) }
    }

    /// Starts the waiting of a process's threads; its image is at `image`.
    pub(crate) fn begin(&mut self, pid: i32, image: u64) {
        self.begin_at(pid, image, Rate::held(self.per_second));
    }

    fn begin_at(&mut self, pid: i32, image: u64, rate: Rate) {
        let process = self.processes.entry(pid).or_insert(Process {
            image,
            rate,
            begun: Instant::now(),
            told: None,
            samples: 0,
            in_vain: 0,
            is_over: false,
        });
        if !process.is_over {
            process.tell(pid);
        }
    }

    /// Starts the waiting of a forked process, if its parent waits.
    pub(crate) fn forked(&mut self, pid: i32, parent: i32) {
        let of_parent = self.processes.get(&parent).filter(|parent| !parent.is_over);
        if let Some((image, rate)) = of_parent.map(|parent| (parent.image, parent.rate)) {
            self.begin_at(pid, image, rate.of_copy());
        }
    }

    /// Forgets a process that has ended or executed another program.
    pub(crate) fn gone(&mut self, pid: i32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.spent_ns += process.rate.spent_ns;
        }
    }

    /// Whether samples of a process count only if its threads waited.
    pub(crate) fn asks(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_some_and(|process| !process.is_over)
    }

    /// Whether an address is that of a CPU's slot in a process: threads that count there never wait.
    pub(crate) fn is_of_cpu(&self, pid: i32, slot: u64) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.is_of_cpu(slot))
    }

    /// Whether the threads of a process were ever asked to wait.
    pub(crate) fn knows(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Records a sample of a process whose threads wait, with its cost.
    pub(crate) fn sampled(&mut self, pid: i32, cost_ns: Option<f64>) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.samples += 1;
            if let Some(cost) = cost_ns {
                process.rate.cost(cost);
                self.known = (self.known.0.saturating_add(1), self.known.1 + cost);
            }
        }
    }

    /// Reads a thread's frames while it waits, and releases it. `read` gets the thread's `pthread_self(3)`;
    /// its error says whether another try is worthwhile. `None` if the thread did not wait all the time.
    pub(crate) fn read<T>(
        &mut self,
        pid: i32,
        slot: u64,
        number: u64,
        read: impl FnOnce(u64) -> Result<T, bool>,
    ) -> Option<T> {
        let process = self.processes.get_mut(&pid)?;
        // Only this thread's wait has this number: the image is therefore there.
        let is_held = |words: &Words| words.held == number;
        process.words(pid).filter(is_held)?;
        process.write(pid, offset_of!(Threads, reading), number);
        let words = process.words(pid).filter(is_held)?;
        if words.left == number {
            process.forgive(pid, words);
            return None;
        }
        // A sample does not contain the thread's FS base. The slot's key is that address plus one.
        let key = memory::read_u64(pid, slot.wrapping_add(offset_of!(Slot, key) as u64));
        let found = key.map_err(|_| true).and_then(|key| read(key.wrapping_sub(1)));
        let words = process.words(pid);
        let waited = words.is_some_and(|words| words.held == number && words.left != number);
        match &found {
            Ok(_) => process.in_vain = 0,
            Err(again) => {
                process.in_vain += 1;
                process.is_over |= !again || process.in_vain > VAIN_MAX;
            }
        }
        if waited {
            process.write(pid, offset_of!(Threads, released), number);
        }
        if let Some(words) = words {
            process.forgive(pid, words);
        }
        self.waited += u64::from(waited);
        found.ok().filter(|_| waited)
    }

    /// Adapts the rates; `cpu` gives the processor time of a process.
    pub(crate) fn look(&mut self, since: Duration, cpu: impl Fn(i32) -> Option<Duration>) {
        for (pid, process) in &mut self.processes {
            let samples = std::mem::take(&mut process.samples);
            let cpu = cpu(*pid).unwrap_or_default();
            let wall = process.begun.elapsed();
            process.rate.look(&Look { since, samples, throttled: false, cpu, wall });
            let is_told = process.told.is_some_and(|(wanted, at)| {
                wanted == process.wanted() && at.elapsed() < TOLD_AFTER
            });
            if !is_told {
                process.tell(*pid);
            }
        }
    }

    /// Ends the waiting in all processes.
    pub(crate) fn end(&mut self) {
        for (pid, process) in &mut self.processes {
            process.is_over = true;
            process.tell(*pid);
        }
    }

    /// The report on waiting, with `missed` samples that were not read in time; `None` if no thread waited.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of some us"
    )]
    pub(crate) fn waits(&self, missed: u64) -> Option<Waits> {
        let (known, sum) = self.known;
        let mean_ns = (known > 0).then(|| (sum / f64::from(known)) as u64);
        (self.waited > 0).then_some(Waits { count: self.waited, missed, mean_ns })
    }

    /// Cost of all samples, in nanoseconds.
    pub(crate) fn spent_ns(&self) -> f64 {
        self.processes.values().map(|process| process.rate.spent_ns).sum::<f64>() + self.spent_ns
    }
}

/// The request and the state in [`Threads`].
#[derive(Clone, Copy, Debug)]
struct Words {
    one_in: u64,
    held: u64,
    left: u64,
    seen: u64,
}

impl Process {
    /// One in this many timed calls is to wait; 0: none.
    fn wanted(&self) -> u64 {
        if self.is_over { 0 } else { self.rate.one_in().into() }
    }

    /// Writes the request into the process, and ends the pause after a wait without a result.
    fn tell(&mut self, pid: i32) {
        let wanted = self.wanted();
        self.told = Some((wanted, Instant::now()));
        let mark = self.image + (SESSION_OFFSET + offset_of!(Constants, mark)) as u64;
        let is_there = memory::read_u64(pid, mark).is_ok_and(|mark| mark == SESSION_MARK);
        let Some(words) = self.words(pid).filter(|_| is_there) else { return };
        if words.one_in != wanted {
            self.write(pid, offset_of!(Threads, hold_one_in), wanted);
        }
        self.forgive(pid, words);
    }

    /// Ends the pause after a wait without a result. Writes `seen` and leaves `left` as it is: the sample of
    /// that call may still be unread and must not count.
    fn forgive(&self, pid: i32, words: Words) {
        if words.left != words.seen {
            self.write(pid, offset_of!(Threads, seen), words.left);
        }
    }

    /// Whether a slot is that of a CPU: the CPUs' slots lie before those of threads.
    fn is_of_cpu(&self, slot: u64) -> bool {
        let first = self.image + (SHARED_OFFSET + offset_of!(Shared, slots)) as u64;
        slot.wrapping_sub(first) < (CPU_SLOTS * size_of::<Slot>()) as u64
    }

    /// Reads the words of the process.
    fn words(&self, pid: i32) -> Option<Words> {
        let mut bytes = [0; offset_of!(Threads, entries)];
        let read = memory::read(pid, self.field(0), &mut bytes).ok()?;
        let word = |at: usize| {
            let bytes = bytes[..read].get(at..at + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Words {
            one_in: word(offset_of!(Threads, hold_one_in))?,
            held: word(offset_of!(Threads, held))?,
            left: word(offset_of!(Threads, left))?,
            seen: word(offset_of!(Threads, seen))?,
        })
    }

    fn write(&self, pid: i32, field: usize, value: u64) {
        // The write fails if the process is gone, which needs no action.
        let _ = memory::write(pid, self.field(field), &value.to_ne_bytes());
    }

    fn field(&self, field: usize) -> u64 {
        self.image + (THREADS_OFFSET + field) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use vdso_image::layout::TOTAL_SIZE;

    const NUMBER: u64 = 5_000;

    /// An image in this test's process that is never executed, and its words.
    struct Image(Vec<u64>);

    impl Image {
        fn new() -> Self {
            let mut image = Self(vec![0; TOTAL_SIZE / 8]);
            image.set(SESSION_OFFSET + offset_of!(Constants, mark), SESSION_MARK);
            image
        }

        fn set(&mut self, at: usize, value: u64) {
            self.0[at / 8] = value;
        }

        fn set_word(&mut self, field: usize, value: u64) {
            self.set(THREADS_OFFSET + field, value);
        }

        fn word(&self, field: usize) -> u64 {
            // `process_vm_writev(2)` changes the words, which the compiler does not see.
            std::hint::black_box(&self.0)[(THREADS_OFFSET + field) / 8]
        }

        fn at(&self) -> u64 {
            self.0.as_ptr() as u64
        }
    }

    fn pid() -> i32 {
        std::process::id().cast_signed()
    }

    /// A read after the thread has gone on, with or without the end of its pause before that.
    fn read_at_the_end(left: u64) -> (Image, Option<&'static str>) {
        let mut image = Image::new();
        let mut holds = Holds::new(100);
        holds.begin(pid(), image.at());
        image.set_word(offset_of!(Threads, held), NUMBER);
        image.set_word(offset_of!(Threads, left), left);
        holds.end();
        let slot = image.at() + SHARED_OFFSET as u64;
        let read = holds.read(pid(), slot, NUMBER, |_| Ok("frames"));
        (image, read)
    }

    #[test]
    fn who_waits_is_read_and_released() {
        let (image, read) = read_at_the_end(0);
        assert_eq!(read, Some("frames"));
        assert_eq!(image.word(offset_of!(Threads, released)), NUMBER);
    }

    /// The thread has executed other functions meanwhile, which would be reported as the callers.
    #[test]
    fn who_went_on_before_is_not_read_although_others_may_wait_again() {
        let (image, read) = read_at_the_end(NUMBER);
        assert_eq!(read, None);
        let word = |field| image.word(field);
        assert_eq!(word(offset_of!(Threads, seen)), word(offset_of!(Threads, left)));
    }

    #[test]
    fn a_call_that_went_on_before_this_one_means_nothing() {
        let (_, read) = read_at_the_end(NUMBER - 1_000);
        assert_eq!(read, Some("frames"));
    }
}
