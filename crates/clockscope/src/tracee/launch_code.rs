//! The instructions that attach our image in a new process, and what they are given.
//!
//! They are written into the unused end of the kernel's own vDSO page (a private copy of it), run
//! once from the program's first instruction, and end by jumping there with every register zero,
//! as the kernel starts a program. The tracer is not needed once they have begun.

use vdso_image::layout::{INSTALL_MARK, LaunchParams, START_FLAGS};

const SYS_SHMAT: u32 = 30;
const SYS_EXECVE: u32 = 59;
/// `SHM_RDONLY | SHM_EXEC`.
const SHM_READ_EXECUTE: u32 = 0o010_000 | 0o100_000;

/// What the instructions need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// System V id of the segment with the image.
    pub image_id: i32,
    /// Offset of `clockscope_install` in the image.
    pub install_offset: u32,
    /// What the installer is given.
    pub params: LaunchParams,
}

/// Makes the code; position-independent, about 250 bytes with the parameters.
#[must_use]
pub fn assemble(launch: &Launch) -> Vec<u8> {
    let mut code = Vec::with_capacity(160);
    code.push(0xb8); // mov eax, SYS_shmat
    code.extend(SYS_SHMAT.to_le_bytes());
    code.push(0xbf); // mov edi, the segment
    code.extend(launch.image_id.to_le_bytes());
    code.extend([0x31, 0xf6]); // xor esi, esi: the kernel chooses the address
    code.push(0xba); // mov edx, flags
    code.extend(SHM_READ_EXECUTE.to_le_bytes());
    code.extend([0x49, 0xb9]); // mov r9, the mark of our system calls
    code.extend(INSTALL_MARK.to_le_bytes());
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff]); // cmp rax, -4096
    code.extend([0x77, 15]); // ja over the jump: it failed
    let params_at = code.len() + 3;
    code.extend([0x48, 0x8d, 0x3d, 0, 0, 0, 0]); // lea rdi, [params]
    code.extend([0x48, 0x05]); // add rax, the installer's offset
    code.extend(launch.install_offset.to_le_bytes());
    code.extend([0xff, 0xe0]); // jmp rax: the installer starts the program itself
    start_program(&mut code, launch.params.entry);
    while code.len() % 8 != 0 {
        code.push(0xcc);
    }
    let distance = u32::try_from(code.len() - (params_at + 4)).unwrap_or(0);
    code[params_at..params_at + 4].copy_from_slice(&distance.to_le_bytes());
    let LaunchParams { kernel_base, auxv_slot, shared_id, process, entry, memory } = launch.params;
    for word in [kernel_base, auxv_slot, shared_id, process, entry]
        .into_iter()
        .chain(memory.segments)
        .chain([memory.start_stack])
        .chain(memory.strings)
        .chain([memory.auxv])
    {
        code.extend(word.to_le_bytes());
    }
    code.extend(memory.auxv_size.to_le_bytes());
    code.extend(memory.exe_fd.to_le_bytes());
    code
}

/// Every register zero but the stack pointer, and the flags, as the kernel starts a program, and the jump
/// to its first instruction.
fn start_program(code: &mut Vec<u8>, entry: u64) {
    code.extend([0x31, 0xc0, 0x31, 0xdb, 0x31, 0xc9, 0x31, 0xd2]); // xor eax ebx ecx edx
    code.extend([0x31, 0xf6, 0x31, 0xff, 0x31, 0xed]); // xor esi edi ebp
    for register in [0xc0, 0xc9, 0xd2, 0xdb, 0xe4, 0xed, 0xf6, 0xff] {
        code.extend([0x45, 0x31, register]); // xor r8d .. r15d
    }
    code.push(0x68); // push the flags
    code.extend(START_FLAGS.to_le_bytes());
    code.push(0x9d); // popfq
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
    code.extend(entry.to_le_bytes());
}

