//! Java's frames, from HotSpot's description of its own structures: no agent, no option, no stop.
//!
//! A frame's registers and stack come from the sample. Code, methods and constants are read from
//! the process afterwards, because they do not move. Data that is gone by then (discarded code, an
//! unloaded class) is not found, and the stack ends there. Every step is checked: the address must
//! lie in a block of the code cache, and the caller's frame above.
//!
//! # References
//!
//! OpenJDK 11, 17, 21 and 25: `cpu/x86/frame_x86.hpp` (the frames of the interpreter and of the stub that
//! calls Java code), `share/code/codeCache.cpp` (`find_blob`), `share/memory/heap.cpp` (`find_block_for`)

mod layout;
mod methods;
pub(super) mod tables;

use std::collections::HashMap;

use super::managed::{ManagedId, Names, Remembered};
use super::memory::Memory;
use super::sample::{FP, Registers, SP};
use super::unwind_cfi::Stack;
use layout::Layout;
use methods::Methods;
use tables::Tables;

/// Most steps back in a segment map.
const STEPS_MAX: usize = 100_000;
/// Largest frame of a compiled method, in words: 1 MiB.
const FRAME_MAX: i32 = 1 << 17;

/// Slots of an interpreted frame, in bytes below `rbp`.
const SENDER_SP: u64 = 8;
const METHOD: u64 = 24;
const BYTECODE_POINTER: u64 = 64;

/// A JVM in a process.
pub(super) struct Jvm {
    layout: Layout,
    known: HashMap<u64, Option<Place>>,
    interpreted: HashMap<(u64, u64), Option<ManagedId>>,
    remembered: Remembered,
}

/// The code at a return address.
#[derive(Clone, Debug)]
enum Place {
    /// The interpreter: the frame holds the method.
    Interpreter,
    /// A frame of this many bytes, for these functions, the innermost first.
    Sized { bytes: u64, functions: Vec<ManagedId>, is_exact: bool },
    /// Code of the JVM that keeps a frame pointer.
    FramePointer,
    /// The stack of a virtual thread continues in the heap.
    Continuation,
}

/// A frame of Java code, or of code that the JVM made for itself.
pub(super) struct Frame {
    /// The innermost first; empty for the JVM's own code.
    pub(super) functions: Vec<ManagedId>,
    /// Whether the innermost function is the one that makes the call: the compiler describes only
    /// some places, and calls of a clock are often not among them.
    pub(super) is_exact: bool,
    /// The caller; `None` if the stack of a virtual thread continues in the heap.
    pub(super) caller: Option<Registers>,
}

impl Jvm {
    /// The JVM of a process; `symbols` are the addresses of [`tables::SYMBOLS`] in it.
    pub(super) fn find(memory: &Memory<'_>, symbols: &[u64; tables::SYMBOLS.len()]) -> Option<Jvm> {
        let tables = Tables::read(memory, symbols)?;
        Some(Jvm::of(Layout::read(memory, &tables)?))
    }

    fn of(layout: Layout) -> Jvm {
        Jvm {
            layout,
            known: HashMap::new(),
            interpreted: HashMap::new(),
            remembered: Remembered::default(),
        }
    }

    /// Whether an address lies in one of the JVM's code heaps.
    pub(super) fn has(&self, address: u64) -> bool {
        self.layout.heaps.iter().any(|heap| (heap.low..heap.high).contains(&address))
    }

    /// The frame of an address in the JVM's code; `None` if it is not certain.
    pub(super) fn frame(
        &mut self,
        memory: &Memory<'_>,
        time_ns: u64,
        stack: Stack<'_>,
        registers: &Registers,
        names: &mut Names,
    ) -> Option<Frame> {
        if self.remembered.is_stale(time_ns) {
            self.known.clear();
            self.interpreted.clear();
        }
        let place = match self.known.get(&registers.ip) {
            Some(place) => place.clone(),
            None => {
                let place = self.look_up(memory, registers.ip, names);
                self.known.insert(registers.ip, place.clone());
                place
            }
        };
        let mut frame = Frame { functions: Vec::new(), is_exact: true, caller: None };
        frame.caller = match place? {
            Place::Interpreter => {
                let bp = registers.general[FP]?;
                let slot = |below: u64| stack.word(bp.checked_sub(below)?);
                let (method, pointer) = (slot(METHOD)?, slot(BYTECODE_POINTER)?);
                frame.functions.push(self.interpreted(memory, method, pointer, names)?);
                let ip = stack.word(bp.checked_add(8)?)?;
                Some(Registers::of_frame(ip, slot(SENDER_SP)?, stack.word(bp)?))
            }
            Place::FramePointer => {
                let bp = registers.general[FP]?;
                let ip = stack.word(bp.checked_add(8)?)?;
                Some(Registers::of_frame(ip, bp.checked_add(16)?, stack.word(bp)?))
            }
            Place::Sized { bytes, functions, is_exact } => {
                (frame.functions, frame.is_exact) = (functions, is_exact);
                let sp = registers.general[SP]?.checked_add(bytes)?;
                let ip = stack.word(sp.checked_sub(8)?)?;
                Some(Registers::of_frame(ip, sp, stack.word(sp.checked_sub(16)?)?))
            }
            Place::Continuation => None,
        };
        Some(frame)
    }

