//! Entry point of the installer, and the jump to the program.

use core::arch::{asm, naked_asm};

use crate::layout::{FORWARDED, START_FLAGS};

/// The launch code jumps here, with its parameters in `rdi`. Installs the image and starts the program as the kernel
/// does: every register zero but the stack pointer, and no arithmetic flag set.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn clockscope_install() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip", // no caller
        "call {install}",
        "mov qword ptr [rsp - 16], rax",
        ".irp register, eax, ebx, ecx, edx, esi, edi, ebp, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d",
        "xor \\register, \\register",
        ".endr",
        "push {flags}",
        "popfq",
        "jmp qword ptr [rsp - 16]",
        ".cfi_endproc",
        install = sym crate::install::install,
        flags = const START_FLAGS,
    )
}

/// Offsets in the kernel's image of the functions that this image only forwards; 0: unused.
pub(crate) fn forwarded() -> &'static [u32; FORWARDED] {
    let table: *const [u32; FORWARDED];
    // SAFETY: computes an address; reads and writes nothing.
    unsafe {
        asm!("lea {}, [rip + clockscope_forwarded]", out(reg) table, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: the image has that many words there (`entry.rs`), and no code changes them.
    unsafe { &*table }
}
