//! Counts system calls inside the program, by jumps in front of its `syscall` instructions (`clockscope-sites`).
//!
//! The tracer writes code only where no thread can stand: into the program and its interpreter before their first
//! instruction, and into later mappings when the `mmap` returns. It changes memory only, and writes a stub before the
//! jump to it. If the tracer dies in between, the program still works and fewer calls are counted.
//!
//! If a signal arrives while a thread is in a stub, the tracer delivers the signal after the thread has left the stub.
//! Signal handlers that inspect the interrupted address (unwinding, the cancellation of threads, restartable sequences)
//! therefore find the program's own code.

mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use super::arch::{counter_read, near_jump};
use super::attach::STACK_GROWS;
use super::forbidden_counter;
use super::install::image_of;
use super::processes::Process;
use super::stepping;
use clockscope_sites::{
    Found, Head, JUMP, Jump, KINDS, MADE_CODE, MAPPED, NOTICE, OTHERS, PLACES, SEALED, SEEN, Site,
    Stubs, TIMES, Why,
};
use clockscope_sys::memory;
use clockscope_sys::proc_text;
use clockscope_sys::ptrace::{self, Registers, SignalInfo, SyscallStop};
use clockscope_sys::room;
use clockscope_sys::shm::Segment;
use clockscope_text::units;
use object::{Object as _, ObjectSymbol as _};
use vdso_image::layout::{
    AREA_SIZE, AREAS, INSTALL_MARK, INSTALL_NOTICE, Kept, LIVE_OFFSET, PAGE, SHARED_OFFSET,
    SITE_KINDS, SITE_OWN, SITE_OWN_KINDS, SITE_SHARDS, SITE_TIMES, SITE_WORDS, Shared,
    THREADS_OFFSET, TIMING, Threads, Timing,
};
use vdso_reader::maps::{self, Mapping};
use vdso_reader::{Class, auxv};

pub use words::{SiteCalls, SiteWords, TimedCalls};

/// Greatest distance from an area's start to the ends of a mapping: a near jump reaches 2 GiB.
const REACH: u64 = (1 << 31) - 2 * AREA_SIZE as u64;
/// Larger files are not read. No program is that large.
const FILE_MAX: u64 = 1 << 30;
/// Name of the mapping of the kernel's image, wherever it has been moved.
const VDSO: &str = "[vdso]";
const SYS_MMAP: u64 = libc::SYS_mmap.unsigned_abs();
const PROT_READ: u64 = 1;
const PROT_EXEC: u64 = 4;
/// Offset from the image of the word with the address of the process's own part of the table.
const OWN: u64 = (THREADS_OFFSET + offset_of!(Threads, own_site_part)) as u64;
/// Offset from the image of the table of system calls.
const TABLE: u64 = (SHARED_OFFSET + offset_of!(Shared, sites)) as u64;
/// Offset from the image of the places for timed calls.
const TIMED_PLACES: u64 = (THREADS_OFFSET + offset_of!(Threads, timing)) as u64;
/// Offset from the image of the word that forbids reading the counter.
const NO_TIMING: u64 = (SHARED_OFFSET + offset_of!(Shared, header.no_timing)) as u64;
/// A kind of thing that is not counted, in singular and plural.
type Lost = (&'static str, &'static str);
const NO_ROOM: Lost = (
    "program with no room for code near it, or below a seccomp filter",
    "programs with no room for code near them, or below a seccomp filter",
);
/// A program without the shim.
pub(crate) const NO_SHIM: Lost = ("program without the shim", "programs without the shim");
const UNREADABLE: Lost = ("file that could not be read", "files that could not be read");
/// Negated results of system calls that the kernel restarts, include/linux/errno.h (Linux 6.18).
const RESTARTS: std::ops::RangeInclusive<u64> = 512..=516;
const _: () = {
    assert!(NOTICE == INSTALL_NOTICE);
    assert!(KINDS == SITE_KINDS && clockscope_sites::OWN_KINDS == SITE_OWN_KINDS);
    assert!(clockscope_sites::SHARDS == SITE_SHARDS && clockscope_sites::TABLE_WORDS == SITE_WORDS);
    assert!(clockscope_sites::KEPT == vdso_image::layout::KEPT);
    assert!(clockscope_sites::KEPT_SIZE == size_of::<Kept>());
    assert!(PLACES == TIMING && clockscope_sites::PLACE_SIZE == size_of::<Timing>());
    assert!(TIMES == SITE_TIMES);
    let table = offset_of!(Shared, sites);
    let words = SITE_KINDS * SITE_SHARDS * SITE_WORDS;
    assert!(offset_of!(Shared, site_times) == table + 8 * words);
};

/// A file, identified as in the list of mappings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileKey {
    device: (u32, u32),
    inode: u64,
}

/// Files and processes of a session in which system calls are counted.
#[derive(Debug, Default)]
pub struct Sites {
    files: HashMap<FileKey, Option<Rc<Found>>>,
    ahead: Option<Ahead>,
    /// Whether a second thread may help.
    by_two: bool,
    awaited: HashMap<i32, Awaited>,
    left: BTreeMap<String, BTreeMap<Why, u64>>,
    lost: BTreeMap<Lost, u64>,
    /// Executable mappings that the tracer has handled after a notification, including those that the kernel refused.
    seen: u64,
    /// Whether calls are timed.
    times: bool,
}

