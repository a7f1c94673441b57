//! Which functions of a process are redirected, and doing it while all threads stand still.

use std::ops::Range;
use std::time::Duration;

use vdso_image::layout::{
    AREAS, CONFIG_OFFSET, FUNCTIONS, Function, INSTALL_MARK, PAGE, TOTAL_SIZE, TRAMPOLINE_OFFSET,
    TRAMPOLINE_SIZE,
};

use super::inject::Room;
use super::injected::of_areas;
use super::redirected::{self, NotMovable, Redirected, Text};
use super::stack_scan::returns_into;
use crate::arch::attach::registers;
use crate::arch::attach::trampoline::{self, JUMP};
use crate::arch::tasks;
use crate::attach::Refusal;
use crate::attach::threads::{Threads, state};
use crate::install::has_image;
use crate::session::Session;
use crate::sites::{self, OldArea};
use clockscope_sys::memory;
use clockscope_sys::own_vdso::OwnVdso;
use clockscope_sys::ptrace::{self, Registers};
use vdso_reader::Image;
use vdso_reader::maps::Mapping;

/// How much of a stack is searched for what a signal handler returns to.
pub(super) const STACK_TOP: usize = 8192;
/// How often all threads are stopped until none is where it may not be.
const ATTEMPTS: u32 = 12;

/// How a process's functions are redirected.
#[derive(Debug)]
pub struct Patch {
    /// Address of the shim.
    pub(super) base: u64,
    /// Where the kernel's image is.
    pub(super) vdso: Range<u64>,
    pub(super) functions: Vec<Redirected>,
    /// Functions that could not be redirected: name and reason.
    pub(super) left: Vec<(&'static str, String)>,
    /// The end of the kernel's page, for code.
    pub(super) room: Room,
    /// Images of sessions before that were killed.
    pub(super) leftovers: Vec<u64>,
    /// Where areas are wanted for code that counts system calls; 0: nowhere.
    pub(super) areas: [u64; AREAS],
    /// Such areas of sessions before that were killed. They stay, and the images to which they refer: jumps may
    /// lead there.
    pub(super) old_areas: Vec<OldArea>,
    /// Whether code of such a session stands in the room; a thread may be in it still.
    pub(super) room_is_used: bool,
}

impl Patch {
    /// Address of the shim.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Functions that are not counted: name and reason.
    pub fn left(&self) -> &[(&'static str, String)] {
        &self.left
    }

    /// Looks at the kernel's image in a process and says how its functions go to an image at `base`.
    ///
    /// # Errors
    ///
    /// When the image is another than this process has, or somebody has changed it.
    pub(super) fn plan(
        pid: i32,
        session: &Session,
        own: &OwnVdso,
        maps: &[Mapping],
        base: u64,
    ) -> Result<Self, Refusal> {
        let mapping = vdso_of(maps).ok_or(no_vdso())?;
        let kernel = Image::parse(&own.bytes).map_err(|_| no_vdso())?;
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
            areas: [0; AREAS],
            old_areas: sites::old_areas(pid, maps),
            room_is_used,
        };
        if session.counts_sites() {
            patch.areas = sites::places(maps, base..base + TOTAL_SIZE as u64);
        }
        let functions = kernel.functions().map(|symbol| (symbol.offset, symbol.size));
        let text_start = redirected::text_start(&kernel).ok_or(Refusal::OtherImage)?;
        let code = redirected::pieces(functions, text_start);
        let bytes = own.bytes.get(..at).unwrap_or(&own.bytes);
        let is_guarded = trampoline::is_guarded(pid);
        let text = Text { bytes, base: mapping.start, code: &code, is_guarded };
        let mut seen = theirs.get(..at).unwrap_or_default().to_vec();
        for function in Function::ALL {
            let index = function as usize;
            let target = session.ready().kernel[index];
            if target.image == 0 {
                continue;
            }
            let offset = u64::from(target.offset);
            let size = kernel.functions().find(|symbol| symbol.offset == offset);
            let size = size.map_or(0, |symbol| symbol.size);
            let start = mapping.start + offset;
            let mut changes_at = start;
            let entry = base + u64::from(session.ready().entries[index]);
            let trampoline = base + (TRAMPOLINE_OFFSET + index * TRAMPOLINE_SIZE) as u64;
            match trampoline::redirect(text, (start, size), entry, trampoline) {
                Ok(redirected) if redirected.code.len() <= TRAMPOLINE_SIZE => {
                    changes_at = redirected.start;
                    patch.functions.push(redirected);
                }
                Ok(_) => patch.left.push((function.name(), NotMovable::TooLong.to_string())),
                Err(why) => patch.left.push((function.name(), why.to_string())),
            }
            let found = patch.look_at_first_bytes(changes_at, &mut seen);
            found.then_some(()).ok_or_else(|| Refusal::Changed(function.name().to_owned()))?;
        }
        if seen != text.bytes {
            return Err(Refusal::OtherImage);
        }
        match patch.left.first() {
            Some((_, why)) if patch.functions.is_empty() => Err(Refusal::NoFunction(why.clone())),
            _ => Ok(patch),
        }
    }

