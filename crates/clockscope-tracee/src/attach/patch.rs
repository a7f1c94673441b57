//! Plans the redirection of a process's functions, and writes it while all threads have stopped.

use std::ops::Range;
use std::time::Duration;

use vdso_image::layout::{
    AREAS, CONFIG_OFFSET, FUNCTIONS, Function, IMAGE_SIZE, INSTALL_MARK, PAGE, TOTAL_SIZE,
    TRAMPOLINE_OFFSET, TRAMPOLINE_SIZE,
};

use super::inject::Room;
use super::redirected::{self, Change, NotMovable, Redirected, Text};
use super::stack_scan::returns_of;
use crate::arch::attach::registers;
use crate::arch::attach::trampoline::{self, JUMP, Padding};
use crate::arch::tasks;
use crate::areas::{self, OldArea};
use crate::attach::Refusal;
use crate::attach::threads::{Threads, state};
use crate::decline::Decline;
use crate::install::has_image;
use crate::session::Session;
use clockscope_sys::memory;
use clockscope_sys::own_vdso::OwnVdso;
use clockscope_sys::ptrace;
use vdso_reader::Image;
use vdso_reader::maps::Mapping;

/// Bytes of a stack that are searched for return addresses of signal handlers.
const STACK_TOP: usize = 8192;
/// How often the tracer stops all threads until none is in a forbidden place.
const ATTEMPTS: u32 = 12;

/// The redirection of a process's functions.
#[derive(Debug)]
pub struct Patch {
    /// Address of the shim.
    pub(crate) base: u64,
    /// Address range of the kernel's image.
    pub(super) vdso: Range<u64>,
    pub(super) functions: Vec<Redirected>,
    /// Functions that could not be redirected and are not counted: name and reason.
    pub left: Vec<(&'static str, String)>,
    /// The unused end of the kernel's vDSO page, for code.
    pub(super) room: Room,
    /// Images of earlier sessions. They stay mapped, because a context that is suspended in one may be resumed at any
    /// time.
    leftovers: Vec<u64>,
    /// Whether `base` is such an image, left by a clockscope of the same build.
    pub(super) is_there: bool,
    /// Whether that image's installer has run. A clockscope that was killed earlier has only written the image.
    pub(super) is_installed: bool,
    /// Addresses for areas for code that counts system calls; 0: none.
    pub(super) areas: [u64; AREAS],
    /// Areas of earlier sessions, which jumps may lead to.
    pub(super) old_areas: Vec<OldArea>,
    /// Whether the room holds code of an earlier session, which a thread may still execute.
    pub(super) room_is_used: bool,
}

impl Patch {
    /// Plans the redirection of the kernel's functions in a process: to an image of an earlier session if that is
    /// identical to this session's, otherwise to an image at `base`.
    ///
    /// # Errors
    ///
    /// `NoPlace` if there is neither an old image nor a `base`. Other errors if the kernel's image differs from that of
    /// this process, or has been changed.
    pub(super) fn plan(
        pid: i32,
        session: &Session,
        own: &OwnVdso,
        maps: &[Mapping],
        base: Option<u64>,
    ) -> Result<Self, Refusal> {
        let left = leftovers(pid, maps).into_iter().find_map(|base| {
            let patch = Self::plan_at(pid, session, own, maps, base).ok()?;
            patch.is_whole_in(pid, session, maps).then_some(patch)
        });
        if let Some(patch) = left {
            let config = patch.base + CONFIG_OFFSET as u64;
            let is_installed = maps.iter().any(|m| m.start == config && !m.perms.contains('x'));
            return Ok(Self { is_there: true, is_installed, ..patch });
        }
        Self::plan_at(pid, session, own, maps, base.ok_or(Refusal::NoPlace)?)
    }

    /// The areas that must be mapped; 0: none, or mapped by an earlier session.
    pub(super) fn new_areas(&self) -> [u64; AREAS] {
        self.areas.map(|at| if self.old_areas.iter().any(|old| old.is_at(at)) { 0 } else { at })
    }

