//! The layout of the memory behind the image: the only description of it, shared by the image (which runs inside the
//! program) and by the command (which reads the counts).
//!
//! ```text
//! offset from the image's base on x86-64; on arm64 each part begins at a multiple of 64 KiB
//! 0x00000  image      8 pages   r-x  the ELF image; private to the process
//! 0x07f00  session    256 bytes r-x  constants of the session; private to the process
//! 0x08000  config     1 page    r--  addresses to jump to; private to the process
//! 0x09000  trust      1 page    rw-  the process's checks of the clock page; private, zeroed in children
//! 0x0a000  threads    2 pages   rw-  the slot of each thread; private, zeroed in children
//! 0x0c000  live       1 page    r--  settings that the tracer changes while programs run
//! 0x0d000  clock      1 page    r--  the clock page (`fastclock::page`), written by the command
//! 0x0e000  shared   237 pages   rw-  slots, histograms and the table of system calls; shared with the tracer
//!                                    and children
//! 0xfb000  kernel    32 pages   r-x  the kernel's own image and data, moved here; in a process that was
//!                                    attached to, trampolines
//! 0x11b000 end
//! ```
//!
//! `trust` and `clock` are used with `run --clock tsc` and `tsc-fast` only; `threads`, `live` and `shared` only if
//! calls are counted. Parts without a mapping of their own stay part of the image's mapping: zeros, read-only.
//!
//! Code, jump targets and pointers for writing lie in private pages. The pages that another process of the user could
//! change (`live`, `shared`) hold numbers only; the image checks each of them before use as an index or address.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use crate::histogram::Histogram;

pub use crate::arch::layout::*;

/// The smallest page size of any kernel: the size of the clock page and of parts of the shared memory.
pub const PAGE: usize = 4096;
/// Bytes of [`ImagePages`].
pub const IMAGE_PAGES: usize = 8 * PAGE;
/// Bytes of the ELF image, at most.
pub const IMAGE_SIZE: usize = IMAGE_PAGES - 256;
/// Offset of [`Constants`] from the image's base.
pub const SESSION_OFFSET: usize = IMAGE_SIZE;
/// Offset of [`Config`] from the image's base.
pub const CONFIG_OFFSET: usize = IMAGE_PAGES.next_multiple_of(GRANULE);
/// Offset of the `fastclock::page::Trust` of the process from the image's base; one page.
pub const TRUST_OFFSET: usize = CONFIG_OFFSET + GRANULE;
/// Offset of [`Threads`] from the image's base.
pub const THREADS_OFFSET: usize = TRUST_OFFSET + GRANULE;
/// Bytes of the pages that hold [`Threads`].
pub const THREADS_SIZE: usize = (2 * PAGE).next_multiple_of(GRANULE);
/// Offset of [`Live`] from the image's base; one page.
pub const LIVE_OFFSET: usize = THREADS_OFFSET + THREADS_SIZE;
/// Offset of the `fastclock::page::Page` from the image's base; one page.
pub const CLOCK_OFFSET: usize = LIVE_OFFSET + GRANULE;
/// Offset of [`Shared`] from the image's base.
pub const SHARED_OFFSET: usize = CLOCK_OFFSET + GRANULE;
/// Bytes of the pages that hold [`Shared`].
pub const SHARED_SIZE: usize = 237 * PAGE;
/// Shards of the table of system calls, one page of each kind. Code in any process and thread adds to them with a
/// locked instruction.
pub const SITE_SHARDS: usize = 8;
/// Parts of that table that the tracer gives to one process each; the process adds to its own part without a lock.
pub const SITE_OWN: usize = 32;
/// Kinds of words in that table: calls whose errors are counted, calls whose errors are unknown, calls that are timed
/// in part, the count at which the next call is timed, and errors.
pub const SITE_KINDS: usize = 5;
/// Kinds in a process's own part: all but errors.
pub const SITE_OWN_KINDS: usize = 4;
/// Kinds of words for timed calls, to which all processes and threads add: four for the first calls of a number in each
/// part, and four for all later ones. They are the number of timed calls, their ticks, and the low and high word of the
/// sum of squared ticks.
pub const SITE_TIMES: usize = 8;
/// Timed calls of one process that can be under way at the same time.
pub const TIMING: usize = 32;
/// Words in each part.
pub const SITE_WORDS: usize = PAGE / 8;
/// Bytes of an area for code that counts system calls.
pub const AREA_SIZE: usize = 1 << 19;
/// Such areas in a program, at most: one near the program, one near its libraries.
pub const AREAS: usize = 2;
/// Offset from the image's base of the place for the kernel's own image. It lies behind our image, so one segment
/// covers both: an unwinder that stops in a kernel function finds that function in our tables.
pub const KERNEL_OFFSET: usize = SHARED_OFFSET + SHARED_SIZE.next_multiple_of(GRANULE);
/// Bytes of the part that is shared with the tracer, from [`LIVE_OFFSET`] on.
pub const REPLACED_SIZE: usize = KERNEL_OFFSET - LIVE_OFFSET;
/// Offset from the image's base of the page with an attached process's trampolines. The kernel's image stays at its
/// address in such a process, so the place for it is free.
pub const TRAMPOLINE_OFFSET: usize = KERNEL_OFFSET;
/// Bytes for one function's trampoline.
pub const TRAMPOLINE_SIZE: usize = 128;
/// Bytes from the image's base to the end of the last page behind it.
pub const TOTAL_SIZE: usize = KERNEL_OFFSET + KERNEL_SIZE;
/// Mappings of the kernel's image, at most.
pub const KERNEL_MAPPINGS: usize = 6;

