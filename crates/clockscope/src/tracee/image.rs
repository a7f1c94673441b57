//! Makes the built image ready for a session: which function behind which name, only the names
//! that the kernel's image has, and hash tables that agree. Pure.

use std::fmt;

use object::LittleEndian as LE;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRTAB, DT_SYMTAB, Dyn64, DynamicTag, FileHeader64, ProgramHeader64,
    SHN_UNDEF, Sym64,
};
use object::pod;

use super::unwind;
use crate::sys::tsc;
use crate::vdso::Image;
use vdso_image::layout::{
    FUNCTIONS, Function, IMAGE_SIZE, KERNEL_OFFSET, SPARES, TARGET_KERNEL, TARGET_OURS, Target,
};

/// The image as the build script made it.
pub const BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso_image.so"));

/// Name, offset and size of each function in it.
const ENTRIES: &[(&str, u32, u32)] = include!(concat!(env!("OUT_DIR"), "/image_entries.rs"));

/// Which entries the exported names get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Only jump.
    No,
    /// Count in slots of threads.
    ByThread,
    /// Count in slots of CPUs.
    ByCpu,
}

/// What answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The kernel's image.
    Kernel,
    /// A system call.
    Syscall,
    /// The kernel's image, from the coarse clock of the family.
    Coarse,
    /// The clock page.
    Tsc {
        /// The CPU may read the counter out of order.
        fast: bool,
    },
}

impl Route {
    /// What the names of its functions in the image begin with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Kernel => "",
            Self::Syscall => "syscall_",
            Self::Coarse => "coarse_",
            Self::Tsc { fast: false } if tsc::has_rdtscp() => "tscp_",
            Self::Tsc { fast: false } => "tsc_",
            Self::Tsc { fast: true } => "fast_",
        }
    }
}

/// An image ready to be attached.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The bytes of the ELF image, [`IMAGE_SIZE`] of them.
    pub bytes: Vec<u8>,
    /// Offset of the installer.
    pub install_offset: u32,
    /// Offset of the instruction that sampled calls pass (`vdso-image/src/sample.rs`).
    pub door_offset: u32,
    /// Offset of the installer for a process that is running.
    pub attach_offset: u32,
    /// Offsets of the entries behind the exported names, by function.
    pub entries: [u32; FUNCTIONS],
    /// Where the kernel's functions lie.
    pub kernel: [Target; FUNCTIONS],
    /// Where our entries jump to.
    pub target: [Target; FUNCTIONS],
    /// Names of the functions that this program does not know, by spare slot, without `__vdso_`.
    pub spares: Vec<String>,
}

/// Why no image could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReady {
    /// The built image is damaged.
    Damaged(&'static str),
    /// The kernel has functions that there is no slot for.
    TooManyFunctions(Vec<String>),
    /// A name of the kernel's does not fit.
    NameTooLong(String),
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => write!(f, "clockscope's vDSO image is damaged: {what}"),
            Self::TooManyFunctions(names) => write!(
                f,
                "this kernel's vDSO has functions that clockscope does not know: {}; \
                 please report this, with the output of `clockscope vdso`",
                names.join(", ")
            ),
            Self::NameTooLong(name) => {
                write!(
                    f,
                    "this kernel's vDSO has a function with a name too long to forward: {name}"
                )
            }
        }
    }
}

impl std::error::Error for NotReady {}

