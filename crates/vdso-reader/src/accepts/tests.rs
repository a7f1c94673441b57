//! Good images are accepted; each kind of damage is noticed by those who would trip over it.

use super::*;
use crate::SegmentKind;
use crate::disassembly::disassemble;
use crate::image_tests::{AARCH64, I386, X86_64, dynamic_entry};
use crate::view::{ImageOrigin, View};

/// Where the tables of the x86-64 image lie.
const HASH: usize = 0x120;
const GNU_HASH: usize = 0x170;
const VERSION_2_6: usize = 0x408 + 28;
const UNWIND_INDEX: usize = 0x618;

fn damaged(at: usize, with: &[u8]) -> Image {
    let mut bytes = X86_64.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    Image::parse(&bytes).unwrap()
}

/// The x86-64 image with another tag in place of this dynamic entry's.
fn without(tag: i64) -> Image {
    damaged(dynamic_entry(X86_64, tag), &0x6000_0000u64.to_le_bytes())
}

fn rejecting(image: &Image) -> Vec<Reader> {
    let verdicts = check(image).into_iter();
    verdicts.filter(|verdict| !verdict.is_accepted()).map(|verdict| verdict.reader).collect()
}

fn reasons(image: &Image, reader: Reader) -> Vec<Reason> {
    check_reader(image, reader).reasons().to_vec()
}

#[test]
fn real_images_please_everybody() {
    for bytes in [X86_64, AARCH64] {
        for verdict in check(&Image::parse(bytes).unwrap()) {
            assert_eq!(verdict.outcome, ReaderOutcome::Accepts, "{}", verdict.reader);
        }
    }
}

#[test]
fn a_32_bit_image_pleases_all_whose_demands_are_known() {
    let image = Image::parse(I386).unwrap();
    let unknown = [Reader::Rustix, Reader::Abseil];
    for verdict in check(&image) {
        let expected = unknown.contains(&verdict.reader);
        let outcome = if expected { ReaderOutcome::NotJudged } else { ReaderOutcome::Accepts };
        assert_eq!(verdict.outcome, outcome, "{}", verdict.reader);
    }
    let mut bytes = I386.to_vec();
    let filter = 0xf4 + 16;
    bytes[filter..filter + 4].fill(0);
    assert_eq!(rejecting(&Image::parse(&bytes).unwrap())[0], Reader::Glibc);
}

#[test]
fn without_dt_hash_musl_abseil_and_old_parsers_go_without() {
    let image = without(4);
    assert_eq!(rejecting(&image), [Reader::Musl, Reader::KernelOld, Reader::Abseil]);
    assert_eq!(reasons(&image, Reader::Musl), [Reason::NoEntry("DT_HASH")]);
}

#[test]
fn without_dt_gnu_hash_everybody_takes_dt_hash() {
    assert_eq!(rejecting(&without(0x6fff_fef5)), []);
}

#[test]
fn a_chain_of_dt_hash_that_ends_early_is_noticed_where_it_is_walked() {
    let chains = HASH + 8 + 4 * 3;
    let image = damaged(chains, &[0; 4 * 14]);
    assert_eq!(rejecting(&image), [Reader::KernelOld]);
    let name = "__vdso_clock_gettime".to_owned();
    assert!(reasons(&image, Reader::KernelOld).contains(&Reason::NotFound(name, Table::Hash)));

    let mut bytes = image.bytes().to_vec();
    let entry = dynamic_entry(X86_64, 0x6fff_fef5);
    bytes[entry..entry + 8].copy_from_slice(&0x6000_0000u64.to_le_bytes());
    let image = Image::parse(&bytes).unwrap();
    assert_eq!(
        rejecting(&image),
        [Reader::Glibc, Reader::Go, Reader::Rustix, Reader::Kernel, Reader::KernelOld],
        "without DT_GNU_HASH all of them walk DT_HASH"
    );
}

