//! Reads the kernel's clock through the vDSO's own function, found without the C library's
//! `clock_gettime`: a program may define that function itself through this library, and would call
//! itself for ever.

use core::ffi::c_int;
use core::mem::transmute;
use core::slice;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::preserving_errno;
use crate::page::TimeSpec;
use crate::system::facts::GETTIME;

/// `clock_gettime(2)` in the vDSO: returns 0 or an error number below zero.
type GetTime = unsafe extern "C" fn(c_int, *mut libc::timespec) -> c_int;

/// The vDSO has not been searched yet.
const UNKNOWN: usize = 0;
/// The vDSO has no such function: the system call is made.
const NONE: usize = 1;
/// The function's address. Threads that search at the same time find the same.
static FUNCTION: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// A clock by its number, from the kernel. Safe to call in a signal handler; leaves `errno` alone.
///
/// # Errors
///
/// The kernel's error number (above zero): `EINVAL` if there is no such clock.
#[inline]
pub fn gettime(clock: i32) -> Result<TimeSpec, i32> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type.
    match unsafe { gettime_at(clock, &raw mut time) } {
        0 => Ok(TimeSpec { sec: time.tv_sec, nsec: time.tv_nsec }),
        error => Err(-error),
    }
}

/// As [`gettime`], but writes to `time` and returns 0 or the error number below zero. An address
/// that cannot be written raises the same signal as with the C library, or gives `EFAULT`.
///
/// # Safety
///
/// `time` is valid for a write, or is meant to fault.
#[inline]
pub unsafe fn gettime_at(clock: i32, time: *mut libc::timespec) -> i32 {
    let address = match FUNCTION.load(Relaxed) {
        UNKNOWN => look_up(),
        known => known,
    };
    if address == NONE {
        return by_syscall(clock, time);
    }
    // SAFETY: the address is that of the function of this name in the image that the kernel has
    // mapped, which stays mapped.
    let function = unsafe { transmute::<usize, GetTime>(address) };
    // SAFETY: guaranteed by the caller.
    unsafe { function(clock, time) }
}

/// Reads the clock by a system call, for machines without a vDSO.
#[cold]
fn by_syscall(clock: i32, time: *mut libc::timespec) -> i32 {
    preserving_errno(|| {
        // SAFETY: the kernel checks both arguments; it writes to the address that `gettime_at` was
        // given.
        match unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } {
            0 => 0,
            // SAFETY: the C library gives the address of this thread's variable.
            _ => -unsafe { *libc::__errno_location() },
        }
    })
}

#[cold]
fn look_up() -> usize {
    let found = preserving_errno(in_memory).unwrap_or(NONE);
    FUNCTION.store(found, Relaxed);
    found
}

/// The function's address in this process.
fn in_memory() -> Option<usize> {
    // SAFETY: only reads the values that the kernel gave the process at its start.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    let base = usize::try_from(base).ok().filter(|base| *base != 0)?;
    let bytes = |len| {
        // SAFETY: the kernel has mapped an image here, which stays mapped. `len` is one page, which
        // every mapping has, or the size by the image's own segments.
        unsafe { slice::from_raw_parts(base as *const u8, len) }
    };
    let size = Image::new(bytes(4096))?.size()?;
    Image { bytes: bytes(size) }.function(GETTIME).map(|offset| base + offset)
}

/// A vDSO image in memory. No value in its bytes makes a read leave the image.
#[derive(Clone, Copy)]
struct Image<'a> {
    bytes: &'a [u8],
}

/// Segment kinds (loadable, dynamic section) and further constants: see `elf(5)`.
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const STT_FUNC: u64 = 2;
/// Bytes of a program header, an entry of the dynamic section and a symbol.
const HEADER: usize = 56;
const ENTRY: usize = 16;
const SYMBOL: usize = 24;
/// Upper limit for the entries of a table in any image.
const MANY: usize = 4096;

