//! The instructions that give a new process its copy of the shim, with what they are given.
//!
//! They are written into the unused end of the kernel's own vDSO page (a private copy of it) and run
//! once, from the program's first instruction. The tracer is not needed once they have begun. What they do
//! is told where they stand, in `vdso-image/src/stubs.rs`; here their slots are filled.

use std::mem::offset_of;

use clockscope_containers::filter::{ARCH_X86_64, Call};
use vdso_image::layout::{
    CONFIG_OFFSET, ExecveSlots, INSTALL_MARK, LaunchParams, LaunchSlots, MemoryMap, PAGE,
    THREADS_OFFSET, THREADS_SIZE, TOTAL_SIZE,
};

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// Code with slots behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    /// The bytes of both.
    pub(crate) bytes: Vec<u8>,
    slots: usize,
}

impl Stub {
    /// The slots begin at an offset, and are zero.
    pub(crate) fn new(code: &[u8], slots: usize) -> Self {
        Self { bytes: code.to_vec(), slots }
    }

    /// Fills the slots at these offsets from the first.
    pub(crate) fn fill(mut self, words: &[(usize, u64)]) -> Self {
        for (offset, word) in words {
            let at = self.slots + offset;
            self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        self
    }
}

/// What the instructions need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Where the image lies, at the start of a page; `None`: the tracer writes it when it is mapped.
    pub image: Option<u64>,
    /// Offset of `clockscope_install` in the image.
    pub install_offset: u32,
    /// What the installer is given.
    pub params: LaunchParams,
}

/// The system calls of the code and of the installer where calls are counted, as a filter sees them. The kernel says
/// later where the image will be: the addresses are stand-ins.
pub(crate) fn calls(copies_itself: bool, shared_id: u64, live_id: u64, at: u64) -> Vec<Call> {
    const ANONYMOUS: u64 = 0x22;
    const FIXED: u64 = 0x32;
    const READ_WRITE: u64 = 3;
    const READ_EXECUTE: u64 = 5;
    let size = |bytes: usize| bytes as u64;
    let (base, total) = (at & !(size(PAGE) - 1), size(TOTAL_SIZE));
    let call = |name, number, arguments: [u64; 5]| {
        let [a, b, c, d, e] = arguments;
        let arguments = [a, b, c, d, e, INSTALL_MARK];
        Call { name, number, arch: ARCH_X86_64, at, arguments }
    };
    let access = if copies_itself { READ_WRITE } else { READ_EXECUTE };
    let private = size(THREADS_OFFSET + THREADS_SIZE - CONFIG_OFFSET);
    let memory_map = size(size_of::<MemoryMap>());
    vec![
        call("mmap", libc::SYS_mmap, [0, total, access, ANONYMOUS, u64::MAX]),
        call("madvise", libc::SYS_madvise, [base, size(CONFIG_OFFSET), 4, 0, 0]),
        call("mprotect", libc::SYS_mprotect, [base, total, READ_EXECUTE, 0, 0]),
        call("shmat", libc::SYS_shmat, [shared_id, base, 0o40_000, 0, 0]),
        call("shmat", libc::SYS_shmat, [live_id, base, 0o50_000, 0, 0]),
        call("mmap", libc::SYS_mmap, [base, private, READ_WRITE, FIXED, u64::MAX]),
        call("madvise", libc::SYS_madvise, [base, size(THREADS_SIZE), 18, 0, 0]),
        call("prctl", libc::SYS_prctl, [35, 14, at, memory_map, 0]),
        call("mremap", libc::SYS_mremap, [base, size(PAGE), size(PAGE), 3, base]),
        call("munmap", libc::SYS_munmap, [base, size(PAGE), 0, 0, 0]),
        call("mprotect", libc::SYS_mprotect, [base, size(PAGE), 1, 0, 0]),
    ]
}

/// Makes the code; position-independent, about 400 bytes with the parameters.
pub(crate) fn assemble(launch: &Launch) -> Vec<u8> {
    let LaunchParams {
        kernel_base,
        auxv_slot,
        shared_id,
        process,
        entry,
        clock,
        clock_inode,
        areas,
        memory: MemoryMap { segments, start_stack, strings, auxv, auxv_size, exe_fd },
    } = launch.params;
    let stub = match launch.image {
        Some(_) => Stub::new(launch::CODE, launch::SLOTS),
        None => Stub::new(launch_written::CODE, launch_written::SLOTS),
    };
    let params = offset_of!(LaunchSlots, params);
    let memory = params + offset_of!(LaunchParams, memory);
    let words = |at: usize, words: &[u64]| -> Vec<(usize, u64)> {
        words.iter().enumerate().map(|(index, word)| (at + 8 * index, *word)).collect()
    };
    let two_halves = u64::from(auxv_size) | u64::from(exe_fd) << 32;
    stub.fill(&[
        (offset_of!(LaunchSlots, image), launch.image.unwrap_or(0)),
        (offset_of!(LaunchSlots, install_offset), launch.install_offset.into()),
        (params + offset_of!(LaunchParams, kernel_base), kernel_base),
        (params + offset_of!(LaunchParams, auxv_slot), auxv_slot),
        (params + offset_of!(LaunchParams, shared_id), shared_id),
        (params + offset_of!(LaunchParams, process), process),
        (params + offset_of!(LaunchParams, entry), entry),
        (params + offset_of!(LaunchParams, clock), clock),
        (params + offset_of!(LaunchParams, clock_inode), clock_inode),
        (memory + offset_of!(MemoryMap, start_stack), start_stack),
        (memory + offset_of!(MemoryMap, auxv), auxv),
        (memory + offset_of!(MemoryMap, auxv_size), two_halves),
    ])
    .fill(&words(params + offset_of!(LaunchParams, areas), &areas))
    .fill(&words(memory + offset_of!(MemoryMap, segments), &segments))
    .fill(&words(memory + offset_of!(MemoryMap, strings), &strings))
    .bytes
}

