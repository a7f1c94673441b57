//! Counts system calls in the kernel, by eBPF on `sys_enter` and `sys_exit`.
//!
//! The kernel's part is `count.bpf.c`. It adds up in maps and sends no events to user space, so no call is lost, at any
//! rate.
//!
//! # Measurements and choice
//!
//! A loop of `getppid` on an AMD EPYC guest, Linux 6.18, as multiples of the untraced 168 ns. Cheapest of nine rounds,
//! measured during development; `make bench` measures the chosen program:
//!
//! | program | followed | other processes |
//! |---|--:|--:|
//! | empty, `sys_enter` only: the floor | - | 1.43 |
//! | empty, `sys_enter` and `sys_exit`: the floor | - | 1.70 |
//! | found by task-local storage: counts, time | 1.75, 2.74 | 1.77, 2.14 |
//! | found in an array by thread number (here): counts, time | 1.57, 2.43 | 1.55, 1.88 |
//! | the same with a distribution | 2.74 | 1.88 |
//! | the same by process: counts, time | 1.88, 2.87 | 1.55, 1.90 |
//! | the same from perf events: counts, time | 2.27, 3.09 | 2.21, 2.65 |
//!
//! So threads are found in an array by the low bits of their number, a lookup that the kernel inlines (a hash or
//! task-local storage is a call). Probes are `tp_btf`, which read registers without a helper, on kernels that do not
//! preempt a thread inside such a probe. Totals are in a per-CPU part of an array, without atomic operations. A
//! breakdown needs a hash, with atomic additions because a process runs on several CPUs.
//!
//! # Counted calls
//!
//! Every call is counted at `sys_enter`; its error and time at `sys_exit`. Calls that a seccomp filter or a tracer
//! refuses do not reach `sys_enter`. They are counted at `sys_exit`, without a time, and therefore not at all without
//! [`BpfOptions::time`]. A call interrupted by a signal is an error, and a second call when the kernel restarts it, as
//! in `strace`.

use clockscope_stats::order;
use std::collections::HashMap;
use std::hint;
use std::io;
use std::os::unix::process::parent_id;
use std::time::Instant;

use super::Breakdown;
use super::calibrate::{self, ProbeCost};
use super::decline::BpfDecline;
use super::kernel_types::{FUNC, TYPEDEF, Types};
#[cfg(have_bpf)]
use super::loader::Aligned;
use super::loader::{self, Loaded, numbers, words};
use super::tally::{Abi, LAYOUT, SyscallTally};
use clockscope_sys::bpf::kernel_types::of_this_kernel;
use clockscope_sys::bpf::maps::{self, Map, Mapped};
use clockscope_sys::bpf::programs::{Attached, Program, Purpose};
use clockscope_sys::{identity, tracefs};

#[cfg(have_bpf)]
static OBJECT: Option<&[u8]> = {
    static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!(env!("CLOCKSCOPE_BPF_OBJECT")));
    Some(&FILE.0)
};
#[cfg(not(have_bpf))]
static OBJECT: Option<&[u8]> = None;

/// The quantities to count, and the breakdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfOptions {
    /// Count errors and measure time too: needs a second probe, at `sys_exit`.
    pub time: bool,
    /// Keep the distribution of times; implies `time`.
    pub latency: bool,
    /// How calls are broken down.
    pub breakdown: Breakdown,
    /// Calls with this value as sixth argument are clockscope's own and are not counted.
    pub mark: u64,
    /// Count only these native numbers (and no 32-bit call); `None` counts all.
    pub numbers: Option<Vec<u32>>,
    /// Number of low bits of the thread number that index `threads`; threads that collide are found by a slower lookup.
    /// `None` takes 16. For tests, which make collisions.
    pub thread_bits: Option<u8>,
    /// Use the probes of perf events even if the cheaper ones miss no call. For tests.
    pub events: bool,
}

