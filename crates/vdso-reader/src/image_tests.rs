//! Tests with real images, intact and damaged.

use proptest::prelude::*;

use super::view::{ImageOrigin, View};
use super::*;

/// The image of a Linux 6.18 kernel on x86-64, with the zeros up to the end of its last page.
pub(super) const X86_64: &[u8] = include_bytes!("../../../fixtures/vdso/x86_64-6.18.so");
/// An image with the shape of the arm64 kernel's.
const AARCH64: &[u8] = include_bytes!("../../../fixtures/vdso/aarch64.so");
/// A 32-bit image with the shape of the x86 kernel's.
const I386: &[u8] = include_bytes!("../../../fixtures/vdso/i386.so");

/// All symbols are compared with readelf's in `crates/clockscope/tests/quiet/vdso_command.rs`.
#[test]
fn images_of_three_machines_are_read_whole() {
    for (bytes, class, machine, content_end) in [
        (X86_64, Class::Elf64, Machine::X86_64, 5600 + 17 * 64),
        (AARCH64, Class::Elf64, Machine::Aarch64, AARCH64.len() as u64),
        (I386, Class::Elf32, Machine::I386, I386.len() as u64),
    ] {
        let image = Image::parse(bytes).unwrap();
        assert_eq!((image.class, image.machine), (class, machine));
        assert_eq!(image.content_end, content_end, "{machine:?}");
    }
    let image = Image::parse(X86_64).unwrap();
    assert_eq!(image.soname.as_deref(), Some("linux-vdso.so.1"));
    assert_eq!(image.function("clock_gettime").unwrap().binding, Binding::Weak);
    assert_eq!(image.function("LINUX_2.6"), None, "an absolute symbol is no function");
    assert_eq!((image.symbols.len(), image.functions().count()), (13, 12));
    assert_eq!((image.segments.len(), image.segments[0].flags), (4, 5));
    assert_eq!(image.build_id(), Some("a599807156a2a62fe956a82e388aeeabc874119c"));
    assert!(image.notes.contains(&Note::LinuxVersion(6, 18, 44)));
    let image = Image::parse(AARCH64).unwrap();
    assert_eq!(image.function("__kernel_rt_sigreturn").unwrap().kind, SymbolKind::NoType);
    assert_eq!(image.functions().count(), 4);
    assert_eq!(image.versions[1].hash, 0x75f_cb89);
}

#[test]
fn without_section_headers_the_hash_tables_tell_the_number_of_symbols() {
    for original in [X86_64, AARCH64] {
        let whole = Image::parse(original).unwrap();
        let mut bytes = original.to_vec();
        bytes[0x28..0x30].fill(0);
        bytes[0x3a..0x40].fill(0);
        let image = Image::parse(&bytes).unwrap();
        assert!(image.sections.is_empty());
        assert_eq!(image.symbols, whole.symbols);
        let hash = dynamic_entry(&bytes, 4);
        bytes[hash..hash + 8].copy_from_slice(&0x6000_0000u64.to_le_bytes());
        let image = Image::parse(&bytes).unwrap();
        assert_eq!(image.symbols, whole.symbols, "by DT_GNU_HASH");
        assert!(image.content_end < whole.content_end);
    }
}

