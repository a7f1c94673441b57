//! The instructions that give a new process its copy of the shim, and what they are given.
//!
//! They are written into the unused end of the kernel's own vDSO page (a private copy of it), run
//! once from the program's first instruction, and end by jumping there with every register zero,
//! as the kernel starts a program. The tracer is not needed once they have begun.
//!
//! The image lies below the stack pointer, in memory that the program has not used yet; they copy it
//! to where it stays, and give that memory back to the kernel. Where memory that was written may not
//! be executed (`PR_SET_MDWE`), they map it, and the tracer writes the image when they have: if it is
//! not there when they look, the program starts without.

use vdso_image::layout::{
    CONFIG_OFFSET, INSTALL_MARK, LaunchParams, SESSION_MARK, SESSION_OFFSET, START_FLAGS, Session,
    TOTAL_SIZE,
};

const SYS_MMAP: u32 = 9;
const SYS_MPROTECT: u32 = 10;
const SYS_MUNMAP: u32 = 11;
const SYS_MADVISE: u32 = 28;
const SYS_EXECVE: u32 = 59;
const PROT_READ_WRITE: u32 = 3;
const PROT_READ_EXECUTE: u32 = 5;
const MAP_PRIVATE_ANONYMOUS: u32 = 0x22;
const MADV_DONTNEED: u32 = 4;
/// Bytes of the image with its constants: whole pages.
#[expect(clippy::cast_possible_truncation, reason = "seven pages")]
const IMAGE: u32 = CONFIG_OFFSET as u32;
#[expect(clippy::cast_possible_truncation, reason = "less than a megabyte")]
const TOTAL: u32 = TOTAL_SIZE as u32;

/// What the instructions need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Where the image lies, at the start of a page; `None`: the tracer writes it when it is mapped.
    pub image: Option<u64>,
    /// Offset of `clockscope_install` in the image.
    pub install_offset: u32,
    /// What the installer is given.
    pub params: LaunchParams,
}

/// Makes the code; position-independent, about 400 bytes with the parameters.
#[must_use]
pub(crate) fn assemble(launch: &Launch) -> Vec<u8> {
    let mut code = Vec::with_capacity(512);
    code.extend([0x49, 0xb9]); // mov r9, the mark of our system calls
    code.extend(INSTALL_MARK.to_le_bytes());
    code.extend([0x31, 0xff]); // xor edi, edi: the kernel chooses the address
    load(&mut code, ESI, TOTAL);
    let access = if launch.image.is_some() { PROT_READ_WRITE } else { PROT_READ_EXECUTE };
    load(&mut code, EDX, access);
    code.extend([0x41, 0xba]); // mov r10d
    code.extend(MAP_PRIVATE_ANONYMOUS.to_le_bytes());
    code.extend([0x49, 0x83, 0xc8, 0xff]); // or r8, -1: no file
    system_call(&mut code, SYS_MMAP);
    code.extend([0x48, 0x89, 0xc3]); // mov rbx, rax
    let (start, unmap) = match launch.image {
        Some(image) => copy(&mut code, image),
        None => look(&mut code),
    };
    let params_at = code.len() + 3;
    code.extend([0x48, 0x8d, 0x3d, 0, 0, 0, 0]); // lea rdi, [params]
    code.extend([0x48, 0x8d, 0x83]); // lea rax, [rbx + the installer's offset]
    code.extend(launch.install_offset.to_le_bytes());
    code.extend([0xff, 0xe0]); // jmp rax: the installer starts the program itself
    lands_here(&mut code, unmap);
    code.extend([0x48, 0x89, 0xdf]); // mov rdi, rbx
    load(&mut code, ESI, TOTAL);
    system_call(&mut code, SYS_MUNMAP);
    lands_here(&mut code, start);
    start_program(&mut code, launch.params.entry);
    while code.len() % 8 != 0 {
        code.push(0xcc);
    }
    let distance = u32::try_from(code.len() - (params_at + 4)).unwrap_or(0);
    code[params_at..params_at + 4].copy_from_slice(&distance.to_le_bytes());
    append(&mut code, &launch.params);
    code
}

/// Copies the image to what `rbx` says, gives back where it lay, and makes it executable. Gives the
/// jumps to the program's start and to unmapping.
fn copy(code: &mut Vec<u8>, image: u64) -> (usize, usize) {
    code.extend(RBX_IS_AN_ERROR);
    let over = jump(code, JA);
    code.extend([0x48, 0x89, 0xdf]); // mov rdi, rbx
    code.extend([0x48, 0xbe]); // mov rsi, the image
    code.extend(image.to_le_bytes());
    load(code, ECX, IMAGE / 8);
    code.extend([0xf3, 0x48, 0xa5]); // rep movsq: forward, as the kernel starts a program
    lands_here(code, over);
    code.extend([0x48, 0xbf]); // mov rdi, the image
    code.extend(image.to_le_bytes());
    load(code, ESI, IMAGE);
    load(code, EDX, MADV_DONTNEED);
    system_call(code, SYS_MADVISE);
    code.extend(RBX_IS_AN_ERROR);
    let start = jump(code, JA);
    code.extend([0x48, 0x89, 0xdf]); // mov rdi, rbx
    load(code, ESI, TOTAL);
    load(code, EDX, PROT_READ_EXECUTE);
    system_call(code, SYS_MPROTECT);
    code.extend([0x85, 0xc0]); // test eax, eax
    (start, jump(code, JNZ))
}