/// The sixth argument of every system call that the image makes while it installs itself. Counters of system calls
/// recognise these calls by it and leave them out. For `mmap` this argument is the file offset: a multiple of any
/// kernel's page size.
pub const INSTALL_MARK: u64 = 0x0063_6c6f_636b_0000;
/// The signal that a thread sends itself after the image is installed and after the loader has mapped all libraries, if
/// the tracer asks for it: `SIGURG`, which is ignored by default.
pub const INSTALL_NOTICE: i32 = 23;

/// [`Constants::mark`]: identifies an image of clockscope's; no text contains these bytes in this order.
pub const SESSION_MARK: u64 = 0x8c6c_6f63_6b73_63f1;

/// Number of functions that the image can forward.
pub const FUNCTIONS: usize = 7;
/// Functions of the kernel's image that this image forwards without an entry of its own for them, at most.
pub const FORWARDED: usize = 32;
/// Bytes of the code that forwards one such function.
pub const FORWARD_SIZE: usize = 8;
/// Number of counters in a slot.
pub const COUNTERS: usize = 32;
/// Number of slots in [`Shared`].
pub const SLOTS: usize = 224;
/// The first slots belong to CPUs, for threads without a slot of their own.
pub const CPU_SLOTS: usize = 16;
/// Entries in [`Threads`]; the last ones are reached by probing only.
pub const THREAD_ENTRIES: usize = 256 + PROBES - 1;
/// Entries that a thread looks at before it counts in its CPU's slot.
pub const PROBES: usize = 8;
/// Buckets of the histogram of intervals between reads: powers of two, in ticks.
pub const INTERVALS: usize = 64;
/// Reasons in [`Header::declined`].
pub const DECLINES: usize = 32;

/// A function of the vDSO that the image forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Function {
    /// `clock_gettime(2)`.
    ClockGettime = 0,
    /// `gettimeofday(2)`.
    Gettimeofday = 1,
    /// `time(2)`.
    Time = 2,
    /// `getcpu(2)`.
    Getcpu = 3,
    /// `clock_getres(2)`.
    ClockGetres = 4,
    /// `getrandom(2)`.
    Getrandom = 5,
    /// Entering an SGX enclave; no system call.
    SgxEnterEnclave = 6,
}

impl Function {
    /// All functions, by number.
    pub const ALL: [Self; FUNCTIONS] = [
        Self::ClockGettime,
        Self::Gettimeofday,
        Self::Time,
        Self::Getcpu,
        Self::ClockGetres,
        Self::Getrandom,
        Self::SgxEnterEnclave,
    ];

