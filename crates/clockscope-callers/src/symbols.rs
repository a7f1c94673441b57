//! Names for frames.
//!
//! Names come from symbol tables, DWARF (with inlined functions and lines), separate files of
//! debugging information, packed symbol tables in stripped files, and runtimes' data about the code
//! that they make. If no source has a name, there is no name.

use clockscope_text::foreign::Foreign;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::rc::Rc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};

use super::debuginfod::{self, Servers};
pub use super::demangle::demangled;
use super::frames::{FrameAddress, ModuleId};
use super::managed::Function;
use super::mini_debug::{self, Functions};
use super::module_file::{self, Bytes};
use super::modules::Module;
use super::stripped;
use super::unwind::Unwinder;
use clockscope_model::callers::{FrameKind, FrameRow};

/// Finds names, and caches them.
pub struct Symbols {
    symbolizer: Symbolizer,
    /// Open files by module: the symbolizer gets the paths of their file descriptors.
    files: HashMap<ModuleId, Option<Rc<File>>>,
    /// Functions of stripped files from their packed sections.
    packed: HashMap<ModuleId, Option<Functions>>,
    /// Bytes that may still be unpacked.
    unpack_left: u64,
    found: HashMap<FrameAddress, Vec<FrameRow>>,
}

impl Default for Symbols {
    fn default() -> Symbols {
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(false)
            .build();
        Symbols {
            symbolizer,
            files: HashMap::new(),
            packed: HashMap::new(),
            unpack_left: mini_debug::ALL_MAX,
            found: HashMap::new(),
        }
    }
}

impl Symbols {
    /// The functions at a frame: inlined functions first, starting with the innermost; the last is
    /// the function that contains the code. At least one.
    pub fn names(&mut self, unwinder: &mut Unwinder, frame: FrameAddress) -> Vec<FrameRow> {
        if let Some(names) = self.found.get(&frame) {
            return names.clone();
        }
        let names = match frame {
            FrameAddress::Code { module, at } if unwinder.is_signal_frame(module, at) => {
                // No call stands before this code, so the thread goes on at its first instruction.
                let mut names = self.of_code(unwinder, module, at.wrapping_add(1));
                names.iter_mut().for_each(|name| name.kind = FrameKind::Signal);
                names
            }
            FrameAddress::Code { module, at } => self.of_code(unwinder, module, at),
            FrameAddress::RunTime { program, at } => vec![FrameRow {
                function: unwinder.run_time_name(program, at),
                module: Some("[jit]".into()),
                kind: FrameKind::Jit,
                ..FrameRow::default()
            }],
            FrameAddress::Managed(id) => {
                vec![unwinder.managed(id).map_or_else(unknown, managed)]
            }
            FrameAddress::Unknown { .. } => vec![unknown()],
        };
        // Code made at run time may get its name later.
        let is_named = names.iter().any(|name| name.function.is_some());
        if is_named || !matches!(frame, FrameAddress::RunTime { .. }) {
            self.found.insert(frame, names.clone());
        }
        names
    }

    /// Looks up names for later calls of [`Symbols::names`], where looking up many at once is
    /// cheaper. `keep` as for `Unwinder::look_up`.
    pub fn prepare(
        &self,
        unwinder: &mut Unwinder,
        frames: impl IntoIterator<Item = FrameAddress>,
        keep: u64,
    ) {
        let unknown = frames.into_iter().filter(|frame| !self.found.contains_key(frame));
        unwinder.look_up(unknown, keep);
    }

    /// The reasons why functions passed to [`Symbols::names`] have no names, and remedies: a
    /// sentence for each of the files with most such functions in `frames`. Servers that the user
    /// has named in `DEBUGINFOD_URLS` are asked first; later calls of `names` use their answers.
    pub fn stripped(
        &mut self,
        unwinder: &mut Unwinder,
        frames: impl Iterator<Item = FrameAddress> + Clone,
    ) -> Vec<String> {
        let servers = Servers::here();
        let mut unnamed = self.unnamed(frames.clone());
        if let Servers::By(client) = &servers {
            for id in &unnamed {
                let bytes = unwinder.module(*id).and_then(|module| module.bytes.clone());
                if let Some(file) = bytes.and_then(|bytes| debuginfod::find(client, bytes)) {
                    self.files.insert(*id, Some(Rc::new(file)));
                    let is_of = |frame: &FrameAddress| matches!(frame, FrameAddress::Code { module, .. } if module == id);
                    self.found.retain(|frame, _| !is_of(frame));
                }
            }
            for frame in frames.clone() {
                self.names(unwinder, frame);
            }
            unnamed = self.unnamed(frames);
        }
        let modules = unnamed.iter().filter_map(|id| unwinder.module(*id));
        modules.map(|module| stripped::advice(module, &servers)).collect()
    }

