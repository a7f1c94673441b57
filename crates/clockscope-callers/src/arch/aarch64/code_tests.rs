use std::path::Path;

use super::super::registers::GENERAL;
use super::*;
use crate::arch::code_tests::{self, AT, STACK, compare, words};
use crate::sample::Registers;
use crate::unwind_cfi::Stack;
use crate::unwind_code::{INSTRUCTIONS_MAX, Way};

const RET: u32 = 0xd65f_03c0;
const NOP: u32 = 0xd503_201f;
const SVC: u32 = 0xd400_0001;
/// `ldp x29, x30, [sp], #32`
const LEAVE: u32 = 0xa8c2_7bfd;

/// The way from the first of these instructions on.
fn way(words: &[u32], ends: &[u64]) -> Way {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    code_tests::way(&bytes, ends)
}

/// Each register holds 100 plus its number, except `x29`, which points to the eighth word of the
/// stack.
fn registers() -> Registers {
    let mut registers = Registers { ip: AT, general: [None; GENERAL] };
    for (number, register) in (100..).zip(&mut registers.general) {
        *register = Some(number);
    }
    registers.general[SP] = Some(STACK);
    registers.general[FP] = Some(STACK + 64);
    registers
}

/// Return address, stack pointer in words, `x19`, `x29`.
type Found = (u64, u64, Option<u64>, Option<u64>);

/// The caller, with each word of the stack equal to its own number.
fn found(code: &[u32]) -> Option<Found> {
    let Way::Back(back) = way(code, &[]) else { return None };
    let caller = back.caller(&registers(), Stack { start: STACK, bytes: &words(32) })?;
    let sp = (caller.general[SP]? - STACK) / 8;
    Some((caller.ip, sp, caller.general[19], caller.general[FP]))
}

/// `x29` if it is unchanged.
const OWN: Option<u64> = Some(STACK + 64);

#[test]
fn what_compilers_write_before_a_return() {
    for (code, expected) in [
        // ret; retaa
        (&[RET][..], (130, 0, Some(119), OWN)),
        (&[0xd65f_0bff], (130, 0, Some(119), OWN)),
        (&[LEAVE, RET], (1, 4, Some(119), Some(0))),
        // ldp x19, x20, [sp, #16]; ldp x29, x30, [sp], #32; autiasp; ret
        (&[0xa941_53f3, LEAVE, 0xd503_23bf, RET], (1, 4, Some(2), Some(0))),
        // mov sp, x29; ldp x29, x30, [sp], #32; ret
        (&[0x9100_03bf, LEAVE, RET], (9, 12, Some(119), Some(8))),
        // add sp, sp, #64; ldr x30, [sp], #16; ret
        (&[0x9101_03ff, 0xf841_07fe, RET], (8, 10, Some(119), OWN)),
        // str x19, [sp, #8]; mov x19, #0; ldr x19, [sp, #8]; ret
        (&[0xf900_07f3, 0xd280_0013, 0xf940_07f3, RET], (130, 0, Some(119), OWN)),
        // ldur x19, [x29, #-8]; ret
        (&[0xf85f_83b3, RET], (130, 0, Some(7), OWN)),
        // mov x19, #0; ret: no compiler writes this, and 0 is not taken for the caller's value.
        (&[0xd280_0013, RET], (130, 0, None, OWN)),
        // ldp d8, d9, [sp], #16; ldr q0, [sp], #16; ret
        (&[0x6cc1_27e8, 0x3cc1_07e0, RET], (130, 4, Some(119), OWN)),
        // stp x29, x30, [sp, #-32]!; mov x29, sp; ldp x29, x30, [sp], #32; ret
        (&[0xa9be_7bfd, 0x9100_03fd, LEAVE, RET], (130, 0, Some(119), OWN)),
        // bl to `ret`; ldp x29, x30, [sp], #32; ret
        (&[0x9400_0003, LEAVE, RET, RET], (1, 4, Some(119), Some(0))),
        // blr x21; ldp x29, x30, [sp], #32; ret
        (&[0xd63f_02a0, LEAVE, RET], (1, 4, Some(119), Some(0))),
        // cbz over `blr x21; ret`, whose return address would be lost, to `ldp …; ret`.
        (&[0xb400_0060, 0xd63f_02a0, RET, LEAVE, RET], (1, 4, Some(119), Some(0))),
        // b over a word that is no instruction; ret
        (&[0x1400_0002, 0xffff_ffff, RET], (130, 0, Some(119), OWN)),
    ] {
        assert_eq!(found(code), Some(expected), "{code:x?}");
    }
}

