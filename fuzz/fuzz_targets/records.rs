//! Any bytes are a record of the kernel, or are left out: reading a record does not panic, and keeps no more than it
//! has.
#![no_main]

use clockscope_callers::records::{Reader, Said};
use clockscope_sys::perf_rings::Raw;

const MARK: u64 = 0x1234_5678;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // As in the ring: kind, four bytes; flags, two bytes; length, which the ring checks; then the body.
    let Some((header, body)) = bytes.split_first_chunk::<8>() else { return };
    let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let misc = u16::from_le_bytes([header[4], header[5]]);
    let Some(record) = Reader::new(MARK).read(Raw { kind, misc, body }) else { return };
    if let Said::Sample(taken) = record.said {
        assert!(taken.sample.stack.len() <= body.len());
        assert!(taken.sample.frame_pointers.len() <= body.len() / 8);
    }
});
