//! Calls before return addresses.

/// Most bytes of a call.
pub(crate) const CALL_MAX: usize = 7;

/// Whether bytes end with a call: direct, or through a register or memory.
pub(crate) fn ends_with_call(bytes: &[u8]) -> bool {
    let direct = bytes.len() >= 5 && bytes[bytes.len() - 5] == 0xe8;
    let indirect = (2..=7.min(bytes.len())).any(|length| {
        let call = &bytes[bytes.len() - length..];
        let mode_at = if call[0] == 0xff { 1 } else { 2 };
        let opcode =
            call.get(mode_at - 1) == Some(&0xff) && (mode_at == 1 || call[0] & 0xf0 == 0x40);
        opcode
            && call.get(mode_at).is_some_and(|mode| {
                indirect_length(*mode, call.get(mode_at + 1)) == Some(length - mode_at + 1)
            })
    });
    direct || indirect
}

/// Length of `call r/m64` from its opcode on, or `None` if the mode means another instruction.
fn indirect_length(mode: u8, scale: Option<&u8>) -> Option<usize> {
    if mode >> 3 & 7 != 2 {
        return None;
    }
    let (kind, register) = (mode >> 6, mode & 7);
    let has_scale = kind != 3 && register == 4;
    let without_base = has_scale && scale.is_some_and(|scale| scale & 7 == 5);
    let offset = match kind {
        0 if register == 5 || without_base => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(2 + usize::from(has_scale) + offset)
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
