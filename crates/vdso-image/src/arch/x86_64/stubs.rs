//! The stubs: instructions that the tracer writes into a process, to be executed there once. They are
//! position-independent code, followed by their parameters, the slots. They are not part of the image: each is in a
//! section of its own, which the build script of `clockscope-tracee` takes out of the object file. The tracer fills in
//! the slots.
//!
//! Every system call of a stub has [`INSTALL_MARK`] in `r9`.
//!
//! # A new program: `launch`, `launch_written`, `execute_again`
//!
//! These stubs run before the program's first instruction and end by jumping to it with every register zero, as the
//! kernel starts a program. `launch` copies the image from below the stack pointer and gives that memory back.
//! `launch_written` is for processes that may not execute memory they have written (`PR_SET_MDWE`): it maps memory, and
//! the tracer writes the image when that call ends. If the image is not there, the program starts without it.
//!
//! # A running process: `map`, `attach`
//!
//! These stubs block all signals, do their work, wait for the tracer, and restore the signal mask and then every
//! register. They end with a jump to the thread's next instruction. From `restore` on no instruction may change a flag.
//! The stubs wait with `select`, because the kernel keeps no state of an interrupted `select`. Of an interrupted
//! `nanosleep`, `poll` or `futex` the kernel keeps a `restart_block`, which would overwrite that of the program's own
//! interrupted call: kernel/time/hrtimer.c, fs/select.c (Linux 6.18).

use core::mem::offset_of;

use super::syscall::{SYS_EXECVE, SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_MUNMAP};
use crate::install::{PROT_READ_EXECUTE, PROT_READ_WRITE};
use crate::layout::{
    AttachSlots, CONFIG_OFFSET, Constants, ExecveSlots, INSTALL_MARK, InjectedSlots, LaunchParams,
    LaunchSlots, MAP_PRIVATE_THERE, SESSION_MARK, SESSION_OFFSET, START_FLAGS, TOTAL_SIZE,
};
use crate::stubs::{MADV_DONTNEED, MAP_PRIVATE_ANONYMOUS, SIG_SETMASK, WAITS, stubs};

const SYS_RT_SIGPROCMASK: usize = 14;
const SYS_SELECT: usize = 23;

