use iced_x86::{Decoder, DecoderOptions};

use std::fs::File;
use std::io::ErrorKind;

use super::*;
use crate::read_parts;

fn own() -> Vec<u8> {
    std::fs::read("/proc/self/exe").expect("read this program")
}

/// The C library of this test process.
fn libc() -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("read the mappings");
    let path = maps.lines().filter_map(|line| line.split(' ').next_back()).find(|path| {
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("libc.so") || name.starts_with("libc-"))
    });
    std::fs::read(path.expect("a C library")).expect("read it")
}

#[test]
fn nearly_all_calls_of_the_c_library_can_be_counted() {
    let found = find(&libc(), Wanted::Calls).expect("an ELF file");
    assert!(found.sites.len() > 300, "{}", found.sites.len());
    assert!(found.left.len() * 10 <= found.sites.len(), "{:#?}", found.left);
}

/// What is not read is what is not looked at; a file that is cut while it is read is no ELF file.
#[test]
fn parts_of_a_file_are_enough() {
    let path = "/proc/self/exe";
    let (whole, file) = (own(), File::open(path).expect("open this program"));
    let length = whole.len() as u64;
    let parts = read_parts(&file, length).expect("read this program");
    assert_eq!(parts.len(), whole.len());
    assert!(parts != whole, "this program has debug information");
    assert_eq!(
        format!("{:?}", find(&parts, Wanted::Calls)),
        format!("{:?}", find(&whole, Wanted::Calls))
    );
    let cut = |length| read_parts(&file, length).map_err(|why| why.kind());
    assert_eq!(cut(length / 2), Err(ErrorKind::InvalidData));
}

/// The jump fits into the displaced instructions, and no other site overlaps with them.
#[test]
fn what_is_displaced_makes_room_and_overlaps_with_nothing() {
    for file in [own(), libc()] {
        let found = find(&file, Wanted::CallsAndCounters).expect("an ELF file");
        let mut before = 0;
        for site in &found.sites {
            assert!(site.displaced.len() >= JUMP, "{site:x?}");
            assert!(site.window >= before, "{site:x?} begins before {before:x}");
            assert_eq!(site.window / PAGE, (site.end() - 1) / PAGE, "{site:x?}");
            before = site.behind.map_or(site.end(), |(at, compare)| at + compare.len() as u64);
        }
    }
}

/// A single instruction of constants, a call, or a comparison; several only of registers.
#[test]
fn what_is_displaced_cannot_fault_and_has_no_middle() {
    for file in [own(), libc()] {
        for site in find(&file, Wanted::CallsAndCounters).expect("an ELF file").sites {
            let decoder = Decoder::with_ip(64, &site.displaced, site.window, DecoderOptions::NONE);
            let all: Vec<Instruction> = decoder.into_iter().collect();
            assert_eq!(site.is_several, all.len() > 1, "{site:x?}");
            let is_known = |one: &Instruction| match site.calls {
                Calls::Cancellable(_) => is_call(one) || compares_with_zero(one),
                Calls::Of(0) if one.code() == Opcode::Cmp_RAX_imm32 => true,
                Calls::Of(_) | Calls::OfRax => is_movable(one) || takes_an_argument(one),
                Calls::Given(_) => is_call(one) || one.code() == Opcode::Jmp_rel32_64,
                Calls::Counter(_) => can_read_again(&all),
            };
            assert!(all.iter().all(is_known), "{site:x?}");
        }
    }
}

/// Several instructions are displaced only where no single one makes room. The example `sites` lists the places.
#[test]
fn several_instructions_are_displaced_in_few_places() {
    for file in [own(), libc()] {
        let found = find(&file, Wanted::Calls).expect("an ELF file");
        let several: Vec<&Site> = found.sites.iter().filter(|site| site.is_several).collect();
        assert!(several.len() * 10 <= found.sites.len(), "{several:x?}");
    }
}

