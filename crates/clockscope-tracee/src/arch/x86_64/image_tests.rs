//! Tests the image in every form, also for kernels with unknown functions.

use clockscope_sys::tsc;
use fastclock::Nanos;
use object::LittleEndian as LE;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERSYM, DynamicTag, FileHeader64,
    ProgramHeader64,
};
use object::pod;

use super::readers_tests::complaints;
use crate::image::*;
use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions, Register};
use vdso_image::layout::{FORWARD_SIZE, FORWARDED, Function, IMAGE_SIZE, TARGET_OURS};
use vdso_reader::Image;

pub(super) const KERNEL: &[u8] = include_bytes!("../../../../../fixtures/vdso/x86_64-6.18.so");

/// The kernel's image with other names for some functions, of the same length.
fn renamed(names: &[(&str, &str)]) -> Image {
    let mut bytes = KERNEL.to_vec();
    for (old, new) in names {
        assert_eq!(old.len(), new.len());
        while let Some(at) = bytes.windows(old.len()).position(|found| found == old.as_bytes()) {
            bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
        }
    }
    Image::parse(&bytes).unwrap()
}

const ROUTES: [Route; 6] = [
    Route::Kernel,
    Route::Syscall,
    Route::Coarse,
    Route::Slow { read_cost: Nanos(1_200) },
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
            let found = complaints(&ready(&kernel, counting, route));
            assert_eq!(found, [""; 0], "{counting:?} {route:?}");
        }
    }
}

/// The kernel's image without one of its hash tables.
fn without(tag: DynamicTag) -> Image {
    let kernel = Image::parse(KERNEL).unwrap();
    let bytes = |(tag, value): &(i64, u64)| [tag.to_le_bytes(), value.to_le_bytes()].concat();
    let entry = |tag: DynamicTag| kernel.dynamic.iter().find(|entry| entry.0 == tag.0).unwrap();
    let (hidden, instead) = (bytes(entry(tag)), bytes(entry(DT_SYMTAB)));
    let at = KERNEL.windows(hidden.len()).position(|bytes| bytes == hidden).unwrap();
    let mut changed = KERNEL.to_vec();
    changed[at..at + instead.len()].copy_from_slice(&instead);
    Image::parse(&changed).unwrap()
}

