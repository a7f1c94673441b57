//! Where everything lies: the one description of the memory behind the image, shared by the image
//! (which runs inside the program) and by the command (which reads the counts).
//!
//! ```text
//! offset from the image's base on x86-64; on arm64 each part begins at a multiple of 64 KiB
//! 0x00000  image      8 pages   r-x  the ELF image; private to the process
//! 0x07f00  session    256 bytes r-x  constants of the session; private to the process
//! 0x08000  config     1 page    r--  addresses to jump to; private to the process
//! 0x09000  trust      1 page    rw-  what the process knows of the clock page; private, zeroed in
//!                                    children
//! 0x0a000  threads    2 pages   rw-  which thread owns which slot; private, zeroed in children
//! 0x0c000  live       1 page    r--  what the tracer changes while programs run
//! 0x0d000  clock      1 page    r--  the clock page (`fastclock::page`), written by the command
//! 0x0e000  shared   237 pages   rw-  slots, histograms and the table of system calls; shared with the tracer
//!                                    and children
//! 0xfb000  kernel    32 pages   r-x  the kernel's own image and data, moved here; in a process that was
//!                                    attached to, trampolines
//! 0x11b000 end
//! ```
//!
//! `trust` and `clock` are there for `run --clock tsc` only, `threads`, `live` and `shared` where calls
//! are counted. What is not there is the rest of the image's mapping: zeroes, read-only.
//!
//! All that is executed, jumped to or written through lies in private pages. What another process of
//! the user could change (`live`, `shared`) are numbers; none is an index or an address unchecked.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use crate::histogram::Histogram;

pub use crate::arch::layout::*;

/// The smallest page of any kernel: what the clock page and parts of the shared memory are as large as.
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
/// Parts of the table of system calls, of one page of each kind, that code in the program adds to with a lock: of any
/// process and thread.
pub const SITE_SHARDS: usize = 8;
/// Parts of it that the tracer gives to one process each, which adds to its own without a lock.
pub const SITE_OWN: usize = 32;
/// Kinds of words of that table: calls whose errors are seen, others, those of which some are timed, the next that is,
/// and errors.
pub const SITE_KINDS: usize = 5;
/// Kinds that a process's own part has.
pub const SITE_OWN_KINDS: usize = 4;
/// Kinds of words for timed calls, which all processes and threads add to.
pub const SITE_TIMES: usize = 8;
/// Timed calls that can last at the same time in a process.
pub const TIMING: usize = 32;
/// Words in each part.
pub const SITE_WORDS: usize = PAGE / 8;
/// Places for registers, for threads that tell the tracer of a mapping ([`Kept`]).
pub const KEPT: usize = 4;
/// Bytes of an area of memory for code that counts system calls.
pub const AREA_SIZE: usize = 1 << 19;
/// Such areas of a program, at most: near the program, and near its libraries.
pub const AREAS: usize = 2;
/// Offset of the place for the kernel's own image, from the image's base. Behind ours, so that one
/// segment covers both: an unwinder that stops in the kernel's functions finds them in our tables.
pub const KERNEL_OFFSET: usize = SHARED_OFFSET + SHARED_SIZE.next_multiple_of(GRANULE);
/// Bytes of what is shared with the tracer, from [`LIVE_OFFSET`] on.
pub const REPLACED_SIZE: usize = KERNEL_OFFSET - LIVE_OFFSET;
/// Offset of the page with the trampolines of an attached process, from the image's base: there the
/// kernel's image stays where it is, so its place is free.
pub const TRAMPOLINE_OFFSET: usize = KERNEL_OFFSET;
/// Bytes for the trampoline of a function.
pub const TRAMPOLINE_SIZE: usize = 128;
/// Bytes from the image's base to the end of the last page behind it.
pub const TOTAL_SIZE: usize = KERNEL_OFFSET + KERNEL_SIZE;
/// Mappings that the kernel's image consists of, at most.
pub const KERNEL_MAPPINGS: usize = 6;

/// The value of the sixth argument of every system call that the image makes while it installs itself,
/// so that counters of system calls can leave them out. For `mmap` it is the offset in the file: whole pages on any
/// kernel.
pub const INSTALL_MARK: u64 = 0x0063_6c6f_636b_0000;
/// The signal that a thread gives itself when the image is installed, if the tracer asks for it: `SIGURG`, which is ignored
/// by default.
pub const INSTALL_NOTICE: i32 = 23;