    /// The function's name without the prefix `__vdso_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClockGettime => "clock_gettime",
            Self::Gettimeofday => "gettimeofday",
            Self::Time => "time",
            Self::Getcpu => "getcpu",
            Self::ClockGetres => "clock_getres",
            Self::Getrandom => "getrandom",
            Self::SgxEnterEnclave => "sgx_enter_enclave",
        }
    }
}

/// Clock ids below this have a counter each; all other ids share [`OTHER_CLOCK`].
pub const CLOCKS: usize = 12;
/// The shared counter of all other clock ids; no Linux has a clock with id 10.
pub const OTHER_CLOCK: usize = 10;
/// First counter of `clock_gettime`, by clock id.
pub const COUNTER_GETTIME: usize = 0;
/// First counter of `clock_getres`, by clock id.
pub const COUNTER_GETRES: usize = CLOCKS;
/// Counter of `gettimeofday`.
pub const COUNTER_GETTIMEOFDAY: usize = 2 * CLOCKS;
/// Counter of `time`.
pub const COUNTER_TIME: usize = COUNTER_GETTIMEOFDAY + 1;
/// Counter of `getcpu`.
pub const COUNTER_GETCPU: usize = COUNTER_GETTIMEOFDAY + 2;
/// Counter of `getrandom`.
pub const COUNTER_GETRANDOM: usize = COUNTER_GETTIMEOFDAY + 3;
/// Counter of `sgx_enter_enclave`.
pub const COUNTER_SGX: usize = COUNTER_GETTIMEOFDAY + 4;

/// Function and clock that a counter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The function.
    pub function: Function,
    /// The clock id, for functions that take one: `Some(None)` stands for all ids without a
    /// counter of their own.
    pub clock: Option<Option<i32>>,
}

#[cfg(not(clockscope_image))]
impl Counted {
    /// Function and clock of the counter with this index; `None` for an index out of range.
    pub fn from_counter(index: usize) -> Option<Self> {
        let by_clock = |function, clock: usize| Self {
            function,
            clock: Some((clock != OTHER_CLOCK).then(|| i32::try_from(clock).unwrap_or(-1))),
        };
        let plain = |function| Self { function, clock: None };
        Some(match index {
            0..COUNTER_GETRES => by_clock(Function::ClockGettime, index),
            COUNTER_GETRES..COUNTER_GETTIMEOFDAY => {
                by_clock(Function::ClockGetres, index - COUNTER_GETRES)
            }
            COUNTER_GETTIMEOFDAY => plain(Function::Gettimeofday),
            COUNTER_TIME => plain(Function::Time),
            COUNTER_GETCPU => plain(Function::Getcpu),
            COUNTER_GETRANDOM => plain(Function::Getrandom),
            COUNTER_SGX => plain(Function::SgxEnterEnclave),
            _ => return None,
        })
    }
}

/// Address of the function behind an entry, as image and offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Target {
    /// 0: no function; 1: [`TARGET_KERNEL`]; 2: [`TARGET_OURS`].
    pub image: u32,
    /// Offset in that image.
    pub offset: u32,
}

/// [`Target::image`]: the kernel's image.
pub const TARGET_KERNEL: u32 = 1;
/// [`Target::image`]: this image.
pub const TARGET_OURS: u32 = 2;

/// A mapping of the kernel's image: code, or data in front of the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelMapping {
    /// Distance from the start of the first mapping.
    pub offset: u32,
    /// Size; 0: no such mapping.
    pub size: u32,
}

/// Constants of a session, at the end of the image's pages; every process has its own copy.
#[derive(Debug)]
#[repr(C)]
pub struct Constants {
    /// 1 if vDSO calls are counted, 0 if the image only forwards.
    pub counting: u64,
    /// Ticks between two timed calls of a thread that the adaptive sampling aims at.
    pub gap_ticks: u64,
    /// The kernel's functions (image = [`TARGET_KERNEL`], or 0).
    pub kernel: [Target; FUNCTIONS],
    /// Jump targets of the image's entries.
    pub target: [Target; FUNCTIONS],
    /// The mappings of the kernel's image, by address; the last is the code.
    pub mappings: [KernelMapping; KERNEL_MAPPINGS],
    /// Distance of the code from the start of the first mapping.
    pub code_offset: u64,
    /// 1 if there is a clock page: [`LaunchParams::clock`].
    pub clock: u64,
    /// [`SESSION_MARK`]: identifies an image that an earlier session has left.
    pub mark: u64,
    /// 0, or the System V id of [`Live`] plus one.
    pub live: u64,
    /// With `run --clock slow`: the least duration of a read, in ticks of the time-stamp counter.
    pub read_ticks: u64,
    /// 1 if the tracer stops each process that makes a thread: [`Threads::only_slot`].
    pub follows: u64,
    /// Reserved, zero.
    pub spare: [u64; 4],
}