/// Looks whether the tracer has written the image to what `rbx` says; jumps as in [`copy`].
fn look(code: &mut Vec<u8>) -> (usize, usize) {
    code.extend(RBX_IS_AN_ERROR);
    let start = jump(code, JA);
    code.extend([0x48, 0xb8]); // mov rax, the mark of an image
    code.extend(SESSION_MARK.to_le_bytes());
    code.extend([0x48, 0x39, 0x83]); // cmp [rbx + its place], rax
    let mark = SESSION_OFFSET + std::mem::offset_of!(Session, mark);
    code.extend(u32::try_from(mark).unwrap_or(0).to_le_bytes());
    (start, jump(code, JNZ))
}

fn append(code: &mut Vec<u8>, params: &LaunchParams) {
    let LaunchParams {
        kernel_base,
        auxv_slot,
        shared_id,
        process,
        entry,
        clock,
        clock_inode,
        memory,
    } = *params;
    for word in [kernel_base, auxv_slot, shared_id, process, entry, clock, clock_inode]
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
}

/// `cmp rbx, -4096`: above it is an error number.
const RBX_IS_AN_ERROR: [u8; 7] = [0x48, 0x81, 0xfb, 0x00, 0xf0, 0xff, 0xff];
/// Conditional jumps by less than 128 bytes.
const JA: u8 = 0x77;
const JNZ: u8 = 0x75;
/// Opcodes of `mov register, number`.
const ECX: u8 = 0xb9;
const EDX: u8 = 0xba;
const ESI: u8 = 0xbe;

fn load(code: &mut Vec<u8>, register: u8, number: u32) {
    code.push(register);
    code.extend(number.to_le_bytes());
}

fn system_call(code: &mut Vec<u8>, number: u32) {
    load(code, 0xb8, number); // mov eax
    code.extend([0x0f, 0x05]);
}

/// A jump whose end is not known yet; gives where its distance goes.
fn jump(code: &mut Vec<u8>, condition: u8) -> usize {
    code.extend([condition, 0]);
    code.len() - 1
}

/// The jump comes here.
fn lands_here(code: &mut [u8], jump: usize) {
    let distance = u8::try_from(code.len() - (jump + 1)).ok().filter(|distance| *distance < 128);
    assert!(distance.is_some(), "the jumps of the launch code are short");
    code[jump] = distance.unwrap_or(0);
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
pub(crate) struct Execve {
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
pub(crate) fn assemble_execve(again: &Execve) -> Vec<u8> {
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
        image: Some(0x7ffc_0000_1000),
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
        assert_eq!(zeroed, 16, "{text:?}"); // edi twice
        let at = usize::try_from(params - 0x1000).unwrap();
        assert_eq!(code[at..].len(), size_of::<LaunchParams>());
        assert_eq!(code[at..at + 8], 1_u64.to_le_bytes());
        // Where the image was copied from is given back.
        let from = text.iter().position(|line| line == "mov rsi,7FFC00001000h").unwrap();
        let back = text.iter().position(|line| line == "mov rdi,7FFC00001000h").unwrap();
        assert_eq!(text[from + 1..back], ["mov ecx,0E00h", "rep movsq"], "{text:?}");
        assert_eq!(text[back + 1..][..3], ["mov esi,7000h", "mov edx,4", "mov eax,1Ch"]);
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

    /// Where the conditional jumps go: the instructions there, by address.
    fn landings(code: &[u8]) -> Vec<String> {
        let mut formatter = NasmFormatter::new();
        let mut leaves = 0;
        let all = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter();
        // To the second jump to somewhere else: behind it are data.
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
                let mut text = String::new();
                for instruction in &all[target..target + 3] {
                    formatter.format(instruction, &mut text);
                    text.push(' ');
                }
                text.trim_end().to_owned()
            })
            .collect()
    }

    #[test]
    fn what_fails_is_undone_and_the_program_starts() {
        let give_back = "mov rdi,7FFC00001000h mov esi,7000h mov edx,4";
        let start = "xor eax,eax xor ebx,ebx xor ecx,ecx";
        let unmap = "mov rdi,rbx mov esi,6A000h mov eax,0Bh";
        assert_eq!(landings(&assemble(&LAUNCH)), [give_back, start, unmap]);
        let remote = assemble(&Launch { image: None, ..LAUNCH });
        assert_eq!(landings(&remote), [start, unmap]);
    }
}
