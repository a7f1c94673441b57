//! Python's frames, from CPython's data structures in the heap.
//!
//! The frames change with every instruction, so the thread must wait while they are read
//! (`Threads::hold_one_in` in `vdso-image`). The data is checked: the thread by the address that
//! `pthread_self(3)` returns in it, each frame by the type of its code object.
//!
//! # References
//!
//! CPython 3.9 to 3.12: the offsets are the results of `offsetof` with each version's own headers
//! (`pycore_runtime.h`, `pycore_interp.h`, `pycore_frame.h`); the fields have not moved within a
//! minor version. From 3.13 on `_Py_DebugOffsets` (`pycore_runtime.h`; `pycore_debug_offsets.h`
//! from 3.14 on) holds the offsets.

mod layout;
mod lines;

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use super::managed::{Function, ManagedId, Names, Remembered};
use super::memory::Memory;
use super::sample::Mapping;
use layout::Layout;

/// Most frames of a thread.
const FRAMES_MAX: usize = 512;
/// Most threads and interpreters that are searched.
const THREADS_MAX: usize = 10_000;
/// Most bytes of a name, and of a table of lines.
const NAME_MAX: usize = 512;
const TABLE_MAX: usize = 1 << 16;
/// Most places in code objects that are kept.
const KNOWN_MAX: usize = 20_000;

/// The variables from which all data structures are found.
pub(super) const SYMBOLS: [&str; 2] = ["_PyRuntime", "PyCode_Type"];
/// The function that executes Python's functions.
pub(super) const EVALUATION: &str = "_PyEval_EvalFrameDefault";

/// The frames of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    /// The innermost first.
    pub(super) functions: Vec<ManagedId>,
    /// Whether the last frame is the thread's first.
    pub(super) is_whole: bool,
    /// Address of the innermost frame of the interpreter's own: from 3.12 on it is a variable of
    /// the function that executes Python's functions, which may be inlined into another function.
    pub(super) entry: Option<u64>,
}

/// A CPython in a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Python {
    layout: Layout,
    runtime: u64,
    code_type: u64,
    /// Addresses of the function that executes Python's functions.
    pub(super) evaluation: std::ops::Range<u64>,
    /// The address of each thread's state when it was found last, by the thread's own address.
    threads: HashMap<u64, u64>,
    known: HashMap<(Code, u64), ManagedId>,
    remembered: Remembered,
}

/// Identifies a code object: a later object at the same address differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code {
    at: u64,
    name: u64,
    file: u64,
    table: u64,
    first_line: i32,
}

impl Python {
    /// The Python of a process from the addresses of [`SYMBOLS`] and of [`EVALUATION`] in it.
    /// `minor` is the minor version from the name of its file, if known.
    ///
    /// # Errors
    ///
    /// The reason why Python cannot be read, as a clause.
    pub(super) fn find(
        memory: &Memory<'_>,
        [runtime, code_type]: [u64; 2],
        evaluation: std::ops::Range<u64>,
        minor: Option<u32>,
    ) -> Result<Python, String> {
        let layout = Layout::of(memory, runtime, minor)?;
        Ok(Python { layout, runtime, code_type, evaluation, ..Python::default() })
    }

    /// The frames of the thread with this `pthread_self`; `None` if Python does not know the
    /// thread, or a read fails.
    pub(super) fn frames(
        &mut self,
        memory: &Memory<'_>,
        time_ns: u64,
        thread: u64,
        names: &mut Names,
    ) -> Option<Frames> {
        if self.remembered.is_stale(time_ns) || self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        let state = self.thread(memory, thread)?;
        let mut frame = memory.u64(at(state, self.layout.thread_frame)?)?;
        if let Some(within) = self.layout.call_frame {
            frame = memory.u64(at(frame, within)?)?;
        }
        let mut functions = Vec::new();
        let mut entry = None;
        // The interpreter's own frames stand between those of functions.
        for _ in 0..2 * FRAMES_MAX {
            if frame == 0 {
                return Some(Frames { functions, is_whole: true, entry });
            }
            if functions.len() >= FRAMES_MAX {
                break;
            }
            let caller = memory.u64(at(frame, self.layout.frame_previous)?)?;
            if self.is_of_interpreter(memory, frame)? {
                entry = entry.or(Some(frame));
            } else {
                functions.push(self.function(memory, frame, names)?);
            }
            frame = caller;
        }
        Some(Frames { functions, is_whole: false, entry })
    }