/// Settings that the tracer changes while programs run. Programs map them read-only.
#[derive(Debug)]
#[repr(C)]
pub struct Live {
    /// Thread id of the tracer while it lives: a robust futex, in which the kernel sets bit 30 (`FUTEX_OWNER_DIED`) if
    /// the tracer dies. The image times calls only while the tracer lives, because the tracer emulates the counter for
    /// programs that forbid it.
    pub tracer: AtomicU32,
    /// N: the image passes one in N timed calls, drawn at random, through the sample probe (`sample.rs`); 0: no call.
    pub callers_one_in: AtomicU32,
}

/// The pages that every process of a session gets as a private, executable copy.
#[derive(Debug)]
#[repr(C)]
pub struct ImagePages {
    /// The ELF image.
    pub image: [u8; IMAGE_SIZE],
    /// The constants.
    pub session: Constants,
}

/// The addresses that the image jumps to, filled at installation, then read-only.
#[derive(Debug)]
#[repr(C)]
pub struct Config {
    /// Jump targets of the image's entries.
    pub target: [u64; FUNCTIONS],
    /// The kernel's functions.
    pub kernel: [u64; FUNCTIONS],
    /// Functions that the image forwards without an entry of its own.
    pub forwarded: [u64; FORWARDED],
    /// In an attached process: address of [`REPLACED_SIZE`] bytes of private pages that will replace the pages shared
    /// with the tracer; 0 after the replacement.
    pub replacement: u64,
}

/// The slot of each thread. In a forked child the kernel zeroes this page (`MADV_WIPEONFORK`), because the child's
/// first thread has the FS base of its parent's thread: the child takes slots of its own.
#[derive(Debug)]
#[repr(C)]
pub struct Threads {
    /// Written by the tracer: the session's number for this process; 0 if the tracer has given none.
    pub process: AtomicU64,
    /// 1 once no slot was free: threads stop looking for one.
    pub full: AtomicU64,
    /// Written by the tracer: N lets one in N timed calls pass the sample probe and wait behind it until the tracer has
    /// read the stack ([`Threads::released`]); 0: no call waits, and [`Live::callers_one_in`] says how many pass.
    pub hold_one_in: AtomicU64,
    /// Number of the last wait: the latest time-stamp counter value at which that wait ends.
    pub held: AtomicU64,
    /// Written by the tracer: number of the wait that may end.
    pub released: AtomicU64,
    /// Number of the last wait that ended before the tracer released it. No call passes the sample probe from then on
    /// until the tracer has seen this number ([`Threads::seen`]). The tracer does not clear the word, because a sample
    /// that it reads later may belong to that wait.
    pub left: AtomicU64,
    /// Written by the tracer: the last value of [`Threads::left`] that it has seen.
    pub seen: AtomicU64,
    /// Written by the tracer: number of the wait whose stack it has begun to read, which may last longer.
    pub reading: AtomicU64,
    /// Entries by hash of the FS base, see [`thread_hash`].
    pub entries: [ThreadEntry; THREAD_ENTRIES],
    /// Written by the tracer: address of the process's own part ([`Shared::own_sites`]), while only one thread has this
    /// memory; 0: all threads add to the shards, with a lock.
    pub own_site_part: AtomicU64,
    /// Address of the slot of the process's only thread, which counts there without a search; [`ONLY_THREAD`] with the
    /// process's number: that thread may write the address; 0: each thread looks for its slot. The tracer writes 0 before
    /// another task can run with this memory.
    pub only_slot: AtomicU64,
    /// The first is not zero if the thread must send itself [`INSTALL_NOTICE`] once the loader has mapped all libraries;
    /// the others hold registers of the code that does it, because that code uses no stack.
    pub loading: [AtomicU64; 8],
    /// Timed system calls under way.
    pub timing: [Timing; TIMING],
}

