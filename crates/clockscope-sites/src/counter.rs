//! Finds the instructions of a file that read the CPU's counter: neither the vDSO nor the kernel sees these reads.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use object::elf::{EM_AARCH64, EM_X86_64, PF_X, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _};

use crate::elf::{self, Code, damaged};
use crate::flow::Functions;
use crate::site::Segment;

type Header = object::elf::FileHeader64<Endianness>;

/// Bytes of code that are read at once.
const CHUNK: usize = 1 << 20;
/// Bytes of the longest instruction.
const LONGEST: usize = 4;
/// Limits for a file made to use up memory, in bytes: all tables, one function. Those of programs are far smaller.
const TABLES_MAX: u64 = 128 << 20;
const FUNCTION_MAX: u64 = 256 << 10;
/// By chance a gigabyte has some 16,000.
const PLACES_MAX: usize = 1 << 20;

/// Addresses of the instructions that read the counter, in the file's own numbers and ascending order: `rdtsc` and
/// `rdtscp` on x86-64, `mrs` of `CNTVCT_EL0` and `CNTVCTSS_EL0` on arm64. Large files have the bytes of `rdtsc` by
/// chance, so on x86-64 only instructions that are reached from the begin of a function count, and outside of known
/// functions those whose halves are joined at once. Of a file of this length, tables and a few functions are held in
/// memory, but not the code.
///
/// # Errors
///
/// Those of reading, and `InvalidData` for a file that is damaged or larger than a program, or no ELF file for one of the
/// two.
pub fn counter_reads(file: &File, length: u64) -> io::Result<Vec<u64>> {
    let cache = ReadCache::new(file);
    let (machine, segments) = executed(&cache).map_err(|_| damaged())?;
    let tables = elf::parts(&cache, false).map_err(|_| damaged())?;
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0_u64, u64::saturating_add);
    if sum(&mut tables.iter().map(|(_, size)| *size)) > TABLES_MAX
        || sum(&mut segments.iter().map(|segment| segment.size)) > length
    {
        return Err(damaged());
    }
    let find: fn(u64, &[u8]) -> Vec<u64> = match machine {
        EM_X86_64 => patterns,
        EM_AARCH64 => words,
        _ => return Err(damaged()),
    };
    let mut found = Vec::new();
    for segment in segments {
        found.extend(scan(file, &segment, find)?);
    }
    if machine == EM_X86_64 && !found.is_empty() {
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| damaged())?];
        elf::read_into(&mut bytes, file, tables)?;
        let code = elf::read(&bytes).map_err(|_| damaged())?;
        let functions = Functions::new(&[], &code, &[]);
        let (mut around, mut nameless) = (BTreeSet::new(), Vec::new());
        found.retain(|address| {
            let with = functions.with(*address);
            if with.is_empty() {
                nameless.extend(is_joined(file, &code, *address).then_some(*address));
                return false;
            }
            let is_short =
                with.iter().all(|function| function.limit - function.start <= FUNCTION_MAX);
            around.extend(with.into_iter().filter(|_| is_short));
            is_short
        });
        let ranges =
            around.iter().filter_map(|function| code.place(&(function.start..function.limit)));
        elf::read_into(&mut bytes, file, ranges.collect())?;
        // What is known of a function is not kept: a file may have many.
        found.retain(|address| Functions::new(&bytes, &code, &[]).is_instruction(*address));
        found.extend(nameless);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The file's machine and its executable segments.
fn executed(file: &ReadCache<&File>) -> object::read::Result<(object::elf::Machine, Vec<Segment>)> {
    let header = Header::parse(file)?;
    let endian = header.endian()?;
    let programs = header.program_headers(endian, file)?.iter();
    let programs = programs.filter(|program| {
        program.p_type(endian) == PT_LOAD && program.p_flags(endian).0 & PF_X.0 != 0
    });
    let segments = programs.map(|program| {
        let (offset, size) = program.file_range(endian);
        Segment { address: program.p_vaddr(endian), offset, size }
    });
    Ok((header.e_machine(endian), segments.collect()))
}

/// Looks at a segment piece by piece. Pieces overlap, so that no instruction is missed; some are found twice.
fn scan(
    file: &File,
    segment: &Segment,
    find: impl Fn(u64, &[u8]) -> Vec<u64>,
) -> io::Result<Vec<u64>> {
    let (mut found, mut done, mut buffer) = (Vec::new(), 0, vec![0; CHUNK + LONGEST]);
    while done < segment.size {
        let size = usize::try_from(segment.size - done).unwrap_or(usize::MAX).min(buffer.len());
        file.read_exact_at(&mut buffer[..size], segment.offset + done)?;
        found.extend(find(segment.address.wrapping_add(done), &buffer[..size]));
        if found.len() > PLACES_MAX {
            return Err(damaged());
        }
        done += CHUNK as u64;
    }
    Ok(found)
}

/// `rdtscp` and `shl $32,%rdx` have so many bytes.
const JOINED_IN: usize = 7;

/// The bytes by which [`joins`] judges a read.
pub(crate) fn joined_at(read: u64) -> Range<u64> {
    read..read.saturating_add(JOINED_IN as u64)
}

/// Whether the read at the begin of these bytes is followed by `shl $32,%rdx`, the first instruction of joining the
/// counter's halves. Six bytes are not met by chance; any further away, code has that instruction for other reasons.
pub(crate) fn joins(code: &[u8]) -> bool {
    let behind = code.strip_prefix(RDTSC).or_else(|| code.strip_prefix(RDTSCP));
    behind.is_some_and(|code| code.starts_with(&[0x48, 0xc1, 0xe2, 0x20]))
}