/// A file that is read before a process maps it.
#[derive(Debug)]
struct Ahead {
    key: FileKey,
    found: JoinHandle<Option<Found>>,
}

impl Ahead {
    /// Starts with this process's C library, because most programs use the same one and must wait for the result.
    fn begin() -> Option<Self> {
        let maps = proc_text::read("/proc/self/maps").ok()?;
        let mut mappings = maps.lines().filter_map(executed);
        let mapping = mappings.find(|mapping| mapping.name.contains("/libc.so."))?;
        let key = mapping.key.clone();
        let look = move || found_in(std::process::id().cast_signed(), &mapping, true);
        let found = std::thread::Builder::new().name("sites".to_owned()).spawn(look).ok()?;
        Some(Self { key, found })
    }
}

/// The areas of a process.
#[derive(Clone, Debug, Default)]
pub struct InProcess {
    places: [u64; AREAS],
    areas: Vec<Stubs>,
    /// The jumps that the tracer has written.
    jumps: Rc<Vec<Jump>>,
    /// Base address of the image; 0 without areas.
    image: u64,
    /// The part of the table that the process's only thread adds to without a lock. A child that shares the parent's
    /// memory for a while shares the part.
    part: Option<Rc<Part>>,
}

/// A part of the table, reserved for one process.
#[derive(Debug)]
struct Part {
    pages: Rc<Segment<Shared>>,
    index: usize,
}

impl Part {
    /// Reserves a free part.
    fn take(pages: &Rc<Segment<Shared>>) -> Option<Rc<Self>> {
        let header = &pages.get().header;
        let taken = header.site_parts.load(Relaxed);
        let index = (0..SITE_OWN).find(|index| taken >> index & 1 == 0)?;
        header.site_parts.fetch_or(1 << index, Relaxed);
        header.site_parts_used.fetch_or(1 << index, Relaxed);
        Some(Rc::new(Self { pages: Rc::clone(pages), index }))
    }

    /// Address of the part in a process with this image.
    fn address(&self, image: u64) -> u64 {
        let first = SHARED_OFFSET + offset_of!(Shared, own_sites);
        image + (first + self.index * SITE_OWN_KINDS * PAGE) as u64
    }
}

impl Drop for Part {
    /// Frees the part. Its counts stay in it, and the next process adds to them.
    fn drop(&mut self) {
        self.pages.get().header.site_parts.fetch_and(!(1 << self.index), Relaxed);
    }
}

/// The event that a thread must stop for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// The signal that the thread sends itself at the end of the installer.
    Told,
    /// The installer's last system call, where the thread may not send itself that signal.
    Installed,
    /// The `mmap` that the thread has announced.
    Mapping { entered: bool },
}

impl Awaited {
    /// Whether the program has not started yet.
    fn is_start(self) -> bool {
        matches!(self, Self::Told | Self::Installed)
    }
}

/// Whether this is the installer's last system call, apart from the calls that send the signal. By then the areas are
/// mapped, and the auxiliary vector names the image.
fn is_last(number: u64, arguments: &[u64; 6]) -> bool {
    let [_, size, access, .., mark] = *arguments;
    number == libc::SYS_mprotect.unsigned_abs()
        && (size, access, mark) == (PAGE as u64, PROT_READ, INSTALL_MARK)
}

/// Whether a thread has just sent itself the signal at the end of the installer.
fn has_told(registers: &Registers) -> bool {
    registers.call_number() == libc::SYS_tgkill.unsigned_abs()
        && registers.argument(5) == INSTALL_MARK
}

/// An executable mapping of a file.
#[derive(Debug)]
struct Executed {
    start: u64,
    end: u64,
    offset: u64,
    key: FileKey,
    name: String,
}

/// State of a running process with all threads stopped.
pub struct There<'a> {
    /// Program counters of its threads.
    pub pcs: Vec<u64>,
    /// Addresses that signal handlers may return to.
    pub returns: Vec<u64>,
    /// Areas of an earlier session.
    pub old_areas: &'a [OldArea],
    /// Whether it has a seccomp filter, which may check the address of a call and kill the process for other addresses.
    pub is_filtered: bool,
}

impl There<'_> {
    /// The part of a site that can be displaced in a file mapped `bias` above its own addresses, or the reason against
    /// it.
    fn of_site(&self, site: &Site, bias: u64) -> Result<Site, Why> {
        if self.is_filtered && !site.stays() {
            return Err(Why::Immovable);
        }
        let bytes = site.end - site.window;
        if self.is_in_the_way(site.window.wrapping_add(bias), bytes, site.is_plain && site.stays())
        {
            return Err(Why::Occupied);
        }
        // If the instructions behind stay in place, errors are not counted.
        let behind = site.behind.clone().filter(|behind| {
            let after = site.after().wrapping_add(bias);
            !self.is_in_the_way(after, behind.displaced as u64, behind.is_plain)
        });
        Ok(Site { behind, ..site.clone() })
    }

    /// Whether a thread or signal handler continues inside displaced instructions. A thread can be moved into the stub
    /// if the copy is identical.
    fn is_in_the_way(&self, at: u64, bytes: u64, is_plain: bool) -> bool {
        let within = |place: &u64| (1..bytes).contains(&place.wrapping_sub(at));
        self.returns.iter().any(within) || (!is_plain && self.pcs.iter().any(within))
    }
}

