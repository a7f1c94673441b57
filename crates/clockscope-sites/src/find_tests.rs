use super::*;

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
    let found = find(&libc()).expect("an ELF file");
    assert_eq!(find_by_two(&libc()), Ok(found.clone()));
    let left = found.left.iter().filter(|left| left.why != Why::SignalReturn).count();
    assert!(found.sites.len() > 300, "{}", found.sites.len());
    assert!(left * 50 <= found.sites.len(), "{:#?}", found.left);
}

/// The jump fits into the displaced instructions, and no other site overlaps with them.
#[test]
fn what_is_displaced_makes_room_and_overlaps_with_nothing() {
    for file in [own(), libc()] {
        let found = find(&file).expect("an ELF file");
        let mut before = 0;
        for site in &found.sites {
            assert!(site.end - site.window >= JUMP as u64, "{site:x?}");
            assert!(site.window >= before, "{site:x?} begins before {before:x}");
            before = site.end.max(site.syscall + 2);
            let at = usize::try_from(site.syscall - site.window).expect("small");
            assert_eq!(site.original[at..at + 2], [0x0f, 0x05], "{site:x?}");
        }
    }
}

/// Errors are counted where no other code branches to the instructions behind the call.
#[test]
fn what_nearly_all_calls_of_the_c_library_return_is_seen() {
    let found = find(&libc()).expect("an ELF file");
    let named = found.sites.iter().filter(|site| site.number.is_some());
    let (seen, unseen): (Vec<_>, Vec<_>) = named.partition(|site| site.sees_errors());
    assert!(unseen.len() * 10 < seen.len(), "{} {unseen:x?}", seen.len());
    let mut sites = found.sites.iter().peekable();
    while let Some(site) = sites.next() {
        let Some(behind) = &site.behind else { continue };
        assert!(behind.original.len() >= JUMP.max(behind.displaced), "{site:x?}");
        let end = site.after() + behind.original.len() as u64;
        assert!(sites.peek().is_none_or(|next| end <= next.window), "{site:x?}");
    }
}

#[test]
fn where_handlers_of_signals_return_is_left() {
    let found = find(&libc()).expect("an ELF file");
    assert!(found.left.iter().any(|left| left.why == Why::SignalReturn), "{:?}", found.left);
}

#[test]
fn other_files_are_refused() {
    assert_eq!(find(b""), Err(Unreadable::NotElf));
    assert_eq!(find(b"#!/bin/sh\n"), Err(Unreadable::NotElf));
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
        let _ = find(&file);
    }
}

#[test]
fn parts_are_looked_at_once_and_in_their_order() {
    for many in [0, 1, 63, 64, 65, 1000] {
        let all: Vec<u32> = (0..many).collect();
        for by_two in [false, true] {
            assert_eq!(in_parts(&all, by_two, <[u32]>::to_vec).concat(), all);
        }
    }
}
