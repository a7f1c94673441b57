use proptest::prelude::*;

use super::super::registers::GENERAL;
use super::super::signals::interrupted;
use super::*;
use crate::arch::code_tests::{AT, STACK, compare, way, words};
use crate::modules::mappings_of;
use crate::sample::Registers;
use crate::unwind_cfi::Stack;
use crate::unwind_code::{INSTRUCTIONS_MAX, Way};

/// `rbp` points to word `frame` of the stack; other registers hold `base` plus their number.
fn registers(base: u64, frame: u64) -> Registers {
    let mut registers = Registers { ip: AT, general: [None; GENERAL] };
    for number in PRESERVED {
        registers.general[number] = Some(base + number as u64);
    }
    registers.general[SP] = Some(STACK);
    registers.general[FP] = Some(STACK + 8 * frame);
    registers
}

/// Return address, stack pointer in words, `rbx`, `rbp`, `r12`.
type Found = (u64, u64, Option<u64>, Option<u64>, Option<u64>);

fn found(bytes: &[u8]) -> Option<Found> {
    let Way::Back(back) = way(bytes, &[]) else { return None };
    let caller = back.caller(&registers(100, 8), Stack { start: STACK, bytes: &words(32) })?;
    let sp = (caller.general[SP]? - STACK) / 8;
    Some((caller.ip, sp, caller.general[3], caller.general[FP], caller.general[12]))
}

/// `rbp` if it is unchanged.
const OWN: Option<u64> = Some(STACK + 64);

#[test]
fn clock_gettime_of_musl_returns_behind_a_branch() {
    // musl 1.2.3 behind `call *%rax`: test, je, cmp, je, and a system call; then add, pop, pop, ret.
    let code = [
        &[0x85, 0xc0, 0x74, 0x27, 0x83, 0xf8, 0xea, 0x74, 0x36][..],
        &[0x48, 0x63, 0xfb, 0xb8, 0xe4, 0, 0, 0, 0x48, 0x89, 0xee, 0x0f, 0x05],
        &[0x83, 0xf8, 0xda, 0x75, 0x1c, 0x48, 0xc7, 0xc7, 0xea, 0xff, 0xff, 0xff],
        &[0x85, 0xdb, 0x74, 0x31, 0xe8, 0x1c, 5, 0, 0],
        &[0x48, 0x83, 0xc4, 8, 0x5b, 0x5d, 0xc3],
    ]
    .concat();
    assert_eq!(found(&code), Some((3, 4, Some(1), Some(2), Some(112))));
}

#[test]
fn what_compilers_write_before_a_return() {
    for (code, expected) in [
        (&[0xc3][..], (0, 1, Some(103), OWN, Some(112))),
        // ret $16
        (&[0xc2, 16, 0], (0, 3, Some(103), OWN, Some(112))),
        // leave; ret
        (&[0xc9, 0xc3], (9, 10, Some(103), Some(8), Some(112))),
        // lea -16(%rbp),%rsp; pop %rbx; pop %r12; pop %rbp; ret
        (
            &[0x48, 0x8d, 0x65, 0xf0, 0x5b, 0x41, 0x5c, 0x5d, 0xc3],
            (9, 10, Some(6), Some(8), Some(7)),
        ),
        // mov 8(%rsp),%rbx; sub $-128,%rsp; ret
        (
            &[0x48, 0x8b, 0x5c, 0x24, 8, 0x48, 0x83, 0xec, 0x80, 0xc3],
            (16, 17, Some(1), OWN, Some(112)),
        ),
        // push %rbx; xor %ebx,%ebx; pop %rbx; ret
        (&[0x53, 0x31, 0xdb, 0x5b, 0xc3], (0, 1, Some(103), OWN, Some(112))),
        // xor %ebx,%ebx; ret: no compiler writes this, and 0 is not taken for the caller's value.
        (&[0x31, 0xdb, 0xc3], (0, 1, None, OWN, Some(112))),
        // call to `ret`; pop %rbp; ret
        (&[0xe8, 1, 0, 0, 0, 0x5d, 0xc3], (1, 2, Some(103), Some(0), Some(112))),
        // call *%r13; pop %rbp; ret
        (&[0x41, 0xff, 0xd5, 0x5d, 0xc3], (1, 2, Some(103), Some(0), Some(112))),
        // je over `call *%r13; ret`, which would disagree, to `pop %rbp; ret`.
        (&[0x74, 4, 0x41, 0xff, 0xd5, 0xc3, 0x5d, 0xc3], (1, 2, Some(103), Some(0), Some(112))),
        // jmp over two bytes that are no instruction; pop %rbp; ret
        (&[0xeb, 2, 0x06, 0x06, 0x5d, 0xc3], (1, 2, Some(103), Some(0), Some(112))),
    ] {
        assert_eq!(found(code), Some(expected), "{code:x?}");
    }
}