/// Whether a jump leads into an old area.
fn leads_to(areas: &[OldArea], at: u64, bytes: &[u8]) -> bool {
    let Some(distance) = near_jump(bytes) else { return false };
    let to = at.wrapping_add(JUMP as u64).wrapping_add_signed(distance.into());
    areas.iter().any(|area| to.wrapping_sub(area.at) < AREA_SIZE as u64)
}

/// Restores the original bytes of code at `base` in `seen` where jumps lead into old areas.
pub(crate) fn undo_old_jumps(areas: &[OldArea], base: u64, original: &[u8], seen: &mut [u8]) {
    for (at, original) in original.windows(JUMP).enumerate() {
        let Some(seen) = seen.get_mut(at..at + JUMP) else { return };
        if seen != original && leads_to(areas, base + at as u64, seen) {
            seen.copy_from_slice(original);
        }
    }
}

/// An area of an earlier session that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldArea {
    at: u64,
    /// Base address of the image whose table the area's code adds to.
    pub image: u64,
}

/// The old areas in a process that an earlier session has counted.
pub fn old_areas(pid: i32, mappings: &[Mapping]) -> Vec<OldArea> {
    let areas = mappings.iter().filter(|mapping| is_area(mapping));
    let heads = areas.filter_map(|mapping| {
        let mut head = [0; 24];
        memory::read(pid, mapping.start, &mut head).ok().filter(|read| *read == head.len())?;
        let (words, _) = head.as_chunks::<8>();
        let words = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
        let (table, mark) = Head::table_and_mark(&words);
        let image = table.wrapping_sub(TABLE);
        (mark == INSTALL_MARK).then_some(OldArea { at: mapping.start, image })
    });
    heads.collect()
}

/// Whether a mapping looks like an area. Other mappings at an area's address have another size, or a name.
fn is_area(mapping: &Mapping) -> bool {
    mapping.size() >= AREA_SIZE as u64 && mapping.perms == "r-xp" && mapping.name.is_empty()
}

/// Picks addresses for the areas: near the program, and near its interpreter if that is out of reach. `taken` is about
/// to be mapped.
pub(crate) fn places(mappings: &[Mapping], taken: Range<u64>) -> [u64; AREAS] {
    let mut mappings = mappings.to_vec();
    if !taken.is_empty() {
        let at = mappings.partition_point(|mapping| mapping.start < taken.start);
        let (perms, name) = ("r-xp".to_owned(), String::new());
        mappings.insert(at, Mapping { start: taken.start, end: taken.end, perms, name });
    }
    let executed: Vec<&Mapping> = mappings
        .iter()
        .filter(|mapping| mapping.perms.contains('x') && mapping.name.starts_with('/'))
        .collect();
    let mut places = [0; AREAS];
    let mut taken: Vec<u64> = Vec::new();
    for mapping in executed {
        if taken.len() < AREAS
            && !taken.iter().any(|place| reaches(*place, &(mapping.start..mapping.end)))
            && let Some(place) = free(&mappings, &(mapping.start..mapping.end))
        {
            places[taken.len()] = place;
            taken.push(place);
        }
    }
    places
}

/// Picks the free gap nearest to `near` for an area. The area lies near the upper end of the gap: half of the remaining
/// gap, but at most 8 times the area's size, stays free above it. Below a stack the area lies at the lower end, out of
/// reach of the stack, and only if the gap is not above the heap.
fn free(mappings: &[Mapping], near: &Range<u64>) -> Option<u64> {
    const LOWEST: u64 = 0x1_0000;
    let (size, page) = (AREA_SIZE as u64, PAGE as u64);
    let befores = std::iter::once(None).chain(mappings.iter().map(Some));
    let places = befores.zip(mappings).filter_map(|(before, above)| {
        let begin = before.map_or(LOWEST, |before| before.end);
        let room = above.start.checked_sub(begin).filter(|room| *room >= size + 2 * page)?;
        if above.name.starts_with("[stack") {
            let is_free = room > STACK_GROWS && before.is_some_and(|it| it.name != "[heap]");
            return is_free.then_some(begin + page);
        }
        let spare = (room - size).min(16 * size) / 2;
        Some((above.start - size - spare) & !(page - 1))
    });
    places.filter(|at| reaches(*at, near)).min_by_key(|at| near.start.abs_diff(*at))
}

/// Whether jumps between an area and a mapping reach.
fn reaches(area: u64, mapping: &Range<u64>) -> bool {
    area.abs_diff(mapping.start).max(area.abs_diff(mapping.end)) < REACH
}

impl Sites {
    /// Counts calls. Times some of them if `times`.
    pub(crate) fn new(times: bool) -> Self {
        Self { times, ..Self::default() }
    }

