//! Methods: their names and lines, and the methods that were compiled into one piece of code.
//!
//! # References
//!
//! OpenJDK 11, 17, 21 and 25: `share/oops/constMethod.hpp`, `share/oops/method.hpp`
//! (`CompressedLineNumberReadStream`), `share/code/scopeDesc.cpp`, `share/code/pcDesc.hpp`,
//! `share/utilities/unsigned5.hpp`

use super::layout::{Layout, Link, SourceFile};
use crate::managed::Function;
use crate::memory::Memory;

/// Most methods that are compiled into each other at one place.
const SCOPES_MAX: usize = 64;
/// Most bytes of the descriptions of places in one compiled method.
const PLACES_MAX: u64 = 1 << 20;
/// Most bytes of the line table of one method.
const LINES_MAX: usize = 64 << 10;
/// Most bytes of a name.
const NAME_MAX: u16 = 4000;
/// Bytes of one `PcDesc`.
const PLACE: usize = 16;
/// Bit in the flags of a `ConstMethod`.
const HAS_LINES: u16 = 1;
/// The first JVM version whose coded numbers have no byte of 0.
const NO_ZEROS_SINCE: u32 = 19;

/// A place in a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct At {
    /// Address of the `Method`.
    pub(super) method: u64,
    /// Index of the bytecode, if known.
    pub(super) bytecode: Option<u32>,
}

/// Reads methods by a layout.
#[derive(Clone, Copy)]
pub(super) struct Methods<'a> {
    pub(super) memory: &'a Memory<'a>,
    pub(super) layout: &'a Layout,
}