/// [`Constants::mark`]: says that this is an image of clockscope's, in an order of bytes that no text has.
pub const SESSION_MARK: u64 = 0x8c6c_6f63_6b73_63f1;

/// Number of functions that the image can forward.
pub const FUNCTIONS: usize = 7;
/// Functions of the kernel's image that the image forwards without knowing them, at most.
pub const FORWARDED: usize = 32;
/// Bytes of the code that forwards one.
pub const FORWARD_SIZE: usize = 8;
/// Number of counters in a slot.
pub const COUNTERS: usize = 32;
/// Number of slots in [`Shared`].
pub const SLOTS: usize = 224;
/// The first slots are those of CPUs, for threads that have no slot of their own.
pub const CPU_SLOTS: usize = 16;
/// Entries in [`Threads`]; the last ones are reached by probing only.
pub const THREAD_ENTRIES: usize = 256 + PROBES - 1;
/// How many entries a thread looks at before it counts in the slot of its CPU.
pub const PROBES: usize = 8;
/// Buckets of the histogram of intervals between reads: powers of two of ticks.
pub const INTERVALS: usize = 64;
/// Numbers of reasons in [`Header::declined`].
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
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; FUNCTIONS] = [
        Self::ClockGettime,
        Self::Gettimeofday,
        Self::Time,
        Self::Getcpu,
        Self::ClockGetres,
        Self::Getrandom,
        Self::SgxEnterEnclave,
    ];

    /// The name without the prefix `__vdso_`.
    #[must_use]
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

/// Clock ids below this have a counter each; all others share [`OTHER_CLOCK`].
pub const CLOCKS: usize = 12;
/// The counter of clock ids without one; 10 is no clock on any Linux.
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

/// What a counter counts.
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
    /// What the counter with this index counts; `None` for an index out of range.
    #[must_use]
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

/// Where the function behind an entry lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Target {
    /// 0: nowhere; 1: offset in the kernel's image; 2: offset in ours.
    pub image: u32,
    /// The offset.
    pub offset: u32,
}

/// [`Target::image`]: the kernel's.
pub const TARGET_KERNEL: u32 = 1;
/// [`Target::image`]: ours.
pub const TARGET_OURS: u32 = 2;

/// A mapping of the kernel's image: its code, or its data before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelMapping {
    /// Distance from the start of all of them.
    pub offset: u32,
    /// Size; 0: there is no such mapping.
    pub size: u32,
}

/// Constants of a session, at the end of the image's pages; every process has its own copy.
#[derive(Debug)]
#[repr(C)]
pub struct Constants {
    /// 1 if vDSO calls are counted, 0 if the image only forwards.
    pub counting: u64,
    /// Aim of the adaptive sampling: ticks between two timed calls of a thread.
    pub gap_ticks: u64,
    /// Where the functions of the kernel's image lie (image = [`TARGET_KERNEL`], or nowhere).
    pub kernel: [Target; FUNCTIONS],
    /// Where our entries jump to.
    pub target: [Target; FUNCTIONS],
    /// The mappings of the kernel's image, in the order of their addresses; the last is the code.
    pub mappings: [KernelMapping; KERNEL_MAPPINGS],
    /// Distance of the code from the start of the first.
    pub code_offset: u64,
    /// 1 if there is a clock page: [`LaunchParams::clock`].
    pub clock: u64,
    /// [`SESSION_MARK`], by which an image that was left behind is recognised.
    pub mark: u64,
    /// 0, or the System V id of [`Live`] plus one.
    pub live: u64,
    /// With `run --clock slow`: ticks of the time-stamp counter that a read takes at least.
    pub read_ticks: u64,
    /// Reserved, zero.
    pub spare: [u64; 5],
}

/// What the tracer changes while programs run; they see it read-only.
#[derive(Debug)]
#[repr(C)]
pub struct Live {
    /// Thread id of the tracer while it lives: a robust futex, in which the kernel sets bit 30
    /// (`FUTEX_OWNER_DIED`) when it dies in any way. Timing needs it (it emulates the counter).
    pub tracer: AtomicU32,
    /// One in how many timed calls passes the sample probe (`sample.rs`), drawn at random; 0: none.
    pub callers_one_in: AtomicU32,
}

