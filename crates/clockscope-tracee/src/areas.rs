//! Code in one process that counts its system calls: areas of stubs, and the jumps to them.
//!
//! The tracer changes memory only, and writes a stub before the jump to it. If it dies in between, the program still
//! works and fewer calls are counted.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::arch::near_jump;
use super::site_files::{Executed, VDSO};
use clockscope_sites::{Found, Head, JUMP, Jump, Left, Site, Stubs, Why};
use clockscope_sys::memory;
use clockscope_sys::shm::Segment;
use vdso_image::layout::{
    AREA_SIZE, AREAS, INSTALL_MARK, LIVE_OFFSET, PAGE, SHARED_OFFSET, SITE_OWN, SITE_OWN_KINDS,
    Shared, THREADS_OFFSET, TIMING, TOTAL_SIZE, Threads, Timing,
};
use vdso_reader::maps::Mapping;

/// Greatest distance from an area's start to the ends of a mapping: a near jump reaches 2 GiB.
const REACH: u64 = (1 << 31) - 2 * AREA_SIZE as u64;
/// Room left below a stack for its growth, in bytes, if the gap is large enough. Stack limits are rarely higher
/// (`ulimit -s`), and a near jump reaches further.
pub(crate) const STACK_GROWS: u64 = 1 << 30;
/// Offset from the image of the word with the address of the process's own part of the table.
const OWN: u64 = (THREADS_OFFSET + offset_of!(Threads, own_site_part)) as u64;
/// Offset from the image of the words for the end of loading.
const LOADING: u64 = (THREADS_OFFSET + offset_of!(Threads, loading)) as u64;
/// Offset from the image of the table of system calls.
const TABLE: u64 = (SHARED_OFFSET + offset_of!(Shared, sites)) as u64;
/// Offset from the image of the places for timed calls.
const TIMED_PLACES: u64 = (THREADS_OFFSET + offset_of!(Threads, timing)) as u64;
/// Offset from the image of the word that forbids reading the counter.
const NO_TIMING: u64 = (SHARED_OFFSET + offset_of!(Shared, header.no_timing)) as u64;

/// What an instruction does that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Call,
    CounterRead,
}

impl What {
    pub(crate) fn new(is_counter: bool) -> Self {
        if is_counter { Self::CounterRead } else { Self::Call }
    }

    pub(crate) fn of(site: &Site) -> Self {
        Self::new(site.is_counter())
    }
}

/// How many more files looks have found than calls were counted that map one. A call is counted before it maps, and a
/// look may come between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Balance(i64);

impl Balance {
    /// A look has found `files`, after `calls` more; `None` if the counts are gone. Returns how many more calls have
    /// their file.
    pub(crate) fn look(&mut self, files: u64, calls: Option<u64>) -> u64 {
        let (before, files) = (self.0, files.cast_signed());
        let all = before.saturating_add(files);
        // Without counts, each file has its call. The program can write into its counts.
        let calls = calls.map_or(all - before.min(0), |calls| calls.try_into().unwrap_or(i64::MAX));
        self.0 = all.saturating_sub(calls);
        let found = calls.saturating_add(self.0.min(0)).saturating_sub(before.min(0));
        found.max(0).cast_unsigned()
    }
}

/// The areas of a process.
#[derive(Clone, Debug, Default)]
pub struct InProcess {
    places: [u64; AREAS],
    pub(crate) areas: Vec<Stubs>,
    /// The jumps that the tracer has written.
    jumps: Rc<Vec<Jump>>,
    /// Addresses of jumps that were given up because another tool had broken them.
    broken: BTreeSet<u64>,
    /// Base address of the image; 0 without areas.
    image: u64,
    /// Names of the executable mappings that the last look has found, by address.
    pub(crate) known: Rc<BTreeMap<u64, String>>,
    /// Values of [`MAPPED`] and [`MADE_CODE`] when they were looked at.
    pub(crate) noted: [u64; 2],
    /// The time before which no further look is taken.
    pub(crate) rests_until: Option<Instant>,
    /// Files that looks have found, against the calls in [`MAPPED`].
    pub(crate) balance: Balance,
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

impl OldArea {
    /// Whether the area begins at this address.
    pub(crate) fn is_at(&self, address: u64) -> bool {
        self.at == address
    }

