//! JavaScript functions, by V8's postmortem metadata.
//!
//! V8's frames hold the executed function in a slot, which lies in the copied stack. The function,
//! its name and its script are read from the process afterwards. The collector moves young
//! functions. The types of all read objects are checked, so a function that was moved has no name.
//!
//! A function that V8's optimising compiler has inlined has no frame. Lines are the first lines of
//! functions.
//!
//! # References
//!
//! `tools/gen-postmortem-metadata.py` (constants `v8dbg_*`), `src/execution/frame-constants.h` (slots of
//! frames), `src/objects/scope-info.tq`, `src/objects/string.tq`: V8 10.2, 11.3, 12.4 and 13.6 (Node 18 to 24)

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::managed::{Function, ManagedId, Names, Remembered};
use super::memory::Memory;
use super::source_map::{SourceMap, SourceMaps};
use super::unwind_cfi::Stack;

/// Most UTF-16 code units of a name.
const NAME_MAX: usize = 512;
/// Most UTF-16 code units of a script.
const SCRIPT_MAX: usize = 8 << 20;
/// Most scripts whose lines are kept.
const SCRIPTS_MAX: usize = 1000;
/// Most levels of strings that are made of other strings.
const DEPTH_MAX: u32 = 8;
/// Most variables whose names are listed in a function's description; with more there is a table.
const NAMES_LISTED: u64 = 75;

/// Prefix of the constants' names; in a program's symbol table a zero precedes it.
pub(super) const PREFIX: &[u8] = b"v8dbg_";

/// Offsets of fields in bytes from the start of each object.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    map_type: u64,
    string_length: u64,
    cons_first: u64,
    cons_second: u64,
    thin_actual: u64,
    function_shared: u64,
    shared_name: u64,
    shared_script: u64,
    script_name: u64,
    script_source: u64,
    type_shared: u16,
    type_scope: u16,
    type_script: u16,
    first_nonstring: u16,
}

impl Layout {
    /// `constant` gives the value of the constant whose name begins with its argument; `None` if a
    /// necessary constant is missing.
    pub(super) fn read(constant: impl Fn(&str) -> Option<i32>) -> Option<Layout> {
        let offset = |name: &str| constant(name).and_then(|value| u64::try_from(value).ok());
        let number = |name: &str| constant(name).and_then(|value| u16::try_from(value).ok());
        // The frame slots, and a heap without compressed pointers.
        let is_known = constant("off_fp_function") == Some(-16)
            && constant("off_fp_context") == Some(-8)
            && constant("HeapObjectTag") == Some(1)
            && constant("HeapObjectTagMask") == Some(3);
        is_known.then_some(())?;
        Some(Layout {
            map_type: offset("class_Map__instance_type__")?,
            string_length: offset("class_String__length__")?,
            cons_first: offset("class_ConsString__first__")?,
            cons_second: offset("class_ConsString__second__")?,
            thin_actual: offset("class_ThinString__actual__")?,
            function_shared: offset("class_JSFunction__shared__")?,
            shared_name: offset("class_SharedFunctionInfo__name_or_scope_info__")?,
            shared_script: offset("class_SharedFunctionInfo__script_or_debug_info__")
                .or_else(|| offset("class_SharedFunctionInfo__raw_script__"))
                .or_else(|| offset("class_SharedFunctionInfo__script__"))?,
            script_name: offset("class_Script__name__")?,
            script_source: offset("class_Script__source__")?,
            type_shared: number("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            type_scope: number("type_ScopeInfo__SCOPE_INFO_TYPE")?,
            type_script: number("type_Script__SCRIPT_TYPE")?,
            first_nonstring: number("FirstNonstringType")?,
        })
    }
}

/// A V8 in a process.
#[derive(Default)]
pub(super) struct V8 {
    layout: Layout,
    /// By `SharedFunctionInfo`, which closures of one function share.
    functions: HashMap<u64, Option<ManagedId>>,
    remembered: Remembered,
    /// Ends of lines, by script and its length.
    lines: HashMap<(u64, usize), Option<Rc<[u32]>>>,
    pid: i32,
    all_maps: Rc<RefCell<SourceMaps>>,
    /// By path of the script.
    source_maps: HashMap<String, Option<Rc<SourceMap>>>,
}

impl V8 {
    /// Makes the V8 of a process from the layout in the program's file.
    pub(super) fn new(layout: Layout, pid: i32, all_maps: Rc<RefCell<SourceMaps>>) -> V8 {
        V8 { layout, pid, all_maps, ..V8::default() }
    }