    /// Reads the C library ahead, because programs are about to be executed.
    pub(crate) fn look_ahead(&mut self) {
        self.by_two = !room::has_few_addresses();
        self.ahead = if self.by_two { Ahead::begin() } else { None };
    }

    /// A program is about to start in `process`, with areas at `places`. If `tells`, its thread sends itself a signal
    /// after mapping them.
    pub(crate) fn begin(&mut self, process: &mut Process, places: [u64; AREAS], tells: bool) {
        if places == [0; AREAS] {
            return self.lose(NO_ROOM);
        }
        process.sites = InProcess { places, ..InProcess::default() };
        let awaited = if tells { Awaited::Told } else { Awaited::Installed };
        self.awaited.insert(process.pid, awaited);
    }

    /// Notes a program or file that is not counted.
    pub(crate) fn lose(&mut self, why: Lost) {
        *self.lost.entry(why).or_default() += 1;
    }

    /// A thread or process is gone, or executes another program.
    pub(crate) fn forget(&mut self, task: i32) {
        if self.awaited.remove(&task).is_some_and(Awaited::is_start) {
            self.lose(NO_SHIM);
        }
    }

    /// Whether the thread must stop at its next system call.
    pub(crate) fn is_awaited(&self, thread: i32) -> bool {
        self.awaited.get(&thread).is_some_and(|awaited| *awaited != Awaited::Told)
    }

    /// Handles a thread that has stopped at a system call.
    pub(crate) fn at_syscall(&mut self, process: &mut Process, thread: i32) {
        let Some(awaited) = self.awaited.get(&thread).copied() else { return };
        match (awaited, ptrace::syscall_info(thread)) {
            (Awaited::Told, _) | (Awaited::Installed, Ok(SyscallStop::Exit { .. })) => {}
            (Awaited::Installed, Ok(SyscallStop::Entry { number, arguments, .. })) => {
                if is_last(number, &arguments) {
                    self.start(process, thread);
                } else if arguments[5] != INSTALL_MARK {
                    // The image was not installed.
                    self.forget(thread);
                }
            }
            (Awaited::Mapping { .. }, Ok(SyscallStop::Entry { number, arguments, .. })) => {
                let entered = number == SYS_MMAP && arguments[2] & PROT_EXEC != 0;
                self.awaited.insert(thread, Awaited::Mapping { entered });
                self.is_interrupted(process, thread);
            }
            (Awaited::Mapping { entered: false }, Ok(SyscallStop::Exit { .. })) => {}
            (Awaited::Mapping { entered: true }, Ok(SyscallStop::Exit { is_error })) => {
                self.awaited.remove(&thread);
                self.seen += 1;
                let at = ptrace::registers(thread).map(|registers| registers.result());
                let text = proc_text::read(format!("/proc/{}/maps", process.pid));
                if let (false, Ok(at), Ok(text)) = (is_error, at, text) {
                    let is_it = |mapping: &Executed| mapping.start <= at && at < mapping.end;
                    self.patch(process.pid, &text, &mut process.sites, None, is_it);
                }
            }
            (_, Ok(SyscallStop::Other) | Err(_)) => self.forget(thread),
        }
    }