#[test]
fn what_cannot_be_told_is_not_guessed() {
    for code in [
        &[][..],
        // A call may never return: call to `hlt`; ret; hlt
        &[0xe8, 1, 0, 0, 0, 0xc3, 0xf4],
        // call *0(%rip): an imported function; ret
        &[0xff, 0x15, 0, 0, 0, 0, 0xc3],
        // call to itself
        &[0xe8, 0xfb, 0xff, 0xff, 0xff, 0xc3],
        // jmp *%rax
        &[0xff, 0xe0],
        // and $-16,%rsp; ret
        &[0x48, 0x83, 0xe4, 0xf0, 0xc3],
        // push %rax; ret
        &[0x50, 0xc3],
        // je: ret and pop %rax, ret do not agree.
        &[0x74, 1, 0xc3, 0x58, 0xc3],
        // mov %rax,%rbp; leave; ret
        &[0x48, 0x89, 0xc5, 0xc9, 0xc3],
        // iretq
        &[0x48, 0xcf],
        // jmp to itself
        &[0xeb, 0xfe],
        // hlt; ret
        &[0xf4, 0xc3],
    ] {
        assert_eq!(way(code, &[]), Way::Unknown, "{code:x?}");
    }
    let long = [vec![0x90; 2 * INSTRUCTIONS_MAX], vec![0xc3]].concat();
    assert_eq!(way(&long, &[]), Way::Unknown);
}

#[test]
fn the_first_function_of_a_thread_goes_into_its_end() {
    // mov %eax,%edi; call exit
    let code = [0x89, 0xc7, 0xe8, 0xf9, 0, 0, 0];
    assert_eq!(way(&code, &[AT + 0x100]), Way::End);
    assert_eq!(way(&code, &[AT + 0x101]), Way::Unknown);
    // xor %eax,%eax; mov $60,%al; syscall, as in musl's `clone`; then other code.
    let code = [0x31, 0xc0, 0xb0, 60, 0x0f, 0x05, 0x5d, 0xc3];
    assert_eq!(way(&code, &[]), Way::End);
    let code = [0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x5d, 0xc3];
    assert!(matches!(way(&code, &[]), Way::Back(_)), "getpid");
    // je over `call exit` to another call: the function may go on.
    let code = [0x74, 5, 0xe8, 0xf9, 0, 0, 0, 0xe8, 0, 0, 0, 0];
    assert_eq!(way(&code, &[AT + 0x100]), Way::Unknown);
    // je over `call exit` to a return.
    let code = [0x74, 5, 0xe8, 0xf9, 0, 0, 0, 0xc3];
    assert!(matches!(way(&code, &[AT + 0x100]), Way::Back(_)));
}

#[test]
fn a_handler_returns_to_what_the_signal_interrupted() {
    assert_eq!(way(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[]), Way::Signal);
    assert_eq!(way(&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05], &[]), Way::Signal);
    assert_eq!(way(&[0xb8, 0x0e, 0, 0, 0, 0x0f, 0x05], &[]), Way::Unknown);
    let stack = Stack { start: STACK, bytes: &words(32) };
    let before = interrupted(&registers(100, 8), stack).unwrap();
    // As in `struct sigcontext`: r8 first, behind five words.
    let general = |number: usize| before.general[number];
    assert_eq!([general(8), general(15), general(FP), general(3)], [5, 12, 15, 16].map(Some));
    assert_eq!((general(SP), before.ip), (Some(20), 21));
}

proptest! {
    #[test]
    fn every_walk_ends(
        // Half of the bytes are parts of instructions that move the stack pointer.
        bytes in proptest::collection::vec(
            prop_oneof![
                any::<u8>(),
                proptest::sample::select(&[
                    0x48_u8, 0x4c, 0x01, 0x29, 0x81, 0x83, 0x89, 0x8b, 0x8d, 0xc4, 0xec, 0xe4, 0xe5, 0x24, 0x64,
                    0x6c, 0x55, 0x5d, 0xc9, 0xc3, 0xe8, 0xff, 0xeb, 0x74, 0, 8,
                ][..]),
            ],
            0..200,
        ),
    ) {
        let way = way(&bytes, &[AT + 7]);
        if let Way::Back(back) = way {
            let stack = Stack { start: STACK, bytes: &[0; 64] };
            let mut registers = Registers { ip: AT, general: [Some(u64::MAX); GENERAL] };
            prop_assert_eq!(back.caller(&registers, stack), None);
            registers.general[SP] = Some(STACK);
            let _ = back.caller(&registers, stack);
        }
    }
}

/// Compares the unwind tables of this process's C library with the results from its code.
#[test]
fn code_says_what_the_tables_say() {
    let mappings = mappings_of(std::process::id().cast_signed()).unwrap();
    let libc = mappings.iter().find(|mapping| mapping.name.to_string_lossy().contains("libc.so"));
    let Some(libc) = libc else { return skips::skip("this process has no libc.so") };
    let returns = |code: &[u8], at: u64| {
        let calls = Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter().filter(
            |instruction| instruction.is_call_near() || instruction.is_call_near_indirect(),
        );
        calls.map(|call| call.next_ip()).collect()
    };
    compare(&libc.name, returns, |back, stack| {
        let mut registers = registers(1_000_000, 2000);
        // The tables may use a frame pointer where the code uses the stack pointer.
        let sp = back.caller(&registers, stack).and_then(|caller| caller.general[SP]);
        if let Some(sp) = sp.filter(|sp| *sp < STACK + 8 * 1000) {
            registers.general[FP] = Some(sp - 16);
        }
        Some(registers)
    });
}
