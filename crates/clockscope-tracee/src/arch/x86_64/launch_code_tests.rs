//! Disassembles the launch code.

use std::mem::offset_of;

use crate::launch_code::*;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, Mnemonic, NasmFormatter, Register,
};
use vdso_image::layout::{AREAS, ExecveSlots, LaunchParams, LaunchSlots, MemoryMap, TOTAL_SIZE};

const NO_MEMORY: MemoryMap = MemoryMap {
    segments: [5; 6],
    start_stack: 6,
    strings: [7; 4],
    auxv: 8,
    auxv_size: 9,
    exe_fd: 10,
};
const LAUNCH: LaunchSlots = LaunchSlots {
    image: 0x7ffc_0000_1000,
    install_offset: 0x1612,
    params: LaunchParams {
        kernel_base: 1,
        auxv_slot: 2,
        shared_id: 3,
        process: 4,
        entry: 0x7fff_1234_5678,
        clock: 5,
        clock_inode: 6,
        memory: NO_MEMORY,
        areas: [0; AREAS],
        tells: 11,
    },
};

#[test]
fn the_code_reads_as_meant() {
    let code = assemble(&LAUNCH);
    let mut decoder = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE);
    let mut text = Vec::new();
    let (mut zeroed, mut params) = (0, 0);
    for instruction in &mut decoder {
        let line = line(&code, &instruction);
        if instruction.is_ip_rel_memory_operand() && instruction.op0_register() == Register::RDI {
            params = instruction.ip_rel_memory_address();
        }
        zeroed += u32::from(line.starts_with("xor e") || line.starts_with("xor r"));
        let last = instruction.flow_control() == FlowControl::IndirectBranch;
        text.push(line);
        if last && zeroed > 2 {
            let at = usize::try_from(instruction.ip_rel_memory_address() - 0x1000).unwrap();
            assert_eq!(code[at..at + 8], LAUNCH.params.entry.to_le_bytes());
            break;
        }
    }
    assert_eq!(zeroed, 16, "{text:?}"); // edi twice
    let at = usize::try_from(params - 0x1000).unwrap();
    assert_eq!(code[at..].len(), size_of::<LaunchParams>());
    let words = |at: usize| u64::from_le_bytes(code[at..][..8].try_into().unwrap());
    assert_eq!(words(at), 1);
    let memory = at + offset_of!(LaunchParams, memory);
    let expected = [5, 5, 5, 5, 5, 5, 6, 7, 7, 7, 7, 8, 10 << 32 | 9];
    assert_eq!(expected, std::array::from_fn(|n| words(memory + 8 * n)));
    assert_eq!(words(at + offset_of!(LaunchParams, tells)), 11);
    // The code gives back the memory that the image was copied from.
    let image = "mov reg,7FFC00001000h";
    let at: Vec<usize> = (0..text.len()).filter(|index| text[*index] == image).collect();
    let [from, back] = at[..] else { panic!("{text:?}") };
    assert_eq!(text[from + 1..back], ["mov ecx,1000h", "rep movsq"], "{text:?}");
    assert_eq!(text[back + 1..][..3], ["mov esi,8000h", "mov edx,4", "mov eax,1Ch"]);
}

/// An instruction as text.
pub(super) fn text(instruction: &Instruction) -> String {
    let mut line = String::new();
    NasmFormatter::new().format(instruction, &mut line);
    line
}

/// An instruction as text; a load of a slot is shown with the slot's value, into `reg`.
fn line(code: &[u8], instruction: &Instruction) -> String {
    let mut value = 0;
    if instruction.mnemonic() == Mnemonic::Mov && instruction.is_ip_rel_memory_operand() {
        let at = usize::try_from(instruction.ip_rel_memory_address() - 0x1000).unwrap();
        value = u64::from_le_bytes(code[at..at + 8].try_into().unwrap());
    }
    if value == 0 { text(instruction) } else { format!("mov reg,{value:X}h") }
}

#[test]
fn executing_again_passes_the_program_its_own_words() {
    let again = ExecveSlots { path: 0x11, arguments: 0x22, environment: 0x33, entry: 0x44 };
    let code = assemble_execve(&again);
    let decoded = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE);
    let (mut text, mut registers) = (Vec::new(), Vec::new());
    for instruction in decoded.into_iter().take(6) {
        registers.push(instruction.op0_register());
        text.push(line(&code, &instruction));
    }
    assert_eq!(text[..4], ["mov eax,3Bh", "mov reg,11h", "mov reg,22h", "mov reg,33h"]);
    assert_eq!(registers[1..4], [Register::RDI, Register::RSI, Register::RDX]);
    assert_eq!(text[5], "syscall");
    assert_eq!(code[code.len() - 8..], 0x44_u64.to_le_bytes());
}

/// The instructions at the targets of the conditional jumps, in the order of the jumps.
fn landings(code: &[u8]) -> Vec<String> {
    let mut leaves = 0;
    let all = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).into_iter();
    // Up to the second indirect jump; behind it are data.
    let all: Vec<_> = all
        .take_while(|instruction| {
            let before = leaves;
            leaves += u32::from(instruction.flow_control() == FlowControl::IndirectBranch);
            before < 2
        })
        .collect();
    let jumps = all.iter().filter(|i| i.flow_control() == FlowControl::ConditionalBranch);
    jumps
        .map(|jump| {
            let target = all.iter().position(|i| i.ip() == jump.near_branch_target()).unwrap();
            let three = all[target..target + 3].iter();
            three.map(|i| line(code, i)).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn what_fails_is_undone_and_the_program_starts() {
    let give_back = "mov reg,7FFC00001000h mov esi,8000h mov edx,4";
    let start = "xor eax,eax xor ebx,ebx xor ecx,ecx";
    let unmap = format!("mov rdi,rbx mov esi,{TOTAL_SIZE:X}h mov eax,0Bh");
    let unmap = unmap.as_str();
    assert_eq!(landings(&assemble(&LAUNCH)), [give_back, start, unmap]);
    let remote = assemble(&LaunchSlots { image: 0, ..LAUNCH });
    assert_eq!(landings(&remote), [start, unmap]);
}