/// Makes the image ready, to stand before the kernel's image `kernel`, whose code is moved to
/// `code_offset` behind [`KERNEL_OFFSET`].
///
/// # Errors
///
/// See [`NotReady`].
pub fn prepare(
    kernel: &Image,
    code_offset: u64,
    counting: Counting,
    route: Route,
) -> Result<Ready, NotReady> {
    let spares = unknown_functions(kernel)?;
    let mut editor = Editor::new(BUILT)?;
    let mut entries = [0; FUNCTIONS];
    for function in Function::ALL {
        let (built, wanted) = names(function, &spares);
        let entry = exported_entry(function, counting, route)?;
        entries[function as usize] = entry.0;
        // Both are found before either is renamed: linkers let the short name be the end of the
        // long one.
        let symbols = [editor.find(&format!("__vdso_{built}"))?, editor.find(&built)?];
        for (symbol, prefix) in symbols.into_iter().zip(["__vdso_", ""]) {
            match wanted.filter(|name| has(kernel, &format!("{prefix}{name}"))) {
                Some(_) => editor.define(symbol, entry),
                None => editor.undefine(symbol),
            }
            if let Some(name) = wanted.filter(|name| *name != built) {
                editor.rename(symbol, &format!("{prefix}{name}"))?;
            }
        }
    }
    editor.hash()?;
    let (kernel_targets, target) = targets(kernel, &spares, route)?;
    let mut bytes = editor.bytes;
    let kernel_at = KERNEL_OFFSET as u64 + code_offset;
    if let Some(merged) = unwind::with_kernel_functions(&bytes, kernel.bytes(), kernel_at) {
        bytes = merged;
    }
    bytes.resize(IMAGE_SIZE, 0);
    let install_offset = entry("clockscope_install")?.0;
    let door_offset = entry("clockscope_door")?.0;
    let attach_offset = entry("clockscope_attach")?.0;
    let kernel = kernel_targets;
    Ok(Ready { bytes, install_offset, door_offset, attach_offset, entries, kernel, target, spares })
}

/// The name that a function was built with, and the one that it gets (spares that are not needed
/// get none).
fn names(function: Function, spares: &[String]) -> (String, Option<&str>) {
    match (function as usize).checked_sub(Function::Spare0 as usize) {
        Some(spare) => {
            let built = format!("{}_with_room_for_a_name", function.name());
            (built, spares.get(spare).map(String::as_str))
        }
        None => (function.name().to_owned(), Some(function.name())),
    }
}

fn is_spare(function: Function) -> bool {
    function >= Function::Spare0
}

fn has(kernel: &Image, name: &str) -> bool {
    kernel.function(name).is_some_and(|symbol| symbol.defined)
}

/// Functions of the kernel's image that have no slot of their own.
fn unknown_functions(kernel: &Image) -> Result<Vec<String>, NotReady> {
    let known = |name: &str| Function::ALL.iter().any(|f| !is_spare(*f) && f.name() == name);
    let mut unknown: Vec<String> = Vec::new();
    for symbol in kernel.functions().filter(|symbol| symbol.defined) {
        let name = symbol.name.strip_prefix("__vdso_").unwrap_or(&symbol.name);
        if !known(name) && !unknown.iter().any(|other| other == name) {
            unknown.push(name.to_owned());
        }
    }
    if unknown.len() > SPARES { Err(NotReady::TooManyFunctions(unknown)) } else { Ok(unknown) }
}

fn entry(name: &str) -> Result<(u32, u32), NotReady> {
    ENTRIES
        .iter()
        .find(|(entry, _, _)| *entry == name)
        .map(|(_, offset, size)| (*offset, *size))
        .ok_or(NotReady::Damaged("a function is missing"))
}

/// The entry behind an exported name: the short way where there is one.
fn exported_entry(
    function: Function,
    counting: Counting,
    route: Route,
) -> Result<(u32, u32), NotReady> {
    let name = function.name();
    match counting {
        // Even the jump is saved where every nanosecond was asked for.
        Counting::No if matches!(route, Route::Tsc { .. }) => {
            let prefix = route.prefix();
            entry(&format!("{prefix}{name}")).or_else(|_| entry(&format!("direct_{name}")))
        }
        Counting::No => entry(&format!("direct_{name}")),
        Counting::ByThread => {
            entry(&format!("counted_{name}")).or_else(|_| entry(&format!("looked_up_{name}")))
        }
        Counting::ByCpu => entry(&format!("looked_up_{name}")),
    }
}