    /// The files with most unnamed functions in `frames`.
    fn unnamed(&self, frames: impl Iterator<Item = FrameAddress>) -> Vec<ModuleId> {
        const FILES: usize = 3;
        let mut files: HashMap<ModuleId, usize> = HashMap::new();
        for frame in frames {
            let names = self.found.get(&frame).into_iter().flatten();
            let is_unnamed = names.filter(|name| name.kind == FrameKind::Native).any(|name| {
                let is_image = |file: &Foreign| file.verbatim().starts_with('[');
                name.function.is_none() && !name.module.as_ref().is_some_and(is_image)
            });
            if let (FrameAddress::Code { module, .. }, true) = (frame, is_unnamed) {
                *files.entry(module).or_default() += 1;
            }
        }
        let mut files: Vec<(ModuleId, usize)> = files.into_iter().collect();
        files.sort_unstable_by_key(|(module, frames)| (usize::MAX - frames, *module));
        files.into_iter().take(FILES).map(|(id, _)| id).collect()
    }

    fn of_code(&mut self, unwinder: &mut Unwinder, id: ModuleId, at: u64) -> Vec<FrameRow> {
        let module_name = unwinder.module_name(id);
        let base = FrameRow { module: module_name, address: at, ..FrameRow::default() };
        let file =
            self.files.entry(id).or_insert_with(|| unwinder.module(id).and_then(readable)).clone();
        let Some(file) = file else { return vec![base] };
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let source = Source::Elf(Elf::new(path));
        let symbol = self
            .symbolizer
            .symbolize_single(&source, Input::VirtOffset(at))
            .ok()
            .and_then(|found| found.into_sym())
            .filter(covers);
        if let Some(symbol) = symbol {
            return functions(&symbol, &base);
        }
        let packed = self.packed_name(unwinder, id, at);
        let function = packed.or_else(|| unwinder.go_name(id, at));
        let start = if function.is_none() { unwinder.function_start(id, at) } else { None };
        vec![FrameRow { function, start, ..base }]
    }

    /// The function's name in a packed section of the file.
    fn packed_name(&mut self, unwinder: &Unwinder, id: ModuleId, at: u64) -> Option<Foreign> {
        let left = &mut self.unpack_left;
        let read = || {
            let elf = module_file::Elf::read(unwinder.module(id)?.bytes.clone()?)?;
            Functions::read(&elf, left)
        };
        self.packed.entry(id).or_insert_with(read).as_ref()?.at(at)
    }
}

/// An address without any information.
fn unknown() -> FrameRow {
    FrameRow { kind: FrameKind::Unknown, ..FrameRow::default() }
}

fn managed(function: &Function) -> FrameRow {
    FrameRow {
        function: Some(function.name.clone()),
        module: Some(function.module.into()),
        file: function.file.clone(),
        line: function.line,
        kind: if function.is_inlined { FrameKind::Inlined } else { FrameKind::Jit },
        ..FrameRow::default()
    }
}

/// Whether the address lies in the symbol and not behind it.
fn covers(symbol: &Sym<'_>) -> bool {
    symbol.size.is_none_or(|size| symbol.offset < size)
}

/// A file of the module's bytes.
fn readable(module: &Module) -> Option<Rc<File>> {
    match module.bytes.as_ref()? {
        Bytes::File(file) => Some(Rc::clone(file)),
        Bytes::Memory(bytes) => {
            let mut file = tempfile::tempfile().ok()?;
            file.write_all(bytes).ok()?;
            Some(Rc::new(file))
        }
    }
}

/// The functions of a symbol: inlined ones, innermost first, then the function itself.
///
/// The source place of each function is the executing line inside that function.
fn functions(symbol: &Sym<'_>, base: &FrameRow) -> Vec<FrameRow> {
    let place = |info: Option<&CodeInfo<'_>>| {
        let file = info.map(|info| Foreign::from(info.to_path().as_ref()));
        (file, info.and_then(|info| info.line))
    };
    let (file, line) = place(symbol.code_info.as_deref());
    let mut names =
        vec![FrameRow { function: Some(demangled(&symbol.name)), file, line, ..base.clone() }];
    for inlined in &symbol.inlined {
        let (file, line) = place(inlined.code_info.as_ref());
        let function = Some(demangled(&inlined.name));
        names.push(FrameRow { function, file, line, kind: FrameKind::Inlined, ..base.clone() });
    }
    names.reverse();
    names
}