    /// Writes jumps into all files that the program has mapped before it starts.
    fn start(&mut self, process: &mut Process, thread: i32) {
        let (Some(image), Some(pages)) = (image_of(process, thread), process.pages.clone()) else {
            return self.forget(thread);
        };
        self.awaited.remove(&thread);
        let pid = process.pid;
        if let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) {
            process.sites.begin(pid, image, &maps::parse(&text), self.times);
            self.patch(pid, &text, &mut process.sites, None, |_| true);
        }
        process.sites.give_part(thread, &pages);
    }

    /// Reads all executable files of a process, so that later look-ups are fast.
    pub fn look_at_files(&mut self, pid: i32) {
        let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) else { return };
        for mapping in text.lines().filter_map(executed) {
            self.found(pid, &mapping);
        }
    }

    /// Starts counting in a process that is already running, in areas that may have been mapped.
    pub fn enter(
        &mut self,
        pid: i32,
        image: u64,
        places: [u64; AREAS],
        pages: &Segment<Shared>,
        there: &There<'_>,
    ) -> InProcess {
        let mut sites = InProcess { places, ..InProcess::default() };
        if there.is_filtered {
            pages.get().sites[SEEN][0][SEALED].store(1, Relaxed);
        }
        let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) else { return sites };
        sites.begin(pid, image, &maps::parse(&text), self.times);
        if sites.areas.is_empty() {
            self.lose(NO_ROOM);
        } else {
            self.patch(pid, &text, &mut sites, Some(there), |_| true);
        }
        sites
    }

    /// Writes jumps into the wanted mappings in `text`, a list of mappings.
    fn patch(
        &mut self,
        pid: i32,
        text: &str,
        sites: &mut InProcess,
        there: Option<&There<'_>>,
        wanted: impl Fn(&Executed) -> bool,
    ) {
        let memory = text_of(pid).ok();
        let has_no_linker = has_no_linker(pid);
        for mapping in text.lines().filter_map(executed).filter(wanted) {
            let Some(found) = self.found(pid, &mapping) else {
                self.lose(UNREADABLE);
                continue;
            };
            let patched = if has_no_linker && is_foreign(pid, &mapping) {
                found.sites.iter().map(|_| (Why::Foreign, 1)).collect()
            } else {
                sites.patch((pid, memory.as_ref()), &mapping, &found, there)
            };
            let mut of_mapping: BTreeMap<Why, u64> = BTreeMap::new();
            for (why, sites) in patched {
                *of_mapping.entry(why).or_default() += sites;
            }
            // Other processes may have mapped the same file; keep the maximum.
            let left = self.left.entry(mapping.name).or_default();
            for (why, sites) in of_mapping {
                let known = left.entry(why).or_default();
                *known = sites.max(*known);
            }
        }
    }

    /// The sites in a mapped file; `None` if the file cannot be read, or has been replaced since.
    fn found(&mut self, pid: i32, mapping: &Executed) -> Option<Rc<Found>> {
        if let Some(known) = self.files.get(&mapping.key) {
            return known.clone();
        }
        let found = match self.ahead.take_if(|ahead| ahead.key == mapping.key) {
            Some(ahead) => ahead.found.join().expect("looking into a file does not panic"),
            None => found_in(pid, mapping, self.by_two),
        };
        let found = found.map(Rc::new);
        self.files.insert(mapping.key.clone(), found.clone());
        found
    }

    /// Suppresses a signal that was meant for the tracer. Returns whether it was.
    pub(crate) fn takes(&mut self, process: &mut Process, thread: i32, signal: i32) -> bool {
        if signal == INSTALL_NOTICE && self.awaited.get(&thread) == Some(&Awaited::Told) {
            // Other senders' signals are ignored at this point, because the program has no handlers yet.
            let is_there = ptrace::registers(thread).is_ok_and(|it| has_told(&it));
            if is_there {
                self.start(process, thread);
            }
            return is_there;
        }
        let is_ours = signal == NOTICE
            && SignalInfo::of(thread).is_ok_and(|info| info.queued_value() == Some(INSTALL_MARK));
        if is_ours {
            let at = ptrace::registers(thread).map_or(0, |registers| registers.pc());
            if process.sites.areas.iter().any(|area| area.told_at() == at) {
                self.awaited.insert(thread, Awaited::Mapping { entered: false });
            }
        }
        is_ours
    }

    /// Moves a thread that has stopped for a signal out of a stub.
    pub(crate) fn leave_stub(&mut self, process: &Process, thread: i32) {
        let areas = &process.sites.areas;
        if areas.is_empty() {
            return;
        }
        // A thread in a system call of the program stays there, because the call may take any time.
        let is_call = |place: &Registers| {
            let is_interrupted = place.call_number().cast_signed() >= 0
                && RESTARTS.contains(&place.result().wrapping_neg());
            let is_next = place.argument(5) != INSTALL_MARK
                && ptrace::is_syscall(thread, place.pc()).unwrap_or(true);
            is_interrupted || is_next
        };
        let is_to_go =
            |place: &Registers| areas.iter().any(|area| area.holds(place.pc())) && !is_call(place);
        stepping::leave(process.pid, thread, is_to_go, |at| {
            // The notification signal waits with all other signals.
            if areas.iter().any(|area| area.told_at() == at) {
                self.awaited.insert(thread, Awaited::Mapping { entered: false });
            }
        });
    }

    /// A signal or stop interrupts a call, so the call is not timed.
    pub(crate) fn is_interrupted(&self, process: &Process, thread: i32) {
        if !self.times || process.sites.areas.is_empty() {
            return;
        }
        let Ok(registers) = ptrace::registers(thread) else { return };
        let stack = registers.sp();
        let place =
            process.sites.image + TIMED_PLACES + place_of(stack) * size_of::<Timing>() as u64;
        if memory::read_u64(thread, place).is_ok_and(|taken_by| taken_by == stack) {
            // If the process has ended meanwhile, nothing needs to change.
            let _ = memory::write(thread, place, &0_u64.to_ne_bytes());
        }
    }

    /// Handles the fault of a stopped thread if it is the stub's read of the counter, which the program has forbidden
    /// to itself: steps over the read and ends all timing. Returns whether it was.
    pub(crate) fn steps_over_counter(&self, process: &Process, thread: i32) -> bool {
        let Ok(mut registers) = ptrace::registers(thread) else { return false };
        let Some(pages) = &process.pages else { return false };
        if !process.sites.reads_counter(registers.pc()) || !forbidden_counter::is_fault(thread) {
            return false;
        }
        pages.get().header.no_timing.store(1, Relaxed);
        self.is_interrupted(process, thread);
        let mut code = [0; 2];
        memory::read(thread, registers.pc(), &mut code).is_ok()
            && counter_read::step_over(&mut registers, &code)
            && ptrace::set_registers(thread, &registers).is_ok()
    }

    /// Clauses that name the system calls that were not counted.
    pub(crate) fn losses(&self, words: &SiteWords) -> Vec<String> {
        let mut clauses = Vec::new();
        if self.left.values().any(|reasons| reasons.contains_key(&Why::SignalReturn)) {
            clauses.push("rt_sigreturn, by which handlers of signals end".to_owned());
        }
        for (file, reasons) in &self.left {
            let others = reasons.iter().filter(|(why, _)| **why != Why::SignalReturn);
            for (why, sites) in others {
                let calls = units::counted(*sites, "instruction", "instructions");
                clauses.push(format!("calls by {calls} of {file}, {why}"));
            }
        }
        let mut lost = self.lost.clone();
        let unbegun = self.awaited.values().filter(|awaited| awaited.is_start()).count();
        if unbegun > 0 {
            *lost.entry(NO_SHIM).or_default() += unbegun as u64;
        }
        for (why, times) in &lost {
            clauses.push(format!("calls of {}", units::counted(*times, why.0, why.1)));
        }
        let unseen = words.word(SEEN, MAPPED).saturating_sub(self.seen);
        if unseen > 0 {
            let unseen = units::counted(unseen, "library", "libraries");
            clauses.push(format!("calls of {unseen} that the program loaded unseen"));
        }
        let made = words.word(SEEN, MADE_CODE);
        if made > 0 {
            let times = units::counted(made, "time", "times");
            clauses.push(format!(
                "calls by code that the program made, if it did: it asked for such memory {times}"
            ));
        }
        clauses
    }
}