/// What every process of a session gets a private copy of, to read and execute.
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
    /// Where our entries jump to.
    pub target: [u64; FUNCTIONS],
    /// The kernel's functions.
    pub kernel: [u64; FUNCTIONS],
    /// Those that the image only forwards.
    pub forwarded: [u64; FORWARDED],
    /// In a program that was attached to: where private pages of [`REPLACED_SIZE`] bytes wait to take the place of
    /// those that are shared with the tracer; 0 when they have.
    pub replacement: u64,
}

/// Which thread owns which slot. The page is zeroed by the kernel in a forked child
/// (`MADV_WIPEONFORK`), so that a child, whose first thread has the FS base of its parent's,
/// takes slots of its own.
#[derive(Debug)]
#[repr(C)]
pub struct Threads {
    /// Written by the tracer: the process, as a number of the session; 0 if it does not know.
    pub process: AtomicU64,
    /// 1 once no slot was free: nobody looks again.
    pub full: AtomicU64,
    /// Written by the tracer: one in how many timed calls passes the sample probe and waits behind it until
    /// it was read ([`Threads::released`]); 0: nobody waits, and [`Live::callers_one_in`] says how many pass.
    pub hold_one_in: AtomicU64,
    /// The number of the last wait: the time-stamp counter at which it is over at the latest.
    pub held: AtomicU64,
    /// Written by the tracer: the number of the call that need not wait any more.
    pub released: AtomicU64,
    /// The number of the last call that went on without that: none passes the sample probe from then on, until
    /// the tracer has seen it ([`Threads::seen`]). The tracer leaves it, to know it of a sample that it reads later.
    pub left: AtomicU64,
    /// Written by the tracer: what it has seen in [`Threads::left`].
    pub seen: AtomicU64,
    /// Reserved, zero.
    pub reserved: [u64; 1],
    /// Entry by hash of the FS base, see [`thread_hash`].
    pub entries: [ThreadEntry; THREAD_ENTRIES],
    /// Written by the tracer: address of that of [`Shared::own_sites`] which is the process's, while one thread
    /// has this memory; 0: all threads add to the others, with a lock.
    pub own_site_part: AtomicU64,
    /// Where code that counts system calls keeps registers, because it uses no stack.
    pub kept: [Kept; KEPT],
    /// The timed calls that threads are in.
    pub timing: [Timing; TIMING],
}

/// A timed call, by code that counts system calls.
#[derive(Debug)]
#[repr(C)]
pub struct Timing {
    /// The stack pointer of the thread; 0: free; [`u64::MAX`]: the call has ended and is being recorded.
    pub stack: AtomicU64,
    /// What else the code keeps.
    pub kept: [AtomicU64; 7],
}

/// Where one thread keeps registers while it makes system calls of its own.
#[derive(Debug)]
#[repr(C)]
pub struct Kept {
    /// 1 while it is in use.
    pub is_taken: AtomicU64,
    /// Registers.
    pub registers: [u64; 7],
    /// A `siginfo_t`.
    pub signal: [u64; 16],
}

/// One thread's slot.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadEntry {
    /// FS base plus one, or zero. [`POISON`] keeps every thread away.
    pub key: AtomicU64,
    /// Address of the slot.
    pub slot: AtomicU64,
}

/// A key that no thread has: with it in all entries, every thread counts in the slot of its CPU
/// with a locked add. The tracer writes it when two threads share an FS base.
pub const POISON: u64 = u64::MAX;

/// The byte offset of the first entry for a key, from the start of the entries; the entry code
/// in `entry.rs` computes the same in three instructions.
#[must_use]
#[inline]
pub const fn thread_hash(key: u64) -> usize {
    ((key.wrapping_mul(HASH_MULTIPLIER) >> 40) & 0xff0) as usize
}

/// Multiplier of [`thread_hash`]: odd, and what a sign-extended 32-bit immediate can hold.
pub const HASH_MULTIPLIER: u64 = 0xffff_ffff_9e37_79b1;

/// Everything that is shared with the tracer.
#[derive(Debug)]
#[repr(C)]
pub struct Shared {
    /// How the installation went, and what has been used.
    pub header: Header,
    /// Counters, one slot a thread.
    pub slots: [Slot; SLOTS],
    /// Times of timed calls, one a counter.
    pub histograms: [Histogram; COUNTERS],
    /// System calls by number, where code in the program counts them (`clockscope-sites`).
    /// These are added to with a lock.
    pub sites: [[[AtomicU64; SITE_WORDS]; SITE_SHARDS]; SITE_KINDS],
    /// The times of those that were timed, in ticks; right behind.
    pub site_times: [[AtomicU64; SITE_WORDS]; SITE_TIMES],
    /// The same, of one process each.
    pub own_sites: [[[AtomicU64; SITE_WORDS]; SITE_OWN_KINDS]; SITE_OWN],
}