    fn plan_at(
        pid: i32,
        session: &Session,
        own: &OwnVdso,
        maps: &[Mapping],
        base: u64,
    ) -> Result<Self, Refusal> {
        let mapping = vdso_of(maps).ok_or(Refusal::Declined(Decline::NoVdso))?;
        let kernel = Image::parse(&own.bytes).map_err(|_| Refusal::Declined(Decline::NoVdso))?;
        let theirs = read_whole(pid, mapping)?;
        let room = session.room.clone();
        let at = room.start;
        let found = theirs.get(room.clone()).ok_or(Refusal::OtherImage)?;
        let content = own.bytes.get(room).ok_or(Refusal::OtherImage)?.to_vec();
        let room_is_used = found != content;
        if room_is_used && !is_our_code(found) {
            return Err(Refusal::Changed("unused end".to_owned()));
        }
        let room = Room { at: mapping.start + at as u64, content };
        let mut patch = Self {
            base,
            vdso: mapping.start..mapping.end,
            functions: Vec::new(),
            left: Vec::new(),
            room,
            leftovers: leftovers(pid, maps),
            is_there: false,
            is_installed: false,
            areas: [0; AREAS],
            old_areas: areas::old_areas(pid, maps),
            room_is_used,
        };
        if session.counts_sites {
            let there = areas::of_image(pid, &patch.old_areas, base);
            patch.areas = areas::places(maps, base..base + TOTAL_SIZE as u64, &there);
        }
        let functions = kernel.functions().map(|symbol| (symbol.offset, symbol.size));
        let text_start = redirected::text_start(&kernel).ok_or(Refusal::OtherImage)?;
        let code = redirected::pieces(functions, text_start);
        let bytes = own.bytes.get(..at).unwrap_or(&own.bytes);
        let is_guarded = trampoline::is_guarded(pid);
        let text = Text { bytes, base: mapping.start, code: &code, is_guarded };
        let mut seen = theirs.get(..at).unwrap_or_default().to_vec();
        let mut padding = Padding::of(text);
        for function in Function::ALL {
            let index = function as usize;
            let target = session.ready.kernel[index];
            if target.image == 0 {
                continue;
            }
            let offset = u64::from(target.offset);
            let size = kernel.functions().find(|symbol| symbol.offset == offset);
            let size = size.map_or(0, |symbol| symbol.size);
            let place = (mapping.start + offset, size);
            let entry = base + u64::from(session.ready.entries[index]);
            let trampoline = base + (TRAMPOLINE_OFFSET + index * TRAMPOLINE_SIZE) as u64;
            match trampoline::redirect(text, &mut padding, place, entry, trampoline) {
                Ok(redirected) if redirected.code.len() <= TRAMPOLINE_SIZE => {
                    let is_ours = patch.look_at_changes(pid, &redirected, &mut seen);
                    let changed = || Refusal::Changed(function.name().to_owned());
                    is_ours.then_some(()).ok_or_else(changed)?;
                    patch.functions.push(redirected);
                }
                Ok(_) => patch.left.push((function.name(), NotMovable::TooLong.to_string())),
                Err(_) if function == Function::SgxEnterEnclave && !has_enclaves() => {}
                Err(why) => patch.left.push((function.name(), why.to_string())),
            }
        }
        // In launched programs the kernel's image contains jumps for counting system calls, too.
        areas::undo_old_jumps(&patch.old_areas, mapping.start, text.bytes, &mut seen);
        if seen != text.bytes {
            return Err(Refusal::OtherImage);
        }
        match patch.left.first() {
            Some((_, why)) if patch.functions.is_empty() => Err(Refusal::NoFunction(why.clone())),
            _ => Ok(patch),
        }
    }

    /// Restores the kernel's bytes in `seen` at this function's changes, if they are known: the original, this
    /// session's jump, or a jump of an earlier session that undoes the same instructions. `false` if another tool has
    /// changed the bytes.
    fn look_at_changes(&self, pid: i32, redirected: &Redirected, seen: &mut [u8]) -> bool {
        redirected.changes.iter().all(|change| {
            let place = usize::try_from(change.at - self.vdso.start).ok();
            let bytes = place.and_then(|at| seen.get_mut(at..at + change.original.len()));
            let Some(bytes) = bytes else { return false };
            let is_known = bytes == change.original
                || bytes == change.jump
                || self.is_left_jump(pid, change.at, bytes, &redirected.undo);
            bytes.copy_from_slice(&change.original);
            is_known
        })
    }

