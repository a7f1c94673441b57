//! The mappings of each process, and the files behind them.
//!
//! A forked process shares its parent's view of memory until one of the two maps memory. A file is
//! opened when it is first mapped, while a process that maps it lives, so deleted files and files
//! of other mount namespaces can be read. Each file is opened once, even if several processes map
//! it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::arch::lacks;
use super::frames::{ModuleId, ProgramId};
use super::hotspot::{Jvm, tables};
use super::jit::Program;
use super::memory::Memory;
use super::module_file::{self, Bytes, Elf};
use super::python::{self, Python};
use super::sample::{Mapping, MemoryEvent};
use super::source_map::SourceMaps;
use super::unwind_cfi::Frames;
use super::unwind_code::Ways;
use super::unwind_go::GoTable;
use super::v8::{self, V8};

/// Most files that are kept open; code of further files is reported as unreadable.
const FILES_MAX: usize = 512;
/// Most mappings that are kept for a process; further mappings are unknown.
const REGIONS_MAX: usize = 1 << 16;
/// The images that have no file.
const VDSO: ModuleId = ModuleId(0);
const IMAGE: ModuleId = ModuleId(1);

/// A file with code.
pub(super) struct Module {
    /// Its path in its process's view, or a name in brackets.
    pub(super) name: PathBuf,
    /// Its bytes, if the file could be opened.
    pub(super) bytes: Option<Bytes>,
    content: Option<FileContent>,
}

/// The content of a module's file.
pub(super) enum FileContent {
    /// The file could not be read.
    Unreadable,
    /// No ELF file: a runtime's own code, such as that of a `memfd`.
    Other,
    /// Code with or without frame information.
    Code(Box<CodeFile>),
}

pub(super) struct CodeFile {
    pub(super) elf: Elf,
    pub(super) frames: Option<Frames>,
    pub(super) go: Option<GoTable>,
    /// The known ways in code without tables.
    pub(super) ways: Ways,
    /// The file's V8 metadata, once looked up; `Some(None)` if V8 is not in the file.
    v8: Option<Option<V8Found>>,
}

/// V8's heap layout, if the file has all necessary constants.
pub(super) type V8Found = Option<v8::Layout>;

impl CodeFile {
    /// The file's V8 metadata. V8's built-in functions have no unwind information and keep frame
    /// pointers, as does the code that V8 makes. Node exports the metadata.
    pub(super) fn v8(&mut self) -> Option<&V8Found> {
        let find = || {
            let names = self.elf.section(".dynstr")?;
            memchr::memmem::find(&names.bytes, v8::PREFIX)?;
            let constants = self.elf.constants(v8::PREFIX);
            Some(v8::Layout::read(|name| {
                let mut found =
                    constants.iter().filter(|(own, _)| own.starts_with(name.as_bytes()));
                found.next().map(|(_, value)| *value)
            }))
        };
        self.v8.get_or_insert_with(find).as_ref()
    }
}

impl Module {
    pub(super) fn of(name: PathBuf, bytes: Option<Bytes>) -> Module {
        Module { name, bytes, content: None }
    }

    /// The code, if the file has any that can be read.
    pub(super) fn code(&mut self) -> Option<&mut CodeFile> {
        match self.content() {
            FileContent::Code(code) => Some(code),
            _ => None,
        }
    }

    /// The content, read at the first use.
    pub(super) fn content(&mut self) -> &mut FileContent {
        self.content.get_or_insert_with(|| match self.bytes.clone().map(Elf::read) {
            None => FileContent::Unreadable,
            Some(None) => FileContent::Other,
            Some(Some(elf)) => {
                let go = GoTable::read(&elf);
                let frames = Frames::read(&elf, go.is_none());
                let ways = Ways::default();
                FileContent::Code(Box::new(CodeFile { elf, frames, go, ways, v8: None }))
            }
        })
    }
}

/// The content of a part of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// A file.
    File(ModuleId),
    /// No file: only the program's own data.
    Anonymous,
    /// Memory without a program's code.
    Other,
}

/// An executable part of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset of `start` in the file.
    pub(super) offset: u64,
    pub(super) filling: Filling,
}

impl Region {
    /// Offset in the file of an address in this region.
    pub(super) fn offset_of(&self, address: u64) -> u64 {
        self.offset.wrapping_add(address - self.start)
    }
}

/// The executable parts of an address space, by their first address; they do not overlap.
#[derive(Clone, Debug, Default)]
struct Space {
    regions: BTreeMap<u64, Region>,
}