/// Counts of calls or threads that were lost or could not be attributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BpfLosses {
    /// Threads that could not be followed because kernel memory was short; their calls are missing.
    pub threads: u64,
    /// Calls that are missing in the distributions because those are full.
    pub undistributed_calls: u64,
    /// Calls attributed to process 0 because the breakdown is full.
    pub unattributed_calls: u64,
    /// How often the kernel skipped a probe because that CPU was inside another one. Each skip loses a system call, or
    /// the start or end of a thread; the threads may be followed ones or others.
    pub probes_left_out: u64,
}

/// A running count; dropping it removes the probes from the kernel.
#[derive(Debug)]
pub struct BpfCounter {
    /// The attached probes.
    _attached: Vec<Attached>,
    programs: HashMap<&'static str, Program>,
    maps: HashMap<String, Map>,
    /// The map `totals`.
    totals: Mapped,
    cpus: usize,
    /// The cost of the probes, measured when the counter was started.
    pub cost: ProbeCost,
}

// Same values as in `count.bpf.c`.
const NUMBERS: u32 = 512;
const SLOT_CALIBRATION: u32 = 1024;
const SLOT_OVERFLOW: u32 = 1025;
const SLOTS: u32 = 1027;
const ABI_CALIBRATION: u32 = 2;
const NOTE_WANTED: u32 = 2;
const NOTE_FOUND: u32 = 3;
const NOTE_THREADS: u32 = 4;
const NOTE_BUCKETS: u32 = 5;
const NOTE_ROWS: u32 = 6;

/// `struct counts`: calls, returns, errors, time, max, and padding.
type Counts = [u64; COUNTS_WORDS];
const COUNTS_WORDS: usize = 8;
/// `struct row_key`: process, thread, number, ABI.
type RowKey = [u32; 4];

impl BpfCounter {
    /// Attaches the probes and measures their cost. No process is followed yet.
    ///
    /// Takes some 10 ms. The calibration follows the calling thread for about a millisecond; its calls appear in no
    /// result.
    ///
    /// # Errors
    /// The reason, as a clause.
    pub fn start(options: &BpfOptions) -> Result<Self, BpfDecline> {
        let object = OBJECT.ok_or(BpfDecline::NotBuilt)?;
        let bytes = of_this_kernel().map_err(|_| BpfDecline::NoBtf)?;
        let types = Types::parse(&bytes).ok_or(BpfDecline::NoBtf)?;
        let refused = |error: io::Error| BpfDecline::from_error("share the counts", &error);
        let cpus = maps::cpu_numbers().map_err(refused)?;
        let loaded = load(object, options, &types, cpus)?;
        let totals = loaded.maps.get("totals").ok_or(BpfDecline::NotBuilt)?;
        let totals = Mapped::new(totals, cpus * SLOTS as usize * COUNTS_WORDS).map_err(refused)?;
        let way = if options.events { Way::Event } else { way(&identity::kernel().release) };
        let programs = load_programs(&loaded, options, &types, way)?;
        drop(bytes);
        // As late as can be, so that the machine changes little between this and the calibration.
        let untraced_ps = cheapest_batch_ps();
        let attached = attach_probes(&programs, options, way)?;
        let cost = ProbeCost { untraced_ps, ..ProbeCost::default() };
        let maps = loaded.maps;
        let mut counter = Self { _attached: attached, programs, maps, totals, cpus, cost };
        counter.calibrate(options.time || options.latency)?;
        Ok(counter)
    }

    /// Counts the calls of a process from now on: of all its threads, and of all threads and processes that it starts.
    /// A call in progress is not counted.
    ///
    /// Exact for a process that is stopped or asleep. If it starts a thread meanwhile, that thread may be missed.
    ///
    /// # Errors
    /// `NotFound` if there is no such process; the kernel's otherwise.
    pub fn follow(&mut self, pid: i32) -> io::Result<()> {
        let wanted = u64::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        let before = self.note(NOTE_FOUND)?;
        self.set_note(NOTE_WANTED, wanted)?;
        self.program("follow_process")?.iterate()?;
        if self.note(NOTE_FOUND)? == before {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such process"));
        }
        Ok(())
    }