    /// The JavaScript function of the frame at `rbp`; `None` for a frame of another kind, or if the
    /// function can no longer be determined.
    pub(super) fn function(
        &mut self,
        memory: &Memory<'_>,
        time_ns: u64,
        stack: Stack<'_>,
        bp: u64,
        names: &mut Names,
    ) -> Option<ManagedId> {
        if self.remembered.is_stale(time_ns) {
            self.functions.clear();
        }
        // Frames of other kinds hold a small integer instead of the context.
        object(stack.word(bp.checked_sub(8)?)?)?;
        let function = object(stack.word(bp.checked_sub(16)?)?)?;
        let heap = Heap { memory, layout: &self.layout };
        let shared = heap.field(function, self.layout.function_shared)?;
        (heap.type_of(shared)? == self.layout.type_shared).then_some(())?;
        if let Some(known) = self.functions.get(&shared) {
            return *known;
        }
        let found = self.named(memory, shared).map(|function| names.id(function));
        self.functions.insert(shared, found);
        found
    }

    fn named(&mut self, memory: &Memory<'_>, shared: u64) -> Option<Function> {
        let heap = Heap { memory, layout: &self.layout };
        // V8's own functions have no script.
        let script = heap.field(shared, self.layout.shared_script)?;
        (heap.type_of(script)? == self.layout.type_script).then_some(())?;
        let file = heap.text(heap.field(script, self.layout.script_name)?)?;
        let described = heap.field(shared, self.layout.shared_name)?;
        let (name, start) = if heap.type_of(described)? == self.layout.type_scope {
            heap.scope(described)?
        } else {
            (heap.text(described)?, None)
        };
        let lines = start.and_then(|start| Some((start, self.lines(memory, script)?)));
        let place = lines.and_then(|(start, ends)| place(start, &ends));
        let name = if name.is_empty() { "(anonymous)".to_owned() } else { name };
        let file = file.strip_prefix("file://").unwrap_or(&file);
        let source = place.and_then(|(line, column)| self.source(file, line, column));
        let (file, line) = source.unwrap_or((file, place.map(|(line, _)| line + 1)));
        Some(Function {
            name: name.as_str().into(),
            module: "[javascript]",
            file: (!file.is_empty()).then(|| file.into()),
            line,
            is_inlined: false,
        })
    }

    /// The file and line from which a place in a script was compiled, if a source map tells.
    fn source(&mut self, script: &str, line: u32, column: u32) -> Option<(&str, Option<u32>)> {
        if self.source_maps.len() >= SCRIPTS_MAX {
            self.source_maps.clear();
        }
        let beside = || self.all_maps.borrow_mut().beside(self.pid, script);
        let map = self.source_maps.entry(script.to_owned()).or_insert_with(beside).as_ref()?;
        map.original(line, column).map(|(file, line)| (file, Some(line)))
    }

    /// The ends of a script's lines.
    fn lines(&mut self, memory: &Memory<'_>, script: u64) -> Option<Rc<[u32]>> {
        let heap = Heap { memory, layout: &self.layout };
        let source = heap.field(script, self.layout.script_source)?;
        let length = heap.length(source)?;
        if self.lines.len() >= SCRIPTS_MAX {
            self.lines.clear();
        }
        let find = || {
            let letters = heap.flat(source, SCRIPT_MAX)?;
            let ends =
                letters.iter().enumerate().filter(|(_, letter)| **letter == u16::from(b'\n'));
            ends.map(|(index, _)| u32::try_from(index).ok()).collect()
        };
        self.lines.entry((script, length)).or_insert_with(find).clone()
    }
}

/// Line and column of a place in a script, from 0, by the ends of its lines.
fn place(at: u32, ends: &[u32]) -> Option<(u32, u32)> {
    let line = ends.partition_point(|end| *end < at);
    let start = line.checked_sub(1).map_or(0, |before| ends[before] + 1);
    Some((u32::try_from(line).ok()?, at.checked_sub(start)?))
}

/// The address of an object, from a tagged pointer.
fn object(tagged: u64) -> Option<u64> {
    (tagged & 3 == 1).then(|| tagged - 1)
}

/// A small integer, from its tagged form: the upper half.
fn small(tagged: u64) -> Option<u64> {
    (tagged & 0xffff_ffff == 0).then_some(tagged >> 32)
}

struct Heap<'a> {
    memory: &'a Memory<'a>,
    layout: &'a Layout,
}