impl Methods<'_> {
    fn pointer(&self, to: u64, field: u64) -> Option<u64> {
        self.memory.u64(to.checked_add(field)?)
    }

    fn symbol(&self, at: u64) -> Option<Vec<u8>> {
        // The low bits are flags of the constant pool entry.
        let at = at & !3;
        let length = self.memory.u16(at.checked_add(self.layout.symbol_length)?)?;
        (1..=NAME_MAX).contains(&length).then_some(())?;
        self.memory.bytes(at.checked_add(self.layout.symbol_body)?, length.into())
    }

    /// A method, `package.Class.method`, with the line of the place.
    pub(super) fn function(&self, at: At, is_inlined: bool) -> Option<Function> {
        let (layout, memory) = (self.layout, self.memory);
        let method = self.pointer(at.method, layout.const_method)?;
        let constants = self.pointer(method, layout.constants)?;
        let constant = |index: u16| {
            let at = constants.checked_add(layout.constants_size)?;
            self.symbol(memory.u64(at.checked_add(8 * u64::from(index))?)?)
        };
        let name = constant(memory.u16(method.checked_add(layout.name_index)?)?)?;
        let class = self.pointer(constants, layout.holder)?;
        let class_name = self.symbol(self.pointer(class, layout.class_name)?)?.into_iter();
        let mut function = class_name.map(|byte| if byte == b'/' { b'.' } else { byte }).collect();
        without_address(&mut function);
        function.push(b'.');
        function.extend(name);
        let file = match layout.source_file {
            SourceFile::OfConstants(index) => constants.checked_add(index),
            SourceFile::OfClass(index) => class.checked_add(index),
        };
        let file = file.and_then(|at| memory.u16(at)).filter(|index| *index != 0);
        Some(Function {
            name: function.as_slice().into(),
            module: "[java]",
            file: file.and_then(constant).map(|file| file.as_slice().into()),
            line: at.bytecode.and_then(|bytecode| self.line(method, bytecode)),
            is_inlined,
        })
    }

    /// The line of a bytecode.
    fn line(&self, method: u64, bytecode: u32) -> Option<u32> {
        let (layout, memory) = (self.layout, self.memory);
        let flags = memory.u16(method.checked_add(layout.flags)?)?;
        (flags & HAS_LINES != 0).then_some(())?;
        let size = memory.u16(method.checked_add(layout.code_size)?)?;
        let table = method.checked_add(layout.const_method_size)?.checked_add(size.into())?;
        let byte = |index: usize| {
            (index < LINES_MAX).then(|| memory.u8(table.checked_add(index as u64)?))?
        };
        let mut numbers = Numbers { byte: &byte, at: 0, major: layout.major };
        let (mut place, mut line, mut found) = (0_i64, 0_i64, None);
        loop {
            match numbers.take()? {
                0 => break,
                0xff => {
                    place += numbers.signed()?;
                    line += numbers.signed()?;
                }
                short => {
                    place += i64::from(short >> 3);
                    line += i64::from(short & 7);
                }
            }
            if place > i64::from(bytecode) {
                break;
            }
            found = u32::try_from(line).ok();
        }
        found
    }

    /// The place in the bytecode where an interpreted frame stands.
    pub(super) fn interpreted(&self, method: u64, pointer: u64) -> Option<At> {
        let layout = self.layout;
        let const_method = self.pointer(method, layout.const_method)?;
        let size = self.memory.u16(const_method.checked_add(layout.code_size)?)?;
        let bytecode = pointer
            .checked_sub(const_method.checked_add(layout.const_method_size)?)
            .and_then(|index| u32::try_from(index).ok())
            .filter(|index| *index < u32::from(size));
        Some(At { method, bytecode })
    }

    /// The address to which a blob's fields lead.
    fn linked(&self, blob: u64, (pointer, bytes): Link) -> Option<u64> {
        let from = pointer.map_or(Some(blob), |field| self.pointer(blob, field))?;
        let bytes = bytes.map_or(Some(0), |field| self.memory.u32(blob.checked_add(field)?))?;
        from.checked_add(bytes.into())
    }

    /// The methods at a return address in compiled code, the innermost first; the last is the compiled method. And
    /// whether the compiler has described exactly this place, or would not do so with any option.
    pub(super) fn compiled(&self, blob: u64, address: u64) -> Option<(Vec<At>, bool)> {
        let (layout, memory) = (self.layout, self.memory);
        let whole = At { method: self.pointer(blob, layout.method)?, bytecode: None };
        let linked = |link| self.linked(blob, link);
        let (begin, metadata) = (linked(layout.code_begin)?, linked(layout.metadata)?);
        let (places, end) = (linked(layout.places)?, linked(layout.places_end)?);
        let scopes = linked(layout.scopes)?;
        let length = end.checked_sub(places).filter(|length| *length <= PLACES_MAX)?;
        let bytes = memory.bytes(places, usize::try_from(length).ok()?)?;
        let wanted = i32::try_from(address.checked_sub(begin)?).ok()?;
        let of = |scope: i32| self.scopes(scopes, metadata, scope).unwrap_or_default();
        let (mut before, mut after) = (None, None);
        for place in bytes.chunks_exact(PLACE) {
            let int = |at: usize| Some(i32::from_le_bytes(place.get(at..at + 4)?.try_into().ok()?));
            let (at, scope) = (int(0)?, int(4)?);
            // The first and the last description stand for no place.
            if scope <= 0 {
                continue;
            }
            if at == wanted || at > wanted && layout.describes_all {
                let methods = of(scope);
                if methods.is_empty() {
                    break;
                }
                return Some((methods, true));
            }
            if at > wanted {
                after = Some(scope);
                break;
            }
            before = Some(scope);
        }
        let [before, after] = [before, after].map(|scope| scope.map(of).unwrap_or_default());
        let mut methods = agreeing(&before, &after);
        if methods.is_empty() {
            methods.push(whole);
        }
        Some((methods, layout.describes_all))
    }

    /// A chain of scopes, the innermost first.
    fn scopes(&self, data: u64, metadata: u64, first: i32) -> Option<Vec<At>> {
        let mut methods = Vec::new();
        let mut next = u64::try_from(first).ok()?;
        while next > 0 {
            (methods.len() < SCOPES_MAX).then_some(())?;
            let at = data.checked_add(next)?;
            let byte = |index: usize| self.memory.u8(at.checked_add(index as u64)?);
            let mut numbers = Numbers { byte: &byte, at: 0, major: self.layout.major };
            let (sender, method) = (numbers.unsigned()?, numbers.unsigned()?);
            // Stored plus one; before the first bytecode it is -1.
            let bytecode = numbers.unsigned()?.checked_sub(1);
            let index = u64::from(method.checked_sub(1)?);
            let method = self.memory.u64(metadata.checked_add(8 * index)?)?;
            methods.push(At { method, bytecode });
            next = sender.into();
        }
        Some(methods)
    }
}

/// The methods on which two chains agree, from the outermost on. For the innermost of them the
/// place is unknown, because the call may be in another method that it calls.
fn agreeing(before: &[At], after: &[At]) -> Vec<At> {
    let mut methods = Vec::new();
    for (one, other) in before.iter().rev().zip(after.iter().rev()) {
        if one.method != other.method {
            break;
        }
        methods.push(*one);
        if one.bytecode != other.bytecode {
            break;
        }
    }
    if let Some(last) = methods.last_mut() {
        last.bytecode = None;
    }
    methods.reverse();
    methods
}

