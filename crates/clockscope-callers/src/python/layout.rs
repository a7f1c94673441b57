//! Offsets in CPython's structures, by version.

use super::super::memory::Memory;
use super::at;
use super::lines::Form;

/// Offset of an object's type.
pub(super) const OBJECT_TYPE: u64 = 8;
/// Offset of the length of a `bytes` or `str` object.
const LENGTH: u64 = 16;
/// Offset of a `bytes` object's content.
const BYTES: u64 = 32;
/// Offset of the word that holds the format of a `str` object.
const TEXT_STATE: u64 = 32;
/// Least `PyInterpreterFrame.owner` of the interpreter's own frames: `FRAME_OWNED_BY_CSTACK` of
/// 3.12 and 3.13, `FRAME_OWNED_BY_INTERPRETER` later.
const OF_INTERPRETER: u8 = 3;
/// Bits of a `_PyStackRef` that are not part of the address (`pycore_stackref.h`, 3.14); objects
/// have a larger alignment.
const TAG: u64 = 0b111;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// In the runtime: the first interpreter.
    pub(super) interpreters: u64,
    /// In an interpreter: the next, its first thread.
    pub(super) interpreter_next: u64,
    pub(super) threads: u64,
    /// In a thread: the next, its own address, its innermost frame.
    pub(super) thread_next: u64,
    pub(super) thread_id: u64,
    pub(super) thread_frame: u64,
    /// Offset of the frame in another structure to which the thread points, if there is one.
    pub(super) call_frame: Option<u64>,
    /// In a frame: its caller, its code, and its place in the code.
    pub(super) frame_previous: u64,
    frame_code: u64,
    frame_place: u64,
    /// In a frame: offset of its owner, and the least value for the interpreter's own frames.
    pub(super) frame_owner: Option<(u64, u8)>,
    /// In a code object.
    pub(super) code_name: u64,
    pub(super) code_file: u64,
    pub(super) code_lines: u64,
    pub(super) code_first_line: u64,
    /// In a code object: its instructions; a frame then holds an instruction's address. Without
    /// this offset a frame holds an instruction's number.
    code_instructions: Option<u64>,
    pub(super) lines: Form,
    /// In a `str` object: its characters, if all are ASCII.
    ascii: u64,
    /// In a `str` object: its characters otherwise.
    letters: u64,
}

const V3_9: Layout = Layout {
    interpreters: 32,
    interpreter_next: 0,
    threads: 8,
    thread_next: 8,
    thread_id: 176,
    thread_frame: 24,
    call_frame: None,
    frame_previous: 24,
    frame_code: 32,
    frame_place: 104,
    frame_owner: None,
    code_name: 112,
    code_file: 104,
    code_lines: 120,
    code_first_line: 40,
    code_instructions: None,
    lines: Form::Bytes,
    ascii: 48,
    letters: 72,
};
const V3_10: Layout = Layout { frame_place: 96, lines: Form::Ranges, ..V3_9 };
const V3_11: Layout = Layout {
    interpreters: 40,
    threads: 16,
    thread_id: 152,
    thread_frame: 56,
    call_frame: Some(8),
    frame_previous: 48,
    frame_place: 56,
    code_name: 128,
    code_file: 112,
    code_lines: 136,
    code_first_line: 72,
    code_instructions: Some(184),
    lines: Form::Locations,
    ..V3_9
};
const V3_12: Layout = Layout {
    threads: 72,
    thread_id: 136,
    call_frame: Some(0),
    frame_previous: 8,
    frame_code: 0,
    frame_owner: Some((70, OF_INTERPRETER)),
    code_first_line: 68,
    code_instructions: Some(192),
    ascii: 40,
    letters: 56,
    ..V3_11
};

/// Positions of the groups in `_Py_DebugOffsets`, in words: `pycore_runtime.h` of 3.13,
/// `pycore_debug_offsets.h` later. The fields of a group have kept their order, but some were added
/// before a thread's own address.
#[derive(Clone, Copy)]
struct Groups {
    minor: u64,
    thread: usize,
    thread_id: usize,
    frame: usize,
    code: usize,
}

const GROUPS: [Groups; 3] = [
    Groups { minor: 13, thread: 19, thread_id: 24, frame: 28, code: 34 },
    Groups { minor: 14, thread: 22, thread_id: 27, frame: 31, code: 39 },
    Groups { minor: 15, thread: 22, thread_id: 30, frame: 39, code: 47 },
];
/// Positions of words that are the same in all versions: the version, whether it is free-threaded,
/// the offset of the interpreters, and the group of an interpreter.
const VERSION: usize = 1;
const FREE_THREADED: usize = 2;
const INTERPRETERS: usize = 5;
const INTERPRETER: usize = 6;
/// Number of words that are read.
const WORDS: usize = 57;

