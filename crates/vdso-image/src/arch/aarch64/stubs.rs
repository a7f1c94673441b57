//! The stubs: instructions that the tracer writes into a process, to be executed there once. They are
//! position-independent code, followed by their parameters, the slots. They are not part of the image: each is in a
//! section of its own, which the build script of `clockscope-tracee` takes out of the object file. The tracer fills in
//! the slots.
//!
//! The stubs are short, because the room in the kernel's image is small (623 bytes in Linux 5.10). Every system call of
//! a stub has [`INSTALL_MARK`] in `x5`.
//!
//! # A new program: `launch`, `launch_written`, `execute_again`
//!
//! These stubs run before the program's first instruction and end by jumping to it with every register zero but `x16`,
//! which the jump needs. `launch` copies the image from below the stack pointer and gives that memory back. It also
//! cleans the data cache and invalidates the instruction cache over the copy, as every program must that writes code.
//! `launch_written` is for processes that may not execute memory they have written (`PR_SET_MDWE`): it maps memory, and
//! the tracer writes the image when that call ends. If the image is not there, the program starts without it.
//!
//! # A running process: `map`, `attach`
//!
//! These stubs block all signals, do their work, wait for the tracer, and restore the signal mask and then every
//! register but `x16`. They end with a `ret` to the thread's next instruction, because the target of a `ret` needs no
//! landing pad. From `restore` on no instruction may change a flag. The stubs wait with `ppoll`, because the kernel
//! keeps no state of an interrupted `ppoll`. Of an interrupted `nanosleep` or `futex` the kernel keeps a
//! `restart_block`, which would overwrite that of the program's own interrupted call: kernel/time/hrtimer.c,
//! fs/select.c (Linux 6.18).

use core::mem::offset_of;

use super::syscall::{SYS_EXECVE, SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_MUNMAP};
use crate::install::{PROT_READ_EXECUTE, PROT_READ_WRITE};
use crate::layout::{
    AttachSlots, Constants, ExecveSlots, IMAGE_PAGES, INSTALL_MARK, InjectedSlots, LaunchParams,
    LaunchSlots, MAP_PRIVATE_THERE, SESSION_MARK, SESSION_OFFSET, TOTAL_SIZE,
};
use crate::stubs::{MADV_DONTNEED, MAP_PRIVATE_ANONYMOUS, SIG_SETMASK, WAITS, stubs};

const SYS_PPOLL: usize = 73;
const SYS_RT_SIGPROCMASK: usize = 135;

stubs! {
    ".macro SYSTEM_CALL number",
    "mov x8, #\\number",
    "svc #0",
    ".endm",
    // Loads a 64-bit constant.
    ".macro LOAD register, word",
    "movz \\register, #(\\word) & 0xffff",
    "movk \\register, #(\\word) >> 16 & 0xffff, lsl #16",
    "movk \\register, #(\\word) >> 32 & 0xffff, lsl #32",
    "movk \\register, #(\\word) >> 48 & 0xffff, lsl #48",
    ".endm",
    // Maps memory for the image at an address that the kernel chooses; `x19` is the address or an error.
    ".macro MAP_ANYWHERE access",
    "ldr x5, 9f",
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
    // Jumps to the installer, which starts the program itself. Without an image: unmaps the memory (2) and starts the
    // program (3).
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
    // The stub has not changed any other register.
    ".irp register, 0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 19",
    "mov x\\register, xzr",
    ".endr",
    "msr nzcv, xzr",
    "br x16",
    ".endm",
    // The mark identifies a stub that a killed tracer has left behind.
    ".macro SLOTS name, size",
    ".balign 8",
    "9:",
    ".quad {mark}",
    "\\name\\()__slots:",
    ".zero \\size",
    ".endm",
    // Applies a cache instruction to every line of the copy; bit `bit` of `ctr_el0` is where the line size is.
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
    "ldr x5, 9f",
    "SYSTEM_CALL {execve}",
    "START_PROGRAM execute_again, {execve_entry}",
    "SLOTS execute_again, {execve_slots}",
    //
    ".macro SET_MASK name, mask",
    "mov x0, #{set_mask}",
    "adr x1, \\name\\()__slots + \\mask",
    "mov x2, xzr",
    "mov x3, #8",
    "SYSTEM_CALL {sigprocmask}",
    ".endm",
    // The kernel preserves all registers but `x0`, so the mark survives a system call. The installer does not preserve
    // it.
    ".macro BLOCK name",
    "ldr x5, 9f",
    "SET_MASK \\name, {all_signals}",
    ".endm",
    // The kernel cannot write the remaining time into the read-only page, and ignores that.
    ".macro WAIT_AND_RESTORE name",
    "\\name\\()__waiting:",
    "ldr x5, 9f",
    "mov w19, #{waits}",
    "1:",
    "mov x0, xzr",
    "mov x1, xzr",
    "adr x2, \\name\\()__slots + {pause}",
    "mov x3, xzr",
    "SYSTEM_CALL {ppoll}",
    "sub w19, w19, #1",
    "cbnz w19, 1b",
    "\\name\\()__restore:",
    "ldr x9, \\name\\()__slots + {flags}",
    "msr nzcv, x9",
    "ldr x9, \\name\\()__slots + {sp}",
    "mov sp, x9",
    "SET_MASK \\name, {mask}",
    "\\name\\()__last:",
    "adr x16, \\name\\()__slots + {general}",
    "ldp x0, x1, [x16]",
    "ldp x2, x3, [x16, #16]",
    "ldp x4, x5, [x16, #32]",
    "ldp x6, x7, [x16, #48]",
    "ldp x8, x9, [x16, #64]",
    "ldp x10, x11, [x16, #80]",
    "ldp x12, x13, [x16, #96]",
    "ldp x14, x15, [x16, #112]",
    "ldp x17, x18, [x16, #136]",
    "ldp x19, x20, [x16, #152]",
    "ldp x21, x22, [x16, #168]",
    "ldp x23, x24, [x16, #184]",
    "ldp x25, x26, [x16, #200]",
    "ldp x27, x28, [x16, #216]",
    "ldp x29, x30, [x16, #232]",
    "ldr x16, \\name\\()__slots + {resume}",
    "ret x16",
    "\\name\\()__end:",
    ".endm",
    // Behind the slots follow ranges, each an address and a size, and a zero.
    ".section .stub.map, \"ax\", @progbits",
    "BLOCK map",
    "adr x19, map__slots + {injected_slots}",
    "1:",
    "ldp x0, x1, [x19], #16",
    "cbz x0, 2f",
    "mov x2, #{read_execute}",
    "mov x3, #{private_there_low}",
    "movk x3, #{private_there_high}, lsl #16",
    "mov x4, #-1",
    "SYSTEM_CALL {mmap}",
    "b 1b",
    "2:",
    "WAIT_AND_RESTORE map",
    "SLOTS map, {injected_slots}",
    //
    ".section .stub.attach, \"ax\", @progbits",
    "BLOCK attach",
    "adr x0, attach__slots + {injected_slots} + {params}",
    "ldr x9, attach__slots + {injected_slots} + {installer}",
    "br x9", // returns to `waiting`
    "WAIT_AND_RESTORE attach",
    "SLOTS attach, {injected_slots} + {attach_slots}",
    ".text",
    ;
    image_size = const IMAGE_PAGES,
    private_there_low = const MAP_PRIVATE_THERE & 0xffff,
    private_there_high = const MAP_PRIVATE_THERE >> 16,
    ppoll = const SYS_PPOLL,
    sp = const offset_of!(InjectedSlots, sp),
    general = const offset_of!(InjectedSlots, general),
}