/// Bit of [`Threads::only_slot`] before the thread has a slot. No address has it.
pub const ONLY_THREAD: u64 = 1 << 63;

/// A timed system call, kept by the code that counts system calls.
#[derive(Debug)]
#[repr(C)]
pub struct Timing {
    /// The thread's stack pointer; 0: free; [`u64::MAX`]: the call has ended and is being recorded.
    pub stack: AtomicU64,
    /// Other words that the code keeps.
    pub kept: [AtomicU64; 7],
}

/// One thread's slot.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadEntry {
    /// FS base plus one, or zero. No thread can use an entry with [`POISON`].
    pub key: AtomicU64,
    /// Address of the slot.
    pub slot: AtomicU64,
}

/// A key that no thread has. With it in all entries, every thread counts in its CPU's slot with a locked add. The
/// tracer writes it when two threads share an FS base.
pub const POISON: u64 = u64::MAX;

/// Byte offset of the first entry for a key, from the start of the entries. The entry code in `entry.rs` computes the
/// same in three instructions.
#[inline]
pub const fn thread_hash(key: u64) -> usize {
    ((key.wrapping_mul(HASH_MULTIPLIER) >> 40) & 0xff0) as usize
}

/// Multiplier of [`thread_hash`]: odd, and small enough for a sign-extended 32-bit immediate.
pub const HASH_MULTIPLIER: u64 = 0xffff_ffff_9e37_79b1;

/// The memory shared with the tracer.
#[derive(Debug)]
#[repr(C)]
pub struct Shared {
    /// Results of the installation, and the slots and histograms in use.
    pub header: Header,
    /// Counters, one slot per thread.
    pub slots: [Slot; SLOTS],
    /// Times of timed calls, one histogram per counter.
    pub histograms: [Histogram; COUNTERS],
    /// System calls by number, counted by code in the program (`clockscope-sites`) with locked instructions.
    pub sites: [[[AtomicU64; SITE_WORDS]; SITE_SHARDS]; SITE_KINDS],
    /// Times of timed system calls, in ticks; directly behind [`Shared::sites`].
    pub site_times: [[AtomicU64; SITE_WORDS]; SITE_TIMES],
    /// System calls by number, one part per process, counted without a lock.
    pub own_sites: [[[AtomicU64; SITE_WORDS]; SITE_OWN_KINDS]; SITE_OWN],
}

/// Results of the installation, and the slots and histograms in use; one page.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// Base of the image in the process that installed it (and in its forked children); 0 until
    /// installed.
    pub base: AtomicU64,
    /// 0, or the step of the installation that failed (see [`InstallStep`]) and its error number:
    /// `step << 32 | errno`.
    pub failed: AtomicU64,
    /// 1 once the time-stamp counter faulted: no call is timed any more.
    pub no_timing: AtomicU32,
    /// Number of processes without a number from the tracer. They number themselves from the top.
    pub anonymous: AtomicU32,
    /// One bit per slot that was ever used.
    pub slots_used: [AtomicU64; SLOTS.div_ceil(64)],
    /// One bit per histogram that was ever used.
    pub histograms_used: AtomicU64,
    /// Written by the tracer: one bit per part of [`Shared::own_sites`] that a process has now.
    pub site_parts: AtomicU64,
    /// One bit per part that a process ever had.
    pub site_parts_used: AtomicU64,
    /// Reserved, zero.
    pub reserved: [u64; 5],
    /// Calls by the base-two logarithm of the ticks since the thread's previous read; weighted.
    pub intervals: [AtomicU64; INTERVALS],
    /// Reads that the kernel answered instead of the clock page, by number of the reason (`fastclock::Decline`); the
    /// last word counts all higher numbers.
    pub declined: [AtomicU64; DECLINES],
    /// Sum of the ticks between two counter readings with nothing in between, taken after each timed call; interrupted
    /// pairs are left out.
    pub empty_ticks: AtomicU64,
    /// Number of pairs in [`Header::empty_ticks`].
    pub empty_samples: AtomicU64,
    /// Number of distances in [`Header::intervals`], unweighted.
    pub interval_samples: AtomicU64,
    /// Reserved, zero.
    pub padding: [u64; 512 - 18 - INTERVALS - DECLINES],
}