/// Removes the address by which hidden classes of the same source differ: `App$$Lambda+0x00007f`
/// and `.0x`.
fn without_address(class: &mut Vec<u8>) {
    let end = class.windows(3).rposition(|part| matches!(part, b"+0x" | b".0x"));
    if let Some(end) = end.filter(|end| class[end + 3..].iter().all(u8::is_ascii_hexdigit)) {
        class.truncate(end);
    }
}

/// Numbers of one to five bytes.
struct Numbers<'a> {
    byte: &'a dyn Fn(usize) -> Option<u8>,
    at: usize,
    major: u32,
}

impl Numbers<'_> {
    fn take(&mut self) -> Option<u8> {
        let byte = (self.byte)(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn unsigned(&mut self) -> Option<u32> {
        let least = u32::from(self.major >= NO_ZEROS_SINCE);
        let mut sum = 0_u32;
        for place in 0..5 {
            let byte = u32::from(self.take()?);
            sum = sum.wrapping_add(byte.checked_sub(least)? << (6 * place));
            if byte < 192 {
                break;
            }
        }
        Some(sum)
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        let half = i64::from(number >> 1);
        Some(if number & 1 == 0 { half } else { -half - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(method: u64, bytecode: u32) -> At {
        At { method, bytecode: Some(bytecode) }
    }

    /// The innermost first; the innermost method on which both agree has no known place.
    #[test]
    fn only_what_two_places_agree_on_is_said_of_one_between() {
        let whole = |method: u64| At { method, bytecode: None };
        let (inner, middle, outer) = (at(1, 4), at(2, 8), at(3, 16));
        assert_eq!(
            agreeing(&[inner, middle, outer], &[at(9, 4), middle, outer]),
            [whole(2), outer],
            "another method is called from the same place"
        );
        assert_eq!(
            agreeing(&[inner, middle, outer], &[inner, middle, outer]),
            [whole(1), middle, outer]
        );
        assert_eq!(agreeing(&[inner, outer], &[at(1, 4), at(3, 20)]), [whole(3)]);
        assert_eq!(agreeing(&[outer], &[at(4, 16)]), []);
        assert_eq!(agreeing(&[], &[outer]), []);
    }

    #[test]
    fn numbers_have_their_values_in_both_codings() {
        // `UNSIGNED5::write_uint` of OpenJDK 17 and 21.
        for (major, bytes, value) in [
            (17, &[0][..], 0),
            (17, &[191], 191),
            (17, &[192, 0], 192),
            (17, &[255, 255, 0], 255 + (255 << 6)),
            (21, &[1], 0),
            (21, &[191], 190),
            (21, &[192, 1], 191),
            (21, &[193, 2], 192 + (1 << 6)),
        ] {
            let byte = |index: usize| bytes.get(index).copied();
            let mut numbers = Numbers { byte: &byte, at: 0, major };
            assert_eq!(numbers.unsigned(), Some(value), "{major} {bytes:?}");
            assert_eq!(numbers.at, bytes.len(), "{major} {bytes:?}");
        }
        let none = |_: usize| None;
        assert_eq!(Numbers { byte: &none, at: 0, major: 21 }.unsigned(), None);
        let zero = |_: usize| Some(0);
        assert_eq!(Numbers { byte: &zero, at: 0, major: 21 }.unsigned(), None, "21 has no zeros");
    }

    #[test]
    fn signed_numbers_alternate() {
        for (coded, value) in [(0, 0), (1, -1), (2, 1), (3, -2), (190, 95)] {
            let byte = move |_: usize| Some(coded);
            assert_eq!(Numbers { byte: &byte, at: 0, major: 17 }.signed(), Some(value));
        }
    }

    #[test]
    fn hidden_classes_of_one_source_have_one_name() {
        for (name, plain) in [
            ("App$$Lambda$14+0x0000000800c03000", "App$$Lambda$14"),
            ("App$$Lambda.0x00007f8b3c0a1000", "App$$Lambda"),
            ("App+0xyz", "App+0xyz"),
            ("App", "App"),
        ] {
            let mut class = name.as_bytes().to_vec();
            without_address(&mut class);
            assert_eq!(String::from_utf8(class).unwrap(), plain);
        }
    }
}