    /// The counts so far, by process, thread, ABI and number.
    ///
    /// Each number is exact at the moment it is read. If the program runs meanwhile, one row may be a call ahead of
    /// another.
    ///
    /// # Errors
    /// The kernel's, in reading a map.
    pub fn read(&self) -> io::Result<Vec<SyscallTally>> {
        let mut tallies = self.read_totals();
        self.each_row(|key, counts| tallies.extend(tally(key, &counts)))?;
        order::by_key(&mut tallies, SyscallTally::place);
        self.read_histograms(&mut tallies)?;
        Ok(tallies)
    }

    /// Losses so far; all zero unless memory or map entries were short.
    ///
    /// # Errors
    /// The kernel's, in reading a map.
    pub fn losses(&self) -> io::Result<BpfLosses> {
        Ok(BpfLosses {
            threads: self.note(NOTE_THREADS)?,
            undistributed_calls: self.note(NOTE_BUCKETS)?,
            unattributed_calls: self.note(NOTE_ROWS)?,
            probes_left_out: self.programs.values().map(Program::left_out).sum(),
        })
    }

    fn note(&self, which: u32) -> io::Result<u64> {
        loader::note(self.map("notes")?, which)
    }

    fn set_note(&mut self, which: u32, value: u64) -> io::Result<()> {
        self.map("notes")?.set(&which.to_ne_bytes(), &value.to_ne_bytes())
    }

    fn map(&self, name: &str) -> io::Result<&Map> {
        self.maps.get(name).ok_or_else(|| io::Error::other(format!("the map `{name}` is missing")))
    }

    fn program(&self, name: &str) -> io::Result<&Program> {
        let program = self.programs.get(name);
        program.ok_or_else(|| io::Error::other(format!("`{name}` is missing")))
    }

    /// The counts of a slot, summed over all CPUs.
    fn total(&self, slot: u32) -> Counts {
        let of_cpu = |cpu: usize| {
            let first = (cpu * SLOTS as usize + slot as usize) * COUNTS_WORDS;
            std::array::from_fn(|word| self.totals.word(first + word))
        };
        sum(&(0..self.cpus).map(of_cpu).collect::<Vec<Counts>>())
    }

    fn each_row(&self, mut show: impl FnMut(RowKey, Counts)) -> io::Result<()> {
        loader::each_entry(self.map("rows")?, |key, row| show(numbers(key), sum(&counts_in(row))))
    }

    fn read_totals(&self) -> Vec<SyscallTally> {
        let mut tallies = Vec::new();
        for slot in (0..SLOTS).filter(|slot| *slot != SLOT_CALIBRATION) {
            let (abi, number) = match slot {
                SLOT_OVERFLOW.. => (slot - SLOT_OVERFLOW, SyscallTally::OTHER),
                _ => (slot / NUMBERS, slot % NUMBERS),
            };
            tallies.extend(tally([0, 0, number, abi], &self.total(slot)));
        }
        tallies
    }

    /// Adds the distributions to the rows, which are in order of [`SyscallTally::place`].
    fn read_histograms(&self, tallies: &mut [SyscallTally]) -> io::Result<()> {
        loader::each_entry(self.map("buckets")?, |key, by_cpu| {
            let [pid, tid, number, abi, bucket] = numbers(key);
            let calls = words(by_cpu).sum();
            let Some(wanted) = tally([pid, tid, number, abi], &[1; 8]) else { return };
            let unattributed = SyscallTally { pid: 0, tid: 0, ..wanted.clone() };
            let at = [wanted, unattributed].iter().find_map(|row| {
                tallies.binary_search_by_key(&row.place(), SyscallTally::place).ok()
            });
            if let Some(at) = at {
                tallies[at].distribute(LAYOUT.bucket_at(bucket, 0).lower, calls);
            }
        })
    }