#[test]
fn who_cannot_read_the_kernels_image_cannot_read_ours_unless_it_gives_another_clock() {
    for tag in [DT_HASH, DT_GNU_HASH] {
        let kernel = without(tag);
        assert_eq!(complaints(&kernel).is_empty(), tag == DT_GNU_HASH, "{tag:?}");
        for route in ROUTES {
            let ours = complaints(&ready(&kernel, Counting::ByThread, route));
            let wanted = if route == Route::Kernel { complaints(&kernel) } else { Vec::new() };
            assert_eq!(ours, wanted, "{tag:?} {route:?}");
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
fn the_image_has_no_instruction_that_changes_more_than_general_registers() {
    let image = Image::parse(BUILT).unwrap();
    let text = image.sections.iter().find(|section| section.name == ".text").unwrap();
    let [from, size] = [text.offset, text.size].map(|number| usize::try_from(number).unwrap());
    let decoder = Decoder::new(64, &BUILT[from..from + size], DecoderOptions::NONE);
    let is_general = |register: Register| {
        let r = register;
        r == Register::None || r.is_gpr() || r.is_segment_register() || r.is_ip()
    };
    for instruction in decoder {
        let registers = (0..instruction.op_count()).map(|n| instruction.op_register(n));
        let others = [Code::Cld, Code::Std, Code::Ldmxcsr_m32, Code::Fxsave64_m512byte];
        let changes = !registers.into_iter().all(is_general)
            || instruction.is_string_instruction()
            || instruction.cpuid_features().contains(&CpuidFeature::FPU)
            || others.contains(&instruction.code());
        assert!(!changes && !instruction.is_invalid(), "{instruction}");
    }
}

/// Like the kernel's image, with more functions under these names; returns their offsets.
fn with_more(names: &[String]) -> (Image, Vec<u64>) {
    let (kernel, mut bytes) = (Image::parse(KERNEL).unwrap(), KERNEL.to_vec());
    let (header, _) = pod::from_bytes::<FileHeader64<LE>>(&bytes).unwrap();
    let from = usize::try_from(header.e_phoff.get(LE)).unwrap();
    let segments = usize::from(header.e_phnum.get(LE));
    let value = |bytes: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
    };
    let place = |tag: DynamicTag| {
        let at = (0..segments)
            .map(|n| from + n * size_of::<ProgramHeader64<LE>>())
            .find(|at| bytes[*at..*at + 4] == object::elf::PT_DYNAMIC.0.to_le_bytes())
            .unwrap();
        let at = value(&bytes, at + 8);
        (0..64).map(|n| at + 16 * n).find(|at| bytes[*at..*at + 8] == tag.0.to_le_bytes()).unwrap()
            + 8
    };
    let tables = [DT_SYMTAB, DT_STRTAB, DT_STRSZ, DT_VERSYM, DT_HASH].map(place);
    let [symbols, strings, size, versions, hash] = tables.map(|at| value(&bytes, at));
    let count = value(&bytes, hash) >> 32;
    let (mut symbols, mut strings, mut versions) = (
        bytes[symbols..symbols + 24 * count].to_vec(),
        bytes[strings..strings + size].to_vec(),
        bytes[versions..versions + 2 * count].to_vec(),
    );
    let offset = kernel.function("__vdso_time").unwrap().offset;
    let offsets = (0..names.len() as u64).map(|n| offset + n).collect::<Vec<_>>();
    for (name, offset) in names.iter().zip(&offsets) {
        symbols.extend(u32::try_from(strings.len()).unwrap().to_le_bytes());
        symbols.extend([0x12, 0, 8, 0]); // STB_GLOBAL, STT_FUNC, of section 8
        symbols.extend(offset.to_le_bytes());
        symbols.extend(1_u64.to_le_bytes());
        strings.extend(name.as_bytes());
        strings.push(0);
        versions.extend(2_u16.to_le_bytes());
    }
    let count = u32::try_from(symbols.len() / 24).unwrap();
    let mut hash = [1, count, 1].map(u32::to_le_bytes).concat();
    hash.extend((0..count).flat_map(|n| if n + 1 < count { n + 1 } else { 0 }.to_le_bytes()));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let size = (strings.len() as u64).to_le_bytes();
    for (table, at) in [symbols, strings, versions, hash].into_iter().zip([0, 1, 3, 4]) {
        let place = (bytes.len() as u64).to_le_bytes();
        bytes[tables[at]..tables[at] + 8].copy_from_slice(&place);
        bytes.extend(table);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes[tables[2]..tables[2] + 8].copy_from_slice(&size);
    (Image::parse(&bytes).unwrap(), offsets)
}

/// Offset of the kernel's function that an exported name of a prepared image leads to.
fn leads_to(image: &Image, name: &str) -> Option<u64> {
    let symbol = image.function(name).filter(|symbol| symbol.defined)?.offset;
    let bytes = &image.bytes;
    let code = u64::from(entry("clockscope_forward").unwrap().0);
    let place = usize::try_from((symbol - code) / FORWARD_SIZE as u64).unwrap();
    let at = usize::try_from(symbol).unwrap();
    let jump = Decoder::with_ip(64, &bytes[at..], symbol, DecoderOptions::NONE).decode();
    let config = std::mem::offset_of!(vdso_image::layout::Config, forwarded) + 8 * place;
    let expected = (vdso_image::layout::CONFIG_OFFSET + config) as u64;
    assert_eq!((jump.code(), jump.ip_rel_memory_address()), (Code::Jmp_rm64, expected));
    let table = usize::try_from(entry("clockscope_forwarded").unwrap().0).unwrap() + 4 * place;
    Some(u32::from_le_bytes(bytes[table..table + 4].try_into().unwrap()).into())
}

#[test]
fn functions_that_nobody_knows_are_forwarded_uncounted_whatever_their_names() {
    let mut names: Vec<String> = (0..12).map(|n| format!("__vdso_unheard_of_{n}")).collect();
    names.push("__vdso_futex_robust_list64_try_unlock".to_owned());
    names.extend(["x".to_owned(), "__vdso_".to_owned() + &"long".repeat(50)]);
    let (kernel, offsets) = with_more(&names);
    for (counting, route) in
        [(Counting::ByThread, Route::Kernel), (Counting::No, Route::Tsc { fast: false })]
    {
        let image = ready(&kernel, counting, route);
        for (name, offset) in names.iter().zip(&offsets) {
            assert_eq!(leads_to(&image, name), Some(*offset), "{name}");
        }
        assert_eq!(complaints(&image), [""; 0], "{counting:?} {route:?}");
        let mine: Vec<_> = image.functions().filter(|s| s.defined).map(|s| &s.name).collect();
        let theirs: Vec<_> = kernel.functions().filter(|s| s.defined).map(|s| &s.name).collect();
        assert!(theirs.iter().all(|name| mine.contains(name)), "{mine:?}");
        assert_eq!(mine.len(), theirs.len());
    }
}

#[test]
fn more_functions_or_longer_names_than_there_is_room_for_stop_nobody() {
    for (count, length) in [(100, 20), (40, 200), (3, 5000)] {
        let name = |n: usize| format!("__vdso_{n}_{}", "n".repeat(length));
        let names: Vec<String> = (0..count).map(name).collect();
        let (kernel, offsets) = with_more(&names);
        let image = ready(&kernel, Counting::ByCpu, Route::Kernel);
        assert_eq!(complaints(&image), [""; 0], "{count} {length}");
        let found = names.iter().zip(&offsets).filter(|(name, offset)| {
            let found = leads_to(&image, name);
            assert!(found.is_none_or(|found| found == **offset), "{name}");
            found.is_some()
        });
        let room = FORWARDED.min(ROOM.1 / (name(10).len() + 1));
        assert!(found.count() >= room.min(count), "{count} {length}");
    }
}

#[test]
fn a_known_function_that_the_kernel_does_not_have_is_not_offered() {
    let kernel = renamed(&[("getcpu", "getfoo")]);
    let image = ready(&kernel, Counting::ByThread, Route::Kernel);
    assert!(!has(&image, "__vdso_getcpu") && !has(&image, "getcpu"));
    let offset = kernel.function("__vdso_getfoo").unwrap().offset;
    for name in ["__vdso_getfoo", "getfoo"] {
        assert_eq!(leads_to(&image, name), Some(offset));
    }
    assert_eq!(complaints(&image), [""; 0]);
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
    let slow = Route::Slow { read_cost: Nanos(1_200) };
    assert!(ours(slow, Function::ClockGettime) && ours(slow, Function::Gettimeofday));
    assert!(!ours(slow, Function::Time) && !ours(slow, Function::ClockGetres));
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
    let ordered = if tsc::has_read_after() { "tscp_clock_gettime" } else { "tsc_clock_gettime" };
    for (fast, name) in [(false, ordered), (true, "fast_clock_gettime")] {
        let route = Route::Tsc { fast };
        assert_eq!(address(Counting::No, route), u64::from(entry(name).unwrap().0));
        let counted = u64::from(entry("counted_clock_gettime").unwrap().0);
        assert_eq!(address(Counting::ByThread, route), counted);
    }
}