stubs! {
    ".macro SYSTEM_CALL number",
    "mov eax, \\number",
    "syscall",
    ".endm",
    // Maps memory for the image at an address that the kernel chooses; `rbx` is the address or an error.
    ".macro MAP_ANYWHERE access",
    "mov r9, {mark}",
    "xor edi, edi",
    "mov esi, {total}",
    "mov edx, \\access",
    "mov r10d, {private_anonymous}",
    "or r8, -1",
    "SYSTEM_CALL {mmap}",
    "mov rbx, rax",
    ".endm",
    // Jumps to the installer, which starts the program itself. Without an image: unmaps the memory (2) and starts the
    // program (3).
    ".macro INSTALL_OR_START name",
    "lea rdi, [rip + \\name\\()__slots + {launch_params}]",
    "mov rax, qword ptr [rip + \\name\\()__slots + {install_offset}]",
    "add rax, rbx",
    "jmp rax",
    "2:",
    "mov rdi, rbx",
    "mov esi, {total}",
    "SYSTEM_CALL {munmap}",
    "3:",
    "START_PROGRAM \\name, {entry}",
    ".endm",
    ".macro START_PROGRAM name, entry",
    ".irp register, eax, ebx, ecx, edx, esi, edi, ebp, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d",
    "xor \\register, \\register",
    ".endr",
    "push {start_flags}",
    "popfq",
    "jmp qword ptr [rip + \\name\\()__slots + \\entry]",
    ".endm",
    ".macro SLOTS name, size",
    ".balign 8, 0xcc",
    "\\name\\()__slots:",
    ".zero \\size",
    ".endm",
    //
    ".section .stub.launch, \"ax\", @progbits",
    "MAP_ANYWHERE {read_write}",
    "cmp rbx, -4096",
    "ja 1f",
    "mov rdi, rbx",
    "mov rsi, qword ptr [rip + launch__slots + {image}]",
    "mov ecx, {image_words}",
    "rep movsq", // forward: the direction flag is clear at a program's start
    "1:",
    "mov rdi, qword ptr [rip + launch__slots + {image}]",
    "mov esi, {image_size}",
    "mov edx, {dontneed}",
    "SYSTEM_CALL {madvise}",
    "cmp rbx, -4096",
    "ja 3f",
    "mov rdi, rbx",
    "mov esi, {total}",
    "mov edx, {read_execute}",
    "SYSTEM_CALL {mprotect}",
    "test eax, eax",
    "jnz 2f",
    "INSTALL_OR_START launch",
    "SLOTS launch, {launch_slots}",
    //
    ".section .stub.launch_written, \"ax\", @progbits",
    "MAP_ANYWHERE {read_execute}",
    "cmp rbx, -4096",
    "ja 3f",
    "mov rax, {session_mark}",
    "cmp qword ptr [rbx + {mark_offset}], rax",
    "jnz 2f",
    "INSTALL_OR_START launch_written",
    "SLOTS launch_written, {launch_slots}",
    //
    ".section .stub.execute_again, \"ax\", @progbits",
    "mov eax, {execve}",
    "mov rdi, qword ptr [rip + execute_again__slots + {path}]",
    "mov rsi, qword ptr [rip + execute_again__slots + {arguments}]",
    "mov rdx, qword ptr [rip + execute_again__slots + {environment}]",
    "mov r9, {mark}",
    "syscall",
    "START_PROGRAM execute_again, {execve_entry}",
    "SLOTS execute_again, {execve_slots}",
    //
    ".macro MARKED_CALL number",
    "mov r9, {mark}",
    "mov eax, \\number",
    "syscall",
    ".endm",
    ".macro SET_MASK name, mask",
    "mov edi, {set_mask}",
    "lea rsi, [rip + \\name\\()__slots + \\mask]",
    "mov edx, 0",
    "mov r10d, 8",
    "MARKED_CALL {sigprocmask}",
    ".endm",
    ".macro RELOAD name, register, at",
    "mov \\register, qword ptr [rip + \\name\\()__slots + {general} + \\at]",
    ".endm",
    // The kernel cannot write the remaining time into the read-only page, and ignores that.
    ".macro WAIT_AND_RESTORE name",
    "\\name\\()__waiting:",
    "mov ebx, {waits}",
    "1:",
    "xor edi, edi",
    "xor esi, esi",
    "xor edx, edx",
    "xor r10d, r10d",
    "lea r8, [rip + \\name\\()__slots + {pause}]",
    "MARKED_CALL {select}",
    "dec ebx",
    "jnz 1b",
    "\\name\\()__restore:",
    "lea rsp, [rip + \\name\\()__slots + {flags}]",
    "popfq", // only reads the page, which need not be writable
    "RELOAD \\name, rsp, 32",
    "SET_MASK \\name, {mask}",
    "\\name\\()__last:",
    "RELOAD \\name, rax, 0",
    "RELOAD \\name, rcx, 8",
    "RELOAD \\name, rdx, 16",
    "RELOAD \\name, rbx, 24",
    "RELOAD \\name, rbp, 40",
    "RELOAD \\name, rsi, 48",
    "RELOAD \\name, rdi, 56",
    "RELOAD \\name, r8, 64",
    "RELOAD \\name, r9, 72",
    "RELOAD \\name, r10, 80",
    "RELOAD \\name, r11, 88",
    "RELOAD \\name, r12, 96",
    "RELOAD \\name, r13, 104",
    "RELOAD \\name, r14, 112",
    "RELOAD \\name, r15, 120",
    "jmp qword ptr [rip + \\name\\()__slots + {resume}]",
    "\\name\\()__end:",
    ".endm",
    // Behind the slots follow ranges, each an address and a size, and a zero.
    ".section .stub.map, \"ax\", @progbits",
    "SET_MASK map, {all_signals}",
    "lea rbx, [rip + map__slots + {injected_slots}]",
    "1:",
    "mov rdi, qword ptr [rbx]",
    "test rdi, rdi",
    "jz 2f",
    "mov rsi, qword ptr [rbx + 8]",
    "mov edx, {read_execute}",
    "mov r10d, {private_there}",
    "mov r8, -1",
    "MARKED_CALL {mmap}",
    "add rbx, 16",
    "jmp 1b",
    "2:",
    "WAIT_AND_RESTORE map",
    "SLOTS map, {injected_slots}",
    //
    ".section .stub.attach, \"ax\", @progbits",
    "SET_MASK attach, {all_signals}",
    "lea rdi, [rip + attach__slots + {injected_slots} + {params}]",
    "jmp qword ptr [rip + attach__slots + {injected_slots} + {installer}]", // returns to `waiting`
    "WAIT_AND_RESTORE attach",
    "SLOTS attach, {injected_slots} + {attach_slots}",
    ".text",
    ;
    start_flags = const START_FLAGS,
    image_size = const CONFIG_OFFSET,
    image_words = const CONFIG_OFFSET / 8,
    private_there = const MAP_PRIVATE_THERE,
    select = const SYS_SELECT,
    general = const offset_of!(InjectedSlots, general),
}