    /// Whether further stubs, for the table of `image`, can be written into the area: this build has made it for the same
    /// image.
    fn takes_more(&self, pid: i32, image: u64) -> bool {
        let (_, head) = Stubs::new(self.at, AREA_SIZE, head(image, false));
        self.image == image && memory::holds(pid, self.at, &head.bytes)
    }
}

/// Addresses of old areas that take more stubs for the table of `image`.
pub(crate) fn of_image(pid: i32, areas: &[OldArea], image: u64) -> Vec<u64> {
    areas.iter().filter(|area| area.takes_more(pid, image)).map(|area| area.at).collect()
}

fn head(image: u64, times: bool) -> Head {
    Head {
        table: image + TABLE,
        alive: image + LIVE_OFFSET as u64,
        mark: INSTALL_MARK,
        own: image + OWN,
        loading: image + LOADING,
        places: image + TIMED_PLACES,
        no_timing: image + NO_TIMING,
        times,
    }
}

/// The old areas in a process that an earlier session has counted.
pub fn old_areas(pid: i32, mappings: &[Mapping]) -> Vec<OldArea> {
    let areas = mappings.iter().filter(|mapping| is_area(mapping));
    let heads = areas.filter_map(|mapping| {
        let mut head = [0; 24];
        memory::read_exact(pid, mapping.start, &mut head).ok()?;
        let (words, _) = head.as_chunks::<8>();
        let words = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
        let (table, mark) = Head::table_and_mark(&words);
        let image = table.wrapping_sub(TABLE);
        (mark == INSTALL_MARK).then_some(OldArea { at: mapping.start, image })
    });
    heads.collect()
}

/// Where a process has clockscope's code: areas and images, of earlier sessions too.
pub(crate) fn own_code(pid: i32, mappings: &[Mapping]) -> Vec<Range<u64>> {
    let areas = old_areas(pid, mappings).into_iter();
    let ranges = areas.flat_map(|area| [(area.at, AREA_SIZE), (area.image, TOTAL_SIZE)]);
    ranges.map(|(at, size)| at..at + size as u64).collect()
}

/// Whether a mapping looks like an area. Other mappings at an area's address have another size, or a name.
fn is_area(mapping: &Mapping) -> bool {
    mapping.size() >= AREA_SIZE as u64 && mapping.perms == "r-xp" && mapping.name.is_empty()
}

/// Picks addresses for the areas: near the program, and near its interpreter if that is out of reach; those in `there`
/// are preferred. `taken` is about to be mapped.
pub(crate) fn places(mappings: &[Mapping], taken: Range<u64>, there: &[u64]) -> [u64; AREAS] {
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
        let range = mapping.start..mapping.end;
        let is_near = |place: &u64| reaches(*place, &range);
        if taken.len() < AREAS && !taken.iter().any(is_near) {
            let place = there.iter().copied().find(is_near).or_else(|| free(&mappings, &range));
            places[taken.len()] = place.unwrap_or_default();
            taken.extend(place);
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

impl InProcess {
    /// The areas at `places`, which may have been mapped or are about to be.
    pub(crate) fn at(places: [u64; AREAS]) -> Self {
        Self { places, ..Self::default() }
    }

    /// Address of the place for timed calls of a thread with this stack pointer, computed as in the stubs.
    pub(crate) fn timed_place(&self, stack: u64) -> u64 {
        let index = stack >> 16 & (TIMING as u64 - 1);
        self.image + TIMED_PLACES + index * size_of::<Timing>() as u64
    }

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
    ///
    /// `old` are areas of earlier sessions; one of them at a place has this shared code.
    pub(crate) fn begin(
        &mut self,
        (pid, memory): (i32, Option<&File>),
        (image, old): (u64, &[OldArea]),
        mappings: &[Mapping],
        times: bool,
    ) {
        self.image = image;
        if !old.is_empty() {
            self.forget_timed_calls(pid);
        }
        for place in self.places {
            let is_there = mappings.iter().any(|it| it.start == place && is_area(it));
            let (stubs, head) = Stubs::new(place, AREA_SIZE, head(image, times));
            if old.iter().any(|area| area.is_at(place)) {
                let mut written = vec![0; AREA_SIZE];
                if memory::read_exact(pid, place, &mut written).is_ok() {
                    self.areas.push(stubs.behind_earlier(&written));
                }
            } else if is_there
                && memory.is_some_and(|it| it.write_all_at(&head.bytes, head.at).is_ok())
            {
                self.areas.push(stubs);
            }
        }
    }

    /// Lets no call be timed that has begun in an earlier session. A place with all bits set is being read: it holds
    /// registers of its thread.
    fn forget_timed_calls(&self, pid: i32) {
        for index in 0..TIMING as u64 {
            let place = self.timed_place(index << 16);
            if memory::read_u64(pid, place).is_ok_and(|taken_by| ![0, u64::MAX].contains(&taken_by))
            {
                // A process that has ended has no calls.
                let _ = memory::write(pid, place, &0_u64.to_ne_bytes());
            }
        }
    }

    /// The areas for a process that may have more jumps than are known here, because its parent wrote them later.
    pub(crate) fn of_an_orphan(self) -> Self {
        Self { part: None, ..self }
    }

    /// The areas for a process that begins as a copy of this one.
    pub(crate) fn of_a_child(self) -> Self {
        Self { balance: Balance::default(), ..self }
    }

    /// Lets the thread of a program that starts send itself a signal when its loader has mapped all libraries.
    pub(crate) fn awaits_libraries(&self, thread: i32) -> std::io::Result<()> {
        memory::write(thread, self.image + LOADING, &1_u64.to_ne_bytes())
    }

    /// Whether no code was written into the process.
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// Whether the program's code contains clockscope's jumps.
    pub(crate) fn has_jumps(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// Restores the program's bytes where clockscope's jumps still are. All threads must have stopped. Where another tool
    /// has replaced the first byte, that byte stays.
    pub fn put_back(&self, pid: i32) -> std::io::Result<()> {
        self.each_jump(pid, |memory, jump, is_broken| {
            let kept = usize::from(is_broken);
            memory.write_all_at(&jump.original[kept..], jump.at + kept as u64)
        })
    }

    /// Gives up the jumps whose first byte another tool has replaced, as the kernel does for a uprobe: restores the other
    /// bytes, so that the program's instruction is whole when that byte is restored. Threads may run: where one instruction
    /// is displaced, none executes the other bytes, because the kernel executes the file's instruction elsewhere and goes
    /// on behind it (`arch_uprobe_pre_xol`, arch/x86/kernel/uprobes.c, Linux 6.18). Returns where jumps were given up, now
    /// or before.
    pub(crate) fn give_up_broken(&mut self, pid: i32) -> std::io::Result<&BTreeSet<u64>> {
        let mut broken = std::mem::take(&mut self.broken);
        let done = self.each_jump(pid, |memory, jump, is_broken| {
            if is_broken {
                memory.write_all_at(&jump.original[1..], jump.at + 1)?;
                broken.insert(jump.at);
            }
            Ok(())
        });
        self.broken = broken;
        done.map(|()| &self.broken)
    }

    /// Calls `act` with each jump that is still there, and whether its first byte is another one.
    fn each_jump(
        &self,
        pid: i32,
        mut act: impl FnMut(&File, &Jump, bool) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        if self.jumps.is_empty() {
            return Ok(());
        }
        let memory = text_of(pid)?;
        for jump in self.jumps.iter() {
            let mut found = [0; JUMP];
            let is_there = memory.read_exact_at(&mut found, jump.at).is_ok();
            if is_there && found[1..] == jump.bytes[1..] {
                act(&memory, jump, found[0] != jump.bytes[0])?;
            }
        }
        Ok(())
    }

    /// Whether the instruction at `address` is a stub's read of the counter.
    pub(crate) fn reads_counter(&self, address: u64) -> bool {
        self.areas.iter().any(|area| area.reads_counter(address))
    }

    /// Writes jumps into a mapping. Returns the instructions that are not counted, by reason. In a process that was
    /// already running there may be areas of an earlier session, `old`.
    pub(crate) fn patch(
        &mut self,
        process: (i32, Option<&File>),
        mapping: &Executed,
        found: &Found,
        old: Option<&[OldArea]>,
    ) -> Vec<(What, Why)> {
        let mut left = Vec::new();
        for (bias, sites, never) in in_mapping(mapping, found) {
            let mut here = Cow::Borrowed(sites);
            if let Some(old) = old {
                // Nothing is left of several instructions where an earlier session's jump still is.
                let is_left = |site: &Site| {
                    let (at, mut bytes) = (site.window.wrapping_add(bias), [0; JUMP]);
                    !old.is_empty()
                        && memory::read_exact(process.0, at, &mut bytes).is_ok()
                        && leads_to(old, at, &bytes)
                };
                // The functions of the kernel's image are redirected separately, and attaching compares its bytes with
                // the kernel's.
                let is_vdso = mapping.name == VDSO;
                let is_free = |site: &&Site| !is_vdso && (!site.is_several || is_left(site));
                let (free, lost): (Vec<&Site>, Vec<&Site>) = sites.iter().partition(is_free);
                here = Cow::Owned(free.into_iter().cloned().collect());
                let why = if is_vdso { Why::Changed } else { Why::Running };
                left.extend(lost.into_iter().map(|site| (What::of(site), why)));
            }
            let written = self.write(process, mapping, &here, bias, old);
            let unwritten = written.err().into_iter();
            left.extend(
                unwritten.flat_map(|why| here.iter().map(move |site| (What::of(site), why))),
            );
            left.extend(never.iter().map(|left| (What::new(left.is_counter), left.why)));
        }
        left
    }

    /// The instructions in a mapping that the program has made while it ran. Of one that it has split, those that have
    /// their jumps are counted still, and the others were left before.
    pub(crate) fn late(&self, pid: i32, mapping: &Executed, found: &Found) -> Vec<(What, Why)> {
        let jumps: HashMap<u64, &Jump> = self.jumps.iter().map(|jump| (jump.at, jump)).collect();
        let is_counted =
            |at| jumps.get(&at).is_some_and(|jump| memory::holds(pid, at, &jump.bytes));
        let mut late = Vec::new();
        for (bias, sites, never) in in_mapping(mapping, found) {
            let is_lost = |site: &&Site| !is_counted(site.window.wrapping_add(bias));
            let is_new = found.sites.iter().all(|site| is_lost(&site));
            let never = never.iter().filter(|_| is_new).map(|left| What::new(left.is_counter));
            let lost = sites.iter().filter(is_lost).map(What::of);
            late.extend(lost.chain(never).map(|what| (what, Why::Late)));
        }
        late
    }

    fn write(
        &mut self,
        (pid, memory): (i32, Option<&File>),
        mapping: &Executed,
        sites: &[Site],
        bias: u64,
        old: Option<&[OldArea]>,
    ) -> Result<(), Why> {
        let range = mapping.start..mapping.end;
        let is_near = |area: &&mut Stubs| reaches(area.base(), &range);
        let area = self.areas.iter_mut().find(is_near).ok_or(Why::TooFar)?;
        let (code, jumps) = area.add(sites, bias).ok_or(Why::TooFar)?;
        let memory = memory.ok_or(Why::TooFar)?;
        let mut parts = Parts::read(pid, memory, sites, bias).map_err(|_| Why::Changed)?;
        // The process's bytes must equal the file's.
        let mut is_there = |at: u64, original: &[u8]| {
            let at = at.wrapping_add(bias);
            let is_left = |bytes: &[u8]| old.is_some_and(|old| leads_to(old, at, bytes));
            parts.at(at, original.len()).is_some_and(|there| {
                there == original || (is_left(there) && there[JUMP..] == original[JUMP..])
            })
        };
        let is_same = |site: &Site| {
            let is_compared = site.behind.is_none_or(|(after, compare)| is_there(after, &compare));
            is_compared && is_there(site.window, &site.displaced)
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

/// What was found in the part of a file that a mapping has: for each segment the distance of addresses in the process from
/// the file's own, the sites, and the instructions that cannot be counted.
fn in_mapping<'a>(
    mapping: &Executed,
    found: &'a Found,
) -> impl Iterator<Item = (u64, &'a [Site], &'a [Left])> {
    let (start, end, offset) = (mapping.start, mapping.end, mapping.offset);
    let of_segment = move |segment: &&clockscope_sites::Segment| {
        let begin = segment.offset & !(PAGE as u64 - 1);
        begin <= offset && offset < segment.offset + segment.size
    };
    found.segments.iter().filter(of_segment).map(move |segment| {
        let begin = segment.address.wrapping_sub(segment.offset).wrapping_add(offset);
        let bias = start.wrapping_sub(begin);
        let [begin, behind] = [start, end].map(|at| at.wrapping_sub(bias));
        // Both are in ascending order.
        let sites = [begin, behind].map(|at| found.sites.partition_point(|it| it.window < at));
        let left = [begin, behind].map(|at| found.left.partition_point(|it| it.at < at));
        let sites = found.sites.get(sites[0]..sites[1]).unwrap_or_default();
        (bias, sites, found.left.get(left[0]..left[1]).unwrap_or_default())
    })
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
            let behind = site.behind.map_or(0, |(at, compare)| at + compare.len() as u64);
            let end = site.end().max(behind).wrapping_add(bias);
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
pub(crate) fn text_of(pid: i32) -> std::io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vdso_reader::maps;

    fn places_in(text: &str) -> [u64; AREAS] {
        places(&maps::parse(text), 0..0, &[])
    }

    #[test]
    fn a_file_that_is_mapped_between_two_looks_is_not_unseen() {
        // Files that looks find, calls that are counted meanwhile, and how many of these have their file.
        for (looks, all) in [
            (&[(1, Some(1)), (0, Some(0))][..], 1),
            // Counted before the one look, mapped before the other; and the other way around.
            (&[(0, Some(1)), (1, Some(0))], 1),
            (&[(1, Some(0)), (0, Some(1))], 1),
            (&[(0, Some(2)), (1, Some(0)), (2, Some(1))], 3),
            // One is mapped and unmapped between looks.
            (&[(1, Some(2)), (0, Some(0))], 1),
            (&[(1, Some(3)), (1, Some(1)), (0, Some(0))], 2),
            // A process ends, and its counts are gone.
            (&[(0, Some(1)), (1, None)], 1),
            (&[(1, Some(0)), (1, None)], 2),
            (&[(2, Some(1)), (0, None)], 2),
        ] {
            let mut balance = Balance::default();
            let found: Vec<u64> = looks.iter().map(|look| balance.look(look.0, look.1)).collect();
            assert_eq!(found.iter().sum::<u64>(), all, "{looks:?}: {found:?}");
        }
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
