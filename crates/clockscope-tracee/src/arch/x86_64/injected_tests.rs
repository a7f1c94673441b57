//! Disassembles the instructions that a thread of a running process executes for clockscope.

use std::ops::Range;

use vdso_image::layout::{AREA_SIZE, ATTACH_AGAIN, InjectedSlots, TOTAL_SIZE};

use super::attach::registers::PAUSE;
use super::launch_code_tests::text;
use crate::attach::injected::{Injected, Work, assemble};
use crate::launch_code::{attach, map};
use clockscope_sys::ptrace::Registers;
use iced_x86::{Decoder, DecoderOptions, Instruction};

fn registers(rax: i64, orig_rax: i64) -> Registers {
    let mut registers = Registers::zero();
    registers.rax = rax.cast_unsigned();
    registers.orig_rax = orig_rax.cast_unsigned();
    registers.rip = 0x40_1002;
    registers.rsp = 0x7ffd_0000_1238;
    registers.r15 = 15;
    registers.rbx = 3;
    registers.eflags = 0x246;
    registers
}

/// The instructions before the slots, with their addresses. A reference to a slot is replaced by the slot's value.
fn listing(code: &[u8], slots: usize) -> Vec<(u64, String)> {
    let decoder = Decoder::with_ip(64, &code[..slots], 0x1000, DecoderOptions::NONE);
    let line = |instruction: Instruction| {
        let mut line = text(&instruction);
        if let Some((before, _)) = line.split_once("[rel") {
            let at = usize::try_from(instruction.ip_rel_memory_address() - 0x1000).unwrap();
            let slot = code.get(at..at + 8).map_or([0; 8], |bytes| bytes.try_into().unwrap());
            line = format!("{before}[{:X}h]", u64::from_le_bytes(slot));
        }
        (instruction.ip(), line)
    };
    decoder.into_iter().map(line).collect()
}

const ATTACH: Work = Work::Attach {
    at: 0x7f00_0000_0000,
    attach_offset: 0x1612,
    shared_id: 77,
    process: 5,
    task: ATTACH_AGAIN,
};

#[test]
fn the_code_reads_as_meant() {
    let Injected { bytes: code, waiting, last } =
        assemble(&ATTACH, 0x1000, &registers(7, -1), 0x55);
    let data = attach::SLOTS;
    let text = listing(&code, data);
    let position = |line: &str| {
        text.iter()
            .position(|(_, other)| other == line)
            .unwrap_or_else(|| panic!("{line}: {text:?}"))
    };
    assert_eq!(text.iter().filter(|(_, line)| *line == "syscall").count(), 3, "{text:?}");
    assert_eq!(position("lea rsi,[FFFFFFFFFFFFFFFFh]"), 1, "all signals");
    assert!(position("jmp qword [7F0000001612h]") < position("popf"));
    assert!(position("lea rsp,[246h]") + 1 == position("popf"), "the flags");
    assert!(position("popf") < position("mov rsp,[7FFD00001238h]"));
    assert!(position("mov rsp,[7FFD00001238h]") < position("lea rsi,[55h]"), "the mask");
    assert!(position("lea rsi,[55h]") < position("mov r15,[Fh]"));
    assert_eq!(position("mov r15,[Fh]") + 1, position("jmp qword [401002h]"));
    // The installer's parameters, and the length of the wait.
    let word = |n: usize| u64::from_le_bytes(code[data + 8 * n..][..8].try_into().unwrap());
    assert_eq!((word(4), word(5)), (0, PAUSE));
    let params = size_of::<InjectedSlots>() / 8;
    assert_eq!([0, 1, 2, 3].map(|n| word(params + n)), [waiting.start, 77, 5, ATTACH_AGAIN]);
    let range = |place: &Range<u64>| -> Vec<&str> {
        let there = text.iter().filter(|(at, _)| place.contains(at));
        there.map(|(_, line)| line.as_str()).collect()
    };
    let wait = range(&waiting);
    assert_eq!((wait[0], wait[5], wait[9]), ("mov ebx,32h", "lea r8,[0h]", "dec ebx"));
    let again = format!("jne short {:016X}h", waiting.start + 5);
    assert_eq!(wait[10..], [again.as_str()]);
    assert_eq!(position("lea rsp,[246h]"), position("mov ebx,32h") + wait.len());
    // A signal may arrive behind the last call, where only registers are left to load.
    let rest = range(&last);
    let before = text.iter().position(|(at, _)| *at == last.start).unwrap() - 1;
    assert_eq!(text[before].1, "syscall");
    let (jump, loads) = rest.split_last().unwrap();
    assert_eq!(loads.len(), 15);
    assert!(loads.iter().all(|line| line.starts_with("mov ")), "{rest:?}");
    assert!(jump.starts_with("jmp qword"), "{rest:?}");
}

#[test]
fn mapping_leaves_every_register_as_it_was() {
    let at = 0x10_0000;
    let (total, area) = (TOTAL_SIZE as u64, AREA_SIZE as u64);
    for (is_there, ranges) in
        [(false, vec![at, total, 0x20_0000, area, 0]), (true, vec![0x20_0000, area, 0])]
    {
        let work = Work::Map { at, is_there, areas: [0x20_0000, 0], shared_id: 1, live_id: 2 };
        let code = assemble(&work, 0, &registers(7, -1), 0).bytes;
        let text = listing(&code, map::SLOTS);
        for line in ["mov rbx,[3h]", "mov rax,[7h]"] {
            assert!(text.iter().any(|(_, other)| other == line), "{line}: {text:?}");
        }
        let words = code[map::SLOTS + size_of::<InjectedSlots>()..].chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        assert_eq!(words.collect::<Vec<_>>(), ranges);
    }
}