#[test]
fn what_cannot_be_told_is_not_guessed() {
    for code in [
        &[][..],
        // A call may never return: bl to `brk`; ldp …; ret; brk
        &[0x9400_0003, LEAVE, RET, 0xd420_0020],
        // A call has overwritten the return address: bl to `ret`; ret; ret
        &[0x9400_0002, RET, RET],
        // An imported function: adrp x0; ldr x0, [x0, #16]; blr x0; ldp …; ret
        &[0x9000_0000, 0xf940_0800, 0xd63f_0000, LEAVE, RET],
        // bl to itself
        &[0x9400_0000, LEAVE, RET],
        // br x0; ret x1
        &[0xd61f_0000],
        &[0xd65f_0020],
        // sub sp, sp, x1; and sp, x0, #-16
        &[0xcb21_63ff, RET],
        &[0x927c_ec1f, RET],
        // cbz: ret, and ldp …, ret do not agree.
        &[0xb400_0040, RET, LEAVE, RET],
        // mov x29, x0; mov sp, x29; ret
        &[0xaa00_03fd, 0x9100_03bf, RET],
        // eor x30, x30, x30; ret
        &[0xca1e_03de, RET],
        // b to itself; brk; ret
        &[0x1400_0000],
        &[0xd420_0020, RET],
        // The second instruction is missing.
        &[NOP],
    ] {
        assert_eq!(way(code, &[]), Way::Unknown, "{code:x?}");
    }
    let long = [vec![NOP; 2 * INSTRUCTIONS_MAX], vec![RET]].concat();
    assert_eq!(way(&long, &[]), Way::Unknown);
}

#[test]
fn what_writes_a_register_makes_it_unknown() {
    let lost = |word: u32| {
        let Way::Back(back) = way(&[word, RET], &[]) else { panic!("{word:x}") };
        let caller = back.caller(&registers(), Stack { start: STACK, bytes: &[] }).expect("in x30");
        let same = |number: &usize| caller.general[*number] == registers().general[*number];
        PRESERVED.into_iter().filter(|number| !same(number)).collect::<Vec<_>>()
    };
    for (word, expected) in [
        (0xd53b_d054, &[20][..]),     // mrs x20, tpidr_el0
        (0xc85f_7c15, &[21]),         // ldxr x21, [x0]
        (0xc816_7c15, &[21, 22, 23]), // stxr w22, x21, [x0]: more than the instruction writes
        (0x9e66_0017, &[23]),         // fmov x23, d0
        (0x2940_67f8, &[24, 25]),     // ldp w24, w25, [sp]
        (0xb940_03fa, &[26]),         // ldr w26, [sp]
        (0x9100_077b, &[27]),         // add x27, x27, #1
        (0x9b01_081c, &[28]),         // madd x28, x0, x1, x2
        (NOP, &[]),
    ] {
        assert_eq!(lost(word), expected, "{word:x}");
    }
}

#[test]
fn the_first_function_of_a_thread_goes_into_its_end() {
    // nop; bl exit
    let code = [NOP, 0x9400_003f];
    assert_eq!(way(&code, &[AT + 0x100]), Way::End);
    assert_eq!(way(&code, &[AT + 0x101]), Way::Unknown);
    // mov x8, #93; svc #0, as in musl's `clone`; then other code.
    assert_eq!(way(&[0xd280_0ba8, SVC, LEAVE, RET], &[]), Way::End);
    // mov x8, #172; mov x8, #93 and movk x8, #1, lsl #16
    for other in [&[0xd280_1588, SVC, RET][..], &[0xd280_0ba8, 0xf2a0_0028, SVC, RET]] {
        assert!(matches!(way(other, &[]), Way::Back(_)), "{other:x?}");
    }
    // b.eq over `bl exit` to a return.
    assert!(matches!(way(&[0x5400_0040, 0x9400_003f, RET], &[AT + 0x100]), Way::Back(_)));
}

#[test]
fn a_handler_returns_to_what_the_signal_interrupted() {
    assert_eq!(way(&[0xd280_1168, SVC], &[]), Way::Signal);
    assert!(matches!(way(&[0xd280_1188, SVC, RET], &[]), Way::Back(_)));
}

mod any_words {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_walk_ends(
            words in proptest::collection::vec(
                prop_oneof![
                    any::<u32>(),
                    proptest::sample::select(&[
                        RET, LEAVE, NOP, SVC, 0xa941_53f3, 0x9100_03bf, 0xf900_07f3, 0xd63f_02a0, 0xb400_0040,
                        0x1400_0002, 0x9400_0003,
                    ][..]),
                ],
                0..100,
            ),
        ) {
            if let Way::Back(back) = way(&words, &[AT + 8]) {
                let mut registers = registers();
                let _ = back.caller(&registers, Stack { start: STACK, bytes: &[0; 64] });
                registers.general = [Some(u64::MAX); GENERAL];
                let _ = back.caller(&registers, Stack { start: STACK, bytes: &[0; 64] });
            }
        }
    }
}

/// Compares the unwind tables of this machine's C library with the results from its code.
#[test]
fn code_says_what_the_tables_say() {
    let places = ["/lib/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"].map(Path::new);
    let Some(libc) = places.into_iter().find(|place| place.exists()) else {
        return skips::skip("this machine has no libc.so.6");
    };
    let returns = |code: &[u8], at: u64| {
        let calls = code
            .chunks_exact(4)
            .zip((at..).step_by(4))
            .filter(|(word, _)| super::super::calls::ends_with_call(word));
        calls.map(|(_, call)| call + 4).collect()
    };
    compare(libc, returns, |back, stack| {
        let mut registers = registers();
        // After a call the return address is only in memory.
        registers.general[LINK] = None;
        // The tables may use the frame pointer where the code uses the stack pointer: it points to
        // the frame record at the bottom of the frame, as the stack pointer does unless arguments
        // lie below.
        registers.general[FP] = Some(STACK);
        back.caller(&registers, stack).map(|_| registers)
    });
}
