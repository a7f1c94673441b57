//! Any bytes are an archive or refused: reading them and what they hold ends, and does not panic.
#![no_main]

use clock_doctor::root::{Root, facts};

const BLOCK: usize = 512;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // The sum in a header refuses nearly every change to it: mended, changes reach further.
    let mut mended = bytes.to_vec();
    mended.chunks_exact_mut(BLOCK).filter(|block| block[257..262] == *b"ustar").for_each(mend);
    if mended != bytes {
        read(&mended);
    }
});

fn read(bytes: &[u8]) {
    if let Ok(root) = Root::from_archive(bytes, "archive") {
        let _ = facts(&root);
    }
}

/// Writes the sum of the header's bytes into it, for which its own place counts as blanks.
fn mend(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