#[test]
fn a_wrong_number_of_symbols_in_dt_hash_stops_musl_and_abseil() {
    let few = damaged(HASH + 4, &2u32.to_le_bytes());
    assert_eq!(rejecting(&few), [Reader::Musl, Reader::Abseil]);
    let many = damaged(HASH + 4, &200u32.to_le_bytes());
    assert_eq!(rejecting(&many), [Reader::Musl, Reader::Abseil]);
    assert_eq!(reasons(&many, Reader::Musl), [Reason::TooManySymbols(200, 14)]);
}

#[test]
fn a_circle_in_dt_hash_ends() {
    let chains = HASH + 8 + 4 * 3;
    let ones: Vec<u8> = std::iter::repeat_n(1u32.to_le_bytes(), 14).flatten().collect();
    assert_eq!(rejecting(&damaged(chains, &ones)), [Reader::KernelOld]);
}

#[test]
fn hash_tables_without_buckets_or_outside_are_broken() {
    for with in [0u32, 0xffff_fff0] {
        let image = damaged(GNU_HASH, &with.to_le_bytes());
        let broken = rejecting(&image);
        assert_eq!(broken, [Reader::Glibc, Reader::Go, Reader::Rustix, Reader::Kernel]);
        assert!(reasons(&image, Reader::Go).contains(&Reason::TableBroken(Table::GnuHash)));
    }
}

#[test]
fn a_wrong_filter_in_dt_gnu_hash_stops_glibc_only() {
    let image = damaged(GNU_HASH + 16, &[0; 16]);
    assert_eq!(rejecting(&image), [Reader::Glibc]);
}

#[test]
fn a_wrong_chain_in_dt_gnu_hash_stops_all_who_walk_it() {
    let chains = GNU_HASH + 16 + 16 + 12;
    let image = damaged(chains, &[0xff; 52]);
    assert_eq!(rejecting(&image), [Reader::Glibc, Reader::Go, Reader::Rustix, Reader::Kernel]);
}

#[test]
fn another_version_stops_all_who_ask_for_one() {
    let name = damaged(0x320 + 121 + 8, b"7");
    let who = [
        Reader::Glibc,
        Reader::Musl,
        Reader::Go,
        Reader::Rustix,
        Reader::Kernel,
        Reader::KernelOld,
        Reader::Abseil,
    ];
    assert_eq!(rejecting(&name), who);
    let hash = damaged(VERSION_2_6 + 8, &[1]);
    let hashed = [Reader::Glibc, Reader::Go, Reader::Rustix, Reader::Kernel, Reader::KernelOld];
    assert_eq!(rejecting(&hash), hashed);
    let wrong = Reason::VersionHash("LINUX_2.6", 0x3ae_7501, 0x3ae_75f6);
    assert_eq!(reasons(&hash, Reader::Go), [wrong]);
}

#[test]
fn the_version_hashes_are_those_that_go_has_compiled_in() {
    assert_eq!(object::elf::hash(b"LINUX_2.6"), 0x3ae_75f6);
    assert_eq!(object::elf::hash(b"LINUX_2.6.39"), 0x75f_cb89);
}

#[test]
fn without_version_definitions_go_crashes_and_abseil_goes_without() {
    assert_eq!(rejecting(&without(0x6fff_fffc)), [Reader::Go, Reader::Abseil]);
    for tag in [0x6fff_fff0, 0x6fff_fffd, 10] {
        assert!(rejecting(&without(tag)).contains(&Reader::Abseil), "{tag:#x}");
    }
}

#[test]
fn rustix_refuses_what_looks_like_another_kind_of_file() {
    let only_rustix = |image: Image, reason: Reason| {
        assert_eq!(rejecting(&image), [Reader::Rustix]);
        assert_eq!(reasons(&image, Reader::Rustix), [reason]);
    };
    let note = 0x40 + 2 * 56;
    only_rustix(damaged(0x40 + 4, &[4]), Reason::FirstLoadFlags(4));
    only_rustix(damaged(note, &[3, 0, 0, 0]), Reason::Segment(SegmentKind::Interp));
    let relro = 0x6474_e552u32.to_le_bytes();
    only_rustix(damaged(note, &relro), Reason::Segment(SegmentKind::GnuRelro));
    only_rustix(damaged(16, &[2]), Reason::FileType(2));
    only_rustix(damaged(7, &[9]), Reason::OsAbi(9, 0));
    only_rustix(damaged(8, &[1]), Reason::OsAbi(0, 1));
    only_rustix(damaged(0x34, &[65]), Reason::HeaderSize(65));
    only_rustix(damaged(dynamic_entry(X86_64, 11) + 8, &[25]), Reason::SymbolSize(25));
}