    /// Measures the cost of the probes on the calling thread.
    fn calibrate(&mut self, timed: bool) -> Result<(), BpfDecline> {
        let refused = |error: &io::Error| BpfDecline::from_error("calibrate the probes", error);
        self.cost.bystander_ps = cheapest_batch_ps();
        self.follow_self(true).map_err(|error| refused(&error))?;
        let costs = self.calibrate_followed();
        self.follow_self(false).map_err(|error| refused(&error))?;
        let (traced_ps, span_ps) = costs.map_err(|error| refused(&error))?;
        self.cost.traced_ps = traced_ps;
        self.cost.span_ps = if timed { span_ps } else { self.cost.untraced_ps };
        Ok(())
    }

    fn calibrate_followed(&self) -> io::Result<(u64, u64)> {
        let (mut traced_ps, mut span_ps) = (u64::MAX, u64::MAX);
        let mut before = self.calibration_counts()?;
        for _ in 0..BATCHES {
            traced_ps = traced_ps.min(batch_ps());
            let after = self.calibration_counts()?;
            span_ps = span_ps.min(calibrate::span_ps(before, after).unwrap_or(u64::MAX));
            before = after;
        }
        Ok((traced_ps, span_ps))
    }

    /// Calls and nanoseconds of the calibrating thread so far.
    fn calibration_counts(&self) -> io::Result<(u64, u64)> {
        let mut counts = self.total(SLOT_CALIBRATION);
        self.each_row(|key, row| {
            if key[3] == ABI_CALIBRATION {
                counts = sum(&[counts, row]);
            }
        })?;
        Ok((counts[1], counts[3]))
    }

    /// Follows the calling thread as the calibrating one, or stops following it.
    fn follow_self(&mut self, follow: bool) -> io::Result<()> {
        let mut arguments = [0; 12];
        arguments[0] = u64::from(follow);
        match self.program("follow_self")?.run(&arguments)? {
            0 => Ok(()),
            _ => Err(io::Error::other("the calling thread cannot be followed")),
        }
    }
}

/// Calls in a batch: so few that nearly all batches see no interrupt, and so many that the clock reads around them are
/// a thousandth of the time.
const CALLS: u32 = 64;
/// Batches; the cheapest one counts.
const BATCHES: u32 = 48;

fn batch_ps() -> u64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        hint::black_box(parent_id());
    }
    calibrate::per_call_ps(start.elapsed(), CALLS)
}

fn cheapest_batch_ps() -> u64 {
    (0..BATCHES).map(|_| batch_ps()).min().unwrap_or(0)
}

/// Reads the object, relocates it for this kernel, and makes its maps.
fn load(
    bytes: &[u8],
    options: &BpfOptions,
    types: &Types<'_>,
    cpus: usize,
) -> Result<Loaded, BpfDecline> {
    let breakdown = options.breakdown as u8;
    let latency = u8::from(options.latency);
    let timed = u8::from(options.time) | latency;
    let filtered = u8::from(options.numbers.is_some());
    let thread_slots = 1_u32 << options.thread_bits.unwrap_or(16).min(22);
    let thread_mask = thread_slots - 1;
    let wanted = bitmap(options.numbers.as_deref().unwrap_or_default());
    let wanted: Vec<u8> = wanted.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let (mark, thread_mask) = (options.mark.to_ne_bytes(), thread_mask.to_ne_bytes());
    let globals: [(&str, &[u8]); 7] = [
        ("timed", &[timed]),
        ("latency", &[latency]),
        ("breakdown", &[breakdown]),
        ("filtered", &[filtered]),
        ("mark", &mark),
        ("wanted", &wanted),
        ("thread_mask", &thread_mask),
    ];
    let (rows, buckets) = match (options.breakdown, options.latency) {
        (Breakdown::Total, false) => (1 << 12, 1),
        (Breakdown::Total, true) => (1 << 12, 1 << 14),
        (_, false) => (1 << 18, 1),
        (_, true) => (1 << 18, 1 << 18),
    };
    let totals = u32::try_from(cpus).unwrap_or(u32::MAX).saturating_mul(SLOTS);
    let entries =
        [("threads", thread_slots), ("totals", totals), ("rows", rows), ("buckets", buckets)];
    Loaded::load(bytes, types, &globals, &entries)
}

