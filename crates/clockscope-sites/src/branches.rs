//! Finds out whether code branches into the instructions that a jump will replace.

use std::collections::HashMap;
use std::ops::Range;
use std::thread::ScopedJoinHandle;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use crate::elf::Code;
use crate::site::Segment;

/// Reach of a short branch, in bytes.
const SHORT: u64 = 128;

/// Decodes functions on demand and keeps the result.
pub(crate) struct Functions<'a> {
    file: &'a [u8],
    code: &'a Code,
    decoded: HashMap<(u64, u64), Decoded>,
}

/// A function's instructions, in order.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) instructions: Vec<Instruction>,
    /// Targets of the function's direct branches and calls.
    goes_to: Vec<u64>,
    /// Whether the function jumps to a computed address and no jump table was found for it.
    pub(crate) jumps_anywhere: bool,
    /// Targets in the function's jump tables.
    pub(crate) from_tables: Vec<u64>,
    /// Whether the function contains bytes that do not decode.
    pub(crate) is_damaged: bool,
}

impl<'a> Functions<'a> {
    pub(crate) fn new(file: &'a [u8], code: &'a Code) -> Self {
        Self { file, code, decoded: HashMap::new() }
    }

    /// The bytes of an address range, within one segment.
    pub(crate) fn bytes(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        let segment = self.code.segments.iter().find(|segment| segment.holds(range.start))?;
        segment.bytes(self.file, range)
    }

    /// The functions that contain this address.
    pub(crate) fn with(&self, address: u64) -> Vec<Range<u64>> {
        self.near(address..address.saturating_add(1))
    }

    /// The functions that overlap with this range.
    fn near(&self, range: Range<u64>) -> Vec<Range<u64>> {
        // The functions are in the order of their starts; few overlap.
        const BEFORE: usize = 64;
        let functions = &self.code.functions;
        let behind = functions.partition_point(|function| function.start < range.end);
        let of = &functions[behind.saturating_sub(BEFORE)..behind];
        of.iter().filter(|function| function.end > range.start).cloned().collect()
    }

    pub(crate) fn decoded(&mut self, function: &Range<u64>) -> &Decoded {
        let bytes = self.bytes(function).unwrap_or_default();
        let (file, code) = (self.file, self.code);
        self.decoded.entry((function.start, function.end)).or_insert_with(|| {
            let mut decoded = decode(bytes, function.start);
            if decoded.jumps_anywhere {
                let table_at = |address| code.bytes_from(file, address);
                decoded.from_tables = tables(&decoded.instructions, function, table_at);
                decoded.jumps_anywhere = decoded.from_tables.is_empty();
            }
            decoded
        })
    }

    /// The gap between the functions around an address: code without symbols or unwind info.
    pub(crate) fn between(&self, address: u64) -> Option<Range<u64>> {
        const LONGEST: u64 = 1 << 16;
        let segment = self.code.segments.iter().find(|segment| segment.holds(address))?;
        let functions = &self.code.functions;
        let behind = functions.partition_point(|function| function.start <= address);
        let before = functions[..behind].iter().rev().take(64).map(|function| function.end).max();
        let start = before.unwrap_or(0).max(segment.address);
        let end = functions.get(behind).map_or(u64::MAX, |function| function.start);
        let end = end.min(segment.address + segment.size);
        (end - start <= LONGEST && (start..end).contains(&address)).then_some(start..end)
    }

    /// Whether code branches to an address behind the first of `window`, up to and including its end. Falling through
    /// from the instruction before does not count.
    pub(crate) fn goes_into(&mut self, window: &Range<u64>) -> bool {
        let inside = window.start + 1..window.end + 1;
        let labels = &self.code.labels;
        let from = labels.partition_point(|label| *label < inside.start);
        if labels.get(from).is_some_and(|label| inside.contains(label)) {
            return true;
        }
        let around = inside.start.saturating_sub(SHORT)..inside.end.saturating_add(SHORT);
        let near = self.near(around.clone());
        let mut known: Vec<Range<u64>> = near.clone();
        for function in &near {
            let decoded = self.decoded(function);
            if decoded.from_tables.iter().chain(&decoded.goes_to).any(|to| inside.contains(to)) {
                return true;
            }
        }
        known.sort_unstable_by_key(|range| range.start);
        gaps(&around, &known).iter().any(|gap| self.may_go_shortly(gap, &inside))
    }

