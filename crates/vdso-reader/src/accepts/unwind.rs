//! Whether an unwinder finds its way out of every function.

use super::reason::Reason;
use crate::{Image, SegmentKind, Symbol, SymbolKind};

/// The encodings of nearly every index: version 1, a pointer relative to itself, a 32-bit count,
/// and a table of 32-bit pairs relative to the start of the index.
const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// What unwinders dislike about this image.
///
/// Untyped symbols need no unwind table: arm64's `__kernel_rt_sigreturn` has none on purpose,
/// because unwinders know signal frames by their instructions.
pub(super) fn reasons(image: &Image) -> Vec<Reason> {
    let index = image.segments().iter().find(|segment| segment.kind == SegmentKind::GnuEhFrame);
    let Some(index) = index else { return vec![Reason::NoUnwindIndex] };
    let Some(entries) = entries(image, index.offset) else { return vec![Reason::UnwindIndex] };
    let functions = image.functions().filter(|symbol| symbol.kind == SymbolKind::Func);
    let lost = functions.filter(|symbol| !is_covered(image, &entries, symbol));
    lost.map(|symbol| Reason::NotUnwound(symbol.name.clone())).collect()
}

/// The pairs in the index of the unwind tables that starts at this offset: the offset of some code
/// and of its description, sorted.
fn entries(image: &Image, start: u64) -> Option<Vec<(u64, u64)>> {
    let at = usize::try_from(start).ok()?;
    if image.bytes().get(at..at.checked_add(4)?)? != USUAL {
        return None;
    }
    let count = usize::try_from(image.word(start.checked_add(8)?)?).ok()?;
    let table = start.checked_add(12)?;
    let mut entries = Vec::new();
    while entries.len() < count {
        let pair = table + 8 * entries.len() as u64;
        let code = relative(image, start, pair)?;
        let description = relative(image, start, pair + 4)?;
        entries.push((code, description));
    }
    entries.is_sorted_by_key(|entry| entry.0).then_some(entries)
}

/// Whether the description that the index has for the start of the function covers all of it.
fn is_covered(image: &Image, entries: &[(u64, u64)], symbol: &Symbol) -> bool {
    let after = entries.partition_point(|entry| entry.0 <= symbol.offset);
    let Some((code, description)) = after.checked_sub(1).and_then(|at| entries.get(at)) else {
        return false;
    };
    let Some((start, size)) = described(image, *description) else { return false };
    let end = symbol.offset.saturating_add(symbol.size);
    start == *code
        && (start..start.saturating_add(size)).contains(&symbol.offset)
        && end <= start.saturating_add(size)
}

/// The offset and size of the code that the description at this offset is about.
///
/// Its words are: length, distance to the common part, start of the code relative to this word,
/// size of the code.
fn described(image: &Image, at: u64) -> Option<(u64, u64)> {
    let place = at.checked_add(8)?;
    let start = relative(image, place, place)?;
    Some((start, u64::from(image.word(at.checked_add(12)?)?)))
}

/// The signed 32-bit number at `at`, taken as a distance from `base`.
fn relative(image: &Image, base: u64, at: u64) -> Option<u64> {
    base.checked_add_signed(i64::from(image.word(at)?.cast_signed()))
}
