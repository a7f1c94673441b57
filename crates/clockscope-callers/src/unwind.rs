//! Unwinds a sample's registers and stack copy to the functions on the stack.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::arch::calls::{CALL_MAX, ends_with_call};
use super::arch::registers::LINK;
use super::arch::{go, lacks, registers, signals};
use super::frames::{End, FrameAddress, ModuleId, ProgramId, Unwound};
use super::managed::{self, ManagedId, Names};
use super::memory::Memory;
use super::modules::{CodeFile, FileContent, Filling, Module, Modules, Region};
use super::python;
use super::sample::{Called, FP, MemoryEvent, Registers, SP, Sample};
use super::unwind_cfi::{Stack, Stop};
use super::unwind_code::Way;
use super::unwind_go::NoRecord;
use clockscope_text::foreign::Foreign;

/// Unwinds stacks of any processes.
pub struct Unwinder {
    modules: Modules,
    managed: Names,
    /// For each process, the number of samples of which only the compiled method is known.
    inexact: BTreeMap<i32, u64>,
    /// For each process, the reason why interpreted functions cannot be read.
    unread: BTreeMap<i32, String>,
}

/// A walk along a stack.
struct Walk<'a> {
    sample: &'a Sample,
    stack: Stack<'a>,
    /// The rest of the process's memory, read slightly later than the sample.
    memory: Memory<'static>,
    interpreted: Option<&'a Interpreted>,
    /// The registers of the frame that the walk has come to.
    registers: Registers,
    frames: Vec<FrameAddress>,
}

/// The functions that an interpreter executes in a thread, read while the thread waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreted(python::Frames);

/// The next step of a walk: the caller's registers, and whether a signal interrupted it there; or the end.
type Step = Result<(Registers, bool), End>;

impl Walk<'_> {
    /// Ends at an address where no code is mapped.
    fn leaves(&mut self, address: u64) -> Step {
        self.frames.push(FrameAddress::Unknown { at: address });
        Err(End::NotMapped)
    }
}

impl Unwinder {
    /// `image` is the image that clockscope maps into programs, in the form of a file.
    pub fn new(image: Vec<u8>) -> Unwinder {
        let vdso = clockscope_sys::own_vdso::read().map(|vdso| vdso.bytes).unwrap_or_default();
        Unwinder {
            modules: Modules::new(vdso, image),
            managed: Names::default(),
            inexact: BTreeMap::new(),
            unread: BTreeMap::new(),
        }
    }

    /// Takes in a change to the memory of a process. Events and samples must come in the order of
    /// their times. A process must be known before it forks or maps.
    pub fn event(&mut self, event: &MemoryEvent) {
        self.modules.event(event);
    }

    /// The path of a module as its process sees it, or a name in brackets.
    pub fn module_name(&self, id: ModuleId) -> Option<Foreign> {
        self.module(id).map(|module| module.name.as_path().into())
    }

    pub(super) fn module(&self, id: ModuleId) -> Option<&Module> {
        self.modules.modules.get(id.0)
    }

    /// A function of a runtime.
    pub(super) fn managed(&self, id: ManagedId) -> Option<&managed::Function> {
        self.managed.function(id)
    }

    /// Start of the function at a place in a module, by the unwind tables.
    pub(super) fn function_start(&mut self, id: ModuleId, at: u64) -> Option<u64> {
        self.modules.code(id)?.frames.as_mut()?.function_start(at)
    }

    /// Whether signal handlers return to the code at a place in a module.
    pub(super) fn is_signal_frame(&mut self, id: ModuleId, at: u64) -> bool {
        let Some(code) = self.modules.code(id) else { return false };
        // The thread goes on at the first instruction of that code.
        let is_covered = code.frames.as_mut().is_some_and(|frames| frames.covers(at));
        match &mut code.frames {
            Some(frames) if is_covered => frames.is_signal(at),
            _ => *code.ways.way(&code.elf, at.wrapping_add(1), true) == Way::Signal,
        }
    }