/// Makes code that executes a program once more; nobody needs to be there while it runs.
pub(crate) fn assemble_execve(again: &ExecveSlots) -> Vec<u8> {
    Stub::new(execute_again::CODE, execute_again::SLOTS)
        .fill(&[
            (offset_of!(ExecveSlots, path), again.path),
            (offset_of!(ExecveSlots, arguments), again.arguments),
            (offset_of!(ExecveSlots, environment), again.environment),
            (offset_of!(ExecveSlots, entry), again.entry),
        ])
        .bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{
        Decoder, DecoderOptions, FlowControl, Formatter, Instruction, Mnemonic, NasmFormatter,
        Register,
    };
    use vdso_image::layout::AREAS;

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
            areas: [0; AREAS],
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
            let line = line(&mut formatter, &code, &instruction);
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
        let words = |at: usize| u64::from_le_bytes(code[at..][..8].try_into().unwrap());
        assert_eq!(words(at), 1);
        let memory = at + offset_of!(LaunchParams, memory);
        let expected = [5, 5, 5, 5, 5, 5, 6, 7, 7, 7, 7, 8, 10 << 32 | 9];
        assert_eq!(expected, std::array::from_fn(|n| words(memory + 8 * n)));
        // Where the image was copied from is given back.
        let image = "mov reg,7FFC00001000h";
        let at: Vec<usize> = (0..text.len()).filter(|index| text[*index] == image).collect();
        let [from, back] = at[..] else { panic!("{text:?}") };
        assert_eq!(text[from + 1..back], ["mov ecx,1000h", "rep movsq"], "{text:?}");
        assert_eq!(text[back + 1..][..3], ["mov esi,8000h", "mov edx,4", "mov eax,1Ch"]);
    }

    /// An instruction; one that loads a slot with what stands there, into `reg`.
    fn line(formatter: &mut NasmFormatter, code: &[u8], instruction: &Instruction) -> String {
        let mut line = String::new();
        let mut value = 0;
        if instruction.mnemonic() == Mnemonic::Mov && instruction.is_ip_rel_memory_operand() {
            let at = usize::try_from(instruction.ip_rel_memory_address() - 0x1000).unwrap();
            value = u64::from_le_bytes(code[at..at + 8].try_into().unwrap());
        }
        if value == 0 {
            formatter.format(instruction, &mut line);
            return line;
        }
        format!("mov reg,{value:X}h")
    }

    #[test]
    fn executing_again_passes_the_program_its_own_words() {
        let again = ExecveSlots { path: 0x11, arguments: 0x22, environment: 0x33, entry: 0x44 };
        let code = assemble_execve(&again);
        let mut formatter = NasmFormatter::new();
        let decoded = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE);
        let (mut text, mut registers) = (Vec::new(), Vec::new());
        for instruction in decoded.into_iter().take(6) {
            registers.push(instruction.op0_register());
            text.push(line(&mut formatter, &code, &instruction));
        }
        assert_eq!(text[..4], ["mov eax,3Bh", "mov reg,11h", "mov reg,22h", "mov reg,33h"]);
        assert_eq!(registers[1..4], [Register::RDI, Register::RSI, Register::RDX]);
        assert_eq!(text[5], "syscall");
        assert_eq!(code[code.len() - 8..], 0x44_u64.to_le_bytes());
    }

    /// Where the conditional jumps go: the instructions there, by address.
    fn landings(code: &[u8]) -> Vec<String> {
        let mut formatter = NasmFormatter::new();
        let mut leaves = 0;
        let all = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).into_iter();
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
                let three = all[target..target + 3].iter();
                three.map(|i| line(&mut formatter, code, i)).collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    #[test]
    fn what_fails_is_undone_and_the_program_starts() {
        let give_back = "mov reg,7FFC00001000h mov esi,8000h mov edx,4";
        let start = "xor eax,eax xor ebx,ebx xor ecx,ecx";
        let unmap = "mov rdi,rbx mov esi,0AB000h mov eax,0Bh";
        assert_eq!(landings(&assemble(&LAUNCH)), [give_back, start, unmap]);
        let remote = assemble(&Launch { image: None, ..LAUNCH });
        assert_eq!(landings(&remote), [start, unmap]);
    }
}