/// Whether the kernel started a program without a dynamic linker: `AT_BASE` is 0, `getauxval(3)`.
fn has_no_linker(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/auxv"))
        .is_ok_and(|vector| auxv::parse(&vector, Class::Elf64).contains(&(libc::AT_BASE, 0)))
}

/// Whether a program without a dynamic linker has mapped a file that is not its own. A dynamic linker that was started
/// as a program does not count; it has dynamic symbols.
fn is_foreign(pid: i32, mapping: &Executed) -> bool {
    let program = format!("/proc/{pid}/exe");
    let is_its_own = || {
        std::fs::read_link(&program).is_ok_and(|path| {
            // The list of mappings escapes a line end (`show_map_vma`, fs/proc/task_mmu.c, Linux 6.18).
            path.to_string_lossy().replace('\n', "\\012") == mapping.name
        })
    };
    let is_linker = || {
        let file = std::fs::read(&program).unwrap_or_default();
        object::File::parse(&*file)
            .is_ok_and(|file| file.dynamic_symbols().any(|symbol| symbol.is_definition()))
    };
    mapping.name != VDSO && !is_its_own() && !is_linker()
}

/// Index of the place for a thread with this stack pointer, computed as in the stubs.
fn place_of(stack: u64) -> u64 {
    stack >> 16 & (PLACES as u64 - 1)
}

/// Counts a call that was made before its stub existed, in the words of `kind`.
pub(crate) fn count(pages: &Shared, number: u64, kind: usize) {
    let word = usize::try_from(number).map_or(OTHERS, |number| number.min(OTHERS));
    pages.sites[kind][0][word].fetch_add(1, Relaxed);
}

impl InProcess {
    /// Gives a part of the table to a process whose only thread has stopped. Without a free part, or if the process's
    /// memory cannot be written, the process adds with a lock.
    pub(crate) fn give_part(&mut self, thread: i32, pages: &Rc<Segment<Shared>>) {
        self.part = None;
        if self.areas.is_empty() {
            return;
        }
        let part = Part::take(pages);
        let at = part.as_ref().map_or(0, |part| part.address(self.image));
        if memory::write(thread, self.image + OWN, &at.to_ne_bytes()).is_ok() {
            self.part = part;
        }
    }

    /// Takes the part away, because another thread or process will use the memory of this one, whose only thread has
    /// stopped. Both add with a lock from now on.
    pub(crate) fn take_part(&mut self, thread: i32) {
        if self.part.take().is_some() {
            // If the process has ended meanwhile, it adds nothing.
            let _ = memory::write(thread, self.image + OWN, &0_u64.to_ne_bytes());
        }
    }

    /// Writes the shared code into the mapped areas.
    fn begin(&mut self, pid: i32, image: u64, mappings: &[Mapping], times: bool) {
        let head = Head {
            table: image + TABLE,
            alive: image + LIVE_OFFSET as u64,
            mark: INSTALL_MARK,
            own: image + OWN,
            kept: image + (THREADS_OFFSET + offset_of!(Threads, kept)) as u64,
            places: image + TIMED_PLACES,
            no_timing: image + NO_TIMING,
            times,
        };
        self.image = image;
        for place in self.places {
            let is_there = mappings.iter().any(|it| it.start == place && is_area(it));
            let (stubs, head) = Stubs::new(place, AREA_SIZE, head);
            if is_there && memory::write_text(pid, head.at, &head.bytes).is_ok() {
                self.areas.push(stubs);
            }
        }
    }

    /// The areas for a process that may have more jumps than are known here, because its parent wrote them later.
    pub(crate) fn of_an_orphan(self) -> Self {
        Self { part: None, ..self }
    }

