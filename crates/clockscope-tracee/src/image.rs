//! Prepares the built image for a session: chooses the function behind each name, keeps only the names that the
//! kernel's image has, and rewrites the hash tables. Pure.

use object::LittleEndian as LE;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERSYM, Dyn64, DynamicTag, SHN_UNDEF,
    STB_GLOBAL, STB_WEAK, STT_FUNC, Sym64,
};
use object::pod;

use super::unwind;
use clockscope_sys::tsc;
use fastclock::Nanos;
use vdso_image::layout::{
    EXPORTED, FORWARD_SIZE, FORWARDED, FUNCTIONS, Function, IMAGE_SIZE, KERNEL_OFFSET, OWN,
    PREFIXES, TARGET_KERNEL, TARGET_OURS, Target,
};
use vdso_reader::{Binding, Image};

/// The image made by the build script.
pub(crate) const BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso_image.so"));

/// Name, offset and size of each function in the image.
const ENTRIES: &[(&str, u32, u32)] = include!(concat!(env!("OUT_DIR"), "/image_entries.rs"));

/// How the functions count; the values are those of `Constants::counting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// They only jump.
    No = 0,
    /// They count in slots of threads.
    ByThread = 1,
    /// They count in slots of CPUs.
    ByCpu = 2,
}

/// The source of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The kernel's image.
    Kernel,
    /// A system call.
    Syscall,
    /// The kernel's image, from the coarse clock of the same family.
    Coarse,
    /// The kernel's image, with delayed answers to reads that ask the clocksource.
    Slow {
        /// Least duration of a read.
        read_cost: Nanos,
    },
    /// The clock page.
    Tsc {
        /// Whether the CPU may read the counter out of order.
        fast: bool,
    },
}

impl Route {
    /// Prefix of the names of the route's functions in the image.
    fn prefix(self) -> &'static str {
        match self {
            Self::Kernel => "",
            Self::Syscall => "syscall_",
            Self::Coarse => "coarse_",
            Self::Slow { .. } => "slow_",
            Self::Tsc { fast: false } if tsc::has_rdtscp() => "tscp_",
            Self::Tsc { fast: false } => "tsc_",
            Self::Tsc { fast: true } => "fast_",
        }
    }
}

/// An image ready to be installed.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The [`IMAGE_SIZE`] bytes of the ELF image.
    pub bytes: Vec<u8>,
    /// Offset of the installer.
    pub install_offset: u32,
    /// Offset of the sample probe, the instruction that sampled calls pass (`vdso-image/src/sample.rs`).
    pub sample_probe_offset: u32,
    /// Offsets of the entries behind the exported names, by function.
    pub entries: [u32; FUNCTIONS],
    /// The kernel's functions.
    pub kernel: [Target; FUNCTIONS],
    /// Jump targets of the image's entries.
    pub target: [Target; FUNCTIONS],
}