type Targets = [Target; FUNCTIONS];

/// Where the kernel's functions lie, and where our entries jump to.
fn targets(
    kernel: &Image,
    spares: &[String],
    route: Route,
) -> Result<(Targets, Targets), NotReady> {
    let mut in_kernel = [Target::default(); FUNCTIONS];
    let mut target = in_kernel;
    let prefix = route.prefix();
    for function in Function::ALL {
        let (_, Some(name)) = names(function, spares) else { continue };
        let symbol = kernel.function(&format!("__vdso_{name}")).or_else(|| kernel.function(name));
        let Some(symbol) = symbol else { continue };
        let offset = u32::try_from(symbol.offset)
            .map_err(|_| NotReady::Damaged("the kernel's image is too large"))?;
        in_kernel[function as usize] = Target { image: TARGET_KERNEL, offset };
        target[function as usize] = match entry(&format!("{prefix}{name}")) {
            Ok((offset, _)) if route != Route::Kernel => Target { image: TARGET_OURS, offset },
            _ => in_kernel[function as usize],
        };
    }
    Ok((in_kernel, target))
}

/// The built image with its symbol table open for changes.
struct Editor {
    bytes: Vec<u8>,
    symbols: usize,
    count: usize,
    strings: usize,
    sysv_hash: usize,
    gnu_hash: usize,
}

impl Editor {
    fn new(built: &[u8]) -> Result<Self, NotReady> {
        let damaged = NotReady::Damaged;
        let (header, _) =
            pod::from_bytes::<FileHeader64<LE>>(built).map_err(|()| damaged("no header"))?;
        let at = usize::try_from(header.e_phoff.get(LE)).map_err(|_| damaged("no segments"))?;
        let segments = built.get(at..).ok_or(damaged("no segments"))?;
        let (segments, _) =
            pod::slice_from_bytes::<ProgramHeader64<LE>>(segments, header.e_phnum.get(LE).into())
                .map_err(|()| damaged("no segments"))?;
        let dynamic = segments
            .iter()
            .find(|segment| segment.p_type.get(LE) == object::elf::PT_DYNAMIC)
            .ok_or(damaged("no dynamic segment"))?;
        let value = |tag: DynamicTag| -> Result<usize, NotReady> {
            let from = usize::try_from(dynamic.p_offset.get(LE)).unwrap_or(usize::MAX);
            let count =
                usize::try_from(dynamic.p_filesz.get(LE)).unwrap_or(0) / size_of::<Dyn64<LE>>();
            let bytes = built.get(from..).ok_or(damaged("no dynamic section"))?;
            let (entries, _) = pod::slice_from_bytes::<Dyn64<LE>>(bytes, count)
                .map_err(|()| damaged("no dynamic section"))?;
            entries
                .iter()
                .find(|entry| entry.d_tag.get(LE) == tag)
                .and_then(|entry| usize::try_from(entry.d_val.get(LE)).ok())
                .ok_or(damaged("an entry of the dynamic section is missing"))
        };
        let mut editor = Self {
            bytes: built.to_vec(),
            symbols: value(DT_SYMTAB)?,
            count: 0,
            strings: value(DT_STRTAB)?,
            sysv_hash: value(DT_HASH)?,
            gnu_hash: value(DT_GNU_HASH)?,
        };
        editor.count = usize::try_from(editor.word(editor.sysv_hash + 4)?).unwrap_or(0);
        Ok(editor)
    }