    fn interpreted(
        &mut self,
        memory: &Memory<'_>,
        method: u64,
        pointer: u64,
        names: &mut Names,
    ) -> Option<ManagedId> {
        let Jvm { layout, interpreted, .. } = self;
        let find = || {
            let methods = Methods { memory, layout };
            let at = methods.interpreted(method, pointer)?;
            Some(names.id(methods.function(at, false)?))
        };
        *interpreted.entry((method, pointer)).or_insert_with(find)
    }

    fn look_up(&self, memory: &Memory<'_>, address: u64, names: &mut Names) -> Option<Place> {
        let blob = self.blob(memory, address)?;
        let layout = &self.layout;
        let name = memory.text(memory.u64(blob.checked_add(layout.blob_name)?)?)?;
        let words = memory.i32(blob.checked_add(layout.frame_size)?)?;
        if name == b"Interpreter" {
            return Some(Place::Interpreter);
        }
        if memchr::memmem::find(&name, b"continuation stubs").is_some() {
            return Some(Place::Continuation);
        }
        if address == layout.call_stub_return || words <= 0 {
            return Some(Place::FramePointer);
        }
        let bytes = 8 * u64::try_from(words).ok().filter(|_| (2..=FRAME_MAX).contains(&words))?;
        if memchr::memmem::find(&name, b"nmethod").is_none() {
            return Some(Place::Sized { bytes, functions: Vec::new(), is_exact: true });
        }
        let methods = Methods { memory, layout };
        let (compiled, is_exact) = methods.compiled(blob, address)?;
        let last = compiled.len().checked_sub(1)?;
        let function = |(index, at)| Some(names.id(methods.function(at, index < last)?));
        let functions = compiled.into_iter().enumerate().map(function).collect::<Option<_>>()?;
        Some(Place::Sized { bytes, functions, is_exact })
    }

    /// The blob of code that an address lies in.
    fn blob(&self, memory: &Memory<'_>, address: u64) -> Option<u64> {
        const UNUSED: u8 = 0xff;
        let within = |heap: &&layout::Heap| (heap.low..heap.high).contains(&address);
        let heap = self.layout.heaps.iter().find(within)?;
        let mut segment = (address - heap.low) >> heap.log2_segment;
        for _ in 0..STEPS_MAX {
            match memory.u8(heap.segments.checked_add(segment)?)? {
                0 => {
                    let block = heap.low.checked_add(segment << heap.log2_segment)?;
                    return block.checked_add(self.layout.block_header);
                }
                UNUSED => return None,
                back => segment = segment.checked_sub(back.into())?,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::layout::{Heap, SourceFile};
    use super::*;

    fn jvm(seed: u64) -> Jvm {
        let is_new = seed % 2 == 1;
        Jvm::of(Layout {
            major: if is_new { 25 } else { 17 },
            heaps: vec![Heap { low: 0x1000, high: 0x8000, segments: 0x2000, log2_segment: 7 }],
            block_header: 16,
            call_stub_return: 0x1234,
            blob_name: 8,
            frame_size: 16,
            code_begin: if is_new { (None, Some(24)) } else { (Some(24), None) },
            method: 32,
            places: (is_new.then_some(48), Some(40)),
            places_end: (is_new.then_some(48), Some(56)),
            scopes: (Some(48), is_new.then_some(56)),
            metadata: if is_new { (Some(64), Some(72)) } else { (None, Some(64)) },
            describes_all: seed.is_multiple_of(3),
            const_method: 8,
            constants: 8,
            name_index: 16,
            code_size: 18,
            flags: 20,
            const_method_size: 56,
            constants_size: 72,
            holder: 24,
            source_file: if is_new { SourceFile::OfConstants(32) } else { SourceFile::OfClass(32) },
            class_name: 24,
            symbol_length: 0,
            symbol_body: 6,
        })
    }

    /// A JVM's memory can hold anything: it is read later than the sample was taken, and a process
    /// may pretend to be a JVM.
    #[test]
    fn whatever_the_memory_holds_nothing_breaks_and_frames_lie_above_each_other() {
        let (mut frames, mut named) = (0, 0);
        for seed in 0..4_000 {
            let memory = Memory::maze(seed);
            let bytes = memory.bytes(0x1000, 0x4000).unwrap();
            let stack = Stack { start: 0x1000, bytes: &bytes };
            let (mut jvm, mut names) = (jvm(seed), Names::default());
            assert!(jvm.has(0x1000 + seed) && !jvm.has(0x8000));
            let mut registers =
                Registers::of_frame(0x1000 + seed * 7, 0x1000 + seed % 512 * 8, 0x1800);
            for time_ns in 0..64 {
                let frame = jvm.frame(&memory, time_ns, stack, &registers, &mut names);
                let Some(frame) = frame else { break };
                frames += 1;
                named += frame.functions.len();
                match frame.caller {
                    Some(next) if next.general[SP] > registers.general[SP] => registers = next,
                    _ => break,
                }
            }
            let symbols = std::array::from_fn(|index| 0x1000 + seed * 8 + index as u64 * 64);
            assert!(Jvm::find(&memory, &symbols).is_none());
        }
        assert!(frames > 100, "{frames} frames, {named} functions");
    }
}