/// A thread's counters.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Slot {
    /// 0: free; otherwise `process << 1 | 1`.
    pub owner: AtomicU64,
    /// FS base of the thread plus one.
    pub key: AtomicU64,
    /// Time-stamp counter at the last timed call of any function.
    pub last_timed: AtomicU64,
    /// State of the random number generator that chooses the calls to time.
    pub random: AtomicU64,
    /// Time-stamp counter at the start of the last timed call, while the distance to the next call of the same counter
    /// is wanted; otherwise 0.
    pub waiting_since: AtomicU64,
    /// Number of that counter; with [`PASSED`] if the next call must pass the sample probe as the last one did.
    pub waiting: AtomicU32,
    /// Calls between timed ones once the first calls have been timed, as eight times the base-two logarithm; adapts.
    pub period: AtomicU32,
    /// Timed calls so far by counter, up to a limit.
    pub samples: [AtomicU8; COUNTERS],
    /// Time-stamp counter when a call last reached the sample probe.
    pub probe_at: AtomicU64,
    /// Ticks that this call spent at the sample probe.
    pub probe_ticks: AtomicU64,
    /// By counter: base-two logarithm of the number of calls that the next timed call stands for. With the highest bit
    /// set: the value of the last timed call, and the distance to the next call is wanted.
    pub stands_for: [AtomicU8; COUNTERS],
    /// Calls until the next one is timed, by counter.
    pub countdown: [AtomicU32; COUNTERS],
    /// Calls by counter.
    pub calls: [AtomicU64; COUNTERS],
}

/// Bit of [`Slot::waiting`].
pub const PASSED: u32 = 1 << 31;

/// Parameters that the launch code in the kernel's image passes to the installer in this image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LaunchParams {
    /// Base of the kernel's image in this process.
    pub kernel_base: u64,
    /// Address of the value of `AT_SYSINFO_EHDR` in the auxiliary vector on the stack.
    pub auxv_slot: u64,
    /// System V id of the shared pages.
    pub shared_id: u64,
    /// The session's number for this process.
    pub process: u64,
    /// Address of the program's first instruction.
    pub entry: u64,
    /// The clock page: its System V id; or, with a process id in the upper half, that process's file descriptor of the
    /// page's memory file (page at offset [`INSTALL_MARK`]).
    pub clock: u64,
    /// Inode number of that file.
    pub clock_inode: u64,
    /// Addresses for areas of [`AREA_SIZE`] bytes for code that counts system calls; 0: none.
    pub areas: [u64; AREAS],
    /// 1 if the thread must send itself [`INSTALL_NOTICE`] after mapping the areas.
    pub tells: u64,
    /// The kernel's record of the process's memory, needed to tell the kernel of the changed auxiliary vector.
    pub memory: MemoryMap,
}

/// Parameters that the code injected into a running process passes to the installer in the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AttachParams {
    /// Address to jump to after the installer is done.
    pub return_to: u64,
    /// System V id of the shared pages.
    pub shared_id: u64,
    /// The session's number for this process.
    pub process: u64,
    /// The task: [`ATTACH_NEW`], [`ATTACH_AGAIN`] or [`ATTACH_LEAVE`].
    pub task: u64,
}

/// The image is new, with nothing mapped behind it.
pub const ATTACH_NEW: u64 = 0;
/// An earlier session has left the image, perhaps without [`ATTACH_LEAVE`].
pub const ATTACH_AGAIN: u64 = 1;
/// The session ends: private pages replace the pages shared with the tracer.
pub const ATTACH_LEAVE: u64 = 2;

/// Follows [`InjectedSlots`] in code that runs the image's installer.
#[derive(Debug)]
#[repr(C)]
pub struct AttachSlots {
    /// The installer's parameters.
    pub params: AttachParams,
    /// Address of `clockscope_attach`.
    pub installer: u64,
}

/// `mmap` flags for the image's memory in a running process: `MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE`. Linux
/// before 4.17 takes the address as a hint.
pub const MAP_PRIVATE_THERE: u32 = 0x02 | 0x20 | 0x10_0000;

