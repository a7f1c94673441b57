//! Finds out whether a program does not need `x16` at an instruction. Pure.
//!
//! If the tracer was killed, a thread continues by a jump to an address in a register, and that register's value is
//! lost. The register is `x16`, because a linker may change it at every call and every branch to another function
//! (Procedure Call Standard for the Arm 64-bit Architecture, IHI 0055, 6.1.1), so compilers keep no value in it for
//! long. This code follows the instructions from a thread's position to such a call or the return, on all paths. None
//! of them may read `x16`.

use std::collections::BTreeSet;

/// Maximum number of instructions to follow.
const MOST: usize = 1024;

/// Whether no instruction on any path from `at` reads the present value of `x16`. `word` returns the instruction at an
/// address.
pub(crate) fn is_spare(at: u64, word: &mut dyn FnMut(u64) -> Option<u32>) -> bool {
    let mut seen = BTreeSet::new();
    let mut ways = vec![at];
    while let Some(at) = ways.pop() {
        if !seen.insert(at) {
            continue;
        }
        let Some(word) = word(at).filter(|_| seen.len() <= MOST) else { return false };
        match next(word, at) {
            Next::Reads => return false,
            Next::Over => {}
            Next::Follows => ways.push(at + 4),
            Next::Goes(target) => ways.push(target),
            Next::Either(target) => ways.extend([at + 4, target]),
        }
    }
    true
}

/// Effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The instruction may read `x16`, or is unknown.
    Reads,
    /// No later instruction reads the present value of `x16`.
    Over,
    Follows,
    Goes(u64),
    Either(u64),
}