#[test]
fn thread_local_storage_stops_glibc() {
    let image = damaged(0x40 + 2 * 56, &[7, 0, 0, 0]);
    assert_eq!(rejecting(&image), [Reader::Glibc]);
}

#[test]
fn code_outside_the_first_segment_stops_go_and_rustix() {
    let image = damaged(0x40 + 32, &[0, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0x0b]);
    let who = rejecting(&image);
    assert_eq!(who, [Reader::Go, Reader::Rustix]);
    let name = "__vdso_clock_gettime".to_owned();
    assert!(reasons(&image, Reader::Go).contains(&Reason::Outside(name)));
}

#[test]
fn another_soname_stops_address_sanitizer() {
    let image = damaged(0x320 + 105, b"librr");
    assert_eq!(rejecting(&image), [Reader::Asan]);
}

#[test]
fn without_section_headers_gdb_sees_nothing() {
    let image = damaged(0x28, &[0; 8]);
    assert_eq!(rejecting(&image), [Reader::Gdb]);
    let image = damaged(0x28, &[0, 0, 1]);
    assert_eq!(reasons(&image, Reader::Gdb), [Reason::NoSectionHeaders]);
}

#[test]
fn unwind_tables_must_cover_every_function() {
    assert_eq!(rejecting(&damaged(0x40 + 3 * 56, &[0])), [Reader::Unwinders]);
    let index = damaged(UNWIND_INDEX, &[2]);
    assert_eq!(reasons(&index, Reader::Unwinders), [Reason::UnwindIndex]);
    let short = damaged(UNWIND_INDEX + 8, &[1]);
    let lost = reasons(&short, Reader::Unwinders);
    assert!(lost.contains(&Reason::NotUnwound("__vdso_time".to_owned())), "{lost:?}");
}

#[test]
fn an_image_without_clock_gettime_is_of_no_use() {
    let image = damaged(0x320 + 33, b"__vdso_clock_gottime");
    let missing = Reason::Missing("__vdso_clock_gettime".to_owned());
    assert!(reasons(&image, Reader::Glibc).contains(&missing));
    assert_eq!(reasons(&image, Reader::Musl), [missing]);
}

#[test]
fn other_machines_are_not_judged_by_name() {
    let image = damaged(0x12, &[0xf3, 0]);
    assert_eq!(image.machine(), Machine::Riscv);
    assert_eq!(check_reader(&image, Reader::Glibc).outcome, ReaderOutcome::NotJudged);
    assert_eq!(check_reader(&image, Reader::Gdb).outcome, ReaderOutcome::Accepts);
}

proptest::proptest! {
    #[test]
    fn whatever_is_done_with_a_damaged_image_never_panics(
        which in 0usize..3,
        flips in proptest::collection::vec((0usize..0x8ac, proptest::num::u8::ANY), 1..12),
        address: Option<u64>,
    ) {
        let mut bytes = [X86_64, AARCH64, I386][which].to_vec();
        for (at, with) in flips {
            bytes[at] = with;
        }
        if let Ok(image) = Image::parse(&bytes) {
            proptest::prop_assert_eq!(check(&image).len(), Reader::ALL.len());
            let _ = disassemble(&image, None, address, &[]);
            let view = View::new(&image, ImageOrigin::Own { pid: 1 }, address, &[]);
            proptest::prop_assert!(crate::text::write_view(&mut Vec::new(), &view).is_ok());
        }
    }
}