/// Between the calls that switch asynchronous cancellation on and off, nothing is displaced.
#[test]
fn calls_that_can_be_cancelled_are_counted_before_they_can() {
    let file = libc();
    let found = find(&file, Wanted::Calls).expect("an ELF file");
    let is_cancellable = |site: &&Site| matches!(site.calls, Calls::Cancellable(_));
    let target = |at: u64, bytes: &[u8]| {
        let distance = i32::from_le_bytes(*bytes.get(1..)?.first_chunk()?);
        (bytes[0] == 0xe8).then(|| (at + 5).wrapping_add_signed(distance.into()))
    };
    let cancellable: Vec<&Site> = found.sites.iter().filter(is_cancellable).collect();
    let switches = cancellable.iter().filter_map(|site| target(site.window, &site.displaced));
    let switches: Vec<u64> = switches.collect();
    // The function that switches cancellation on is called by nearly all.
    let times = |one: &&u64| switches.iter().filter(|other| other == one).count();
    let switch = switches.iter().max_by_key(times);
    // The C library of this test may be one whose calls that wait are all in one place.
    let waits = found.left.iter().any(|left| left.why == Why::Waits)
        || found.sites.iter().any(|site| matches!(site.calls, Calls::Given(_)));
    assert!(waits || cancellable.len() > 30, "{}", cancellable.len());
    for site in found.sites.iter().filter(|site| !is_cancellable(site)) {
        let segments = found.segments.iter();
        let before = site.window - 48..site.window;
        let segment = segments.clone().find(|segment| segment.range().contains(&before.start));
        let bytes = segment.and_then(|segment| segment.bytes(&file, &before));
        let bytes = bytes.unwrap_or_default();
        let from = memchr::memmem::rfind(bytes, &[0x0f, 0x05]).unwrap_or(0);
        let calls =
            (from..bytes.len()).filter_map(|at| target(before.start + at as u64, &bytes[at..]));
        for called in calls {
            assert!(switch != Some(&called), "{site:x?}");
        }
    }
}

/// Errors are counted where the comparison behind the call makes room for a jump.
#[test]
fn what_most_calls_of_the_c_library_return_is_seen() {
    let found = find(&libc(), Wanted::Calls).expect("an ELF file");
    let named = found.sites.iter().filter(|site| matches!(site.calls, Calls::Of(_)));
    let (seen, unseen): (Vec<_>, Vec<_>) = named.partition(|site| site.behind.is_some());
    assert!(unseen.len() * 4 < seen.len(), "{} {unseen:x?}", seen.len());
}

#[test]
fn where_handlers_of_signals_return_is_left() {
    let found = find(&libc(), Wanted::Calls).expect("an ELF file");
    assert!(found.left.iter().any(|left| left.why == Why::SignalReturn), "{:?}", found.left);
}

#[test]
fn other_files_are_refused() {
    assert_eq!(find(b"", Wanted::Calls), Err(Unreadable::NotElf));
    assert_eq!(find(b"#!/bin/sh\n", Wanted::Calls), Err(Unreadable::NotElf));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    /// `find` does not panic on damaged files.
    #[test]
    fn damaged_files_are_harmless(
        changes in proptest::collection::vec((proptest::num::usize::ANY, proptest::num::u8::ANY), 1..40),
        kept in 0_usize..200_000,
    ) {
        let whole = libc();
        let mut file = whole[..whole.len().min(64 + kept)].to_vec();
        for (at, byte) in changes {
            // Headers and offsets are at the start of a file.
            let at = if at % 2 == 0 { at % 1024.min(file.len()) } else { at % file.len() };
            file[at] = byte;
        }
        let _ = find(&file, Wanted::CallsAndCounters);
    }
}

#[test]
fn reads_are_made_again_only_where_that_changes_nothing() {
    const READ: &[u8] = &[0x0f, 0x31];
    for (parts, can) in [
        // shl rdx, 32; or rax, rdx
        (&[READ, &[0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0]][..], true),
        // lfence
        (&[&[0x0f, 0xae, 0xe8], READ], true),
        // mov ecx, eax, in front of the read and behind it
        (&[&[0x89, 0xc1], READ], false),
        (&[READ, &[0x89, 0xc1]], true),
        // mov eax, ecx and add ecx, eax behind it: the first sees what the second writes
        (&[READ, &[0x89, 0xc8], &[0x01, 0xc1]], false),
        // add r8, rax adds twice
        (&[READ, &[0x49, 0x01, 0xc0]], false),
        // or rsi, rcx sets the same bits again, or rsi, rax others, or esi, edi; mov esi, ecx forgets the first value
        (&[READ, &[0x48, 0x09, 0xce]], true),
        (&[READ, &[0x48, 0x09, 0xc6]], false),
        (&[READ, &[0x09, 0xfe], &[0x89, 0xce]], false),
        // mov [rdi], rax may fault; adc reads flags; mov al, 1 writes a part of rax; push needs a stack
        (&[READ, &[0x48, 0x89, 0x07]], false),
        (&[READ, &[0x48, 0x83, 0xd2, 0x00]], false),
        (&[READ, &[0xb0, 0x01]], false),
        (&[READ, &[0x50]], false),
        // rdtscp writes ecx, too
        (&[&[0x89, 0xce], &[0x0f, 0x01, 0xf9]], false),
        // Two reads
        (&[READ, &[0x89, 0xc6], READ], false),
    ] {
        let code = parts.concat();
        let all: Vec<_> = Decoder::new(64, &code, DecoderOptions::NONE).into_iter().collect();
        assert_eq!(can_read_again(&all), can, "{code:x?}");
    }
}