    /// The name of the function at a place in a module, by Go's own table.
    pub(super) fn go_name(&mut self, id: ModuleId, at: u64) -> Option<Foreign> {
        self.modules.code(id)?.go.as_ref()?.function(at).map(|function| function.name.into())
    }

    /// The runtime's name for code made at run time at an address. A forked process also has its
    /// parent's names.
    pub(super) fn run_time_name(&mut self, program: ProgramId, at: u64) -> Option<Foreign> {
        let known = self.modules.programs.get(program.0);
        if known.is_some_and(|known| !known.has_looked_up(at)) {
            self.look_up([FrameAddress::RunTime { program, at }], 0);
        }
        let programs = &self.modules.programs;
        let mut next = Some(program);
        // A parent has a lower number than its forked processes.
        while let Some(program) = next.and_then(|id| programs.get(id.0)) {
            if let Some(name) = program.name(at) {
                return Some(name);
            }
            next = program.parent;
        }
        None
    }

    /// Looks up the names of all code made at run time in `frames`, which is cheaper than one by
    /// one. One part in `keep` of the bytes of name files that may be read in one run is kept for
    /// later: all for 1, nothing for 0.
    pub(super) fn look_up(&mut self, frames: impl IntoIterator<Item = FrameAddress>, keep: u64) {
        let mut wanted: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for frame in frames {
            if let FrameAddress::RunTime { program, at } = frame {
                wanted.entry(program.0).or_default().push(at);
            }
        }
        let kept = super::jit::ALL_MAX.checked_div(keep).unwrap_or(0);
        let mut left = self.modules.names_left.saturating_sub(kept);
        let before = left;
        // Forked processes first; their parents are asked for the rest.
        while let Some((id, places)) = wanted.pop_last() {
            let Some(program) = self.modules.programs.get_mut(id) else { continue };
            program.look_up(places.clone(), &mut left);
            if let Some(parent) = program.parent.filter(|parent| parent.0 < id) {
                let rest = places.into_iter().filter(|at| program.name(*at).is_none());
                let rest: Vec<u64> = rest.collect();
                if !rest.is_empty() {
                    wanted.entry(parent.0).or_default().extend(rest);
                }
            }
        }
        self.modules.names_left -= before - left;
    }

    /// Processes with missing names of code made at run time, and the reasons.
    pub fn unnamed(&self) -> Vec<(i32, String)> {
        let of = |program: &super::jit::Program| -> Vec<(i32, String)> {
            program.missing.iter().map(|why| (program.pid, why.clone())).collect()
        };
        let inexact = self.inexact.iter().map(|(pid, samples)| {
            let clause = format!(
                "of {samples} samples it is known which compiled method makes the call, and not which of \
                 the methods that were compiled into it, nor the line; to know more of them, start the JVM with \
                 -XX:+UnlockDiagnosticVMOptions -XX:+DebugNonSafepoints"
            );
            (*pid, clause)
        });
        let unread = self.unread.iter().map(|(pid, why)| (*pid, why.clone()));
        self.modules.programs.iter().flat_map(of).chain(inexact).chain(unread).collect()
    }

    /// The functions that an interpreter executes in a thread; the thread must wait during the
    /// read. `thread` is the value of `pthread_self(3)` in that thread.
    ///
    /// # Errors
    ///
    /// Whether a later attempt may succeed.
    pub fn interpreted(
        &mut self,
        pid: i32,
        time_ns: u64,
        thread: u64,
    ) -> Result<Interpreted, bool> {
        let memory = Memory::of(pid);
        match self.modules.python(pid, time_ns, &memory) {
            Some(Ok(python)) => python
                .frames(&memory, time_ns, thread, &mut self.managed)
                .map(Interpreted)
                .ok_or(true),
            Some(Err(why)) => {
                self.unread.insert(pid, why.clone());
                Err(false)
            }
            None => {
                self.modules.look_again(pid, time_ns);
                Err(true)
            }
        }
    }

    /// Whether a process executes functions by an interpreter whose frames can be read.
    pub fn interprets(&self, pid: i32) -> bool {
        self.modules.evaluation(pid).is_some()
    }

