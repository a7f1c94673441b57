//! Any bytes are a program's file: what is found in it is displaced from bytes of the file, one site behind another, and
//! code for it can be made or is refused.
#![no_main]

use clockscope_sites::{Head, JUMP, Stubs, Wanted, find};

/// Where the file is mapped, and an area of stubs near it.
const BIAS: u64 = 0x7f00_0000_0000;
const AREA: u64 = BIAS - 0x10_0000;
const AREA_SIZE: usize = 1 << 20;
const PAGE: u64 = 4096;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let Ok(found) = find(file, Wanted::CallsAndCounters) else { return };
    let mut behind = 0;
    for site in &found.sites {
        let segment = found.segments.iter().find(|segment| {
            let offset = site.window.checked_sub(segment.address);
            offset.is_some_and(|offset| offset + site.displaced.len() as u64 <= segment.size)
        });
        let segment = segment.expect("a site lies in a segment");
        let at = (site.window - segment.address + segment.offset) as usize;
        assert_eq!(file[at..at + site.displaced.len()], site.displaced);
        assert!(site.displaced.len() >= JUMP, "{site:?}");
        assert_eq!(site.window / PAGE, (site.window + JUMP as u64 - 1) / PAGE, "{site:?}");
        assert!(behind <= site.window, "{site:?} begins before {behind:#x}");
        behind = site.end();
    }
    let head = Head {
        table: BIAS + 0x100_0000,
        alive: BIAS + 0x200_0000,
        mark: 1,
        own: BIAS + 0x200_0008,
        loading: BIAS + 0x200_1000,
        places: BIAS + 0x200_2000,
        no_timing: BIAS + 0x200_0010,
        times: true,
    };
    for times in [false, true] {
        let (mut stubs, _) = Stubs::new(AREA, AREA_SIZE, Head { times, ..head });
        let Some((code, jumps)) = stubs.add(&found.sites, BIAS) else { continue };
        assert!(stubs.holds(code.at), "{:#x}", code.at);
        assert!(jumps.len() >= found.sites.len());
    }
});