/// How the installation went, and what has been used; one page.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// Base of the image in the process that installed it (and in its forked children); 0 until
    /// installed.
    pub base: AtomicU64,
    /// 0, or the step of the installation that failed (see [`InstallStep`]) and its error number:
    /// `step << 32 | errno`.
    pub failed: AtomicU64,
    /// 1 once the time-stamp counter faulted: nothing is timed any more.
    pub no_timing: AtomicU32,
    /// Numbers for processes that the tracer did not see in time; from the top.
    pub anonymous: AtomicU32,
    /// One bit for each slot that was ever used.
    pub slots_used: [AtomicU64; SLOTS.div_ceil(64)],
    /// One bit for each histogram that was ever used.
    pub histograms_used: AtomicU64,
    /// Written by the tracer: one bit for each of [`Shared::own_sites`] that a process has.
    pub site_parts: AtomicU64,
    /// The same for those that a process ever had.
    pub site_parts_used: AtomicU64,
    /// Reserved, zero.
    pub reserved: [u64; 5],
    /// Calls by the base-two logarithm of the ticks since the thread's read before; weighted.
    pub intervals: [AtomicU64; INTERVALS],
    /// Reads that the kernel answered in place of the clock page, by the number of the reason
    /// (`fastclock::Decline`); the last takes all numbers above.
    pub declined: [AtomicU64; DECLINES],
    /// Ticks between the two readings of the counter around nothing, taken beside each timed call, without
    /// those that were interrupted; their sum.
    pub empty_ticks: AtomicU64,
    /// How often.
    pub empty_samples: AtomicU64,
    /// Distances in `intervals`, each counted once.
    pub interval_samples: AtomicU64,
    /// Reserved, zero.
    pub padding: [u64; 512 - 18 - INTERVALS - DECLINES],
}

/// A thread's counters.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// 0: free; otherwise `process << 1 | 1`.
    pub owner: AtomicU64,
    /// FS base of the thread plus one.
    pub key: AtomicU64,
    /// Time-stamp counter at the last timed call, of whatever function.
    pub last_timed: AtomicU64,
    /// State of the generator that spreads the timed calls.
    pub random: AtomicU64,
    /// Time-stamp counter at the start of the last timed call, while the next call of the same
    /// counter wants its distance from it; otherwise 0.
    pub waiting_since: AtomicU64,
    /// That counter; with [`PASSED`] if that next call is to pass the sample probe as the last one did.
    pub waiting: AtomicU32,
    /// Calls between timed ones once the first have been timed, as eight times the logarithm to
    /// the base of two; adapts.
    pub period: AtomicU32,
    /// Timed calls so far by counter, up to a limit.
    pub samples: [AtomicU8; COUNTERS],
    /// Time-stamp counter when a call last came to the sample probe.
    pub probe_at: AtomicU64,
    /// Ticks that it took there.
    pub probe_ticks: AtomicU64,
    /// Base-two logarithm of the number of calls that the one that was drawn to be timed next stands
    /// for, by counter; with the highest bit, what the last one stood for, after which the next call
    /// has its distance taken.
    pub stands_for: [AtomicU8; COUNTERS],
    /// Calls until the next one is timed, by counter.
    pub countdown: [AtomicU32; COUNTERS],
    /// Calls by counter.
    pub calls: [AtomicU64; COUNTERS],
}

impl Slot {
    /// A slot that nobody has used.
    #[must_use]
    pub const fn unused() -> Self {
        Self {
            owner: AtomicU64::new(0),
            key: AtomicU64::new(0),
            last_timed: AtomicU64::new(0),
            random: AtomicU64::new(0),
            waiting_since: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            period: AtomicU32::new(0),
            samples: [const { AtomicU8::new(0) }; COUNTERS],
            probe_at: AtomicU64::new(0),
            probe_ticks: AtomicU64::new(0),
            stands_for: [const { AtomicU8::new(0) }; COUNTERS],
            countdown: [const { AtomicU32::new(0) }; COUNTERS],
            calls: [const { AtomicU64::new(0) }; COUNTERS],
        }
    }
}

/// Bit of [`Slot::waiting`].
pub const PASSED: u32 = 1 << 31;