fn is_joined(file: &File, code: &Code, read: u64) -> bool {
    code.place(&joined_at(read)).is_some_and(|(at, size)| {
        let mut bytes = [0; JOINED_IN];
        let bytes = &mut bytes[..usize::try_from(size).unwrap_or_default()];
        file.read_exact_at(bytes, at).is_ok() && joins(bytes)
    })
}

/// Intel SDM, volume 2.
const RDTSC: &[u8] = &[0x0f, 0x31];
const RDTSCP: &[u8] = &[0x0f, 0x01, 0xf9];

/// Where `rdtsc` and `rdtscp` may stand.
pub(crate) fn patterns(address: u64, code: &[u8]) -> Vec<u64> {
    let plain = memchr::memmem::find_iter(code, RDTSC);
    let ordered = memchr::memmem::find_iter(code, RDTSCP);
    plain.chain(ordered).map(|at| address.wrapping_add(at as u64)).collect()
}

/// Where `mrs` reads `CNTVCT_EL0` or `CNTVCTSS_EL0` (Arm Architecture Reference Manual, DDI 0487, D24.11). Data among
/// the code equal one of these words by chance in one of 2^26 words.
fn words(address: u64, code: &[u8]) -> Vec<u64> {
    let all = code.chunks_exact(4).enumerate();
    let is_read = |word: &[u8]| {
        let word = word.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        matches!(word & !0x1f, 0xd53b_e040 | 0xd53b_e0c0)
    };
    let all = all.filter(|(_, word)| is_read(word));
    all.map(|(index, _)| address.wrapping_add(index as u64 * 4)).collect()
}

/// The names of the functions that contain these addresses, which are in ascending order; `None` without a symbol.
pub fn functions_at(file: &File, addresses: &[u64]) -> Vec<Option<String>> {
    let cache = ReadCache::new(file);
    let mut names: Vec<Option<String>> = vec![None; addresses.len()];
    let Ok(file) = object::File::parse(&cache) else { return names };
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let (start, end) = (symbol.address(), symbol.address().saturating_add(symbol.size()));
        let first = addresses.partition_point(|address| *address < start);
        let behind = addresses.partition_point(|address| *address < end);
        for name in names.get_mut(first..behind).unwrap_or_default() {
            *name = name.take().or_else(|| symbol.name().ok().map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn instructions_are_found_across_pieces_and_at_the_end() {
        let mut content = vec![0; 2 * CHUNK + 7];
        let (ordered, plain) = ([0x0f, 0x01, 0xf9], [0x0f, 0x31]);
        let ordered_at = [0, CHUNK - 2, 2 * CHUNK - 1];
        let plain_at = [CHUNK + 8, 2 * CHUNK + 5];
        ordered_at.iter().for_each(|at| content[*at..at + 3].copy_from_slice(&ordered));
        plain_at.iter().for_each(|at| content[*at..at + 2].copy_from_slice(&plain));
        let segment = Segment { address: 0x1000, offset: 0, size: content.len() as u64 };
        let mut found = scan(&file(&content), &segment, patterns).unwrap();
        found.sort_unstable();
        found.dedup();
        let mut all: Vec<u64> =
            ordered_at.iter().chain(&plain_at).map(|at| *at as u64 + 0x1000).collect();
        all.sort_unstable();
        assert_eq!(found, all);
    }

    #[test]
    fn only_the_counters_registers_are_reads_on_arm64() {
        // mrs x1, cntvct_el0; mrs x30, cntvctss_el0; mrs x0, cntfrq_el0; mrs x0, tpidr_el0
        let code = [0xd53b_e041_u32, 0xd53b_e0de, 0xd53b_e000, 0xd53b_d040];
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(words(0x400, &bytes), [0x400, 0x404]);
    }

    const KERNELS: [&[u8]; 2] = [
        include_bytes!("../../../fixtures/vdso/x86_64-6.18.so"),
        include_bytes!("../../../fixtures/vdso/aarch64-5.10.so"),
    ];

    #[test]
    fn reads_of_files_for_both_architectures_are_found_and_named() {
        for (kernel, name) in KERNELS.iter().zip(["__vdso_gettimeofday", "__kernel_clock_gettime"])
        {
            let file = file(kernel);
            let found = counter_reads(&file, kernel.len() as u64).unwrap();
            assert!(!found.is_empty());
            let functions = functions_at(&file, &found);
            assert!(
                functions.iter().any(|function| function.as_deref() == Some(name)),
                "{functions:?}"
            );
        }
    }

    #[test]
    fn a_file_with_too_many_places_is_no_program() {
        let content = [0x0f, 0x31].repeat(PLACES_MAX + CHUNK);
        let segment = Segment { address: 0, offset: 0, size: content.len() as u64 };
        assert_eq!(scan(&file(&content), &segment, patterns).unwrap_err().kind(), damaged().kind());
    }

    #[test]
    fn damaged_files_do_no_harm() {
        for kernel in KERNELS {
            let length = kernel.len() as u64;
            let whole = counter_reads(&file(kernel), length).unwrap();
            // Each word of the file's header and of its program headers, and of the sections' headers at the end.
            for at in (4..512).chain(kernel.len() - 1024..kernel.len()).step_by(4) {
                for bad in [0, 1, u32::MAX, 0x7fff_ffff] {
                    let mut content = kernel.to_vec();
                    content[at..][..4].copy_from_slice(&bad.to_le_bytes());
                    let found = counter_reads(&file(&content), length).unwrap_or_default();
                    assert!(found.is_sorted() && found.len() <= whole.len(), "{at:#x} {bad:#x}");
                    functions_at(&file(&content), &whole);
                }
            }
        }
    }
}