    /// Whether bytes outside of known functions could be a short branch into `inside`.
    fn may_go_shortly(&self, from: &Range<u64>, inside: &Range<u64>) -> bool {
        let bytes = self.bytes(from).unwrap_or_default();
        (from.start..).zip(bytes.windows(2)).any(|(at, pair)| {
            matches!(pair[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb)
                && inside.contains(&(at + 2).wrapping_add_signed(pair[1].cast_signed().into()))
        })
    }
}

/// The gaps in a range between these known ranges, which are sorted by start.
fn gaps(of: &Range<u64>, known: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut at = of.start;
    for range in known {
        if range.start > at {
            gaps.push(at..range.start.min(of.end));
        }
        at = at.max(range.end);
    }
    if at < of.end {
        gaps.push(at..of.end);
    }
    gaps
}

/// Target of a direct branch or call.
fn goes_to(instruction: &Instruction) -> Option<u64> {
    let goes = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::Call
            | FlowControl::XbeginXabortXend
    );
    goes.then(|| instruction.near_branch_target()).filter(|to| *to != 0)
}

/// Targets in the jump tables that a function reads, as far as they lie in the function: tables of offsets from their
/// own start, as compilers make them, and tables of addresses.
fn tables<'a>(
    instructions: &[Instruction],
    function: &Range<u64>,
    bytes_from: impl Fn(u64) -> Option<&'a [u8]>,
) -> Vec<u64> {
    let mut targets = Vec::new();
    for instruction in instructions {
        if !(0..instruction.op_count()).any(|op| instruction.op_kind(op) == OpKind::Memory) {
            continue;
        }
        let table = instruction.memory_displacement64();
        let Some(bytes) = bytes_from(table) else { continue };
        if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
            let entries = bytes.chunks_exact(4).map(|entry| {
                let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                table.wrapping_add_signed(distance.into())
            });
            targets.extend(entries.take_while(|to| function.contains(to)));
        } else if instruction.memory_index_scale() == 8 {
            let entries = bytes.chunks_exact(8).filter_map(|entry| entry.try_into().ok());
            targets.extend(entries.map(u64::from_le_bytes).take_while(|to| function.contains(to)));
        }
    }
    targets
}

fn decode(bytes: &[u8], start: u64) -> Decoded {
    const BYTES_EACH: usize = 4;
    let instructions = Vec::with_capacity(bytes.len() / BYTES_EACH);
    let mut decoded = Decoded { instructions, ..Decoded::default() };
    for instruction in Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).iter() {
        decoded.is_damaged |= instruction.is_invalid();
        decoded.jumps_anywhere |= instruction.flow_control() == FlowControl::IndirectBranch;
        decoded.goes_to.extend(goes_to(&instruction));
        decoded.instructions.push(instruction);
    }
    // An indirect jump in a function without a jump table goes to another function.
    let takes = |instruction: &Instruction| {
        (0..instruction.op_count()).any(|op| instruction.op_kind(op) == OpKind::Memory)
            && instruction.memory_index_scale() >= 4
    };
    decoded.jumps_anywhere &= decoded.instructions.iter().any(takes);
    decoded
}

/// For each range, whether the bytes of a near branch anywhere in the segments would lead into it. All true branches
/// are among these bytes. A branch to the first address of a range does not count.
pub(crate) fn reached(
    file: &[u8],
    segments: &[Segment],
    windows: &[Range<u64>],
    by_two: bool,
) -> Vec<bool> {
    /// Bytes in one piece of work.
    const PIECE: usize = 1 << 14;
    let mut marks: Vec<(u64, usize)> = Vec::new();
    for (index, window) in windows.iter().enumerate() {
        marks.extend((window.start + 1..=window.end).map(|address| (address, index)));
    }
    marks.sort_unstable();
    let marked = Marked::new(&marks);
    let mut pieces = Vec::new();
    for segment in segments {
        let whole = segment.address..segment.address + segment.size;
        let bytes = segment.bytes(file, &whole).unwrap_or_default();
        let starts = (0..bytes.len()).step_by(PIECE);
        pieces.extend(starts.map(|at| (segment.address + at as u64, &bytes[at..])));
    }
    let targets = in_parts(&pieces, by_two, |pieces| {
        let mut targets = Vec::new();
        for (address, bytes) in pieces {
            let near = near_branches(*address, bytes, PIECE);
            targets.extend(near.filter(|target| marked.may_have(*target)));
        }
        targets
    });
    let mut reached = vec![false; windows.len()];
    for target in targets.into_iter().flatten() {
        let first = marks.partition_point(|(address, _)| *address < target);
        for (_, index) in marks[first..].iter().take_while(|(address, _)| *address == target) {
            reached[*index] = true;
        }
    }
    reached
}