    /// The address of a thread's state.
    fn thread(&mut self, memory: &Memory<'_>, thread: u64) -> Option<u64> {
        let layout = &self.layout;
        let is_it = |state: u64| {
            Some(memory.u64(at(state, layout.thread_id)?)? == thread).filter(|is_it| *is_it)
        };
        if let Some(state) = self.threads.get(&thread).filter(|state| is_it(**state).is_some()) {
            return Some(*state);
        }
        self.threads.remove(&thread);
        let mut interpreter = memory.u64(at(self.runtime, layout.interpreters)?)?;
        let mut left = THREADS_MAX;
        while interpreter != 0 {
            let mut state = memory.u64(at(interpreter, layout.threads)?)?;
            while state != 0 {
                if is_it(state).is_some() {
                    self.threads.insert(thread, state);
                    return Some(state);
                }
                left = left.checked_sub(1)?;
                state = memory.u64(at(state, layout.thread_next)?)?;
            }
            left = left.checked_sub(1)?;
            interpreter = memory.u64(at(interpreter, layout.interpreter_next)?)?;
        }
        None
    }

    fn is_of_interpreter(&self, memory: &Memory<'_>, frame: u64) -> Option<bool> {
        let Some((owner, of_interpreter)) = self.layout.frame_owner else { return Some(false) };
        Some(memory.u8(at(frame, owner)?)? >= of_interpreter)
    }

    fn function(
        &mut self,
        memory: &Memory<'_>,
        frame: u64,
        names: &mut Names,
    ) -> Option<ManagedId> {
        let layout = &self.layout;
        let code = layout.code(memory, frame)?;
        (memory.u64(at(code, layout::OBJECT_TYPE)?)? == self.code_type).then_some(())?;
        let pointer = |offset: u64| memory.u64(at(code, offset)?);
        let place = layout.place(memory, frame, code)?;
        let code = Code {
            at: code,
            name: pointer(layout.code_name)?,
            file: pointer(layout.code_file)?,
            table: pointer(layout.code_lines)?,
            first_line: memory.i32(at(code, layout.code_first_line)?)?,
        };
        if let Some(known) = self.known.get(&(code, place)) {
            return Some(*known);
        }
        let table = layout::bytes(memory, code.table, TABLE_MAX)?;
        let line = lines::line(layout.lines, &table, code.first_line, place);
        let name = layout.text(memory, code.name, NAME_MAX)?;
        let file = layout.text(memory, code.file, NAME_MAX)?;
        let id = names.id(Function {
            name: name.as_str().into(),
            module: "[python]",
            file: (!file.is_empty()).then(|| file.as_str().into()),
            line: line.and_then(|line| u32::try_from(line).ok()),
            is_inlined: false,
        });
        self.known.insert((code, place), id);
        Some(id)
    }
}

/// The minor version in the name of a file: `libpython3.11.so.1.0`, `python3.9`.
pub(super) fn minor_of(file_name: &str) -> Option<u32> {
    let (_, version) = file_name.rsplit_once("python3.")?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Whether the name of a mapped file contains "python": the file may be Python, or be mapped
/// because Python is.
pub fn is_of_python(mapping: &Mapping) -> bool {
    mapping.name.file_name().is_some_and(|name| may_be_python(name.as_bytes()))
}

/// Whether a file name contains "python".
pub(super) fn may_be_python(file_name: &[u8]) -> bool {
    memchr::memmem::find(&file_name.to_ascii_lowercase(), b"python").is_some()
}

/// The address of a field.
fn at(object: u64, offset: u64) -> Option<u64> {
    (object != 0).then(|| object.checked_add(offset)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_names() {
        for (name, minor) in [
            ("libpython3.11.so.1.0", Some(11)),
            ("python3.9", Some(9)),
            ("libpython3.13t.so.1.0", Some(13)),
            ("python", None),
            ("python3", None),
            ("libpython3.so", None),
        ] {
            assert_eq!(minor_of(name), minor, "{name}");
        }
        assert!(may_be_python(b"/opt/Python/bin/app") && !may_be_python(b"/usr/bin/ruby"));
    }

    #[test]
    fn whatever_the_memory_holds_nothing_breaks() {
        let mut looked_at = 0;
        for seed in 0..20_000 {
            let memory = Memory::maze(seed);
            let minor = 9 + u32::try_from(seed % 4).unwrap();
            let mut names = Names::default();
            let thread = memory.u64(0x1000 + seed % 4096 * 8).unwrap();
            let python = Python::find(&memory, [0x1000, thread], 0..0, Some(minor));
            let Ok(mut python) = python else { continue };
            let _ = python.frames(&memory, 0, thread, &mut names);
            let frame = 0x1000 + seed % 4000 * 8;
            // Makes the type check succeed.
            let code = python.layout.code(&memory, frame);
            if let Some(kind) = code.and_then(|code| memory.u64(at(code, layout::OBJECT_TYPE)?)) {
                python.code_type = kind;
                let _ = python.function(&memory, frame, &mut names);
                looked_at += 1;
            }
        }
        assert!(looked_at > 1_000, "{looked_at}");
    }
}