impl Space {
    fn at(&self, address: u64) -> Option<Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        (address < region.end).then_some(*region)
    }

    /// The parts that are mapped from files.
    fn files(&self) -> impl Iterator<Item = (&Region, ModuleId)> {
        self.regions.values().filter_map(|region| match region.filling {
            Filling::File(id) => Some((region, id)),
            _ => None,
        })
    }

    /// Inserts a region; the parts of other regions that it covers are removed.
    fn put(&mut self, region: Region) {
        let covered: Vec<Region> = self
            .regions
            .range(..region.end)
            .rev()
            .map(|(_, old)| *old)
            .take_while(|old| old.end > region.start)
            .collect();
        for old in covered {
            self.regions.remove(&old.start);
            if old.start < region.start {
                self.regions.insert(old.start, Region { end: region.start, ..old });
            }
            if old.end > region.end {
                let offset = old.offset_of(region.end);
                self.regions.insert(region.end, Region { start: region.end, offset, ..old });
            }
        }
        if region.start < region.end && self.regions.len() < REGIONS_MAX {
            self.regions.insert(region.start, region);
        }
    }
}

#[derive(Default)]
struct Process {
    space: Rc<Space>,
    /// Assigned at the first use.
    program: Option<ProgramId>,
    /// The program of the process that this one was forked from.
    parent: Option<ProgramId>,
    /// Mapped dump files of code made at run time.
    dumps: Vec<Rc<File>>,
    /// Address of clockscope's image: memory without a name, like other anonymous memory.
    image_at: Option<u64>,
    /// Time of the sample for which `/proc/PID/maps` was last read again, in nanoseconds.
    looked_at: Option<u64>,
    jvm: Sought<Jvm>,
    v8: Sought<V8>,
    /// A Python, or the reason why its functions cannot be read.
    python: Sought<Result<Python, String>>,
}

/// A runtime in a process, and the time of the sample of the last search, in nanoseconds.
#[derive(Clone)]
struct Sought<T> {
    found: Option<T>,
    at_ns: Option<u64>,
}

impl<T> Default for Sought<T> {
    fn default() -> Self {
        Self { found: None, at_ns: None }
    }
}

impl<T> Sought<T> {
    /// The runtime, if found. It may be loaded late, so the search is repeated after `PAUSE_NS`.
    fn or_find(&mut self, now_ns: u64, find: impl FnOnce() -> Option<T>) -> Option<&mut T> {
        const PAUSE_NS: u64 = 1_000_000_000;
        let is_due = self.at_ns.is_none_or(|then| now_ns.saturating_sub(then) >= PAUSE_NS);
        if self.found.is_none() && is_due {
            self.at_ns = Some(now_ns);
            self.found = find();
        }
        self.found.as_mut()
    }
}

/// All processes and files.
#[derive(Default)]
pub(super) struct Modules {
    pub(super) modules: Vec<Module>,
    pub(super) programs: Vec<Program>,
    by_file: HashMap<(u64, u64), ModuleId>,
    processes: HashMap<i32, Process>,
    /// Bytes of clockscope's image.
    image_size: u64,
    /// Bytes of name files of code made at run time that may still be read.
    pub(super) names_left: u64,
    source_maps: Rc<RefCell<SourceMaps>>,
}

impl Modules {
    /// Starts with the images that have no file: the kernel's vDSO and clockscope's own.
    pub(super) fn new(vdso: Vec<u8>, image: Vec<u8>) -> Modules {
        let memory =
            |name: &str, bytes: Vec<u8>| Module::of(name.into(), Some(Bytes::Memory(bytes.into())));
        Modules {
            image_size: image.len() as u64,
            modules: vec![memory("[vdso]", vdso), memory("[clockscope]", image)],
            names_left: super::jit::ALL_MAX,
            ..Modules::default()
        }
    }

    /// Takes an event in.
    pub(super) fn event(&mut self, event: &MemoryEvent) {
        match event {
            MemoryEvent::Begun { pid, mappings } => {
                self.processes.insert(*pid, Process::default());
                for mapping in mappings {
                    self.map(*pid, mapping);
                }
            }
            MemoryEvent::Mapped { pid, mapping } => self.map(*pid, mapping),
            MemoryEvent::Image { pid, at } => {
                let filling = Filling::File(IMAGE);
                let end = at.saturating_add(self.image_size);
                let Some(process) = self.processes.get_mut(pid) else { return };
                process.image_at = Some(*at);
                // If clockscope attached to the process, the image was among the first mappings.
                if let Some(region) = process.space.at(*at).filter(|region| region.start == *at) {
                    let end = region.end.min(end);
                    Rc::make_mut(&mut process.space).put(Region { end, filling, ..region });
                }
            }
            MemoryEvent::Forked { pid, parent } => {
                let Some(parent) = self.processes.get(parent) else { return };
                let process = Process {
                    parent: parent.program.or(parent.parent),
                    dumps: parent.dumps.clone(),
                    image_at: parent.image_at,
                    python: Sought { at_ns: None, ..parent.python.clone() },
                    space: Rc::clone(&parent.space),
                    ..Process::default()
                };
                self.processes.insert(*pid, process);
            }
            MemoryEvent::Ended { pid } => drop(self.processes.remove(pid)),
        }
    }

