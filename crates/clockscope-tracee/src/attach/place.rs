//! Where the shim goes in a process that is running: near the kernel's. Pure.

use vdso_image::layout::{PAGE, TOTAL_SIZE};

use vdso_reader::maps::Mapping;

/// A near jump reaches 2 GiB; what lies at the edge of the images is within the rest.
const REACH: u64 = (1 << 31) - (64 << 20);

/// A free place of [`TOTAL_SIZE`] bytes within reach of `near`, with a page free on either side.
pub fn near(maps: &[Mapping], near: u64) -> Option<u64> {
    let page = PAGE as u64;
    let size = TOTAL_SIZE as u64 + 2 * page;
    let mut best: Option<(u64, u64)> = None;
    for (before, behind) in maps.iter().zip(maps.iter().skip(1)) {
        if behind.start < before.end + size || behind.start > 1 << 47 {
            continue;
        }
        // Stacks grow down and the heap grows up: as far from them as the gap allows.
        let at = if behind.name.starts_with("[stack") {
            before.end + page
        } else {
            behind.start - size + page
        };
        let distance = at.abs_diff(near);
        if distance < REACH && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, at));
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
                    7f0000100000-7f0000102000 r-xp 0 00:00 0 [vdso]\n\
                    7f0001000000-7f0001021000 rw-p 0 00:00 0 [stack]\n";
        // At the bottom of the gap, so that the stack can grow.
        assert_eq!(near(&maps::parse(text), 0x7f00_0010_0000), Some(0x7f00_0010_3000));
        let without = text.replace("[stack]", "/lib/b");
        let below = 0x7f00_0010_0000 - 0x1000 - TOTAL_SIZE as u64;
        assert_eq!(near(&maps::parse(&without), 0x7f00_0010_0000), Some(below));
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