/// Slots behind the code that launches a program (`stubs.rs`), filled in by the tracer.
#[derive(Debug)]
#[repr(C)]
pub struct LaunchSlots {
    /// Address of the image below the stack pointer; start of a page.
    pub image: u64,
    /// Offset of `clockscope_install` in the image.
    pub install_offset: u64,
    /// The installer's parameters.
    pub params: LaunchParams,
}

/// Slots behind the code that executes a program once more, filled in by the tracer.
#[derive(Debug)]
#[repr(C)]
pub struct ExecveSlots {
    /// Address of the path.
    pub path: u64,
    /// Address of the arguments.
    pub arguments: u64,
    /// Address of the environment.
    pub environment: u64,
    /// Address of the program's first instruction, to go on at if the call fails.
    pub entry: u64,
}

/// `struct prctl_mm_map` of `prctl(PR_SET_MM, PR_SET_MM_MAP)`: the kernel's record of a process's addresses, with the
/// auxiliary vector that `/proc/PID/auxv` and `PR_GET_AUXV` show.
///
/// Source: include/uapi/linux/prctl.h and `prctl_set_mm_map` in kernel/sys.c (Linux 6.18). The call needs no privilege
/// as long as the executable stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryMap {
    /// First and last address of code, of data and of the heap: `start_code`, `end_code`, `start_data`, `end_data`,
    /// `start_brk`, `brk`.
    pub segments: [u64; 6],
    /// `start_stack`.
    pub start_stack: u64,
    /// `arg_start`, `arg_end`, `env_start`, `env_end`.
    pub strings: [u64; 4],
    /// Address of the auxiliary vector.
    pub auxv: u64,
    /// Size of the vector in bytes; 0: unknown, and the kernel is not told.
    pub auxv_size: u32,
    /// `u32::MAX`: the executable stays.
    pub exe_fd: u32,
}

/// The steps of the installation, for [`Header::failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum InstallStep {
    /// Attaching the shared pages.
    AttachShared = 1,
    /// Mapping the private pages.
    MapPrivate = 2,
    /// Asking the kernel to zero pages in children.
    WipeOnFork = 3,
    /// Attaching the clock page.
    AttachClock = 4,
    /// Mapping the page for trampolines.
    MapTrampolines = 5,
    /// Attaching the page with the tracer's settings.
    AttachLive = 6,
}

const _: () = {
    assert!(size_of::<ImagePages>() == IMAGE_PAGES);
    assert!(size_of::<fastclock::page::Page>() == PAGE);
    assert!(size_of::<fastclock::page::Trust>() <= PAGE);
    assert!(TOTAL_SIZE == TOTAL);
    assert!(size_of::<Live>() <= PAGE);
    assert!(core::mem::offset_of!(ImagePages, session) == SESSION_OFFSET);
    assert!(size_of::<Config>() <= PAGE);
    assert!(size_of::<Threads>() <= THREADS_SIZE);
    assert!(FUNCTIONS * TRAMPOLINE_SIZE <= PAGE);
    assert!(size_of::<Header>() == PAGE);
    assert!(size_of::<Shared>() <= SHARED_SIZE);
    assert!(SHARED_SIZE - size_of::<Shared>() < PAGE);
    assert!(size_of::<Slot>() == 512);
    assert!(size_of::<MemoryMap>() == 104);
    assert!(COUNTER_SGX < COUNTERS);
    assert!(SITE_OWN <= 64);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_meaning_and_no_two_the_same() {
        for a in 0..=COUNTER_SGX {
            let counted = Counted::from_counter(a);
            assert!(counted.is_some());
            for b in 0..a {
                assert_ne!(counted, Counted::from_counter(b));
            }
        }
        assert_eq!(Counted::from_counter(COUNTER_SGX + 1), None);
    }

    #[test]
    fn hashes_of_neighbouring_thread_stacks_spread() {
        let mut used = [0_u32; 256];
        for thread in 0..64_u64 {
            used[thread_hash(0x7fff_f7d0_0701 - thread * 0x80_1000) / 16] += 1;
        }
        assert!(used.iter().all(|&threads| threads <= 3));
    }
}