/// Targets of the bytes that would be near branches, starting in the first `size` of these bytes.
fn near_branches(address: u64, bytes: &[u8], size: usize) -> impl Iterator<Item = u64> {
    let begins = &bytes[..size.min(bytes.len())];
    memchr::memchr3_iter(0xe8, 0xe9, 0x0f, begins).filter_map(move |at| {
        let field = match bytes[at] {
            0x0f if bytes.get(at + 1).is_some_and(|next| next >> 4 == 8) => at + 2,
            0x0f => return None,
            _ => at + 1,
        };
        let distance = i32::from_le_bytes(*bytes.get(field..)?.first_chunk()?);
        Some((address + field as u64 + 4).wrapping_add_signed(distance.into()))
    })
}

/// A bitmap of addresses that may be marked. Most branch targets are not marked, and the bitmap rejects them quickly.
struct Marked {
    bits: Vec<u64>,
}

impl Marked {
    fn new(marks: &[(u64, usize)]) -> Self {
        // At most one bit in 16 is set, by the low bits of the address.
        let mut marked = Self { bits: vec![0; (marks.len() / 4).next_power_of_two()] };
        for (address, _) in marks {
            let (word, bit) = marked.place(*address);
            marked.bits[word] |= 1 << bit;
        }
        marked
    }

    fn place(&self, address: u64) -> (usize, u64) {
        let last = self.bits.len() - 1;
        (usize::try_from(address / 64).expect("as wide") & last, address % 64)
    }

    fn may_have(&self, address: u64) -> bool {
        let (word, bit) = self.place(address);
        self.bits[word] >> bit & 1 == 1
    }
}

/// Applies `look` to both halves of a long list in parallel, if `by_two`; otherwise to the whole list.
pub(crate) fn in_parts<T: Sync, R: Send>(
    all: &[T],
    by_two: bool,
    look: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    /// The shortest list that is worth a second thread, which takes some 50 us to start.
    const MANY: usize = 64;
    let (one, other) = all.split_at(if by_two && all.len() >= MANY { all.len() / 2 } else { 0 });
    std::thread::scope(|scope| {
        let thread = (!one.is_empty())
            .then(|| std::thread::Builder::new().spawn_scoped(scope, || look(one)).ok());
        let other = look(other);
        // If no thread can be started, this thread does both halves.
        let one = thread.map(|thread| match thread.map(ScopedJoinHandle::join) {
            Some(Ok(seen)) => seen,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => look(one),
        });
        one.into_iter().chain([other]).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_found_wherever_they_begin() {
        const BASE: u64 = 0x40_0000;
        let target = BASE + 3;
        let window = target - 2..target + 3;
        let segment = |size: usize| [Segment { address: BASE, offset: 0, size: size as u64 }];
        // The branches lie before, across and behind the end of a piece, and at the end of the file.
        for at in (0x3ff0..0x4010).chain(0x7ff8..0x8008).chain([100, 0x2_3456]) {
            for opcode in [&[0xe9][..], &[0xe8], &[0x0f, 0x84]] {
                let mut file = vec![0x90; at];
                file.extend(opcode);
                let end = BASE + (file.len() + 4) as u64;
                let distance = u32::try_from(end - target).unwrap().wrapping_neg();
                file.extend(distance.to_le_bytes());
                let size = file.len();
                assert_eq!(
                    reached(&file, &segment(size), std::slice::from_ref(&window), true),
                    [true],
                    "{at:x}"
                );
                let aside = window.end..window.end + 5;
                assert_eq!(reached(&file, &segment(size), &[aside], true), [false], "{at:x}");
                file.pop();
                assert_eq!(
                    reached(&file, &segment(size - 1), std::slice::from_ref(&window), true),
                    [false]
                );
            }
        }
    }
}