    /// Whether no code was written into the process.
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// Whether the program's code contains clockscope's jumps.
    pub(crate) fn has_jumps(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// Restores the program's bytes where clockscope's jumps still are. All threads must have stopped.
    pub fn put_back(&self, pid: i32) -> std::io::Result<()> {
        if self.jumps.is_empty() {
            return Ok(());
        }
        let memory = text_of(pid)?;
        for jump in self.jumps.iter() {
            let mut found = [0; JUMP];
            if memory.read_exact_at(&mut found, jump.at).is_ok() && found == jump.bytes {
                memory.write_all_at(&jump.original, jump.at)?;
            }
        }
        Ok(())
    }

    /// Whether the instruction at `address` is a stub's read of the counter.
    pub(crate) fn reads_counter(&self, address: u64) -> bool {
        self.areas.iter().any(|area| area.reads_counter(address))
    }

    /// The address in the stub for a thread that stands at a displaced instruction.
    pub fn to_stub(&self, address: u64) -> Option<u64> {
        self.jumps.iter().find(|jump| jump.covers(address))?.to_stub(address)
    }

    /// The address in the program for a thread that stands in a stub, if there is an equivalent one.
    pub fn to_program(&self, address: u64) -> Option<u64> {
        self.jumps.iter().find_map(|jump| jump.to_program(address))
    }

    /// Writes jumps into a mapping. Returns the sites that are not counted, by reason.
    fn patch(
        &mut self,
        process: (i32, Option<&File>),
        mapping: &Executed,
        found: &Found,
        there: Option<&There<'_>>,
    ) -> Vec<(Why, u64)> {
        let segments = found.segments.iter();
        let of_segment = segments.filter(|segment| {
            let begin = segment.offset & !(PAGE as u64 - 1);
            begin <= mapping.offset && mapping.offset < segment.offset + segment.size
        });
        let mut left = Vec::new();
        for segment in of_segment {
            let bias = mapping.start.wrapping_sub(
                segment.address.wrapping_sub(segment.offset).wrapping_add(mapping.offset),
            );
            let is_here = |address: u64| {
                let at = address.wrapping_add(bias);
                mapping.start <= at && at < mapping.end
            };
            // Sites are in ascending order.
            let until = |end: u64| {
                let end = end.wrapping_sub(bias);
                found.sites.partition_point(|site| site.syscall < end)
            };
            let sites = found.sites.get(until(mapping.start)..until(mapping.end));
            let sites = sites.unwrap_or_default();
            let mut here = Cow::Borrowed(sites);
            if let Some(there) = there {
                let mut displaced = Vec::new();
                for site in sites {
                    match there.of_site(site, bias) {
                        // The functions of the kernel's image are redirected separately, and attaching compares its
                        // bytes with the kernel's.
                        _ if mapping.name == VDSO => left.push((Why::Changed, 1)),
                        Ok(site) => displaced.push(site),
                        Err(why) => left.push((why, 1)),
                    }
                }
                here = Cow::Owned(displaced);
            }
            let written = self.write(process, mapping, &here, bias, there);
            let unwritten = written.err().map(|why| (why, here.len() as u64));
            left.extend(unwritten.filter(|(_, sites)| *sites > 0));
            let never = found.left.iter().filter(|left| is_here(left.syscall));
            left.extend(never.map(|left| (left.why, 1)));
        }
        left
    }

    fn write(
        &mut self,
        (pid, memory): (i32, Option<&File>),
        mapping: &Executed,
        sites: &[Site],
        bias: u64,
        old: Option<&There<'_>>,
    ) -> Result<(), Why> {
        let range = mapping.start..mapping.end;
        let is_near = |area: &&mut Stubs| reaches(area.told_at(), &range);
        let area = self.areas.iter_mut().find(is_near).ok_or(Why::TooFar)?;
        let (code, jumps) = area.add(sites, bias).ok_or(Why::TooFar)?;
        let memory = memory.ok_or(Why::TooFar)?;
        let mut parts = Parts::read(pid, memory, sites, bias).map_err(|_| Why::Changed)?;
        // The process's bytes must equal the file's.
        let mut is_there = |at: u64, original: &[u8]| {
            let at = at.wrapping_add(bias);
            let is_left = |bytes: &[u8]| old.is_some_and(|old| leads_to(old.old_areas, at, bytes));
            parts.at(at, original.len()).is_some_and(|there| {
                there == original || (is_left(there) && there[JUMP..] == original[JUMP..])
            })
        };
        let is_same = |site: &Site| {
            is_there(site.window, &site.original)
                && site.behind.as_ref().is_none_or(|it| is_there(site.after(), &it.original))
        };
        if !sites.iter().all(is_same) {
            return Err(Why::Changed);
        }
        memory.write_all_at(&code.bytes, code.at).map_err(|_| Why::TooFar)?;
        for jump in &jumps {
            if let Some(there) = parts.at(jump.at, JUMP) {
                there.copy_from_slice(&jump.bytes);
            }
        }
        // Note the jumps before they are written.
        Rc::make_mut(&mut self.jumps).extend(jumps);
        parts.write(memory).map_err(|_| Why::TooFar)
    }
}

/// The bytes around sites in a process. The kernel takes as long for five bytes as for a page, so neighbouring sites
/// are read and written in one piece.
struct Parts(Vec<(u64, Vec<u8>)>);

impl Parts {
    /// Reads the bytes around sites of a file, which are in ascending order.
    fn read(pid: i32, text: &File, sites: &[Site], bias: u64) -> std::io::Result<Self> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for site in sites {
            let start = site.window.wrapping_add(bias);
            let behind = site.behind.as_ref().map_or(0, |behind| behind.original.len());
            let end = start.saturating_add(site.original.len() as u64);
            let after = site.after().wrapping_add(bias);
            let end = end.max(after.saturating_add(behind as u64));
            match ranges.last_mut() {
                // A gap of less than a page is part of the same pages.
                Some(last) if start.saturating_sub(last.end) < PAGE as u64 => {
                    last.end = last.end.max(end);
                }
                _ => ranges.push(start..end),
            }
        }
        let room = |range: Range<u64>| {
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            (range.start, vec![0; length])
        };
        let mut parts: Vec<(u64, Vec<u8>)> = ranges.into_iter().map(room).collect();
        // Code that is executable but not readable is read as a debugger reads it.
        if memory::read_parts(pid, &mut parts).is_err() {
            for (start, bytes) in &mut parts {
                text.read_exact_at(bytes, *start)?;
            }
        }
        Ok(Self(parts))
    }