impl<'a> Image<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        // ELF, 64 bits, little-endian.
        bytes.starts_with(b"\x7fELF\x02\x01").then_some(Self { bytes })
    }

    /// The little-endian number of `size` bytes at offset `at`.
    fn number(&self, at: usize, size: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at.checked_add(size)?)?;
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).ok()
    }

    /// Kind, address and size in memory of each segment.
    fn segments(&self) -> impl Iterator<Item = [usize; 3]> {
        let [at, count] = [self.number(32, 8), self.number(56, 2)].map(Option::unwrap_or_default);
        (0..count).map_while(move |index| {
            let header = at.checked_add(index * HEADER)?;
            let word = |offset, size| self.number(header.checked_add(offset)?, size);
            Some([word(0, 4)?, word(16, 8)?, word(40, 8)?])
        })
    }

    fn of_kind(&self, kind: u64) -> impl Iterator<Item = [usize; 3]> {
        self.segments().filter(move |[found, ..]| *found as u64 == kind)
    }

    /// The address at which the image was linked.
    fn linked_at(&self) -> Option<usize> {
        self.of_kind(PT_LOAD).next().map(|[_, address, _]| address)
    }

    /// Size in bytes from the beginning to the end of the image.
    fn size(&self) -> Option<usize> {
        let linked_at = self.linked_at()?;
        let end = self.of_kind(PT_LOAD).filter_map(|[_, at, size]| at.checked_add(size)).max()?;
        end.checked_sub(linked_at).filter(|size| *size < 1 << 24)
    }

    /// Offset in the image of the table with this tag.
    fn table(&self, tag: u64) -> Option<usize> {
        let linked_at = self.linked_at()?;
        let [_, dynamic, _] = self.of_kind(PT_DYNAMIC).next()?;
        let dynamic = dynamic.checked_sub(linked_at)?;
        let entry = |index: usize| {
            let at = dynamic.checked_add(index * ENTRY)?;
            Some((self.number(at, 8)?, self.number(at + 8, 8)?))
        };
        let entries = (0..MANY).map_while(entry).take_while(|(tag, _)| *tag != 0);
        let mut found = entries.filter(|(found, _)| *found as u64 == tag);
        found.next()?.1.checked_sub(linked_at)
    }

    /// Number of symbols: the symbol table does not hold it.
    fn symbols(&self) -> Option<usize> {
        if let Some(table) = self.table(DT_HASH) {
            return self.number(table.checked_add(4)?, 4);
        }
        let table = self.table(DT_GNU_HASH)?;
        let word = |index: usize| self.number(table.checked_add(index.checked_mul(4)?)?, 4);
        let (buckets, first, filter) = (word(0)?, word(1)?, word(2)?);
        let first_bucket = 4 + filter.checked_mul(2)?;
        let last = (0..buckets.min(MANY)).filter_map(|index| word(first_bucket + index)).max()?;
        let chain = first_bucket + buckets;
        // The lowest bit marks the end of a chain.
        let ends = |index: &usize| word(chain + index - first).is_none_or(|hash| hash & 1 == 1);
        (last >= first).then(|| (last..last + MANY).find(ends)).flatten().map(|end| end + 1)
    }

    /// Offset in the image of the function of this name. `name` ends with a zero.
    fn function(&self, name: &[u8]) -> Option<usize> {
        let (symbols, strings) = (self.table(DT_SYMTAB)?, self.table(DT_STRTAB)?);
        (0..self.symbols()?.min(MANY)).find_map(|index| {
            let symbol = symbols.checked_add(index * SYMBOL)?;
            let at = strings.checked_add(self.number(symbol, 4)?)?;
            let has_name = self.bytes.get(at..at.checked_add(name.len())?)? == name;
            let is_function = self.number(symbol + 4, 1)? as u64 & 15 == STT_FUNC;
            let is_defined = self.number(symbol + 6, 2)? != 0;
            let address = self.number(symbol + 8, 8)?.checked_sub(self.linked_at()?)?;
            let good = has_name && is_function && is_defined && address < self.bytes.len();
            good.then_some(address)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;
    use std::vec::Vec;

    /// The images of other machines, by name.
    fn fixtures() -> Vec<(std::string::String, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vdso");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let images = files.filter(|path| path.is_file()).filter_map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().into();
            bytes.starts_with(b"\x7fELF\x02").then_some((name, bytes))
        });
        images.collect()
    }

    fn offset(bytes: &[u8], name: &[u8]) -> Option<usize> {
        Image::new(bytes)?.function(name)
    }

    // A static program of musl has no dlopen.
    #[cfg(not(target_env = "musl"))]
    #[test]
    fn the_function_is_found_in_this_process_and_is_the_kernels() {
        let libcs = {
            let name = GETTIME.as_ptr().cast();
            // SAFETY: both strings end with a zero; nothing is closed.
            unsafe { libc::dlsym(libc::dlopen(c"linux-vdso.so.1".as_ptr(), libc::RTLD_NOW), name) }
        };
        assert_eq!(in_memory(), Some(libcs as usize));
    }

    #[test]
    fn the_function_is_found_in_the_images_of_other_machines() {
        let images = fixtures();
        assert!(images.len() > 1, "{}", images.len());
        for (name, bytes) in images {
            let known = [b"__vdso_clock_gettime\0".as_slice(), b"__kernel_clock_gettime\0"]
                .into_iter()
                .filter_map(|function| offset(&bytes, function));
            assert_eq!(known.count(), 1, "{name}");
            assert_eq!(offset(&bytes, b"__vdso_clock_gettime_not\0"), None, "{name}");
        }
    }

    #[test]
    fn what_the_kernel_says_of_a_clock_that_is_none_is_its_error() {
        assert_eq!(gettime(77), Err(libc::EINVAL));
        assert_eq!(by_syscall(77, core::ptr::null_mut()), -libc::EINVAL);
        assert_eq!(by_syscall(1, core::ptr::null_mut()), -libc::EFAULT);
        assert!(gettime(libc::CLOCK_PROCESS_CPUTIME_ID).is_ok());
    }

    proptest! {
        #[test]
        fn a_damaged_image_leads_nowhere(
            which: prop::sample::Index,
            damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ) {
            let images = fixtures();
            let mut bytes = which.get(&images).1.clone();
            for (at, byte) in damages {
                // The ELF header and the tables lie in the first kilobytes.
                let place = at.index(bytes.len().min(4096));
                bytes[place] = byte;
            }
            if let Some(found) = offset(&bytes, GETTIME) {
                prop_assert!(found < bytes.len());
            }
        }
    }
}