    fn map(&mut self, pid: i32, mapping: &Mapping) {
        if !self.processes.contains_key(&pid) {
            return;
        }
        let is_dump = is_dump(&mapping.name);
        let filling = if is_dump { Filling::Other } else { self.filling(pid, mapping) };
        // The kernel's image is moved behind clockscope's into the same mapping, where it has a
        // name of its own.
        let end = match filling {
            Filling::File(IMAGE) => mapping.end.min(mapping.start.saturating_add(self.image_size)),
            _ => mapping.end,
        };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if is_dump {
            process.dumps.extend(module_file::open(pid, mapping).map(Rc::new));
            process.dumps.truncate(super::jit::DUMPS_MAX);
        }
        if python::is_of_python(mapping) {
            process.python.at_ns = None;
        }
        let Mapping { start, offset, .. } = *mapping;
        Rc::make_mut(&mut process.space).put(Region { start, end, offset, filling });
    }

    fn filling(&mut self, pid: i32, mapping: &Mapping) -> Filling {
        let name = mapping.name.as_os_str().as_bytes();
        let image_at = self.processes.get(&pid).and_then(|process| process.image_at);
        match name {
            b"[vdso]" => Filling::File(VDSO),
            _ if image_at == Some(mapping.start) => Filling::File(IMAGE),
            b"" | b"[heap]" | b"[stack]" | b"//anon" => Filling::Anonymous,
            _ if name.starts_with(b"[anon") || name.starts_with(b"/anon_hugepage") => {
                Filling::Anonymous
            }
            _ if name.starts_with(b"/dev/zero") => Filling::Anonymous,
            _ if name.starts_with(b"/") && mapping.inode.1 != 0 => {
                Filling::File(self.module(pid, mapping))
            }
            _ => Filling::Other,
        }
    }

    fn module(&mut self, pid: i32, mapping: &Mapping) -> ModuleId {
        let open = || Some(Bytes::File(Rc::new(module_file::open(pid, mapping)?)));
        if let Some(id) = self.by_file.get(&mapping.inode) {
            let module = &mut self.modules[id.0];
            if module.bytes.is_none() && self.by_file.len() <= FILES_MAX {
                module.bytes = open();
                module.content = None;
            }
            return *id;
        }
        let bytes = (self.by_file.len() < FILES_MAX).then(open).flatten();
        let name = module_file::without_deleted(&mapping.name);
        self.modules.push(Module::of(name, bytes));
        let id = ModuleId(self.modules.len() - 1);
        self.by_file.insert(mapping.inode, id);
        id
    }

    /// The region at an address; `None` if no mapping is known there.
    pub(super) fn region(&self, pid: i32, address: u64) -> Option<Region> {
        self.processes.get(&pid)?.space.at(address)
    }

