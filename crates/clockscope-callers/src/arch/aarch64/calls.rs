//! Recognises calls before return addresses.

/// Bytes of a call instruction.
pub(crate) const CALL_MAX: usize = 4;

/// Whether bytes end with a call: `bl`, or `blr` with or without pointer authentication.
pub(crate) fn ends_with_call(bytes: &[u8]) -> bool {
    let Some(word) = bytes.last_chunk().map(|word| u32::from_le_bytes(*word)) else { return false };
    let is_direct = word & 0xfc00_0000 == 0x9400_0000;
    let is_plain = word & 0xffff_fc1f == 0xd63f_0000;
    // `blraaz`, `blrabz` (without a modifier), `blraa`, `blrab`.
    let is_checked = word & 0xffff_f81f == 0xd63f_081f || word & 0xffff_f800 == 0xd73f_0800;
    is_direct || is_plain || is_checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognised() {
        // bl .-4; blr x16; blraaz x0; blraa x1, x2
        for call in [0x97ff_ffff_u32, 0xd63f_0200, 0xd63f_081f, 0xd73f_0822] {
            assert!(ends_with_call(&call.to_le_bytes()), "{call:x}");
        }
        // b .-4; br x16; ret; nop
        for other in [0x17ff_ffff_u32, 0xd61f_0200, 0xd65f_03c0, 0xd503_201f] {
            assert!(!ends_with_call(&other.to_le_bytes()), "{other:x}");
        }
        assert!(!ends_with_call(&[0x94; 3]));
    }
}
