//! Recognises calls before return addresses.

use super::code::decode;

/// Most bytes of a call instruction.
pub(crate) const CALL_MAX: usize = 7;

/// Whether bytes end with a call: direct, or through a register or memory.
pub(crate) fn ends_with_call(bytes: &[u8]) -> bool {
    (2..=CALL_MAX.min(bytes.len())).any(|length| {
        let call = decode(&bytes[bytes.len() - length..], 0);
        call.len() == length && (call.is_call_near() || call.is_call_near_indirect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognised() {
        let calls: [&[u8]; 9] = [
            &[0xe8, 1, 2, 3, 4],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd4],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x50, 8],
            &[0xff, 0x90, 0, 1, 0, 0],
            &[0xff, 0x14, 0x24],
            &[0xff, 0x54, 0x24, 8],
            &[0x41, 0xff, 0x94, 0x24, 1, 1, 0, 0],
        ];
        for call in calls {
            let before = [&[0x90; 8], call].concat();
            assert!(ends_with_call(&before[before.len() - 8..]), "{call:x?}");
        }
        for other in [&[0x90; 8][..], &[0xff, 0xe0], &[0xff, 0x25, 1, 2, 3, 4], &[0xc3], &[]] {
            assert!(!ends_with_call(other), "{other:x?}");
        }
    }
}