/// First bytes of the runtime from 3.13 on.
const COOKIE: &[u8; 8] = b"xdebugpy";

impl Layout {
    /// The layout of the runtime at an address. `minor` is its minor version, if known; from 3.13
    /// on the runtime itself holds it.
    ///
    /// # Errors
    ///
    /// The reason why the layout is not known, as a clause.
    pub(super) fn of(
        memory: &Memory<'_>,
        runtime: u64,
        minor: Option<u32>,
    ) -> Result<Layout, String> {
        let start = memory.bytes(runtime, 8 * WORDS);
        let start = start.ok_or("Python's memory cannot be read")?;
        if start.starts_with(COOKIE) {
            return Layout::said(&start);
        }
        match minor {
            Some(9) => Ok(V3_9),
            Some(10) => Ok(V3_10),
            Some(11) => Ok(V3_11),
            Some(12) => Ok(V3_12),
            Some(minor) => Err(unknown(&format!("3.{minor}"))),
            None => Err(unknown("of a version that the name of its file does not say")),
        }
    }

    /// The layout that the runtime itself describes.
    fn said(start: &[u8]) -> Result<Layout, String> {
        let words: Vec<u64> = start
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let (major, minor) = (words[VERSION] >> 24, words[VERSION] >> 16 & 0xff);
        let groups = GROUPS.into_iter().find(|groups| (3, groups.minor) == (major, minor));
        let groups = groups.ok_or_else(|| unknown(&format!("{major}.{minor}")))?;
        if words[FREE_THREADED] != 0 {
            return Err(unknown(&format!("3.{minor}, free-threaded")));
        }
        let Groups { thread, thread_id, frame, code, .. } = groups;
        Ok(Layout {
            interpreters: words[INTERPRETERS],
            interpreter_next: words[INTERPRETER + 2],
            threads: words[INTERPRETER + 3],
            thread_next: words[thread + 2],
            thread_frame: words[thread + 4],
            thread_id: words[thread_id],
            call_frame: None,
            frame_previous: words[frame + 1],
            frame_code: words[frame + 2],
            frame_place: words[frame + 3],
            frame_owner: Some((words[frame + 5], OF_INTERPRETER)),
            code_file: words[code + 1],
            code_name: words[code + 3],
            code_lines: words[code + 4],
            code_first_line: words[code + 5],
            code_instructions: Some(words[code + 9]),
            ..V3_12
        })
    }

    /// The code object of a frame.
    pub(super) fn code(&self, memory: &Memory<'_>, frame: u64) -> Option<u64> {
        Some(memory.u64(at(frame, self.frame_code)?)? & !TAG)
    }

    /// The place of a frame in its code, in the unit of the table of lines.
    pub(super) fn place(&self, memory: &Memory<'_>, frame: u64, code: u64) -> Option<u64> {
        match self.code_instructions {
            Some(instructions) => {
                let pointer = memory.u64(at(frame, self.frame_place)?)?;
                let begin = at(code, instructions)?;
                // Before the first instruction the pointer lies below the instructions.
                Some(pointer.saturating_sub(begin) / 2)
            }
            None => {
                let number = memory.i32(at(frame, self.frame_place)?)?;
                let number = u64::try_from(number).unwrap_or(0);
                Some(if self.lines == Form::Ranges { 2 * number } else { number })
            }
        }
    }