    fn word(&self, at: usize) -> Result<u32, NotReady> {
        let bytes =
            self.bytes.get(at..at + 4).ok_or(NotReady::Damaged("an offset is out of range"))?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| NotReady::Damaged("a word"))?))
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn symbol_at(&self, index: usize) -> usize {
        self.symbols + index * size_of::<Sym64<LE>>()
    }

    fn name_at(&self, index: usize) -> Result<usize, NotReady> {
        Ok(self.strings + self.word(self.symbol_at(index))? as usize)
    }

    fn name(&self, index: usize) -> Result<&[u8], NotReady> {
        let rest = self.bytes.get(self.name_at(index)?..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().ok_or(NotReady::Damaged("a name"))
    }

    fn find(&self, name: &str) -> Result<usize, NotReady> {
        for index in 1..self.count {
            if self.name(index)? == name.as_bytes() {
                return Ok(index);
            }
        }
        Err(NotReady::Damaged("a symbol is missing"))
    }

    fn define(&mut self, index: usize, (offset, size): (u32, u32)) {
        let at = self.symbol_at(index);
        self.put(at + 8, &u64::from(offset).to_le_bytes());
        self.put(at + 16, &u64::from(size).to_le_bytes());
    }

    fn undefine(&mut self, index: usize) {
        let at = self.symbol_at(index);
        self.put(at + 6, &SHN_UNDEF.0.to_le_bytes());
        self.put(at + 8, &[0; 16]);
    }

    fn rename(&mut self, index: usize, name: &str) -> Result<(), NotReady> {
        let room = self.name(index)?.len();
        if name.len() > room {
            return Err(NotReady::NameTooLong(name.to_owned()));
        }
        let at = self.name_at(index)?;
        self.put(at, name.as_bytes());
        self.put(at + name.len(), &vec![0; room - name.len()]);
        Ok(())
    }

    /// Writes both hash tables anew, each with a single bucket and a chain of all symbols: no
    /// larger than what the linker made, and right whatever the names are.
    fn hash(&mut self) -> Result<(), NotReady> {
        let count = u32::try_from(self.count).map_err(|_| NotReady::Damaged("too many symbols"))?;
        let mut sysv = vec![1, count, 1, 0];
        sysv.extend((1..count).map(|index| if index + 1 < count { index + 1 } else { 0 }));
        let mut gnu = vec![1, 1, 1, 0, u32::MAX, u32::MAX, 1];
        for index in 1..self.count {
            let last = u32::from(index + 1 == self.count);
            gnu.push(gnu_hash(self.name(index)?) & !1 | last);
        }
        for (at, words) in [(self.sysv_hash, sysv), (self.gnu_hash, gnu)] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.put(at, &bytes);
        }
        Ok(())
    }
}

