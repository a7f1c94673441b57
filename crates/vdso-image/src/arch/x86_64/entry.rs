//! The functions that programs call.
//!
//! Each function of the vDSO has up to three entries: `direct_*` only jumps, `counted_*` counts in the thread's own
//! slot, `looked_up_*` asks `slots.rs` for the slot. The command makes the exported symbols name one of them when it
//! prepares the image of a session (`image.rs` in `clockscope-tracee`).
//!
//! All entries are naked. The fast path uses no stack and changes only `rax`, `r10`, `r11` and the flags. So the final
//! jump passes the program's arguments on unchanged, and at every instruction an unwinder finds the return address on
//! top of the stack.

use core::arch::naked_asm;

use super::sample::sample;
use super::slots::slow;
use crate::layout::{
    CLOCKS, CONFIG_OFFSET, COUNTER_GETCPU, COUNTER_GETRANDOM, COUNTER_GETRES, COUNTER_GETTIME,
    COUNTER_GETTIMEOFDAY, COUNTER_SGX, COUNTER_TIME, Config, FORWARD_SIZE, FORWARDED, Function,
    OTHER_CLOCK, Slot, THREADS_OFFSET, Threads,
};

/// Offset of the first thread entry from the image's base.
const ENTRIES: usize = THREADS_OFFSET + core::mem::offset_of!(Threads, entries);
/// Offset of the counters in a slot.
const CALLS: usize = core::mem::offset_of!(Slot, calls);
/// Offset of the countdown in a slot.
const COUNTDOWN: usize = core::mem::offset_of!(Slot, countdown);

/// Offset from the image's base of the address that a function's entries jump to.
const fn target(function: Function) -> usize {
    CONFIG_OFFSET + 8 * function as usize
}

/// Defines an entry that only jumps.
macro_rules! direct {
    ($($name:ident => $function:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "jmp qword ptr [rip + __ehdr_start + {target}]",
                ".cfi_endproc",
                target = const target($function),
            )
        }
    )*};
}

/// Defines an entry that counts in the thread's own slot.
///
/// The key is FS base plus one, the hash is `layout::thread_hash`. A count is one instruction, so no signal can come
/// between its read and its write.
macro_rules! counted {
    ($($name:ident => $function:expr, $counter:ident!, $base:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "rdfsbase r11",
                "inc r11",
                "imul r10, r11, -1640531535",
                "lea rax, [rip + __ehdr_start + {entries}]",
                "shr r10, 40",
                "and r10d, 0xff0",
                "add r10, rax",
                $counter!(),
                "cmp qword ptr [r10], r11",
                "jne 4f",
                "mov r11, qword ptr [r10 + 8]",
                "5:",
                "inc qword ptr [r11 + 8 * rax + {calls}]",
                "dec dword ptr [r11 + 4 * rax + {countdown}]",
                "jz 3f",
                "jmp qword ptr [rip + __ehdr_start + {target}]",
                "4:", // another thread's key: try the next entry before calling `slow`
                "cmp qword ptr [r10 + 16], r11",
                "jne 2f",
                "mov r11, qword ptr [r10 + 24]",
                "jmp 5b",
                "2:",
                "call {slow}",
                "test r11, r11",
                "jnz 3f",
                "jmp qword ptr [rip + __ehdr_start + {target}]",
                "3:", // this call is to be timed
                "lea r9, [r11 + rax]",
                "jmp {sample}",
                ".cfi_endproc",
                entries = const ENTRIES,
                calls = const CALLS,
                countdown = const COUNTDOWN,
                target = const target($function),
                base = const $base,
                clocks = const CLOCKS,
                other = const OTHER_CLOCK,
                slow = sym slow,
                sample = sym sample,
            )
        }
    )*};
}

/// Defines an entry that calls `slots::slow` to count. It is shorter: for functions that are called rarely, and for
/// hosts where threads do not count in slots of their own.
macro_rules! looked_up {
    ($($name:ident => $function:expr, $counter:ident!, $base:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                $counter!(),
                "call {slow}",
                "test r11, r11",
                "jnz 3f",
                "jmp qword ptr [rip + __ehdr_start + {target}]",
                "3:",
                "lea r9, [r11 + rax]",
                "jmp {sample}",
                ".cfi_endproc",
                target = const target($function),
                base = const $base,
                clocks = const CLOCKS,
                other = const OTHER_CLOCK,
                slow = sym slow,
                sample = sym sample,
            )
        }
    )*};
}

