//! The kernel's description of its types (BTF), reduced to the types that the eBPF program needs. Pure.
//!
//! BTF contains some 100,000 types in 5 MB. Parsing all of them into structures takes 20 ms. This parser visits each
//! type once, stores its offset, and copies only the types that the program's structures consist of.
//!
//! # References
//!
//! - Documentation/bpf/btf.rst (Linux 6.18)

use std::collections::HashMap;

const MAGIC: [u8; 2] = 0xeb9f_u16.to_ne_bytes();
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
/// The kind of `btf_trace_NAME`, for a tracepoint.
pub(crate) const TYPEDEF: u32 = 8;
/// The kind of `bpf_iter_NAME`, for an iterator.
pub(crate) const FUNC: u32 = 12;
const ENUM64: u32 = 19;
/// Bytes of a type's common header, before the data of its kind.
const HEAD: usize = 12;
const MEMBER: usize = 12;
/// Type number in a reduced description: a pointer to anything.
const ANY_POINTER: u32 = 1;

/// The offset of each type in a description.
pub(crate) struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// By the type's number; the first is number 1.
    offsets: Vec<u32>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// Bytes after the header of a type; `None` for an unknown kind.
fn tail(info: u32) -> Option<usize> {
    let length = (info & 0xffff) as usize;
    Some(match kind_of(info) {
        POINTER | 7..=FUNC | 16 | 18 => 0,
        1 | 14 | 17 => 4,
        ARRAY => 12,
        STRUCT | UNION | 15 | ENUM64 => length * 12,
        ENUM | 13 => length * 8,
        _ => return None,
    })
}

impl<'a> Types<'a> {
    /// Indexes a description; `None` if it is damaged, or has kinds unknown to this parser.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let section = |start: usize| -> Option<&'a [u8]> {
            let from = (word(bytes, 4)? as usize).checked_add(word(bytes, start)? as usize)?;
            bytes.get(from..from.checked_add(word(bytes, start + 4)? as usize)?)
        };
        if !bytes.starts_with(&MAGIC) {
            return None;
        }
        let (types, strings) = (section(8)?, section(16)?);
        let mut offsets = vec![0];
        let mut at = 0;
        while at < types.len() {
            offsets.push(u32::try_from(at).ok()?);
            at += HEAD + tail(word(types, at + 4)?)?;
        }
        Some(Self { types, strings, offsets })
    }

    /// Name, kind and length, and size or referenced type of a type.
    fn head(&self, id: u32) -> Option<[u32; 3]> {
        let at = *self.offsets.get(id as usize).filter(|_| id > 0)? as usize;
        Some([word(self.types, at)?, word(self.types, at + 4)?, word(self.types, at + 8)?])
    }

    fn of_kind(&self, kind: u32) -> impl Iterator<Item = (u32, u32)> {
        (1..u32::try_from(self.offsets.len()).unwrap_or(0)).filter_map(move |id| {
            let [name, info, _] = self.head(id)?;
            (kind_of(info) == kind).then_some((id, name))
        })
    }

    /// The bytes of a string, without its end.
    fn string(&self, at: u32) -> Option<&'a [u8]> {
        let rest = self.strings.get(at as usize..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    }

    /// Whether the string at this offset equals `name`.
    fn is_named(&self, at: u32, name: &[u8]) -> bool {
        let rest = self.strings.get(at as usize..).and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The number of the type of this kind and name, as the kernel numbers it.
    pub(crate) fn find(&self, kind: u32, name: &str) -> Option<u32> {
        self.of_kind(kind).find(|(_, at)| self.is_named(*at, name.as_bytes())).map(|(id, _)| id)
    }

    /// Copies the structures of this description whose names `others` has too, with the types of all their members.
    /// Pointers become pointers to nothing known.
    pub(crate) fn reduced_to(&self, others: &Types<'_>) -> Option<Vec<u8>> {
        let wanted: Vec<&[u8]> = others
            .of_kind(STRUCT)
            .filter_map(|(_, name)| others.string(name).filter(|name| !name.is_empty()))
            .collect();
        let is_wanted = |at: u32| wanted.iter().any(|name| self.is_named(at, name));
        let mut reduced = Reduced::default();
        for (id, _) in self.of_kind(STRUCT).filter(|(_, name)| is_wanted(*name)) {
            reduced.number(self, id)?;
        }
        let mut done = 0;
        while let Some(id) = reduced.order.get(done).copied() {
            reduced.copy(self, id)?;
            done += 1;
        }
        reduced.finish()
    }
}