impl Heap<'_> {
    /// The object to which a field of an object points.
    fn field(&self, of: u64, offset: u64) -> Option<u64> {
        object(self.memory.u64(of.checked_add(offset)?)?)
    }

    fn type_of(&self, at: u64) -> Option<u16> {
        let map = self.field(at, 0)?;
        self.memory.u16(map.checked_add(self.layout.map_type)?)
    }

    /// Length of a string in UTF-16 code units.
    fn length(&self, string: u64) -> Option<usize> {
        (self.type_of(string)? < self.layout.first_nonstring).then_some(())?;
        let length = self.memory.u32(string.checked_add(self.layout.string_length)?)?;
        usize::try_from(length).ok()
    }

    /// The code units of a string that is not made of other strings, at most `most`.
    fn flat(&self, string: u64, most: usize) -> Option<Vec<u16>> {
        const SEQUENTIAL: u16 = 0;
        const EXTERNAL: u16 = 2;
        const FORM: u16 = 7;
        const ONE_BYTE: u16 = 8;
        let form = self.type_of(string)?;
        let length = self.length(string)?.min(most);
        // The code units follow the map, the hash and the length. An external string has its
        // resource there, followed by a pointer to the code units.
        let letters = match form & FORM {
            SEQUENTIAL => string.checked_add(16)?,
            EXTERNAL => self.memory.u64(string.checked_add(24)?).filter(|at| *at != 0)?,
            _ => return None,
        };
        if form & ONE_BYTE != 0 {
            return Some(self.memory.bytes(letters, length)?.into_iter().map(u16::from).collect());
        }
        let bytes = self.memory.bytes(letters, 2 * length)?;
        Some(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
    }

    fn text(&self, string: u64) -> Option<String> {
        let mut letters = Vec::new();
        self.letters(string, 0, &mut letters)?;
        Some(String::from_utf16_lossy(&letters))
    }

    fn letters(&self, string: u64, depth: u32, into: &mut Vec<u16>) -> Option<()> {
        const CONS: u16 = 1;
        const THIN: u16 = 5;
        (depth < DEPTH_MAX).then_some(())?;
        self.length(string)?;
        match self.type_of(string)? & 7 {
            CONS => {
                self.letters(self.field(string, self.layout.cons_first)?, depth + 1, into)?;
                self.letters(self.field(string, self.layout.cons_second)?, depth + 1, into)
            }
            THIN => self.letters(self.field(string, self.layout.thin_actual)?, depth + 1, into),
            _ => {
                into.extend(self.flat(string, NAME_MAX.saturating_sub(into.len()))?);
                Some(())
            }
        }
    }

    /// The name of the function that a `ScopeInfo` describes, and its start in the script in code
    /// units.
    ///
    /// After the map: flags, numbers of parameters and variables; the variables' names or a table
    /// of them, information about each, a saved variable of a class; the function's name and
    /// information about it; an inferred name; start and end. From V8 13 the flags are no small integer, and
    /// start and end come behind the numbers; in a module's scope one more number follows.
    fn scope(&self, at: u64) -> Option<(String, Option<u32>)> {
        let slot = |index: u64| self.memory.u64(at.checked_add(8 + 8 * index)?);
        const TYPE: u64 = 15;
        const MODULE: u64 = 5;
        let (flags, variables) = (slot(0)?, small(slot(2)?)?);
        let begins_with_place = small(flags).is_none();
        let mut index = match (begins_with_place, flags & TYPE) {
            (false, _) => 3,
            (true, MODULE) => 6,
            (true, _) => 5,
        };
        index += if variables < NAMES_LISTED { 2 * variables } else { 1 + variables };
        if small(slot(index)?).is_some() && object(slot(index + 1)?).is_some() {
            index += 1;
        }
        let name = object(slot(index)?).and_then(|name| self.text(name));
        let mut name = name.unwrap_or_default();
        index += 2;
        if let Some(inferred) = object(slot(index)?) {
            if name.is_empty() {
                name = self.text(inferred).unwrap_or_default();
            }
            index += 1;
        }
        let place = if begins_with_place { 3 } else { index };
        let (start, end) = (small(slot(place)?), small(slot(place + 1)?));
        let start = start.zip(end).filter(|(start, end)| start <= end);
        Some((name, start.and_then(|(start, _)| u32::try_from(start).ok())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            map_type: 12,
            string_length: 12,
            cons_first: 16,
            cons_second: 24,
            thin_actual: 16,
            function_shared: 24,
            shared_name: 16,
            shared_script: 24,
            script_name: 16,
            script_source: 8,
            type_shared: 4,
            type_scope: 5,
            type_script: 6,
            first_nonstring: 128,
        }
    }

    /// Memory with words at addresses; objects are named by their tagged address.
    fn memory(words: &[(u64, u64)]) -> Memory<'_> {
        Memory::by(|page, into| {
            for (word, at) in into.chunks_exact_mut(8).zip((page..).step_by(8)) {
                let value = words.iter().find(|(address, _)| *address == at);
                word.copy_from_slice(&value.map_or(0, |(_, value)| *value).to_le_bytes());
            }
            (0x1000..0x4000).contains(&page)
        })
    }

    /// A function `f` that begins at code unit 5 of `//
    ///
    ///   f` in the file `a.js`.
    fn heap(name: u64) -> Vec<(u64, u64)> {
        let of_type = |at: u64, number: u64| (at + 8, number << 32);
        let text = |at: u64, text: &[u8; 8], length: u64| {
            [(at, 0x1041), (at + 8, length << 32), (at + 16, u64::from_le_bytes(*text))]
        };
        let mut words = vec![
            of_type(0x1000, 4),
            of_type(0x1010, 5),
            of_type(0x1020, 6),
            of_type(0x1040, 8),
            (0x1118, 0x1201),
            (0x1200, 0x1001),
            (0x1210, 0x1301),
            (0x1218, 0x1401),
            // Flags, parameters and variables; the function's name and information about it; start
            // and end.
            (0x1300, 0x1011),
            (0x1320, name),
            (0x1330, 5 << 32),
            (0x1338, 9 << 32),
            (0x1400, 0x1021),
            (0x1408, 0x1601),
            (0x1410, 0x1701),
        ];
        words.extend(text(0x1500, b"f\0\0\0\0\0\0\0", 1));
        words.extend(text(0x1600, b"//\n\n  f(", 8));
        words.extend(text(0x1700, b"a.js\0\0\0\0", 4));
        words
    }

    fn function(words: &[(u64, u64)], slots: [u64; 2]) -> Option<(String, Option<u32>)> {
        let bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        let stack = Stack { start: 0x7000, bytes: &bytes };
        let mut names = Names::default();
        let mut v8 = V8::new(layout(), 0, Rc::default());
        let id = v8.function(&memory(words), 0, stack, 0x7010, &mut names)?;
        let found = names.function(id)?;
        Some((format!("{} {}", found.name, found.file.as_ref()?), found.line))
    }

    #[test]
    fn a_function_has_its_name_its_file_and_the_line_on_which_it_begins() {
        let slots = [0x1101, 0x1a01];
        assert_eq!(function(&heap(0x1501), slots), Some(("f a.js".to_owned(), Some(3))));
        let unnamed = Some(("(anonymous) a.js".to_owned(), Some(3)));
        assert_eq!(function(&heap(0), slots), unnamed);
    }

    #[test]
    fn newer_descriptions_begin_with_the_place() {
        let place = 0x1320;
        for flags in [4, 5] {
            let mut words = heap(0);
            words.retain(|(at, _)| !(0x1308..0x1400).contains(at));
            let name = if flags == 5 { place + 0x18 } else { place + 0x10 };
            words.extend([(0x1308, flags), (place, 5 << 32), (place + 8, 9 << 32), (name, 0x1501)]);
            let found = function(&words, [0x1101, 0x1a01]);
            assert_eq!(found, Some(("f a.js".to_owned(), Some(3))), "{flags}");
        }
    }

    #[test]
    fn what_is_no_function_or_was_moved_has_no_name() {
        assert_eq!(function(&heap(0x1501), [0x1101, 12 << 32]), None, "a frame of another kind");
        assert_eq!(function(&heap(0x1501), [0x1100, 0x1a01]), None, "no object");
        let mut moved = heap(0x1501);
        moved.retain(|(at, _)| *at != 0x1200);
        assert_eq!(function(&moved, [0x1101, 0x1a01]), None, "something else is there");
        let mut without_script = heap(0x1501);
        without_script.retain(|(at, _)| *at != 0x1400);
        assert_eq!(function(&without_script, [0x1101, 0x1a01]), None, "what V8 provides");
    }

    #[test]
    fn whatever_the_memory_holds_nothing_breaks() {
        let mut found = 0;
        for seed in 0..20_000 {
            let memory = Memory::maze(seed);
            let bytes = memory.bytes(0x1000, 0x1000).unwrap();
            let stack = Stack { start: 0x1000, bytes: &bytes };
            let (mut v8, mut names) = (V8::new(layout(), 0, Rc::default()), Names::default());
            let bp = 0x1010 + seed % 400 * 8;
            found += u32::from(v8.function(&memory, 0, stack, bp, &mut names).is_some());
            let heap = Heap { memory: &memory, layout: &v8.layout };
            let _ = (heap.scope(0x1000 + seed), heap.text(0x1000 + seed * 8 % 0x4000));
        }
        assert!(found < 20_000);
    }
}