/// Source of the encodings: Arm Architecture Reference Manual, C4.1 (DDI 0487).
fn next(word: u32, at: u64) -> Next {
    let target = |shift: u32, bits: u32| {
        let distance = (word >> shift << (32 - bits)).cast_signed() >> (32 - bits);
        at.wrapping_add_signed(i64::from(distance) << 2)
    };
    let is = |shift: u32| word >> shift & 0x1f == 16;
    let reads = |does: bool| if does { Next::Reads } else { Next::Follows };
    let writes = |does: bool| if does { Next::Over } else { Next::Follows };
    match word >> 24 {
        0x14..=0x17 => Next::Goes(target(0, 26)),
        // `bl`.
        0x94..=0x97 => Next::Over,
        // `b.cond`; `cbz`, `cbnz`; `tbz`, `tbnz`.
        0x54 => Next::Either(target(5, 19)),
        0x34 | 0x35 | 0xb4 | 0xb5 if !is(0) => Next::Either(target(5, 19)),
        0x36 | 0x37 | 0xb6 | 0xb7 if !is(0) => Next::Either(target(5, 14)),
        0x34..=0x37 | 0xb4..=0xb7 => Next::Reads,
        // `ret`, `retaa`, `retab`.
        _ if matches!(word, 0xd65f_03c0 | 0xd65f_0bff | 0xd65f_0fff) => Next::Over,
        // `blr`: the function that finds thread-local data preserves more registers than others, and is called through
        // `x1`.
        _ if word & 0xffff_fc1f == 0xd63f_0000 && !is(5) && word >> 5 & 0x1f != 1 => Next::Over,
        // Other branches.
        0xd6 | 0xd7 => Next::Reads,
        // `svc`; hints and barriers; other instructions that stop a program.
        0xd4 => reads(word & 0xffe0_001f != 0xd400_0001),
        0xd5 => reads(is(0)),
        // `adr`, `adrp`; `movz`, `movn`: these only write.
        top if top & 0x1f == 0x10 => writes(is(0)),
        0x12 | 0x52 | 0x92 | 0xd2 if word >> 23 & 1 == 1 => writes(is(0)),
        // `movk` and bit fields; additions and logical instructions with an immediate.
        top if matches!(top & 0x1f, 0x11 | 0x12) => reads(is(0) || is(5)),
        // Loads and stores with an immediate offset; pairs.
        top if top & 0x3b == 0x39 => reads(is(0) || is(5)),
        top if top & 0x3a == 0x28 => reads(is(0) || is(5) || is(10)),
        // Arithmetic, logical and conditional instructions of two registers: bits 10 to 15 are a shift, an extension or a
        // condition (`add x6, x6, w2, uxtw`).
        top if matches!(top & 0x1f, 0x0a | 0x0b | 0x1a) => reads(is(0) || is(5) || is(16)),
        _ => reads(is(0) || is(5) || is(10) || is(16)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_sys::own_vdso;
    use vdso_reader::Image;

    fn is_spare_in(words: &[u32]) -> bool {
        let mut word = |at: u64| words.get(usize::try_from((at - 0x1000) / 4).ok()?).copied();
        is_spare(0x1000, &mut word)
    }

    const NOP: u32 = 0xd503_201f;
    const RET: u32 = 0xd65f_03c0;
    const SVC: u32 = 0xd400_0001;
    const CALL: u32 = 0x9400_0100;
    /// `ldr x0, [x16]`
    const READS: u32 = 0xf940_0200;

    #[test]
    fn behind_a_system_call_of_a_c_library_it_is_spare() {
        // svc #0; cmn x0, #4095; b.hi +8; ret; neg w19, w0; ldp x19, x20, [sp, #16]; ret
        let code = [SVC, 0xb13f_fc1f, 0x5400_0048, RET, 0x4b00_03f3, 0xa941_53f3, RET];
        assert!(is_spare_in(&code));
        // A loop with a call in it.
        assert!(is_spare_in(&[NOP, CALL, 0x17ff_fffe]));
        assert!(is_spare_in(&[NOP, 0x17ff_ffff]), "without");
    }

    #[test]
    fn on_no_way_may_it_be_read() {
        assert!(!is_spare_in(&[NOP, READS, RET]));
        assert!(!is_spare_in(&[0x5400_0048, RET, READS, RET]), "behind a branch");
        assert!(is_spare_in(&[CALL, READS]), "behind a call it is another value");
        // adrp x16: the start of a jump to another library.
        assert!(is_spare_in(&[0x9000_0010, READS]));
        // br x17, the end of such a jump; add x0, x0, x16; stp x0, x16, [sp]; str x16, [sp]; tbz x16, #0, +8
        for word in [0xd61f_0220, 0x8b10_0000, 0xa900_43e0, 0xf900_03f0, 0x3600_0050] {
            assert!(!is_spare_in(&[word, RET, RET]), "{word:#x}");
        }
        // csel x0, x16, x1, eq; madd x0, x1, x2, x16
        for word in [0x9a81_0200, 0x9b02_4020] {
            assert!(!is_spare_in(&[word, RET]), "{word:#x}");
        }
        // The same bits are no register in add x6, x6, w2, uxtw; csel x0, x0, x1, mi.
        for word in [0x8b22_40c6, 0x9a81_4000] {
            assert!(is_spare_in(&[word, RET]), "{word:#x}");
        }
        assert!(!is_spare_in(&[NOP]), "nobody knows what follows");
        assert!(!is_spare_in(&[0]), "nor what this does");
    }

    /// A thread that does nothing but read clocks is nearly always there.
    #[test]
    fn it_is_spare_everywhere_in_the_vdso() {
        let Some(own) = own_vdso::read() else { return skips::skip("this kernel has no vDSO") };
        let image = Image::parse(&own.bytes).unwrap();
        let mut word = |at| {
            let bytes = own.bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        for symbol in image.functions().filter(|symbol| !symbol.name.ends_with("rt_sigreturn")) {
            for at in (symbol.offset..symbol.offset + symbol.size).step_by(4) {
                assert!(is_spare(at, &mut word), "{} {at:#x}", symbol.name);
            }
        }
    }
}