    /// Whether these bytes are a jump into an old image, to instructions that undo the same.
    fn is_left_jump(&self, pid: i32, at: u64, bytes: &[u8], undo: &[u8]) -> bool {
        let target = <[u8; JUMP]>::try_from(bytes).ok();
        let target = target.and_then(|bytes| trampoline::jump_target(at, bytes));
        let Some(target) = target.filter(|to| is_in_one(&self.leftovers, *to)) else {
            return false;
        };
        // The final jump differs.
        let undo = &undo[..undo.len().saturating_sub(JUMP)];
        memory::holds(pid, target, undo)
    }

    /// Whether an old image is identical to this session's, with all its memory mapped. A clockscope that was killed
    /// while attaching has not written the trampolines.
    fn is_whole_in(&self, pid: i32, session: &Session, maps: &[Mapping]) -> bool {
        let end = self.base + TOTAL_SIZE as u64;
        let mut at = self.base;
        for mapping in maps.iter().filter(|mapping| mapping.end > self.base) {
            if mapping.start <= at && at < end {
                at = mapping.end;
            }
        }
        at >= end
            && memory::holds(pid, self.base, &session.image(None)[..IMAGE_SIZE])
            && self.trampolines().is_some_and(|page| {
                let at = self.base + TRAMPOLINE_OFFSET as u64;
                memory::holds(pid, at, &page) || memory::holds(pid, at, &[0; PAGE])
            })
    }

    /// Bytes of the page with the trampolines.
    fn trampolines(&self) -> Option<Vec<u8>> {
        let mut page = vec![0xcc; PAGE];
        let first = self.base + TRAMPOLINE_OFFSET as u64;
        for function in &self.functions {
            let at = usize::try_from(function.trampoline - first).ok()?;
            page.get_mut(at..at + function.code.len())?.copy_from_slice(&function.code);
        }
        Some(page)
    }

    /// Writes the trampolines into their page, which is empty or holds the same trampolines.
    pub(super) fn write_trampolines(&self, pid: i32) -> Result<(), Refusal> {
        let page = self.trampolines().ok_or(Refusal::NoPlace)?;
        let at = self.base + TRAMPOLINE_OFFSET as u64;
        memory::write_text(pid, at, &page).map_err(Refusal::at("writing trampolines"))
    }

    /// Redirects the functions. All threads have stopped.
    pub(super) fn redirect(&self, pid: i32) -> Result<(), Refusal> {
        self.changes().try_for_each(|change| write(pid, change.at, &change.jump))
    }

    /// Restores the kernel's bytes at jumps in functions that are ours. Jumps in padding stay. All threads have
    /// stopped.
    pub(super) fn put_back(&self, pid: i32) -> Result<(), Refusal> {
        for change in self.changes().filter(|change| !change.stays) {
            if memory::holds(pid, change.at, &change.jump) {
                write(pid, change.at, &change.original)?;
            }
        }
        Ok(())
    }

    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.functions.iter().flat_map(|function| &function.changes)
    }
}

fn write(pid: i32, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
    memory::write_text(pid, at, bytes).map_err(Refusal::at("writing to its vDSO"))
}

/// Whether programs can have SGX enclaves: they are made through this file (arch/x86/kernel/cpu/sgx/driver.c, Linux
/// 6.18).
fn has_enclaves() -> bool {
    std::path::Path::new("/dev/sgx_enclave").exists()
}

/// The mapping of the kernel's image in a process.
pub(super) fn vdso_of(maps: &[Mapping]) -> Option<&Mapping> {
    maps.iter().find(|mapping| mapping.name == "[vdso]")
}

