//! Picks an address for the shim in a running process, near the kernel's image. Pure.

use vdso_image::layout::TOTAL_SIZE;

use crate::arch::attach::reach;
use crate::areas::STACK_GROWS;
use clockscope_sys::memory;
use vdso_reader::maps::Mapping;

/// Constraints for the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Maximum distance.
    reach: u64,
    /// End of a program's addresses.
    end: u64,
    /// Bytes of a page.
    page: u64,
}

impl Limits {
    /// The constraints for a process on this machine.
    pub(super) fn of(maps: &[Mapping]) -> Self {
        let page = memory::page_size() as u64;
        Self { reach: reach::REACH, end: reach::end(maps, page), page }
    }
}

/// A free range of [`TOTAL_SIZE`] bytes within reach of `near`, with a free page on either side.
///
/// Older kernels, such as 5.10 and 6.1, put the vDSO at most 2 MiB above the stack. There is often no room between the
/// two, and the result is above the vDSO.
pub(super) fn near(maps: &[Mapping], near: u64, limits: Limits) -> Option<u64> {
    let Limits { reach, end: all_end, page } = limits;
    let size = TOTAL_SIZE as u64 + 2 * page;
    let below_end = || maps.iter().filter(|mapping| mapping.end <= all_end);
    let behind_each = below_end().skip(1).map(Some).chain([None]);
    let mut best: Option<(u64, u64)> = None;
    for (before, behind) in below_end().zip(behind_each) {
        let end = behind.map_or(all_end, |behind| behind.start);
        if end < before.end + size {
            continue;
        }
        // Stacks grow down and the heap grows up, so keep as far from them as the gap allows.
        let begin = before.end + page;
        let places = match behind {
            Some(stack) if stack.name.starts_with("[stack") => {
                let high = begin.max(stack.start.saturating_sub(STACK_GROWS));
                [high, if before.name == "[heap]" { high } else { begin }]
            }
            Some(_) => [end - size + page; 2],
            None => [begin; 2],
        };
        for at in places {
            let distance = at.abs_diff(near);
            if distance < reach && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, at));
            }
        }
    }
    best.map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vdso_reader::maps;

    /// The limits of x86-64.
    const LIMITS: Limits =
        Limits { reach: (1 << 31) - (64 << 20), end: (1 << 47) - 0x1000, page: 0x1000 };

    /// The result for these mappings.
    fn near_in(text: &str, address: u64) -> Option<u64> {
        near(&maps::parse(text), address, LIMITS)
    }

    #[test]
    fn the_nearest_gap_is_taken_and_a_stack_left_room() {
        let text = "7f0000000000-7f0000001000 r-xp 0 00:00 0 /lib/a\n\
                    7f0000200000-7f0000202000 r-xp 0 00:00 0 [vdso]\n\
                    7f0001000000-7f0001021000 rw-p 0 00:00 0 [stack]\n";
        // The result is at the bottom of the gap, so that the stack can grow.
        assert_eq!(near_in(text, 0x7f00_0020_0000), Some(0x7f00_0020_3000));
        let without = text.replace("[stack]", "/lib/b");
        let below = 0x7f00_0020_0000 - 0x1000 - TOTAL_SIZE as u64;
        assert_eq!(near_in(&without, 0x7f00_0020_0000), Some(below));
    }

    /// Linux 6.1: the vDSO is right above the stack, and the libraries are far below.
    #[test]
    fn no_room_between_stack_and_vdso() {
        let text = "7f1f4eb83000-7f1f4eb85000 rw-p 0 00:00 0 /lib64/ld-linux-x86-64.so.2\n\
                    7fffb1e50000-7fffb1e71000 rw-p 0 00:00 0 [stack]\n\
                    7fffb1e8c000-7fffb1e90000 r--p 0 00:00 0 [vvar]\n\
                    7fffb1e90000-7fffb1e92000 r-xp 0 00:00 0 [vdso]\n\
                    ffffffffff600000-ffffffffff601000 --xp 0 00:00 0 [vsyscall]\n";
        let vdso = 0x7fff_b1e9_0000;
        assert_eq!(near_in(text, vdso), Some(vdso + 0x3000));
        // With the end of all addresses behind the vDSO, the result is far enough below the stack for its growth.
        let at_end = text.replace("7fffb1e", "7fffffe").replace("7fffffe92000", "7fffffffe000");
        let at = near_in(&at_end, 0x7fff_ffe9_0000).expect("a place");
        assert_eq!(at, 0x7fff_ffe5_0000 - STACK_GROWS);
    }

    /// Linux 6.18: the vDSO is below the interpreter, and the program's mappings are below both. A program that maps
    /// much leaves no room there; the stack is far above.
    #[test]
    fn a_place_above_what_the_program_maps() {
        let text = "7f0000000000-7f00c0001000 rw-p 0 00:00 0 \n\
                    7f00c0001000-7f00c0003000 r-xp 0 00:00 0 [vdso]\n\
                    7f00c0003000-7f00c0040000 r-xp 0 00:00 0 /lib64/ld-linux-x86-64.so.2\n\
                    7ffd00000000-7ffd00021000 rw-p 0 00:00 0 [stack]\n";
        let vdso = 0x7f00_c000_1000;
        assert_eq!(near_in(text, vdso), Some(0x7f00_c004_1000));
        // The heap grows into the gap above itself.
        let heap = text.replace("/lib64/ld-linux-x86-64.so.2", "[heap]");
        assert_eq!(near_in(&heap, vdso), None);
    }

    /// arm64 with pages of 16 KiB: the result is a multiple of the page size.
    #[test]
    fn a_place_begins_at_a_page() {
        let text = "aaaad0000000-aaaad0010000 r-xp 0 00:00 0 /bin/a\n\
                    ffffa8e00000-ffffa8e04000 r-xp 0 00:00 0 /lib/a\n\
                    ffffa8e10000-ffffa8e18000 r--p 0 00:00 0 [vvar]\n\
                    ffffa8e18000-ffffa8e20000 r-xp 0 00:00 0 [vdso]\n\
                    ffffa8e20000-ffffa8e24000 r--p 0 00:00 0 /lib/ld\n\
                    ffffff000000-ffffff024000 rw-p 0 00:00 0 [stack]\n";
        let limits = Limits { reach: 112 << 20, end: (1 << 48) - 0x4000, page: 0x4000 };
        let place = near(&maps::parse(text), 0xffff_a8e1_8000, limits).expect("a place");
        assert_eq!((place % 0x4000, place), (0, 0xffff_a8e2_8000));
    }

    #[test]
    fn there_is_no_place_too_far_away() {
        let text = "10000-20000 r-xp 0 00:00 0 /a\n\
                    7f0000000000-7f0000002000 r-xp 0 00:00 0 [vdso]\n\
                    7f0000003000-7f0000004000 rw-p 0 00:00 0 \n";
        assert!(near_in(text, 0x7f00_0000_0000).is_some()); // right before it
        let full = "7eff80000000-7f0000000000 r-xp 0 00:00 0 /a\n\
                    7f0000000000-7f0000002000 r-xp 0 00:00 0 [vdso]\n\
                    7f0000003000-7f0100000000 rw-p 0 00:00 0 \n";
        assert_eq!(near_in(full, 0x7f00_0000_0000), None);
    }
}