    /// The functions that wait for the call. The sample of a vDSO call is taken in frames of the
    /// kernel's and clockscope's images; these are left out, so the first frame is the caller.
    ///
    /// `interpreted` has the functions that were read from an interpreter.
    pub fn stack_with(&mut self, sample: &Sample, interpreted: Option<&Interpreted>) -> Unwound {
        let pid = sample.pid;
        if !self.modules.knows(pid) {
            let Ok(mappings) = super::modules::mappings_of(pid) else {
                return Unwound { frames: Vec::new(), end: End::UnknownProcess };
            };
            self.event(&MemoryEvent::Begun { pid, mappings });
        }
        let stack = Stack { start: sample.registers.sp(), bytes: &sample.stack };
        let (mut frames, mut end) = (Vec::new(), End::StackTooShort);
        if let Some(registers) = first(sample, stack) {
            let memory = Memory::of(pid);
            let mut walk = Walk { sample, stack, memory, interpreted, registers, frames };
            let Err(found) = self.walk(&mut walk);
            (frames, end) = (walk.frames, found);
        }
        // If the native frames cannot be followed to the interpreter, the interpreted functions
        // follow the last known frame.
        if let Some(Interpreted(of)) = interpreted
            && !end.is_complete()
            && !matches!(frames.last(), Some(FrameAddress::Managed(id)) if of.functions.contains(id))
        {
            end = continued(of, &mut frames).unwrap_or(end);
        }
        Unwound { frames, end }
    }

    fn walk(&mut self, walk: &mut Walk<'_>) -> Result<Infallible, End> {
        let mut is_interrupted = false;
        loop {
            let registers = walk.registers;
            if registers.ip == 0 {
                return Err(End::Complete);
            }
            let address = if is_interrupted { registers.ip } else { registers.ip - 1 };
            let (caller, signal) = self.step(walk, address)?;
            // Even if the tables say otherwise, a caller's frame must lie above, so every walk
            // ends.
            let grows = caller.general[SP] > registers.general[SP] || is_leaf(&registers, &caller);
            if !grows && (!signal || is_interrupted) {
                return Err(End::OtherStack);
            }
            (walk.registers, is_interrupted) = (caller, signal);
        }
    }

    fn region(&mut self, sample: &Sample, address: u64) -> Option<Region> {
        let region = self.modules.region(sample.pid, address);
        region.or_else(|| {
            self.modules.look_again(sample.pid, sample.time_ns);
            self.modules.region(sample.pid, address)
        })
    }

    /// Adds the frame at `address` and finds its caller.
    fn step(&mut self, walk: &mut Walk<'_>, address: u64) -> Step {
        let Some(region) = self.region(walk.sample, address) else { return walk.leaves(address) };
        let id = match region.filling {
            Filling::File(id) => id,
            Filling::Anonymous => {
                let in_java = self.in_java(walk);
                return in_java.unwrap_or_else(|| self.made_at_run_time(walk));
            }
            Filling::Other => return walk.leaves(address),
        };
        if let Some(Interpreted(of)) = walk.interpreted
            && self.modules.evaluation(walk.sample.pid).is_some_and(|code| code.contains(&address))
            && let Some(end) = continued(of, &mut walk.frames)
        {
            return Err(end);
        }
        let Some(module) = self.modules.modules.get_mut(id.0) else { return walk.leaves(address) };
        let code = match module.content() {
            FileContent::Code(code) => code,
            FileContent::Other => return self.made_at_run_time(walk),
            FileContent::Unreadable => {
                walk.frames.push(FrameAddress::Code { module: id, at: region.offset_of(address) });
                return Err(End::Unreadable(id));
            }
        };
        let Some(at) = code.elf.address_of(region.offset_of(address)) else {
            return walk.leaves(address);
        };
        walk.frames.push(FrameAddress::Code { module: id, at });
        let registers = walk.registers;
        let found = match &mut code.frames {
            Some(found) => found.caller(at, &registers, walk.stack),
            None => Err(Stop::Uncovered),
        };
        match found {
            Ok((_, true)) if !signals::IN_TABLES => self.step_by_code(walk, address, id, at),
            Ok((caller, is_signal)) => {
                let entered = entered(walk.interpreted, &registers, &caller, &mut walk.frames);
                entered.map_or(Ok((caller, is_signal)), Err)
            }
            Err(Stop::Uncovered) if code.go.is_some() => match in_go(code, at, walk) {
                Ok(step) => step,
                Err(height) => self.along_frame_pointers(walk, height),
            },
            Err(Stop::Uncovered) if is_entry(at, code.elf.entry) => Err(End::Complete),
            Err(Stop::Uncovered) if code.v8().is_some() => {
                self.step_by_frame_pointer(walk).unwrap_or(Err(End::NoInformation(id)))
            }
            Err(Stop::Uncovered) => self.step_by_code(walk, address, id, at),
            Err(stop) => Err(end(stop, id)),
        }
    }

