//! Where the shim goes in a process that is running: near the kernel's. Pure.

use vdso_image::layout::{PAGE, TOTAL_SIZE};

use crate::attach::STACK_GROWS;
use vdso_reader::maps::Mapping;

/// A near jump reaches 2 GiB; what lies at the edge of the images is within the rest.
const REACH: u64 = (1 << 31) - (64 << 20);
/// Where a program's addresses end (`TASK_SIZE_MAX` in arch/x86/include/asm/page_64_types.h). With page
/// tables of five levels there are more, which the kernel gives nobody who does not ask for them.
const END: u64 = (1 << 47) - PAGE as u64;

/// A free place of [`TOTAL_SIZE`] bytes within reach of `near`, with a page free on either side.
///
/// Older kernels, such as 5.10 and 6.1, put the vDSO at most 2 MiB above the stack. Then there is often no
/// room between them, and the place is above the vDSO.
pub(super) fn near(maps: &[Mapping], near: u64) -> Option<u64> {
    let page = PAGE as u64;
    let size = TOTAL_SIZE as u64 + 2 * page;
    let below_end = || maps.iter().filter(|mapping| mapping.end <= END);
    let behind_each = below_end().skip(1).map(Some).chain([None]);
    let mut best: Option<(u64, u64)> = None;
    for (before, behind) in below_end().zip(behind_each) {
        let end = behind.map_or(END, |behind| behind.start);
        if end < before.end + size {
            continue;
        }
        // Stacks grow down and the heap grows up: as far from them as the gap allows.
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
            if distance < REACH && best.is_none_or(|(least, _)| distance < least) {
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

    #[test]
    fn the_nearest_gap_is_taken_and_a_stack_left_room() {
        let text = "7f0000000000-7f0000001000 r-xp 0 00:00 0 /lib/a\n\
                    7f0000200000-7f0000202000 r-xp 0 00:00 0 [vdso]\n\
                    7f0001000000-7f0001021000 rw-p 0 00:00 0 [stack]\n";
        // At the bottom of the gap, so that the stack can grow.
        assert_eq!(near(&maps::parse(text), 0x7f00_0020_0000), Some(0x7f00_0020_3000));
        let without = text.replace("[stack]", "/lib/b");
        let below = 0x7f00_0020_0000 - 0x1000 - TOTAL_SIZE as u64;
        assert_eq!(near(&maps::parse(&without), 0x7f00_0020_0000), Some(below));
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
        assert_eq!(near(&maps::parse(text), vdso), Some(vdso + 0x3000));
        // With the end of the addresses behind the vDSO, so far below the stack that it can grow.
        let at_end = text.replace("7fffb1e", "7fffffe").replace("7fffffe92000", "7fffffffe000");
        let at = near(&maps::parse(&at_end), 0x7fff_ffe9_0000).expect("a place");
        assert_eq!(at, 0x7fff_ffe5_0000 - STACK_GROWS);
    }

    /// Linux 6.18: the vDSO is below the interpreter, and what the program maps is below both. A program that maps
    /// much leaves no room there; the stack is far above.
    #[test]
    fn a_place_above_what_the_program_maps() {
        let text = "7f0000000000-7f00c0001000 rw-p 0 00:00 0 \n\
                    7f00c0001000-7f00c0003000 r-xp 0 00:00 0 [vdso]\n\
                    7f00c0003000-7f00c0040000 r-xp 0 00:00 0 /lib64/ld-linux-x86-64.so.2\n\
                    7ffd00000000-7ffd00021000 rw-p 0 00:00 0 [stack]\n";
        let vdso = 0x7f00_c000_1000;
        assert_eq!(near(&maps::parse(text), vdso), Some(0x7f00_c004_1000));
        // The heap grows into such a gap.
        let heap = text.replace("/lib64/ld-linux-x86-64.so.2", "[heap]");
        assert_eq!(near(&maps::parse(&heap), vdso), None);
    }

    #[test]
    fn there_is_no_place_too_far_away() {
        let text = "10000-20000 r-xp 0 00:00 0 /a\n\
                    7f0000000000-7f0000002000 r-xp 0 00:00 0 [vdso]\n\
                    7f0000003000-7f0000004000 rw-p 0 00:00 0 \n";
        assert!(near(&maps::parse(text), 0x7f00_0000_0000).is_some()); // right before it
        let full = "7eff80000000-7f0000000000 r-xp 0 00:00 0 /a\n\
                    7f0000000000-7f0000002000 r-xp 0 00:00 0 [vdso]\n\
                    7f0000003000-7f0100000000 rw-p 0 00:00 0 \n";
        assert_eq!(near(&maps::parse(full), 0x7f00_0000_0000), None);
    }
}