/// A program to be executed once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execve {
    /// Address of the path.
    pub path: u64,
    /// Address of the arguments.
    pub arguments: u64,
    /// Address of the environment.
    pub environment: u64,
    /// The program's first instruction, where it goes on if the call fails.
    pub entry: u64,
}

/// Makes code that executes a program once more; nobody needs to be there while it runs.
#[must_use]
pub fn assemble_execve(again: &Execve) -> Vec<u8> {
    let mut code = Vec::with_capacity(96);
    code.push(0xb8); // mov eax, SYS_execve
    code.extend(SYS_EXECVE.to_le_bytes());
    for (opcode, address) in
        [(0xbf, again.path), (0xbe, again.arguments), (0xba, again.environment)]
    {
        code.extend([0x48, opcode]); // mov rdi, rsi, rdx
        code.extend(address.to_le_bytes());
    }
    code.extend([0x49, 0xb9]); // mov r9, the mark of our system calls
    code.extend(INSTALL_MARK.to_le_bytes());
    code.extend([0x0f, 0x05]); // syscall
    start_program(&mut code, again.entry);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, NasmFormatter, Register};
    use vdso_image::layout::MemoryMap;

    const NO_MEMORY: MemoryMap = MemoryMap {
        segments: [5; 6],
        start_stack: 6,
        strings: [7; 4],
        auxv: 8,
        auxv_size: 9,
        exe_fd: 10,
    };
    const LAUNCH: Launch = Launch {
        image_id: 0x0102_0304,
        install_offset: 0x1612,
        params: LaunchParams {
            kernel_base: 1,
            auxv_slot: 2,
            shared_id: 3,
            process: 4,
            entry: 0x7fff_1234_5678,
            memory: NO_MEMORY,
        },
    };

    #[test]
    fn the_code_reads_as_meant() {
        let code = assemble(&LAUNCH);
        let mut decoder = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE);
        let mut formatter = NasmFormatter::new();
        let mut text = Vec::new();
        let (mut zeroed, mut params) = (0, 0);
        for instruction in &mut decoder {
            let mut line = String::new();
            formatter.format(&instruction, &mut line);
            if instruction.is_ip_rel_memory_operand() && instruction.op0_register() == Register::RDI
            {
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
        assert_eq!(zeroed, 16, "{text:?}"); // esi twice
        let at = usize::try_from(params - 0x1000).unwrap();
        assert_eq!(code[at..].len(), size_of::<LaunchParams>());
        assert_eq!(code[at..at + 8], 1_u64.to_le_bytes());
        assert!(text.iter().any(|line| line == "mov edi,1020304h"), "{text:?}");
    }

    #[test]
    fn executing_again_passes_the_program_its_own_words() {
        let again = Execve { path: 0x11, arguments: 0x22, environment: 0x33, entry: 0x44 };
        let code = assemble_execve(&again);
        let mut formatter = NasmFormatter::new();
        let mut text = Vec::new();
        for instruction in Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).iter().take(6) {
            let mut line = String::new();
            formatter.format(&instruction, &mut line);
            text.push(line);
        }
        assert_eq!(text[..4], ["mov eax,3Bh", "mov rdi,11h", "mov rsi,22h", "mov rdx,33h"]);
        assert_eq!(text[5], "syscall");
        assert_eq!(code[code.len() - 8..], 0x44_u64.to_le_bytes());
    }

    #[test]
    fn a_failed_attach_skips_the_call() {
        let code = assemble(&LAUNCH);
        let mut decoder = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE);
        let target = (&mut decoder)
            .into_iter()
            .find(|i| i.flow_control() == FlowControl::ConditionalBranch)
            .unwrap()
            .near_branch_target();
        let after_call = (&mut decoder)
            .into_iter()
            .find(|i| i.flow_control() == FlowControl::IndirectBranch)
            .unwrap()
            .next_ip();
        assert_eq!(target, after_call);
    }
}