/// The hash of `DT_GNU_HASH`.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdso::accepts;

    const KERNEL: &[u8] = include_bytes!("../../../../fixtures/vdso/x86_64-6.18.so");

    /// The kernel's image with other names for some functions, of the same length.
    fn renamed(names: &[(&str, &str)]) -> Image {
        let mut bytes = KERNEL.to_vec();
        for (old, new) in names {
            assert_eq!(old.len(), new.len());
            let places: Vec<usize> = bytes
                .windows(old.len())
                .enumerate()
                .filter(|(_, w)| *w == old.as_bytes())
                .map(|(at, _)| at)
                .collect();
            for at in places {
                bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
            }
        }
        Image::parse(&bytes).unwrap()
    }

    const ROUTES: [Route; 5] = [
        Route::Kernel,
        Route::Syscall,
        Route::Coarse,
        Route::Tsc { fast: false },
        Route::Tsc { fast: true },
    ];

    fn ready(kernel: &Image, counting: Counting, route: Route) -> Image {
        let ready = prepare(kernel, 0x6000, counting, route).unwrap();
        assert!(ready.bytes.len() <= IMAGE_SIZE);
        Image::parse(&ready.bytes).unwrap()
    }

    #[test]
    fn every_reader_accepts_every_form_of_the_image() {
        let kernel = renamed(&[]);
        for counting in [Counting::No, Counting::ByThread, Counting::ByCpu] {
            for route in ROUTES {
                for verdict in accepts::check(&ready(&kernel, counting, route)) {
                    assert!(verdict.is_accepted(), "{counting:?} {route:?}: {verdict:?}");
                }
            }
        }
    }

    #[test]
    fn it_exports_what_the_kernel_exports_and_nothing_else() {
        let kernel = renamed(&[]);
        let image = ready(&kernel, Counting::ByThread, Route::Kernel);
        let names = |image: &Image| {
            let mut names: Vec<String> =
                image.functions().filter(|s| s.defined).map(|s| s.name.clone()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&image), names(&kernel));
    }

    #[test]
    fn a_function_that_nobody_knows_is_forwarded_by_its_name() {
        let kernel = renamed(&[("getcpu", "getfoo")]);
        let ready = prepare(&kernel, 0x6000, Counting::ByThread, Route::Kernel).unwrap();
        assert_eq!(ready.spares, ["getfoo"]);
        let image = Image::parse(&ready.bytes).unwrap();
        assert!(has(&image, "__vdso_getfoo") && has(&image, "getfoo"));
        assert!(!has(&image, "__vdso_getcpu") && !has(&image, "getcpu"));
        let offset = kernel.function("__vdso_getfoo").unwrap().offset;
        assert_eq!(u64::from(ready.target[Function::Spare0 as usize].offset), offset);
        assert!(accepts::check(&image).iter().all(accepts::Verdict::is_accepted));
    }

    #[test]
    fn more_unknown_functions_than_there_is_room_for_are_declined_by_name() {
        let kernel = renamed(&[
            ("getcpu", "getfoo"),
            ("clock_getres", "clock_gotres"),
            ("getrandom", "gotrandom"),
            ("gettimeofday", "gottimeofday"),
        ]);
        let error = prepare(&kernel, 0x6000, Counting::No, Route::Kernel).unwrap_err();
        let NotReady::TooManyFunctions(names) = &error else { panic!("{error}") };
        assert_eq!(names.len(), 4);
        assert!(error.to_string().contains("gotrandom"), "{error}");
    }

    #[test]
    fn a_name_that_does_not_fit_is_declined() {
        let mut editor = Editor::new(BUILT).unwrap();
        let symbol = editor.find("__vdso_time").unwrap();
        let error = editor.rename(symbol, "__vdso_time_and_more").unwrap_err();
        assert_eq!(error, NotReady::NameTooLong("__vdso_time_and_more".to_owned()));
    }

    #[test]
    fn other_clocks_answer_from_our_image_where_they_differ() {
        let kernel = renamed(&[]);
        let ours = |route, function: Function| {
            let ready = prepare(&kernel, 0x6000, Counting::No, route).unwrap();
            ready.target[function as usize].image == TARGET_OURS
        };
        assert!(ours(Route::Syscall, Function::Time));
        assert!(!ours(Route::Coarse, Function::Time));
        assert!(ours(Route::Coarse, Function::Gettimeofday));
        assert!(!ours(Route::Kernel, Function::ClockGettime));
        assert!(!ours(Route::Syscall, Function::Getrandom));
        for route in [Route::Tsc { fast: false }, Route::Tsc { fast: true }] {
            for function in [Function::ClockGettime, Function::Gettimeofday] {
                assert!(ours(route, function));
            }
            for function in [Function::Time, Function::ClockGetres, Function::Getcpu] {
                assert!(!ours(route, function));
            }
        }
    }

    #[test]
    fn the_clock_page_is_read_without_a_jump_where_nothing_is_counted() {
        let kernel = renamed(&[]);
        let address = |counting, route| {
            ready(&kernel, counting, route).function("__vdso_clock_gettime").unwrap().offset
        };
        let ordered = if tsc::has_rdtscp() { "tscp_clock_gettime" } else { "tsc_clock_gettime" };
        for (fast, name) in [(false, ordered), (true, "fast_clock_gettime")] {
            let route = Route::Tsc { fast };
            assert_eq!(address(Counting::No, route), u64::from(entry(name).unwrap().0));
            let counted = u64::from(entry("counted_clock_gettime").unwrap().0);
            assert_eq!(address(Counting::ByThread, route), counted);
        }
    }
}