/// The built image is damaged, so that no image can be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("clockscope's vDSO image is damaged: {0}")]
pub struct Damaged(&'static str);

/// Prepares the image for the kernel's image `kernel`, whose code will be moved to `code_offset` behind
/// [`KERNEL_OFFSET`].
///
/// # Errors
///
/// [`Damaged`].
pub fn prepare(
    kernel: &Image,
    code_offset: u64,
    counting: Counting,
    route: Route,
) -> Result<Ready, Damaged> {
    let mut editor = Editor::new(BUILT)?;
    let mut entries = [0; FUNCTIONS];
    for function in EXPORTED {
        let entry = exported_entry(*function, counting, route)?;
        entries[*function as usize] = entry.0;
        for prefix in PREFIXES {
            editor.export(kernel, &format!("{prefix}{}", function.name()), entry)?;
        }
    }
    for (name, own) in OWN {
        editor.export(kernel, name, entry(own)?)?;
    }
    forward_unknown(&mut editor, kernel)?;
    editor.hash()?;
    // A C library that cannot read the kernel's image makes system calls, and a report must show that. With another
    // clock, every program gets the image's functions.
    if route == Route::Kernel {
        editor.hide_tables_that_lack_in(kernel);
    }
    let kernel_at = KERNEL_OFFSET as u64 + code_offset;
    let merged = unwind::with_kernel_functions(&editor.bytes, &kernel.bytes, kernel_at);
    let mut bytes = merged.unwrap_or(editor.bytes);
    bytes.resize(IMAGE_SIZE, 0);
    let install_offset = entry("clockscope_install")?.0;
    let sample_probe_offset = entry("clockscope_sample_probe")?.0;
    let (kernel, target) = targets(kernel, route)?;
    Ok(Ready { bytes, install_offset, sample_probe_offset, entries, kernel, target })
}

pub(crate) fn has(kernel: &Image, name: &str) -> bool {
    kernel.function(name).is_some_and(|symbol| symbol.defined)
}

/// Adds the functions that only the kernel's image has, under all their names. Each is a jump and counts nothing. The
/// kernel may recognise such a function by its address, so nothing else is changed. Functions without room are left
/// out, as on an older kernel.
fn forward_unknown(editor: &mut Editor, kernel: &Image) -> Result<(), Damaged> {
    let known = |name: &str| {
        let plain = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        EXPORTED.iter().any(|function| Some(function.name()) == plain)
            || OWN.iter().any(|(own, _)| *own == name)
    };
    let (code, _) = entry("clockscope_forward")?;
    let table = entry("clockscope_forwarded")?.0 as usize;
    let mut offsets: Vec<u32> = Vec::new();
    for symbol in kernel.functions().filter(|symbol| symbol.defined && symbol.offset != 0) {
        let Ok(offset) = u32::try_from(symbol.offset) else { continue };
        if known(&symbol.name) {
            continue;
        }
        let place = offsets.iter().position(|other| *other == offset).unwrap_or(offsets.len());
        if place == FORWARDED || !editor.has_room(&symbol.name) {
            continue;
        }
        if place == offsets.len() {
            offsets.push(offset);
            editor.put(table + 4 * place, &offset.to_le_bytes());
        }
        let number = |n: usize| u32::try_from(n).map_err(|_| Damaged("too many functions"));
        let entry = (code + number(place * FORWARD_SIZE)?, number(FORWARD_SIZE)?);
        editor.add(&symbol.name, symbol.binding == Binding::Weak, entry)?;
    }
    Ok(())
}

/// Offset and size of a function in the built image.
pub(crate) fn entry(name: &str) -> Result<(u32, u32), Damaged> {
    ENTRIES
        .iter()
        .find(|(entry, _, _)| *entry == name)
        .map(|(_, offset, size)| (*offset, *size))
        .ok_or(Damaged("a function is missing"))
}

/// The entry for an exported name: the fastest one that there is.
fn exported_entry(
    function: Function,
    counting: Counting,
    route: Route,
) -> Result<(u32, u32), Damaged> {
    let name = function.name();
    match counting {
        // The user asked for the fastest clock, so the name leads directly to the route's function.
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

/// The kernel's functions, and the jump targets of the image's entries.
fn targets(kernel: &Image, route: Route) -> Result<(Targets, Targets), Damaged> {
    let mut in_kernel = [Target::default(); FUNCTIONS];
    let mut target = in_kernel;
    let prefix = route.prefix();
    for &function in EXPORTED {
        let name = function.name();
        let mut names = PREFIXES.iter().map(|prefix| format!("{prefix}{name}"));
        let Some(symbol) = names.find_map(|name| kernel.function(&name)) else { continue };
        let offset =
            u32::try_from(symbol.offset).map_err(|_| Damaged("the kernel's image is too large"))?;
        in_kernel[function as usize] = Target { image: TARGET_KERNEL, offset };
        target[function as usize] = match entry(&format!("{prefix}{name}")) {
            Ok((offset, _)) if route != Route::Kernel => Target { image: TARGET_OURS, offset },
            _ => in_kernel[function as usize],
        };
    }
    Ok((in_kernel, target))
}

/// The built image, with its symbol table open for changes.
struct Editor {
    bytes: Vec<u8>,
    symbols: usize,
    count: usize,
    strings: usize,
    strings_size: usize,
    strings_size_at: usize,
    versions: usize,
    sysv_hash: usize,
    gnu_hash: usize,
    /// Offsets of the entries for both hash tables and the symbols in the dynamic table.
    tags_at: [usize; 3],
    /// Number of symbols, and of bytes of names, that can be added.
    room: (usize, usize),
}

/// Symbols, and bytes of names, that the linker scripts (`image-*.ld`) leave room for.
pub(crate) const ROOM: (usize, usize) = (32, 1536);

impl Editor {
    fn new(built: &[u8]) -> Result<Self, Damaged> {
        let damaged = Damaged;
        let dynamic = unwind::segments(built)
            .ok_or(damaged("no segments"))?
            .iter()
            .find(|segment| segment.p_type.get(LE) == object::elf::PT_DYNAMIC)
            .ok_or(damaged("no dynamic segment"))?;
        let number = |n: u64| usize::try_from(n).map_err(|_| damaged("no dynamic section"));
        let from = number(dynamic.p_offset.get(LE))?;
        let count = number(dynamic.p_filesz.get(LE))? / size_of::<Dyn64<LE>>();
        let bytes = built.get(from..).ok_or(damaged("no dynamic section"))?;
        let (dynamic, _) = pod::slice_from_bytes::<Dyn64<LE>>(bytes, count)
            .map_err(|()| damaged("no dynamic section"))?;
        let place = |tag: DynamicTag| {
            let place = dynamic.iter().position(|entry| entry.d_tag.get(LE) == tag);
            place.ok_or(damaged("an entry of the dynamic section is missing"))
        };
        let value = |tag: DynamicTag| -> Result<usize, Damaged> {
            usize::try_from(dynamic[place(tag)?].d_val.get(LE)).map_err(|_| damaged("a value"))
        };
        let tag_at = |tag: DynamicTag| Ok(from + place(tag)? * size_of::<Dyn64<LE>>());
        let mut editor = Self {
            bytes: built.to_vec(),
            symbols: value(DT_SYMTAB)?,
            count: 0,
            strings: value(DT_STRTAB)?,
            strings_size: value(DT_STRSZ)?,
            strings_size_at: tag_at(DT_STRSZ)? + 8,
            versions: value(DT_VERSYM)?,
            sysv_hash: value(DT_HASH)?,
            gnu_hash: value(DT_GNU_HASH)?,
            tags_at: [tag_at(DT_HASH)?, tag_at(DT_GNU_HASH)?, tag_at(DT_SYMTAB)?],
            room: ROOM,
        };
        editor.count = editor.word(editor.sysv_hash + 4)? as usize;
        Ok(editor)
    }

    fn word(&self, at: usize) -> Result<u32, Damaged> {
        let bytes = self.bytes.get(at..at + 4).ok_or(Damaged("an offset is out of range"))?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| Damaged("a word"))?))
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn symbol_at(&self, index: usize) -> usize {
        self.symbols + index * size_of::<Sym64<LE>>()
    }

    fn name(&self, index: usize) -> Result<&[u8], Damaged> {
        let at = self.strings + self.word(self.symbol_at(index))? as usize;
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().ok_or(Damaged("a name"))
    }

    fn find(&self, name: &str) -> Result<usize, Damaged> {
        let is_it = |index: &usize| self.name(*index).is_ok_and(|found| found == name.as_bytes());
        (1..self.count).find(is_it).ok_or(Damaged("a symbol is missing"))
    }

    /// Sets the entry of an exported name, or removes the name if the kernel's image does not have it.
    fn export(&mut self, kernel: &Image, name: &str, entry: (u32, u32)) -> Result<(), Damaged> {
        let symbol = self.find(name)?;
        if has(kernel, name) {
            self.define(symbol, entry);
        } else {
            self.undefine(symbol);
        }
        Ok(())
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

    fn has_room(&self, name: &str) -> bool {
        self.room.0 > 0 && self.room.1 > name.len()
    }

    /// Adds a function, with the same version as all other functions.
    fn add(&mut self, name: &str, weak: bool, entry: (u32, u32)) -> Result<(), Damaged> {
        let like = self.find(&format!("{}clock_gettime", PREFIXES[0]))?;
        let (from, to) = (self.symbol_at(like), self.symbol_at(self.count));
        let mut symbol = self.bytes[from..from + size_of::<Sym64<LE>>()].to_vec();
        let at = u32::try_from(self.strings_size).map_err(|_| Damaged("too many names"))?;
        symbol[..4].copy_from_slice(&at.to_le_bytes());
        let binding = if weak { STB_WEAK } else { STB_GLOBAL };
        symbol[4] = STT_FUNC.0 | binding.0 << 4;
        self.put(to, &symbol);
        self.put(self.strings + self.strings_size, name.as_bytes());
        let version = self.versions + 2 * like;
        let version = [self.bytes[version], self.bytes[version + 1]];
        self.put(self.versions + 2 * self.count, &version);
        self.define(self.count, entry);
        self.count += 1;
        self.strings_size += name.len() + 1;
        self.room = (self.room.0 - 1, self.room.1 - (name.len() + 1));
        let size = (self.strings_size as u64).to_le_bytes();
        self.put(self.strings_size_at, &size);
        Ok(())
    }

    /// Rewrites both hash tables, each with a single bucket and a chain of all symbols. They are no larger than the
    /// linker's tables, and correct for any names.
    fn hash(&mut self) -> Result<(), Damaged> {
        let count = u32::try_from(self.count).map_err(|_| Damaged("too many symbols"))?;
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

    /// Removes from the dynamic table each hash table that the kernel's image does not have, by a second copy of the
    /// symbol table's entry.
    fn hide_tables_that_lack_in(&mut self, kernel: &Image) {
        let [sysv, gnu, symbols] = self.tags_at;
        let entry = self.bytes[symbols..symbols + size_of::<Dyn64<LE>>()].to_vec();
        for (tag, at) in [(DT_HASH, sysv), (DT_GNU_HASH, gnu)] {
            if !kernel.dynamic.iter().any(|entry| entry.0 == tag.0) {
                self.put(at, &entry);
            }
        }
    }
}

/// The hash function of `DT_GNU_HASH`.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}