/// One bit for each slot of `totals`; numbers beyond the table are left out.
fn bitmap(numbers: &[u32]) -> [u64; 16] {
    let mut wanted = [0; 16];
    for number in numbers.iter().filter(|number| **number < NUMBERS) {
        wanted[*number as usize / 64] |= 1 << (number % 64);
    }
    wanted
}

/// The kind of attachment of the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the tracepoint itself.
    Tracepoint,
    /// To a perf event of the tracepoint, which costs more.
    Event,
}

/// The attachment with which no probe is skipped, by the release of the kernel.
///
/// From Linux 7.0 on, a thread may be preempted inside a tracepoint's probe. Until that thread goes on, the kernel
/// skips this probe for all other threads on that CPU. Probes of perf events run with preemption off.
///
/// # References
///
/// - `__bpf_trace_run` in kernel/trace/bpf_trace.c, `DECLARE_EVENT_CLASS` in include/trace/perf.h (Linux 7.3)
fn way(release: &str) -> Way {
    let major = release.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 7) { Way::Event } else { Way::Tracepoint }
}

/// The probed tracepoints, with their folders. `sys_enter` comes last, when all else is ready. Programs have the
/// tracepoint's name, those for perf events with the prefix `on_`.
fn probes(options: &BpfOptions) -> impl Iterator<Item = (&'static str, &'static str)> {
    let timed = options.time || options.latency;
    [
        ("sched", "sched_process_fork"),
        ("sched", "sched_process_exec"),
        ("sched", "sched_process_exit"),
        ("raw_syscalls", "sys_exit"),
        ("raw_syscalls", "sys_enter"),
    ]
    .into_iter()
    .filter(move |probe| timed || probe.1 != "sys_exit")
}

/// Has the kernel verify and compile the programs.
fn load_programs(
    loaded: &Loaded,
    options: &BpfOptions,
    types: &Types<'_>,
    way: Way,
) -> Result<HashMap<&'static str, Program>, BpfDecline> {
    let probe = |tracepoint: &'static str| match way {
        Way::Tracepoint => {
            let number = types.find(TYPEDEF, &format!("btf_trace_{tracepoint}"));
            (tracepoint, tracepoint.to_owned(), number.map(Purpose::Tracepoint))
        }
        Way::Event => (tracepoint, format!("on_{tracepoint}"), Some(Purpose::Event)),
    };
    let tasks = types.find(FUNC, "bpf_iter_task").map(Purpose::Iterator);
    let others = [("follow_process", tasks), ("follow_self", Some(Purpose::Once))];
    probes(options)
        .map(|(_, tracepoint)| probe(tracepoint))
        .chain(others.map(|(name, purpose)| (name, name.to_owned(), purpose)))
        .map(|(key, name, purpose)| Ok((key, loaded.program(&name, purpose)?)))
        .collect()
}

/// Attaches the probes; they run from here on.
fn attach_probes(
    programs: &HashMap<&'static str, Program>,
    options: &BpfOptions,
    way: Way,
) -> Result<Vec<Attached>, BpfDecline> {
    // tracefs needs a permission of its own, besides those for eBPF.
    let number = |folder: &str, tracepoint: &str| {
        tracefs::tracepoint(folder, tracepoint).map_err(|error| {
            io::Error::other(format!("root must let this user read tracefs ({error})"))
        })
    };
    let attach = |(folder, tracepoint): (&str, &str)| {
        let program = programs.get(tracepoint).ok_or(io::ErrorKind::NotFound);
        program
            .map_err(io::Error::from)
            .and_then(|program| match way {
                Way::Tracepoint => program.attach(),
                Way::Event => program.attach_to_event(number(folder, tracepoint)?),
            })
            .map_err(|error| BpfDecline::from_error(&format!("attach `{tracepoint}`"), &error))
    };
    probes(options).map(attach).collect()
}