    /// Whether the process is known.
    pub(super) fn knows(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    pub(super) fn code(&mut self, id: ModuleId) -> Option<&mut CodeFile> {
        self.modules.get_mut(id.0)?.code()
    }

    /// Takes in mappings of `/proc/PID/maps` that are not known yet; at most once in 20 ms.
    ///
    /// Memory that was moved (`mremap`) makes no event.
    pub(super) fn look_again(&mut self, pid: i32, now_ns: u64) {
        const PAUSE_NS: u64 = 20_000_000;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.looked_at.is_some_and(|then| now_ns.saturating_sub(then) < PAUSE_NS) {
            return;
        }
        process.looked_at = Some(now_ns);
        let known = |space: &Space, mapping: &Mapping| {
            space.at(mapping.start).is_some() || space.at(mapping.end - 1).is_some()
        };
        let Ok(mappings) = mappings_of(pid) else { return };
        let fresh: Vec<_> =
            mappings.into_iter().filter(|mapping| !known(&process.space, mapping)).collect();
        for mapping in &fresh {
            self.map(pid, mapping);
        }
    }

    /// The JVM in a process.
    pub(super) fn jvm(&mut self, pid: i32, now_ns: u64, memory: &Memory<'_>) -> Option<&mut Jvm> {
        let Process { space, jvm, .. } = self.processes.get_mut(&pid)?;
        let modules = &mut self.modules;
        jvm.or_find(now_ns, || Jvm::find(memory, &jvm_symbols(space, modules)?))
    }

    /// The V8 in a process.
    pub(super) fn v8(&mut self, pid: i32, now_ns: u64) -> Option<&mut V8> {
        let Process { space, v8, .. } = self.processes.get_mut(&pid)?;
        let (modules, source_maps) = (&mut self.modules, &self.source_maps);
        v8.or_find(now_ns, || {
            let mut code =
                space.files().filter_map(|(_, id)| modules.get_mut(id.0)?.code()?.v8()?.clone());
            code.next().map(|layout| V8::new(layout, pid, Rc::clone(source_maps)))
        })
    }

    /// The Python in a process, or the reason why its functions cannot be read; `None` if no Python
    /// is known.
    pub(super) fn python(
        &mut self,
        pid: i32,
        now_ns: u64,
        memory: &Memory<'_>,
    ) -> Option<&mut Result<Python, String>> {
        let Process { space, python, .. } = self.processes.get_mut(&pid)?;
        let modules = &mut self.modules;
        python.or_find(now_ns, || {
            let (symbols, evaluation, minor) = python_symbols(space, modules)?;
            if let Some(why) = lacks::PYTHON {
                return Some(Err(why.to_owned()));
            }
            Some(Python::find(memory, symbols, evaluation, minor))
        })
    }

    /// The code that executes Python's functions in a process that has a Python whose frames can be read.
    pub(super) fn evaluation(&self, pid: i32) -> Option<&Range<u64>> {
        let python = self.processes.get(&pid)?.python.found.as_ref()?;
        python.as_ref().ok().map(|python| &python.evaluation)
    }

    /// The program that a process runs, for code made at run time.
    pub(super) fn program(&mut self, pid: i32) -> Option<ProgramId> {
        let process = self.processes.get_mut(&pid)?;
        Some(*process.program.get_or_insert_with(|| {
            let id = ProgramId(self.programs.len());
            self.programs.push(Program::seen(pid, process.parent, process.dumps.clone()));
            id
        }))
    }
}

/// The addresses of Python's variables and of its evaluation function, and its minor version by the
/// file's name.
fn python_symbols(
    space: &Space,
    modules: &mut [Module],
) -> Option<([u64; 2], Range<u64>, Option<u32>)> {
    space.files().find_map(|(region, id)| {
        let module = modules.get_mut(id.0)?;
        let name = module.name.file_name()?.to_owned();
        if !python::may_be_python(name.as_bytes()) {
            return None;
        }
        let code = module.code()?;
        let symbols = code.elf.exported(&python::SYMBOLS)?;
        let evaluation = code.elf.exported_function(python::EVALUATION)?;
        let bias = region.start.wrapping_sub(code.elf.address_of(region.offset)?);
        let there = |address: u64| address.wrapping_add(bias);
        let evaluation = there(evaluation.start)..there(evaluation.end);
        Some((symbols.map(there), evaluation, python::minor_of(name.to_str()?)))
    })
}

/// The addresses of the variables that lead to a JVM's tables.
fn jvm_symbols(space: &Space, modules: &mut [Module]) -> Option<[u64; tables::SYMBOLS.len()]> {
    let is_jvm =
        |id: ModuleId| modules.get(id.0).is_some_and(|module| module.name.ends_with("libjvm.so"));
    let (region, id) = space.files().find(|(_, id)| is_jvm(*id))?;
    let code = modules.get_mut(id.0)?.code()?;
    let bias = region.start.wrapping_sub(code.elf.address_of(region.offset)?);
    let addresses = code.elf.exported(&tables::SYMBOLS)?;
    Some(addresses.map(|address| address.wrapping_add(bias)))
}

/// Whether this is a dump of code made at run time, by perf's naming: `jit-PID.dump`.
fn is_dump(name: &Path) -> bool {
    let name = name.file_name().map_or(&b""[..], OsStr::as_bytes);
    name.strip_prefix(b"jit-")
        .and_then(|name| name.strip_suffix(b".dump"))
        .is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

/// The executable mappings of a process, as `/proc/PID/maps` lists them.
///
/// # Errors
///
/// The process has ended, or access is denied.
pub fn mappings_of(pid: i32) -> std::io::Result<Vec<Mapping>> {
    let bytes = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(bytes.split(|byte| *byte == b'\n').filter_map(executable).collect())
}

/// A line `start-end perms offset device inode name`; `None` if the mapping is not executable.
fn executable(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let from = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[from..].iter().position(|byte| *byte == b' ');
        let end = end.map_or(rest.len(), |length| from + length);
        let word = std::str::from_utf8(&rest[from..end]).ok()?;
        rest = &rest[end..];
        Some(word)
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let is_code = word()?.as_bytes().get(2) == Some(&b'x');
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    let device = hex(major)? << 32 | hex(minor)?;
    let mapping = Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        name: OsStr::from_bytes(rest.trim_ascii_start()).into(),
        inode: (device, inode),
    };
    (is_code && mapping.start < mapping.end).then_some(mapping)
}
