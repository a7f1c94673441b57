//! Entry point of the installer in a running process.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::install::{MAP_PRIVATE_FIXED_ANONYMOUS, PROT_READ_WRITE, SYS_MMAP};
use crate::layout::{
    ATTACH_NEW, AttachParams, CONFIG_OFFSET, INSTALL_MARK, PAGE, THREADS_OFFSET, THREADS_SIZE,
    TRUST_OFFSET,
};

/// The injected code jumps here, with its parameters in `rdi`. Changes general registers, the flags and the stack
/// pointer, which the injected code restores; the image uses no other registers.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn clockscope_attach() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip", // no caller
        "mov rbx, rdi",
        "cmp qword ptr [rbx + {task}], {new}",
        "jne 1f",
        // The private pages. The page for the clock page's trust is unused here and serves as the stack.
        "lea rdi, [rip + __ehdr_start + {config}]",
        "mov esi, {size}",
        "mov edx, {read_write}",
        "mov r10d, {private}",
        "mov r8, -1",
        "mov r9, {mark}",
        "mov eax, {mmap}",
        "syscall",
        "cmp rax, -4096",
        "ja 2f",
        "1:",
        "lea rsp, [rip + __ehdr_start + {stack}]",
        "mov rdi, rbx",
        "call {attach}",
        "2:",
        "jmp qword ptr [rbx]",
        ".cfi_endproc",
        config = const CONFIG_OFFSET,
        size = const THREADS_OFFSET + THREADS_SIZE - CONFIG_OFFSET,
        read_write = const PROT_READ_WRITE,
        private = const MAP_PRIVATE_FIXED_ANONYMOUS,
        mark = const INSTALL_MARK,
        mmap = const SYS_MMAP,
        task = const offset_of!(AttachParams, task),
        new = const ATTACH_NEW,
        stack = const TRUST_OFFSET + PAGE,
        attach = sym crate::attach::attach,
    )
}
