//! Entry point of the installer, and the jump to the program.

use core::arch::{asm, naked_asm};

use crate::layout::FORWARDED;

/// The launch code jumps here, with its parameters in `x0`. Installs the image and starts the program as the kernel
/// does: every register zero but the stack pointer, and no flag set. Only `x16` holds the program's first address,
/// because the jump needs a register.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn clockscope_install() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined 30", // no caller
        "bl {install}",
        "mov x16, x0",
        ".irp register, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30",
        "mov x\\register, xzr",
        ".endr",
        "msr nzcv, xzr",
        "br x16",
        ".cfi_endproc",
        install = sym crate::install::install,
    )
}

/// Offsets in the kernel's image of the functions that this image only forwards; 0: unused.
pub(crate) fn forwarded() -> &'static [u32; FORWARDED] {
    let table: *const [u32; FORWARDED];
    // SAFETY: computes an address; reads and writes nothing.
    unsafe {
        asm!("adr {}, clockscope_forwarded", out(reg) table, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: the image has that many words there (`entry.rs`), and no code changes them.
    unsafe { &*table }
}