/// The counts in a map's value: one, or one for each CPU.
fn counts_in(value: &[u8]) -> Vec<Counts> {
    let words: Vec<u64> = words(value).collect();
    words.as_chunks().0.to_vec()
}

fn sum(by_cpu: &[Counts]) -> Counts {
    by_cpu.iter().fold([0; 8], |mut total, counts| {
        for (total, count) in total.iter_mut().zip(counts).take(4) {
            *total += count;
        }
        total[4] = total[4].max(counts[4]);
        total
    })
}

/// A row for the reader; `None` if it is empty or the calibration's.
fn tally([pid, tid, number, abi]: RowKey, counts: &Counts) -> Option<SyscallTally> {
    let abi = match abi {
        0 => Abi::Native,
        1 => Abi::Ia32,
        _ => return None,
    };
    let [calls, timed, errors, time_ns, max_ns, ..] = *counts;
    (calls > 0).then_some(SyscallTally {
        calls,
        timed,
        errors,
        time_ns,
        max_ns,
        ..SyscallTally::new(pid.cast_signed(), tid.cast_signed(), abi, number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bitmap_has_a_bit_for_each_number_in_the_table() {
        let wanted = bitmap(&[0, 63, 64, 511, 512, u32::MAX]);
        assert_eq!(wanted[0], 1 | 1 << 63);
        assert_eq!(wanted[1], 1);
        assert_eq!(wanted[7], 1 << 63);
        assert_eq!(wanted[8..], [0; 8]);
    }

    /// Linux 5.12 counts by these programs; its newest helper is `bpf_check_mtu`, 163 (include/uapi/linux/bpf.h).
    #[test]
    #[cfg(have_bpf)]
    fn programs_on_tracepoints_call_no_helper_newer_than_linux_5_12() {
        const CALL: u8 = 0x85;
        let object = aya_obj::Object::parse(OBJECT.unwrap()).unwrap();
        let mut programs = 0;
        for (name, program) in object.programs.iter().filter(|(name, _)| !name.starts_with("on_")) {
            let instructions = &object.functions[&program.function_key()].instructions;
            let newest = instructions.iter().filter(|it| it.code == CALL).map(|it| it.imm).max();
            assert!(newest.unwrap_or(0) <= 163, "{name}: {newest:?}");
            programs += 1;
        }
        assert_eq!(programs, 7);
    }

    #[test]
    fn probes_that_can_be_preempted_are_not_taken() {
        let tracepoint = ["5.12.0", "6.18.5", "6.19-rc8"];
        assert!(tracepoint.iter().all(|release| way(release) == Way::Tracepoint));
        let event = ["7.0.0-rc1", "7.3.4+deb13-cloud-amd64", "10.1.0"];
        assert!(event.iter().all(|release| way(release) == Way::Event));
    }

    #[test]
    fn cpus_are_added_up_and_the_longest_call_is_the_longest_of_all() {
        let cpus = [[1, 2, 3, 4, 50, 9, 9, 9], [10, 20, 30, 40, 5, 9, 9, 9]];
        assert_eq!(sum(&cpus), [11, 22, 33, 44, 50, 0, 0, 0]);
    }

    #[test]
    fn empty_rows_and_the_calibration_are_left_out() {
        assert_eq!(tally([0, 0, 1, 0], &[0; 8]), None);
        assert_eq!(tally([0, 0, 1, ABI_CALIBRATION], &[1; 8]), None);
        let row = tally([7, 0, 1, 1], &[1; 8]).unwrap();
        assert_eq!((row.pid, row.abi), (7, Abi::Ia32));
    }
}
