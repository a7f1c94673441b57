//! Entry point of the installer in a running process.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::install::{MAP_PRIVATE_FIXED_ANONYMOUS, PROT_READ_WRITE, SYS_MMAP};
use crate::layout::{
    ATTACH_NEW, AttachParams, CONFIG_OFFSET, INSTALL_MARK, PAGE, THREADS_OFFSET, THREADS_SIZE,
    TRUST_OFFSET,
};

/// The injected code jumps here, with its parameters in `x0`. Changes general registers, the flags and the stack
/// pointer, which the injected code restores; the image uses no other registers.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn clockscope_attach() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined 30", // no caller
        "mov x19, x0",
        "ldr x9, [x19, #{task}]",
        "cmp x9, #{new}",
        "b.ne 1f",
        // The private pages. The page for the clock page's trust is unused here and serves as the stack.
        "adr x0, __ehdr_start + {config}",
        "mov x1, #{size}",
        "mov x2, #{read_write}",
        "mov x3, #{private}",
        "mov x4, #-1",
        "movz x5, #{mark_low}, lsl #16",
        "movk x5, #{mark_middle}, lsl #32",
        "movk x5, #{mark_high}, lsl #48",
        "mov x8, #{mmap}",
        "svc #0",
        "mov x9, #-4096",
        "cmp x0, x9",
        "b.hi 2f",
        "1:",
        "adr x9, __ehdr_start + {stack}",
        "mov sp, x9",
        "mov x0, x19",
        "bl {attach}",
        "2:",
        "ldr x9, [x19]",
        "ret x9", // `ret`, because its target needs no landing pad
        ".cfi_endproc",
        config = const CONFIG_OFFSET,
        size = const THREADS_OFFSET + THREADS_SIZE - CONFIG_OFFSET,
        read_write = const PROT_READ_WRITE,
        private = const MAP_PRIVATE_FIXED_ANONYMOUS,
        mark_low = const INSTALL_MARK >> 16 & 0xffff,
        mark_middle = const INSTALL_MARK >> 32 & 0xffff,
        mark_high = const INSTALL_MARK >> 48,
        mmap = const SYS_MMAP,
        task = const offset_of!(AttachParams, task),
        new = const ATTACH_NEW,
        stack = const TRUST_OFFSET + PAGE,
        attach = sym crate::attach::attach,
    )
}

const _: () = assert!(INSTALL_MARK & 0xffff == 0);