fn read_whole(pid: i32, mapping: &Mapping) -> Result<Vec<u8>, Refusal> {
    let size = usize::try_from(mapping.size()).map_err(|_| Refusal::OtherImage)?;
    let mut bytes = vec![0; size];
    match memory::read(pid, mapping.start, &mut bytes).map_err(Refusal::at("reading its vDSO"))? {
        read if read == bytes.len() => Ok(bytes),
        _ => Err(Refusal::OtherImage),
    }
}

fn is_in_one(images: &[u64], address: u64) -> bool {
    images.iter().any(|base| address.wrapping_sub(*base) < TOTAL_SIZE as u64)
}

/// Base addresses of clockscope's images in a process, except an image that the process was started with, which
/// contains the kernel's image.
fn leftovers(pid: i32, maps: &[Mapping]) -> Vec<u64> {
    let is_marked = |mapping: &&Mapping| {
        mapping.name.is_empty()
            && mapping.perms == "r-xp"
            && mapping.size() >= CONFIG_OFFSET as u64
            && has_image(pid, mapping.start)
    };
    let kernels =
        |base: u64| maps.iter().any(|m| m.name.starts_with("[v") && is_in_one(&[base], m.start));
    let marked = maps.iter().filter(is_marked).map(|mapping| mapping.start);
    marked.filter(|base| !kernels(*base)).collect()
}

/// Whether the bytes contain code that a clockscope wrote into the unused end of the page: its system calls are marked.
fn is_our_code(bytes: &[u8]) -> bool {
    bytes.windows(8).any(|window| window == INSTALL_MARK.to_le_bytes())
}

/// Waits until no thread is in code that a killed clockscope has left in the room, nor in the installer that returns
/// there. Both end by themselves.
pub(super) fn wait_for_room(threads: &mut Threads, patch: &Patch) -> Result<(), Refusal> {
    let mut stack = vec![0; STACK_TOP];
    let room = &patch.room;
    let mut in_room = |thread: &i32| {
        let Ok(registers) = ptrace::registers(*thread) else { return false };
        let mut params = registers::of_installer(&registers).into_iter();
        let in_installer = is_in_one(&patch.leftovers, registers.pc())
            && (is_in_one(&patch.leftovers, registers.sp())
                || params.any(|params| room.contains(params)));
        in_installer
            || room.contains(registers.pc())
            || returns_of(*thread, registers.sp(), &mut stack).iter().any(|ip| room.contains(*ip))
    };
    for attempt in 0..ATTEMPTS {
        let late = threads.stop_all().map_err(Refusal::at("tracing a new thread"))?;
        let free = late.is_empty() && !threads.stopped().any(|thread| in_room(&thread));
        threads.resume_all(ptrace::Resume::Run);
        if free {
            return Ok(());
        }
        threads.let_run(Duration::from_millis(1 << attempt.min(6)));
    }
    Err(Refusal::Stuck)
}

/// Stops all threads, none of them in a room with old code. On success all have stopped.
pub(super) fn stop_outside(threads: &mut Threads, pid: i32, patch: &Patch) -> Result<(), Refusal> {
    let mut last = Refusal::Stuck;
    let in_room = |thread: i32| {
        ptrace::registers(thread).is_ok_and(|registers| patch.room.contains(registers.pc()))
    };
    for attempt in 0..ATTEMPTS {
        let late = threads.stop_all().map_err(Refusal::at("tracing a new thread"))?;
        last = match late.first() {
            Some(thread) => why_late(pid, *thread),
            None if patch.room_is_used && threads.stopped().any(in_room) => Refusal::Stuck,
            None => return Ok(()),
        };
        threads.resume_all(ptrace::Resume::Run);
        threads.let_run(Duration::from_millis(1 << attempt.min(6)));
    }
    Err(last)
}

pub(super) fn why_late(pid: i32, thread: i32) -> Refusal {
    let call = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall"));
    let number = call.ok().and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    match (number, state(pid, thread)) {
        (Some(number), _) if tasks::WAITING_FOR_CHILD.contains(&number) => Refusal::Vfork(thread),
        (_, Some('D')) => Refusal::Uninterruptible(thread),
        _ => Refusal::Stuck,
    }
}

const _: () = assert!(FUNCTIONS == Function::ALL.len());