    /// The caller of code without tables, by following the code to its return.
    fn step_by_code(&mut self, walk: &Walk<'_>, address: u64, id: ModuleId, at: u64) -> Step {
        let (registers, stack) = (&walk.registers, walk.stack);
        let unknown = Err(End::NoInformation(id));
        // The address where the function goes on.
        let is_interrupted = registers.ip == address;
        let from = if is_interrupted { at } else { at.wrapping_add(1) };
        let Some(code) = self.modules.code(id) else { return unknown };
        match code.ways.way(&code.elf, from, is_interrupted).clone() {
            Way::End if !is_interrupted => Err(End::Complete),
            Way::End | Way::Unknown => unknown,
            Way::Signal => {
                let interrupted = signals::interrupted(registers, stack);
                Ok((interrupted.ok_or(End::StackTooShort)?, true))
            }
            Way::Back(back) if back.lacks(registers) => unknown,
            Way::Back(back) => match back.caller(registers, stack) {
                None => Err(End::StackTooShort),
                Some(caller) if self.is_behind_call(walk.sample, caller.ip) => Ok((caller, false)),
                Some(_) => unknown,
            },
        }
    }

    /// A frame of a JVM's code; `None` if the code is not a JVM's, or the JVM's tables do not
    /// describe it: then it is handled like other code made at run time.
    fn in_java(&mut self, walk: &mut Walk<'_>) -> Option<Step> {
        let Walk { sample, stack, memory, registers, frames, .. } = walk;
        let jvm = self.modules.jvm(sample.pid, sample.time_ns, memory)?;
        jvm.has(registers.ip).then_some(())?;
        if let Some(why) = lacks::JAVA {
            self.unread.insert(sample.pid, why.to_owned());
            return None;
        }
        let frame = jvm.frame(memory, sample.time_ns, *stack, registers, &mut self.managed)?;
        let is_innermost = !frames.iter().any(|frame| matches!(frame, FrameAddress::Managed(_)));
        frames.extend(frame.functions.into_iter().map(FrameAddress::Managed));
        // The second sample of a pair is not reported.
        if !frame.is_exact && is_innermost && sample.weight > 0 {
            *self.inexact.entry(sample.pid).or_default() += 1;
        }
        let end = Err(End::Complete);
        Some(frame.caller.map_or(end, |caller| Ok((caller, false))))
    }

    /// A frame of code without tables, whose compiler may keep frame pointers: followed only if
    /// every possible check succeeds.
    fn made_at_run_time(&mut self, walk: &mut Walk<'_>) -> Step {
        let address = walk.registers.ip.wrapping_sub(1);
        walk.frames.push(match self.modules.program(walk.sample.pid) {
            Some(program) => FrameAddress::RunTime { program, at: address },
            None => FrameAddress::Unknown { at: address },
        });
        self.step_by_frame_pointer(walk).unwrap_or(Err(End::RunTimeCode))
    }