    /// The bytes at an address.
    fn at(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let behind = self.0.partition_point(|(start, _)| *start <= address);
        let (start, bytes) = self.0[..behind].last_mut()?;
        let first = usize::try_from(address - *start).ok()?;
        bytes.get_mut(first..first.checked_add(length)?)
    }

    fn write(&self, memory: &File) -> std::io::Result<()> {
        self.0.iter().try_for_each(|(start, bytes)| memory.write_all_at(bytes, *start))
    }
}

/// A process's memory, opened for reading and writing as by a debugger.
fn text_of(pid: i32) -> std::io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// The contents of a mapped file, if the file can be read and is still the same.
fn read(pid: i32, mapping: &Executed) -> Option<Vec<u8>> {
    if mapping.name == VDSO {
        // The kernel's image has no file; it is read from the process's memory.
        let mut bytes = vec![0; usize::try_from(mapping.end - mapping.start).ok()?];
        let length = memory::read(pid, mapping.start, &mut bytes).ok()?;
        return (length == bytes.len()).then_some(bytes);
    }
    let by_address = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let by_name = PathBuf::from(format!("/proc/{pid}/root{}", mapping.name));
    let file = File::open(by_address).or_else(|_| File::open(by_name)).ok()?;
    let known = file.metadata().ok()?;
    if !known.is_file() || known.len() > FILE_MAX || known.ino() != mapping.key.inode {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(known.len()).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// The sites in the file of a mapping.
fn found_in(pid: i32, mapping: &Executed, by_two: bool) -> Option<Found> {
    let find = if by_two { clockscope_sites::find_by_two } else { clockscope_sites::find };
    read(pid, mapping).and_then(|file| find(&file).ok())
}

/// Parses a line of `/proc/PID/maps`, if it is an executable mapping of a file.
fn executed(line: &str) -> Option<Executed> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let perms = words.next()?;
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let offset = number(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = words.next()?.parse().ok()?;
    let name = words.next()?.trim_start();
    let is_of_file = name.starts_with('/') || name == VDSO;
    (perms.contains('x') && perms.ends_with('p') && is_of_file).then_some(())?;
    let key = FileKey { device, inode };
    Some(Executed { start: number(start)?, end: number(end)?, offset, key, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_in(text: &str) -> [u64; AREAS] {
        places(&maps::parse(text), 0..0)
    }

    #[test]
    fn an_area_is_above_what_the_program_maps_where_that_leaves_no_room() {
        let text = "7f0000000000-7f00c0001000 rw-p 0 00:00 0 \n\
                    7f00c0001000-7f00c0002000 r-xp 0 00:00 1 /lib/libc.so.6\n\
                    7f00c0002000-7f00c0040000 r-xp 0 00:00 2 /lib64/ld-linux-x86-64.so.2\n\
                    7ffd00000000-7ffd00021000 rw-p 0 00:00 0 [stack]\n";
        assert_eq!(places_in(text), [0x7f00_c004_1000, 0]);
        // The heap grows into the gap above itself, and the stack grows into a small gap.
        let heap = text.replace("/lib64/ld-linux-x86-64.so.2", "[heap]");
        assert_eq!(places_in(&heap), [0; AREAS]);
        assert_eq!(places_in(&text.replace("7ffd000", "7f00c10")), [0; AREAS]);
    }

    #[test]
    fn an_area_is_near_the_program_and_another_near_its_interpreter() {
        let text = "555500000000-555500010000 r-xp 0 00:00 1 /bin/a\n\
                    555500020000-555500021000 rw-p 0 00:00 0 [heap]\n\
                    7f0000000000-7f0000010000 r-xp 0 00:00 2 /lib64/ld-linux-x86-64.so.2\n";
        let [program, interpreter] = places_in(text);
        let size = AREA_SIZE as u64;
        assert!(0x5555_0000_0000 - program < 16 * size, "{program:x}");
        assert!(0x7f00_0000_0000 - interpreter < 16 * size, "{interpreter:x}");
    }
}