    /// If the first bytes of a function are a jump of ours that was left behind, puts the kernel's
    /// bytes into `seen`. `false` if somebody else has changed them.
    fn look_at_first_bytes(&self, start: u64, seen: &mut [u8]) -> bool {
        let Some(redirected) = self.functions.iter().find(|f| f.start == start) else {
            return true;
        };
        let place = usize::try_from(start - self.vdso.start).ok();
        let bytes = place.and_then(|place| seen.get_mut(place..place + JUMP));
        let Some(bytes) = bytes else { return true };
        if bytes == redirected.original {
            return true;
        }
        let target = <[u8; JUMP]>::try_from(&*bytes).ok();
        let target = target.and_then(|bytes| trampoline::jump_target(start, bytes));
        if !target.is_some_and(|target| is_in_one(&self.leftovers, target)) {
            return false;
        }
        bytes.copy_from_slice(&redirected.original);
        true
    }

    /// Writes the trampolines into their page, where nobody is yet.
    pub(super) fn write_trampolines(&self, pid: i32) -> Result<(), Refusal> {
        let mut page = vec![0xcc; PAGE];
        let first = self.base + TRAMPOLINE_OFFSET as u64;
        for function in &self.functions {
            let at = usize::try_from(function.trampoline - first).ok();
            let place = at.and_then(|at| page.get_mut(at..at + function.code.len()));
            place.ok_or(Refusal::NoPlace)?.copy_from_slice(&function.code);
        }
        memory::write_text(pid, first, &page).map_err(Refusal::at("writing trampolines"))
    }

    /// Redirects the functions. All threads stand still.
    pub(super) fn redirect(&self, pid: i32) -> Result<(), Refusal> {
        let write = |function: &Redirected| {
            memory::write_text(pid, function.start, &function.jump)
                .map_err(Refusal::at("writing to its vDSO"))
        };
        self.functions.iter().try_for_each(write)
    }

    /// Puts the kernel's bytes back wherever our jumps stand, and nowhere else. All threads stand still.
    pub(super) fn put_back(&self, pid: i32) -> Result<(), Refusal> {
        for function in &self.functions {
            let mut found = [0; JUMP];
            let read = memory::read(pid, function.start, &mut found);
            if read.is_ok_and(|read| read == JUMP) && found == function.jump {
                memory::write_text(pid, function.start, &function.original)
                    .map_err(Refusal::at("writing to its vDSO"))?;
            }
        }
        Ok(())
    }

    /// True if an address lies in an image or area of ours in this process.
    pub(super) fn is_ours(&self, address: u64) -> bool {
        is_in_one(&[self.base], address)
            || is_in_one(&self.leftovers, address)
            || of_areas(&self.areas).any(|(at, size)| address.wrapping_sub(at) < size)
    }

    /// What of ours in this process can be unmapped, once nobody can be there: address and size.
    pub(super) fn mapped(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let is_needed = |image: &u64| self.old_areas.iter().any(|area| area.image == *image);
        let images = self.leftovers.iter().copied().filter(move |image| !is_needed(image));
        let images = images.chain([self.base]).map(|base| (base, TOTAL_SIZE as u64));
        images.chain(of_areas(&self.areas))
    }
}

fn no_vdso() -> Refusal {
    Refusal::Declined(crate::decline::Decline::NoVdso)
}

/// The kernel's image in a process.
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

/// Our images in a process, but not one that it was started with: the kernel's lies in that.
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

/// Whether this is code that a clockscope wrote into the unused end of the page: it marks its calls.
fn is_our_code(bytes: &[u8]) -> bool {
    bytes.windows(8).any(|window| window == INSTALL_MARK.to_le_bytes())
}

/// Waits until no thread is in code that a killed clockscope has left in the room, or in the installer
/// that comes back to it: it ends by itself.
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
            || returns_into(*thread, registers.sp(), &mut stack, &|ip| room.contains(ip))
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

/// Stops all threads so that none is inside the bytes that change; those that are at an instruction
/// that moves are moved with it. All stand still when this returns well.
pub(super) fn stop_outside(threads: &mut Threads, pid: i32, patch: &Patch) -> Result<(), Refusal> {
    let mut last = Refusal::Stuck;
    for attempt in 0..ATTEMPTS {
        let late = threads.stop_all().map_err(Refusal::at("tracing a new thread"))?;
        last = match late.first() {
            Some(thread) => why_late(pid, *thread),
            None => match check_all(threads, patch) {
                Ok(()) => return Ok(()),
                Err(thread) => Refusal::InHandler(thread),
            },
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

/// Moves the threads that stand at displaced instructions; the first thread that cannot be moved is
/// the error. Nothing is changed then.
fn check_all(threads: &Threads, patch: &Patch) -> Result<(), i32> {
    let mut moves: Vec<(i32, Registers)> = Vec::new();
    let mut stack = vec![0; STACK_TOP];
    for thread in threads.stopped() {
        // One that has been killed since goes nowhere.
        let Ok(mut registers) = ptrace::registers(thread) else { continue };
        if let Some(function) = patch.functions.iter().find(|f| f.covers(registers.pc())) {
            registers.set_pc(function.to_trampoline(registers.pc()).ok_or(thread)?);
            moves.push((thread, registers));
        }
        if patch.room.contains(registers.pc()) {
            return Err(thread);
        }
        let inside = |address| patch.functions.iter().any(|function| function.covers(address));
        if returns_into(thread, registers.sp(), &mut stack, &inside) {
            return Err(thread);
        }
    }
    for (thread, registers) in moves {
        ptrace::set_registers(thread, &registers).map_err(|_| thread)?;
    }
    Ok(())
}

const _: () = assert!(FUNCTIONS == Function::ALL.len());