    /// The caller by the frame pointer. Replaces the frame by the JavaScript function that the code
    /// executes, if there is one.
    fn step_by_frame_pointer(&mut self, walk: &mut Walk<'_>) -> Option<Step> {
        let caller = self.by_frame_pointer(walk)?;
        let Walk { sample, stack, memory, registers, .. } = walk;
        let names = &mut self.managed;
        let function = self.modules.v8(sample.pid, sample.time_ns).and_then(|v8| {
            v8.function(memory, sample.time_ns, *stack, registers.general[FP]?, names)
        });
        if let (Some(function), Some(frame)) = (function, walk.frames.last_mut()) {
            *frame = FrameAddress::Managed(function);
        }
        Some(Ok((caller, false)))
    }

    /// The caller of code that probably keeps a frame pointer: only if every possible check
    /// succeeds. A caller with unwind tables may use `rbp` for any value.
    fn by_frame_pointer(&mut self, walk: &Walk<'_>) -> Option<Registers> {
        let Walk { sample, stack, registers, .. } = walk;
        if let Some(why) = lacks::RUN_TIME_CODE {
            self.unread.entry(sample.pid).or_insert_with(|| why.to_owned());
            return None;
        }
        let (bp, sp) = (registers.general[FP]?, registers.general[SP]?);
        let caller_bp = stack.word(bp).filter(|_| bp >= sp && bp % 8 == 0)?;
        let ip = stack.word(bp.checked_add(8)?)?;
        let is_caller = (caller_bp > bp || self.has_table(sample, ip.wrapping_sub(1)))
            && self.is_behind_call(sample, ip);
        is_caller.then(|| Registers::of_frame(ip, bp + 16, caller_bp))
    }

    /// Whether unwind information covers the code at an address.
    fn has_table(&mut self, sample: &Sample, address: u64) -> bool {
        let Some(region) = self.region(sample, address) else { return false };
        let Filling::File(id) = region.filling else { return false };
        let Some(code) = self.modules.code(id) else { return false };
        let at = code.elf.address_of(region.offset_of(address));
        at.zip(code.frames.as_mut()).is_some_and(|(at, frames)| frames.covers(at))
    }

    /// Whether code is mapped at an address and, as far as it can be read, a call stands before it.
    fn is_behind_call(&mut self, sample: &Sample, address: u64) -> bool {
        let Some(before) = address.checked_sub(1) else { return false };
        let Some(region) = self.region(sample, before) else { return false };
        let from = address.saturating_sub(CALL_MAX as u64).max(region.start);
        match region.filling {
            Filling::Other => false,
            Filling::Anonymous => {
                let mut bytes = [0; CALL_MAX];
                let wanted = usize::try_from(address - from).ok();
                let Some(bytes) = wanted.and_then(|size| bytes.get_mut(..size)) else {
                    return false;
                };
                // Code that is gone cannot be checked, so it is rejected.
                clockscope_sys::memory::read_exact(sample.pid, from, bytes).is_ok()
                    && ends_with_call(bytes)
            }
            Filling::File(id) => {
                let bytes = self.module(id).and_then(|module| module.bytes.as_ref());
                let Some(bytes) = bytes else { return false };
                bytes
                    .read(region.offset_of(from), address - from)
                    .is_some_and(|bytes| ends_with_call(&bytes))
            }
        }
    }

    /// Go keeps frame pointers throughout, also when it calls the vDSO on another stack: then the
    /// kernel's chain leads back to the frame at the frame pointer.
    fn along_frame_pointers(&mut self, walk: &mut Walk<'_>, height: Option<u64>) -> Step {
        let Walk { sample, stack, registers, frames, .. } = walk;
        let is_innermost = frames.len() == 1;
        let fp = match go::record(registers, *stack, height, is_innermost) {
            Ok(caller) => return Ok((caller, false)),
            Err(NoRecord::NotCopied(fp)) => fp,
            Err(NoRecord::Unsound) => return Err(End::OtherStack),
        };
        let chain = chain_from(sample, *stack, fp).ok_or(End::OtherStack)?;
        for ip in chain {
            let found = self.go_code(sample, ip.wrapping_sub(1));
            let (id, at, is_first) = found.ok_or(End::OtherStack)?;
            frames.push(FrameAddress::Code { module: id, at });
            if is_first {
                return Err(End::Complete);
            }
        }
        Err(End::OtherStack)
    }