/// A reduced description under construction.
#[derive(Default)]
struct Reduced {
    numbers: HashMap<u32, u32>,
    /// Original numbers of the copied types, by their new numbers from [`ANY_POINTER`] + 1 on.
    order: Vec<u32>,
    names: HashMap<u32, u32>,
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Reduced {
    /// The new number of a type.
    fn number(&mut self, from: &Types<'_>, id: u32) -> Option<u32> {
        match id {
            0 => return Some(0),
            _ if kind_of(from.head(id)?[1]) == POINTER => return Some(ANY_POINTER),
            _ => {}
        }
        let next = ANY_POINTER + 1 + u32::try_from(self.order.len()).ok()?;
        Some(*self.numbers.entry(id).or_insert_with(|| {
            self.order.push(id);
            next
        }))
    }

    fn name(&mut self, from: &Types<'_>, at: u32) -> Option<u32> {
        let text = from.string(at)?;
        if text.is_empty() {
            return Some(0);
        }
        if let Some(known) = self.names.get(&at) {
            return Some(*known);
        }
        // The string section begins with the empty string.
        let new = u32::try_from(self.strings.len()).ok()? + 1;
        self.strings.extend_from_slice(text);
        self.strings.push(0);
        self.names.insert(at, new);
        Some(new)
    }

    fn put(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn copy(&mut self, from: &Types<'_>, id: u32) -> Option<()> {
        let [name, info, size_or_type] = from.head(id)?;
        let behind = *from.offsets.get(id as usize)? as usize + HEAD;
        let name = self.name(from, name)?;
        let at = |offset: usize| word(from.types, behind + offset);
        match kind_of(info) {
            STRUCT | UNION => {
                self.put(&[name, info, size_or_type]);
                for member in 0..(info & 0xffff) as usize {
                    let member = member * MEMBER;
                    let name = self.name(from, at(member)?)?;
                    let of = self.number(from, at(member + 4)?)?;
                    self.put(&[name, of, at(member + 8)?]);
                }
            }
            ARRAY => {
                let (of, by) = (self.number(from, at(0)?)?, self.number(from, at(4)?)?);
                self.put(&[name, info, size_or_type, of, by, at(8)?]);
            }
            // The values of an enum are not needed.
            ENUM | ENUM64 => self.put(&[name, info & !0xffff, size_or_type]),
            // Typedefs, qualifiers and tags.
            8..=11 | 18 => {
                let of = self.number(from, size_or_type)?;
                self.put(&[name, info, of]);
            }
            _ => {
                self.put(&[name, info, size_or_type]);
                self.types.extend_from_slice(from.types.get(behind..behind + tail(info)?)?);
            }
        }
        Some(())
    }

    /// The complete description.
    fn finish(self) -> Option<Vec<u8>> {
        let length = |bytes: usize| u32::try_from(bytes).ok();
        let types = length(HEAD + self.types.len())?;
        let strings = length(1 + self.strings.len())?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types, types, strings, 0, POINTER << 24, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.types);
        bytes.push(0);
        bytes.extend(self.strings);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A description made by hand: strings, and types as words.
    fn described(strings: &[&str], types: &[&[u32]]) -> Vec<u8> {
        let strings: Vec<u8> = strings.iter().flat_map(|s| s.bytes().chain([0])).collect();
        let types: Vec<u8> =
            types.iter().flat_map(|t| t.iter()).flat_map(|w| w.to_ne_bytes()).collect();
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types.len(), types.len(), strings.len()] {
            bytes.extend(u32::try_from(word).unwrap().to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    /// `int`, an unneeded structure of it, a typedef, a pointer to that, and a structure of all.
    fn kernels() -> Vec<u8> {
        // Offsets: "" 0, "int" 1, "other" 5, "pid_t" 11, "task" 17, "pid" 22, "next" 26, "bpf_iter_task" 31
        let strings = ["", "int", "other", "pid_t", "task", "pid", "next", "bpf_iter_task"];
        described(
            &strings,
            &[
                &[1, 1 << 24, 4, 32],
                &[5, STRUCT << 24 | 1, 4, 22, 1, 0],
                &[11, TYPEDEF << 24, 1],
                &[0, POINTER << 24, 2],
                &[17, STRUCT << 24 | 2, 16, 22, 3, 64, 26, 4, 0],
                &[31, FUNC << 24, 0],
            ],
        )
    }

    #[test]
    fn what_has_a_name_is_found_by_kind() {
        let bytes = kernels();
        let types = Types::parse(&bytes).unwrap();
        assert_eq!(types.find(TYPEDEF, "pid_t"), Some(3));
        assert_eq!(types.find(FUNC, "bpf_iter_task"), Some(6));
        assert_eq!(types.find(FUNC, "bpf_iter_tas"), None);
        assert_eq!(types.find(FUNC, "pid_t"), None);
    }

    #[test]
    fn a_reduced_description_has_what_lies_in_the_structure_and_no_more() {
        let bytes = kernels();
        let types = Types::parse(&bytes).unwrap();
        let wanted = described(&["", "task"], &[&[1, STRUCT << 24, 0]]);
        let reduced = types.reduced_to(&Types::parse(&wanted).unwrap()).unwrap();
        let expected = described(
            // In the order of their first use.
            &["", "task", "pid", "next", "pid_t", "int"],
            &[
                &[0, POINTER << 24, 0],
                &[1, STRUCT << 24 | 2, 16, 6, 3, 64, 10, 1, 0],
                &[15, TYPEDEF << 24, 4],
                &[21, 1 << 24, 4, 32],
            ],
        );
        assert_eq!(reduced, expected);
        let again = Types::parse(&reduced).unwrap().reduced_to(&Types::parse(&wanted).unwrap());
        assert!(again.is_some());
    }

    #[test]
    fn damage_is_refused() {
        let bytes = kernels();
        for cut in 0..bytes.len() {
            assert!(Types::parse(&bytes[..cut]).is_none(), "{cut}");
        }
        assert!(Types::parse(b"no types at all, but long enough for a header").is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0..200_usize, byte: u8) {
            let mut bytes = kernels();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Some(types) = Types::parse(&bytes) {
                types.find(TYPEDEF, "pid_t");
                types.reduced_to(&types);
            }
        }
    }
}
