//! The instructions that the tracer writes into a new program, to be executed there once: position-independent
//! code with its parameters, the slots, behind it. They are no part of the image: each stands in a section of its own, which
//! the build script of `clockscope-tracee` takes out of the object file. The tracer fills the slots.
//!
//! They are short, because the room in the kernel's image is (623 bytes in Linux 5.10). They run from the program's first
//! instruction and end by jumping there with every register zero but `x16`, which the jump needs. Every system call has
//! [`INSTALL_MARK`] in `x5`.
//!
//! `launch` copies the image from below the stack pointer and gives that memory back. It makes the copy known to the part of
//! the CPU that fetches instructions, as every program does that writes code. `launch_written` is for programs that may not
//! execute what was written (`PR_SET_MDWE`): it maps memory, and the tracer writes the image at the end of that call; if the
//! image is not there, the program starts without.

use core::arch::global_asm;
use core::mem::offset_of;

use super::syscall::{SYS_EXECVE, SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_MUNMAP};
use crate::install::{PROT_READ_EXECUTE, PROT_READ_WRITE};
use crate::layout::{
    Constants, ExecveSlots, IMAGE_PAGES, INSTALL_MARK, LaunchParams, LaunchSlots, SESSION_MARK,
    SESSION_OFFSET, TOTAL_SIZE,
};

const MAP_PRIVATE_ANONYMOUS: usize = 0x02 | 0x20;
const MADV_DONTNEED: usize = 4;

// One piece, because the compiler may put two in another order, and the macros come first.
global_asm!(
    ".macro SYSTEM_CALL number",
    "mov x8, #\\number",
    "svc #0",
    ".endm",
    // A word of 64 bits.
    ".macro LOAD register, word",
    "movz \\register, #(\\word) & 0xffff",
    "movk \\register, #(\\word) >> 16 & 0xffff, lsl #16",
    "movk \\register, #(\\word) >> 32 & 0xffff, lsl #32",
    "movk \\register, #(\\word) >> 48 & 0xffff, lsl #48",
    ".endm",
    // Maps memory for the image where the kernel likes; `x19` is its address or an error.
    ".macro MAP_ANYWHERE access",
    "LOAD x5, {mark}",
    "mov x0, xzr",
    "mov x1, #{total}",
    "mov x2, #\\access",
    "mov x3, #{private_anonymous}",
    "mov x4, #-1",
    "SYSTEM_CALL {mmap}",
    "mov x19, x0",
    "mov x9, #-4096",
    "cmp x19, x9",
    ".endm",
    // The installer starts the program itself. Where there is no image: unmaps the memory (2), starts the program (3).
    ".macro INSTALL_OR_START name",
    "adr x0, \\name\\()__slots + {launch_params}",
    "ldr x9, \\name\\()__slots + {install_offset}",
    "add x9, x9, x19",
    "br x9",
    "2:",
    "mov x0, x19",
    "mov x1, #{total}",
    "SYSTEM_CALL {munmap}",
    "3:",
    "START_PROGRAM \\name, {entry}",
    ".endm",
    ".macro START_PROGRAM name, entry",
    "ldr x16, \\name\\()__slots + \\entry",
    // All others are zero as yet.
    ".irp register, 0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 19",
    "mov x\\register, xzr",
    ".endr",
    "msr nzcv, xzr",
    "br x16",
    ".endm",
    ".macro SLOTS name, size",
    ".balign 8",
    "\\name\\()__slots:",
    ".zero \\size",
    ".endm",
    // Applies an instruction to every line of the cache over the copy; the lines' size is that at a bit of `ctr_el0`.
    ".macro EVERY_LINE operation, bit",
    "mrs x9, ctr_el0",
    "ubfx x9, x9, #\\bit, #4",
    "mov w10, #4",
    "lsl x10, x10, x9",
    "mov x9, x19",
    "mov x11, #{image_size}",
    "add x11, x11, x19",
    "5:",
    "\\operation, x9",
    "add x9, x9, x10",
    "cmp x9, x11",
    "b.lo 5b",
    "dsb ish",
    ".endm",
    //
    ".section .stub.launch, \"ax\", @progbits",
    "MAP_ANYWHERE {read_write}",
    "b.hi 6f",
    "ldr x9, launch__slots + {image}",
    "mov x10, x19",
    "mov x11, #{image_size}",
    "4:",
    "ldp x12, x13, [x9], #16",
    "stp x12, x13, [x10], #16",
    "subs x11, x11, #16",
    "b.ne 4b",
    "EVERY_LINE \"dc cvau\", 16",
    "EVERY_LINE \"ic ivau\", 0",
    "isb",
    "6:",
    "ldr x0, launch__slots + {image}",
    "mov x1, #{image_size}",
    "mov x2, #{dontneed}",
    "SYSTEM_CALL {madvise}",
    "mov x9, #-4096",
    "cmp x19, x9",
    "b.hi 3f",
    "mov x0, x19",
    "mov x1, #{total}",
    "mov x2, #{read_execute}",
    "SYSTEM_CALL {mprotect}",
    "cbnz x0, 2f",
    "INSTALL_OR_START launch",
    "SLOTS launch, {launch_slots}",
    //
    ".section .stub.launch_written, \"ax\", @progbits",
    "MAP_ANYWHERE {read_execute}",
    "b.hi 3f",
    "LOAD x9, {session_mark}",
    "mov x10, #{mark_offset}",
    "ldr x10, [x19, x10]",
    "cmp x9, x10",
    "b.ne 2f",
    "INSTALL_OR_START launch_written",
    "SLOTS launch_written, {launch_slots}",
    //
    ".section .stub.execute_again, \"ax\", @progbits",
    "ldr x0, execute_again__slots + {path}",
    "ldr x1, execute_again__slots + {arguments}",
    "ldr x2, execute_again__slots + {environment}",
    "LOAD x5, {mark}",
    "SYSTEM_CALL {execve}",
    "START_PROGRAM execute_again, {execve_entry}",
    "SLOTS execute_again, {execve_slots}",
    ".text",
    mark = const INSTALL_MARK,
    total = const TOTAL_SIZE,
    private_anonymous = const MAP_PRIVATE_ANONYMOUS,
    read_write = const PROT_READ_WRITE,
    read_execute = const PROT_READ_EXECUTE,
    mmap = const SYS_MMAP,
    munmap = const SYS_MUNMAP,
    madvise = const SYS_MADVISE,
    mprotect = const SYS_MPROTECT,
    execve = const SYS_EXECVE,
    dontneed = const MADV_DONTNEED,
    image_size = const IMAGE_PAGES,
    session_mark = const SESSION_MARK,
    mark_offset = const SESSION_OFFSET + offset_of!(Constants, mark),
    image = const offset_of!(LaunchSlots, image),
    install_offset = const offset_of!(LaunchSlots, install_offset),
    launch_params = const offset_of!(LaunchSlots, params),
    entry = const offset_of!(LaunchSlots, params) + offset_of!(LaunchParams, entry),
    launch_slots = const size_of::<LaunchSlots>(),
    path = const offset_of!(ExecveSlots, path),
    arguments = const offset_of!(ExecveSlots, arguments),
    environment = const offset_of!(ExecveSlots, environment),
    execve_entry = const offset_of!(ExecveSlots, entry),
    execve_slots = const size_of::<ExecveSlots>(),
);