    /// The text of a `str` object.
    pub(super) fn text(&self, memory: &Memory<'_>, object: u64, most: usize) -> Option<String> {
        const COMPACT: u32 = 1 << 5;
        const ASCII: u32 = 1 << 6;
        let length = usize::try_from(memory.u64(at(object, LENGTH)?)?).ok()?.min(most);
        let state = memory.u32(at(object, TEXT_STATE)?)?;
        if state & COMPACT == 0 {
            return None;
        }
        let width = usize::try_from(state >> 2 & 7).ok()?;
        if state & ASCII != 0 {
            let bytes = memory.bytes(at(object, self.ascii)?, length)?;
            return String::from_utf8(bytes).ok();
        }
        if ![1, 2, 4].contains(&width) {
            return None;
        }
        let bytes = memory.bytes(at(object, self.letters)?, length * width)?;
        let letter = |bytes: &[u8]| {
            let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
            char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Some(bytes.chunks_exact(width).map(letter).collect())
    }
}

fn unknown(version: &str) -> String {
    format!("the frames of Python {version} are not known; known are those of 3.9 to 3.15")
}

/// The content of a `bytes` object.
pub(super) fn bytes(memory: &Memory<'_>, object: u64, most: usize) -> Option<Vec<u8>> {
    let length = usize::try_from(memory.u64(at(object, LENGTH)?)?).ok()?;
    memory.bytes(at(object, BYTES)?, length.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words at `_PyRuntime` in CPython 3.13.0, 3.14.10 and 3.15.2: their indices and values.
    const SAID: [(u64, [usize; 14], [u64; 14]); 3] = [
        (
            13,
            [5, 8, 9, 21, 23, 24, 29, 31, 33, 35, 37, 38, 39, 43],
            [632, 7264, 7344, 8, 72, 152, 8, 56, 70, 112, 128, 136, 68, 200],
        ),
        (
            14,
            [5, 8, 9, 24, 26, 27, 32, 34, 36, 40, 42, 43, 44, 48],
            [808, 7272, 7344, 8, 72, 152, 8, 56, 74, 112, 128, 136, 68, 208],
        ),
        (
            15,
            [5, 8, 9, 24, 26, 30, 40, 42, 44, 48, 50, 51, 52, 56],
            [936, 7264, 7336, 8, 72, 176, 8, 56, 74, 112, 128, 136, 68, 208],
        ),
    ];

    fn said(is_free_threaded: u64, minor: u64, at: &[usize], offsets: &[u64]) -> Vec<u8> {
        let mut words = [0_u64; WORDS];
        words[0] = u64::from_le_bytes(*COOKIE);
        words[VERSION] = 3 << 24 | minor << 16;
        words[FREE_THREADED] = is_free_threaded;
        at.iter().zip(offsets).for_each(|(at, offset)| words[*at] = *offset);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn of(bytes: &[u8], minor: Option<u32>) -> Result<Layout, String> {
        let memory = Memory::by(|_, into| {
            into[..bytes.len()].copy_from_slice(bytes);
            true
        });
        Layout::of(&memory, 0x1000, minor)
    }

    #[test]
    fn a_runtime_that_says_where_things_are_is_believed() {
        for (minor, at, offsets) in SAID {
            // The version in the file's name is ignored.
            let layout = of(&said(0, minor, &at, &offsets), Some(9)).unwrap();
            let found = [
                layout.interpreters,
                layout.interpreter_next,
                layout.threads,
                layout.thread_next,
                layout.thread_frame,
                layout.thread_id,
                layout.frame_previous,
                layout.frame_place,
                layout.frame_owner.unwrap().0,
                layout.code_file,
                layout.code_name,
                layout.code_lines,
                layout.code_first_line,
                layout.code_instructions.unwrap(),
            ];
            assert_eq!(found, offsets, "3.{minor}");
        }
        for (minor, is_free_threaded, refused) in
            [(16, 0, "Python 3.16 are not"), (14, 1, "3.14, free-threaded are not")]
        {
            let clause =
                of(&said(is_free_threaded, minor, &SAID[0].1, &SAID[0].2), Some(13)).unwrap_err();
            assert!(clause.contains(refused), "{clause}");
        }
    }

    #[test]
    fn of_others_the_version_must_be_known() {
        assert_eq!(of(&[0; 8], Some(9)), Ok(V3_9));
        assert_eq!(of(&[0; 8], Some(12)), Ok(V3_12));
        assert!(of(&[0; 8], Some(8)).unwrap_err().contains("3.8 are not known"));
        assert!(of(&[0; 8], None).is_err());
    }

    #[test]
    fn text_is_read_in_all_widths() {
        let text = |state: u32, content: &[u8], at: usize, length: u64| {
            let mut bytes = vec![0; 128];
            bytes[16..24].copy_from_slice(&length.to_le_bytes());
            bytes[32..36].copy_from_slice(&state.to_le_bytes());
            bytes[at..at + content.len()].copy_from_slice(content);
            let memory = Memory::by(move |_, into| {
                into[..128].copy_from_slice(&bytes);
                true
            });
            V3_11.text(&memory, 0x1000, 100)
        };
        assert_eq!(text(0x64, b"stamp", 48, 5).as_deref(), Some("stamp"));
        assert_eq!(text(0x24, b"gr\xfc\xdf", 72, 4).as_deref(), Some("grüß"));
        assert_eq!(text(0x28, b"\xac\x20", 72, 1).as_deref(), Some("€"));
        assert_eq!(text(0x30, b"\x00\xf6\x01\x00", 72, 1).as_deref(), Some("\u{1f600}"));
        assert_eq!(text(0x44, b"stamp", 48, 5), None, "elsewhere");
        assert_eq!(text(0x2c, b"stamp", 72, 1), None, "no width");
    }
}