    /// The module and place of an address in Go's code, and whether a stack ends there.
    fn go_code(&mut self, sample: &Sample, address: u64) -> Option<(ModuleId, u64, bool)> {
        let region = self.region(sample, address)?;
        let Filling::File(id) = region.filling else { return None };
        let code = self.modules.code(id)?;
        let go = code.go.as_ref()?;
        let at = code.elf.address_of(region.offset_of(address))?;
        Some((id, at, go.function(at).is_some_and(|function| function.is_first)))
    }
}

/// Adds an interpreter's functions, if there are any.
fn continued(of: &python::Frames, frames: &mut Vec<FrameAddress>) -> Option<End> {
    frames.extend(of.functions.iter().copied().map(FrameAddress::Managed));
    let end = if of.is_whole { End::Complete } else { End::StackTooShort };
    (!of.functions.is_empty()).then_some(end)
}

/// Adds an interpreter's functions if the interpreter's own frame is a variable of the last
/// function: that function then is the one that executes them, whatever its name.
fn entered(
    interpreted: Option<&Interpreted>,
    registers: &Registers,
    caller: &Registers,
    frames: &mut Vec<FrameAddress>,
) -> Option<End> {
    let Interpreted(of) = interpreted?;
    let frame = registers.general[SP]?..caller.general[SP]?;
    frame.contains(&of.entry?).then_some(())?;
    frames.pop();
    continued(of, frames)
}

/// A frame of Go's code. The innermost function may have no frame of its own: the frame record then
/// is its caller's.
fn in_go(code: &CodeFile, at: u64, walk: &Walk<'_>) -> Result<Step, Option<u64>> {
    let found = code.go.as_ref().and_then(|go| Some((go, go.function(at)?)));
    let (go, function) = found.ok_or(None)?;
    if function.is_first {
        return Ok(Err(End::Complete));
    }
    let is_innermost = walk.frames.len() == 1;
    let height = (is_innermost || go::BY_HEIGHT).then(|| go.height(&function, at)).flatten();
    let is_bare = is_innermost && height == Some(0);
    let caller = is_bare.then(|| registers::caller(&walk.registers, walk.stack)).flatten();
    caller.map(|caller| Ok((caller, false))).ok_or(height)
}

/// Whether a function without a frame, which has made no call yet, returns to its caller.
fn is_leaf(registers: &Registers, caller: &Registers) -> bool {
    let link = LINK.and_then(|number| registers.general[number]);
    link.is_some() && caller.general[SP] == registers.general[SP]
}

/// The registers of the first frame.
fn first(sample: &Sample, stack: Stack<'_>) -> Option<Registers> {
    match sample.called {
        Called::Vdso(_) => registers::caller(&sample.registers, stack),
        Called::Syscall(_) => Some(sample.registers),
    }
}

/// The part of the kernel's chain that begins with the frame at `bp`.
fn chain_from<'a>(sample: &'a Sample, stack: Stack<'_>, bp: u64) -> Option<&'a [u64]> {
    let own = usize::from(sample.frame_pointers.first() == Some(&sample.registers.ip));
    let chain = sample.frame_pointers.get(own..)?;
    let mut frame = sample.registers.general[FP]?;
    for passed in 0..=chain.len() {
        if frame == bp {
            return chain.get(passed..).filter(|chain| !chain.is_empty());
        }
        frame = stack.word(frame)?;
    }
    None
}

/// Whether an address is in the first instructions of a program, which have no unwind information.
fn is_entry(at: u64, entry: u64) -> bool {
    const LONGEST: u64 = 64;
    at.checked_sub(entry).is_some_and(|behind| behind < LONGEST)
}

fn end(stop: Stop, module: ModuleId) -> End {
    match stop {
        Stop::Outermost => End::Complete,
        Stop::Uncovered => End::NoInformation(module),
        Stop::Damaged => End::Damaged(module),
        Stop::NotCopied => End::StackTooShort,
        Stop::Elsewhere => End::OtherStack,
    }
}

#[cfg(test)]
#[path = "unwind_tests.rs"]
mod tests;