/// Defines an entry that calls `slots::slow` and is never timed, for functions that may have more arguments than
/// `sample` passes on.
macro_rules! untimed {
    ($($name:ident => $function:expr, $base:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov eax, {base}",
                "call {slow}",
                "test r11, r11",
                "jz 3f",
                "mov dword ptr [r11 + {countdown}], 0", // due again after 2^32 calls
                "3:",
                "jmp qword ptr [rip + __ehdr_start + {target}]",
                ".cfi_endproc",
                countdown = const COUNTDOWN + 4 * $base,
                target = const target($function),
                base = const $base,
                slow = sym slow,
            )
        }
    )*};
}

/// Chooses the counter by the clock id in `edi`, and loads its number into `eax`.
macro_rules! by_clock {
    () => {
        "cmp edi, {clocks}\n mov eax, {other}\n cmovb eax, edi\n add eax, {base}"
    };
}

/// Loads the number of the function's only counter.
macro_rules! single {
    () => {
        "mov eax, {base}\n /* {clocks} {other} */"
    };
}

direct! {
    direct_clock_gettime => Function::ClockGettime;
    direct_gettimeofday => Function::Gettimeofday;
    direct_time => Function::Time;
    direct_getcpu => Function::Getcpu;
    direct_clock_getres => Function::ClockGetres;
    direct_getrandom => Function::Getrandom;
    direct_sgx_enter_enclave => Function::SgxEnterEnclave;
}

counted! {
    counted_clock_gettime => Function::ClockGettime, by_clock!, COUNTER_GETTIME;
    counted_gettimeofday => Function::Gettimeofday, single!, COUNTER_GETTIMEOFDAY;
    counted_time => Function::Time, single!, COUNTER_TIME;
    counted_getcpu => Function::Getcpu, single!, COUNTER_GETCPU;
}

looked_up! {
    looked_up_clock_gettime => Function::ClockGettime, by_clock!, COUNTER_GETTIME;
    looked_up_gettimeofday => Function::Gettimeofday, single!, COUNTER_GETTIMEOFDAY;
    looked_up_time => Function::Time, single!, COUNTER_TIME;
    looked_up_getcpu => Function::Getcpu, single!, COUNTER_GETCPU;
    looked_up_clock_getres => Function::ClockGetres, by_clock!, COUNTER_GETRES;
    looked_up_getrandom => Function::Getrandom, single!, COUNTER_GETRANDOM;
}

untimed! {
    looked_up_sgx_enter_enclave => Function::SgxEnterEnclave, COUNTER_SGX;
}

// Functions of the kernel's image without an entry of their own: one jump each, which changes no register; and a table
// of their offsets in the kernel's image, which the command fills in (`image.rs` in `clockscope-tracee`).
core::arch::global_asm!(
    ".pushsection .text.forward, \"ax\", @progbits",
    ".balign 8",
    ".globl clockscope_forward",
    "clockscope_forward:",
    ".cfi_startproc",
    ".set clockscope_place, 0",
    ".rept {count}",
    "jmpq *__ehdr_start+{first}+clockscope_place(%rip)",
    ".balign {size}, 0xcc",
    ".set clockscope_place, clockscope_place + 8",
    ".endr",
    ".cfi_endproc",
    ".popsection",
    ".pushsection .rodata.forwarded, \"a\", @progbits",
    ".balign 4",
    ".globl clockscope_forwarded",
    "clockscope_forwarded:",
    ".skip 4 * {count}",
    ".popsection",
    first = const CONFIG_OFFSET + core::mem::offset_of!(Config, forwarded),
    count = const FORWARDED,
    size = const FORWARD_SIZE,
    options(att_syntax)
);

/// The exported names. They name the direct entries until the command sets their values.
macro_rules! export {
    ($($exported:literal = $entry:literal, $alias:literal;)*) => {$(
        core::arch::global_asm!(
            concat!(".globl ", $exported), concat!(".type ", $exported, ",@function"),
            concat!(".set ", $exported, ", ", $entry),
            concat!(".weak ", $alias), concat!(".type ", $alias, ",@function"),
            concat!(".set ", $alias, ", ", $entry),
        );
    )*};
}

export! {
    "__vdso_clock_gettime" = "direct_clock_gettime", "clock_gettime";
    "__vdso_gettimeofday" = "direct_gettimeofday", "gettimeofday";
    "__vdso_time" = "direct_time", "time";
    "__vdso_getcpu" = "direct_getcpu", "getcpu";
    "__vdso_clock_getres" = "direct_clock_getres", "clock_getres";
    "__vdso_getrandom" = "direct_getrandom", "getrandom";
    "__vdso_sgx_enter_enclave" = "direct_sgx_enter_enclave", "sgx_enter_enclave";
}