/// What the launch code in the kernel's image gives to the installer in ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LaunchParams {
    /// Where the kernel's image lies in this process.
    pub kernel_base: u64,
    /// Address of the value of `AT_SYSINFO_EHDR` in the auxiliary vector on the stack.
    pub auxv_slot: u64,
    /// System V id of the shared pages.
    pub shared_id: u64,
    /// The process, as a number of the session.
    pub process: u64,
    /// The program's first instruction.
    pub entry: u64,
    /// The clock page: its System V id, or with a process in the upper half the descriptor of its
    /// memory file there (at [`INSTALL_MARK`]).
    pub clock: u64,
    /// Number of that file's inode.
    pub clock_inode: u64,
    /// Where to map an area for code that counts system calls, of [`AREA_SIZE`] bytes; 0: nowhere.
    pub areas: [u64; AREAS],
    /// 1 if the thread is to give itself [`INSTALL_NOTICE`] when the areas are mapped.
    pub tells: u64,
    /// What the kernel knows of the process's memory, to tell it of the changed vector too.
    pub memory: MemoryMap,
}

/// What the code that is injected into a running process gives to the installer in the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AttachParams {
    /// Where the installer goes on when it is done.
    pub return_to: u64,
    /// System V id of the shared pages.
    pub shared_id: u64,
    /// The process, as a number of the session.
    pub process: u64,
    /// What to do: [`ATTACH_NEW`], [`ATTACH_AGAIN`] or [`ATTACH_LEAVE`].
    pub task: u64,
}

/// The image is new, and nothing is mapped behind it.
pub const ATTACH_NEW: u64 = 0;
/// The image is one that a session before has left, perhaps without [`ATTACH_LEAVE`].
pub const ATTACH_AGAIN: u64 = 1;
/// The session ends: what is shared with the tracer is replaced by private pages.
pub const ATTACH_LEAVE: u64 = 2;

/// What follows [`InjectedSlots`] where the image's installer runs.
#[derive(Debug)]
#[repr(C)]
pub struct AttachSlots {
    /// What the installer is given.
    pub params: AttachParams,
    /// Address of `clockscope_attach`.
    pub installer: u64,
}

/// How memory for the image is mapped in a running process: `MAP_PRIVATE | MAP_ANONYMOUS |
/// MAP_FIXED_NOREPLACE`. Linux before 4.17 takes the address for a wish.
pub const MAP_PRIVATE_THERE: u32 = 0x02 | 0x20 | 0x10_0000;

/// What the tracer fills in behind the code that launches a program (`stubs.rs`).
#[derive(Debug)]
#[repr(C)]
pub struct LaunchSlots {
    /// Where the image lies below the stack pointer, at the start of a page.
    pub image: u64,
    /// Offset of `clockscope_install` in the image.
    pub install_offset: u64,
    /// What the installer is given.
    pub params: LaunchParams,
}

/// What the tracer fills in behind the code that executes a program once more.
#[derive(Debug)]
#[repr(C)]
pub struct ExecveSlots {
    /// Address of the path.
    pub path: u64,
    /// Address of the arguments.
    pub arguments: u64,
    /// Address of the environment.
    pub environment: u64,
    /// The program's first instruction, where it goes on if the call fails.
    pub entry: u64,
}

/// `struct prctl_mm_map` of `prctl(PR_SET_MM, PR_SET_MM_MAP)`: the addresses of a process that the
/// kernel keeps, with the auxiliary vector that it gives to who asks for it (`/proc/PID/auxv`,
/// `PR_GET_AUXV`).
///
/// Source: include/uapi/linux/prctl.h and `prctl_set_mm_map` in kernel/sys.c (Linux 6.18); needs
/// no privilege as long as the executable stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryMap {
    /// First and last address of code, of data, and of the heap: `start_code`, `end_code`,
    /// `start_data`, `end_data`, `start_brk`, `brk`.
    pub segments: [u64; 6],
    /// `start_stack`.
    pub start_stack: u64,
    /// `arg_start`, `arg_end`, `env_start`, `env_end`.
    pub strings: [u64; 4],
    /// Address of the auxiliary vector.
    pub auxv: u64,
    /// Its size in bytes; 0: unknown, the kernel is not told.
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
    /// Asking for the pages to be zeroed in children.
    WipeOnFork = 3,
    /// Attaching the clock page.
    AttachClock = 4,
    /// Mapping the page for trampolines.
    MapTrampolines = 5,
    /// Attaching what the tracer changes while programs run.
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