#[test]
fn every_kind_of_damage_has_its_reason() {
    let damaged = |at: usize, with: &[u8]| {
        let mut bytes = X86_64.to_vec();
        bytes[at..at + with.len()].copy_from_slice(with);
        Image::parse(&bytes).unwrap_err()
    };
    let tag = |tag| dynamic_entry(X86_64, tag);
    let short = [0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(Image::parse(&[]), Err(ImageError::Empty));
    assert_eq!(Image::parse(b"#!/bin/sh\n"), Err(ImageError::NotElf));
    assert_eq!(Image::parse(&X86_64[..4]), Err(ImageError::HeaderCut));
    assert_eq!(Image::parse(&X86_64[..63]), Err(ImageError::HeaderCut));
    assert_eq!(Image::parse(&X86_64[..64]), Err(ImageError::SegmentTableOutside));
    assert_eq!(Image::parse(&X86_64[..4096]), Err(ImageError::SegmentOutside(0)));
    assert_eq!(damaged(4, &[3]), ImageError::HeaderInvalid);
    assert_eq!(damaged(5, &[9]), ImageError::HeaderInvalid);
    assert_eq!(damaged(0x36, &[1]), ImageError::SegmentTableOutside);
    assert_eq!(damaged(0x40, &[6]), ImageError::NoLoad);
    assert_eq!(damaged(0x78, &[7]), ImageError::NoDynamic);
    assert_eq!(damaged(0x78 + 32, &short), ImageError::DynamicEndless);
    assert_eq!(damaged(tag(6), &[0xff]), ImageError::NoSymbolTable);
    assert_eq!(damaged(tag(5), &[0xff]), ImageError::NoStrings);
    assert_eq!(damaged(tag(10) + 8, &[0xff, 0xff]), ImageError::NoStrings);
    assert_eq!(damaged(tag(10) + 8, &[9, 0]), ImageError::VersionInvalid);
    assert_eq!(damaged(0x1d0 + 24, &[0xff, 0xff]), ImageError::SymbolName(1));
    assert_eq!(damaged(0x1d0 + 24 + 8, &[0xff, 0xff]), ImageError::SymbolOutside(1));
    assert_eq!(damaged(tag(0x6fff_fff0) + 8, &[0xff, 0xff]), ImageError::VersionIndexOutside);
    assert_eq!(damaged(tag(0x6fff_fffc) + 8, &[0xff, 0xff]), ImageError::VersionInvalid);
}

#[test]
fn version_definitions_in_a_circle_are_refused() {
    let mut bytes = X86_64.to_vec();
    let second = 0x408 + 28;
    bytes[second + 16..second + 20].copy_from_slice(&(-28i32).to_le_bytes());
    assert_eq!(Image::parse(&bytes), Err(ImageError::VersionInvalid));
}

#[test]
fn reasons_are_lower_case_clauses() {
    for error in [ImageError::Empty, ImageError::SegmentOutside(3), ImageError::SymbolName(7)] {
        let text = error.to_string();
        assert!(!text.ends_with('.') && text.starts_with(char::is_lowercase), "{text}");
    }
}

/// Where the entry with this tag starts in the dynamic table of an image.
fn dynamic_entry(bytes: &[u8], tag: i64) -> usize {
    let image = Image::parse(bytes).unwrap();
    let segment = image.segments.iter().find(|segment| segment.kind == object::elf::PT_DYNAMIC);
    let place = image.dynamic.iter().position(|entry| entry.0 == tag).unwrap();
    usize::try_from(segment.unwrap().offset).unwrap() + 16 * place
}

proptest! {
    #[test]
    fn flipped_bytes_never_panic(
        which in 0usize..3,
        flips in prop::collection::vec((0usize..0x800, any::<u8>()), 1..20),
        len in 0usize..9000,
    ) {
        let mut bytes = [X86_64, AARCH64, I386][which].to_vec();
        for (at, with) in flips {
            bytes[at] = with;
        }
        bytes.truncate(len);
        if let Ok(image) = Image::parse(&bytes) {
            prop_assert!(image.content_end <= bytes.len() as u64);
            let view = View::new(&image, ImageOrigin::Own { pid: 1 }, Some(u64::MAX), &[]);
            prop_assert!(text::render(&view).starts_with("vDSO of this process, pid 1\n"));
        }
    }

    #[test]
    fn headers_and_tables_with_flipped_bytes_never_panic(
        aarch64: bool,
        flips in prop::collection::vec((0usize..0x120, prop::sample::select(vec![0u8, 1, 2, 6, 0x7f, 0x80, 0xff])), 1..4),
    ) {
        let mut bytes = if aarch64 { AARCH64 } else { X86_64 }.to_vec();
        for (at, with) in flips {
            bytes[at] = with;
        }
        let _ = Image::parse(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(class in 1u8..=2, order in 1u8..=2, mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let ident = [0x7f, b'E', b'L', b'F', class, order, 1];
        let head = bytes.len().min(7);
        bytes[..head].copy_from_slice(&ident[..head]);
        let _ = Image::parse(&bytes);
    }
}
