//! The functions that programs call.
//!
//! Each function has up to three entries: `direct_*` only jumps, `counted_*` counts in the thread's own slot,
//! `looked_up_*` asks `slots.rs` for the slot. The command makes the exported symbols name one of them (`image.rs` in
//! `clockscope-tracee`).
//!
//! All entries are naked. The fast path uses no stack and changes only the flags and `x9` to `x17`, which any function
//! may change, so the final jump passes the program's arguments on unchanged. Each entry begins with a landing pad
//! (`hint #34` is `bti c`) and jumps through `x16`, which the landing pads of the kernel's functions allow.
//!
//! A count is an exclusive load and store, which every arm64 CPU has. If a signal handler reads a clock between the
//! two, the store fails and the entry repeats the count.

use core::arch::naked_asm;

use super::sample::sample;
use super::slots::slow;
use crate::layout::{
    CLOCKS, CONFIG_OFFSET, COUNTER_GETRANDOM, COUNTER_GETRES, COUNTER_GETTIME,
    COUNTER_GETTIMEOFDAY, Config, FORWARD_SIZE, FORWARDED, Function, HASH_MULTIPLIER, OTHER_CLOCK,
    Slot, THREADS_OFFSET, Threads,
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
                "hint #34",
                "ldr x16, __ehdr_start + {target}",
                "br x16",
                ".cfi_endproc",
                target = const target($function),
            )
        }
    )*};
}

/// Defines an entry that counts in the thread's own slot.
///
/// The key is `TPIDR_EL0` plus one, the hash is `layout::thread_hash`. The countdown is decremented with a plain load
/// and store: a signal handler in between may lose a step, which delays the next timed call by one.
macro_rules! counted {
    ($($name:ident => $function:expr, $counter:ident!, $base:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "hint #34",
                $counter!(),
                "mrs x10, tpidr_el0",
                "cbz x10, 2f",
                "add x10, x10, #1",
                "movn x11, #{multiplier_low}",
                "movk x11, #{multiplier_high}, lsl #16",
                "mul x11, x10, x11",
                "lsr x11, x11, #40",
                "and x11, x11, #0xff0",
                "adr x12, __ehdr_start + {entries}",
                "add x12, x12, x11",
                "ldr x11, [x12]",
                "cmp x11, x10",
                "b.ne 4f",
                "5:",
                // Another thread with the same key may have written the key, while the slot's address is not yet
                // visible here.
                "ldr x12, [x12, #8]",
                "cbz x12, 2f",
                "add x11, x12, #{calls}",
                "add x11, x11, x9, lsl #3",
                "6:",
                "ldxr x13, [x11]",
                "add x13, x13, #1",
                "stxr w14, x13, [x11]",
                "cbnz w14, 6b",
                "add x11, x12, #{countdown}",
                "add x11, x11, x9, lsl #2",
                "ldr w13, [x11]",
                "subs w13, w13, #1",
                "str w13, [x11]",
                "b.eq 3f",
                "ldr x16, __ehdr_start + {target}",
                "br x16",
                "4:", // another thread's key: try the next entry before calling `slow`
                "ldr x11, [x12, #16]!",
                "cmp x11, x10",
                "b.eq 5b",
                "2:",
                "adr x17, 7f",
                "b {slow}",
                "7:",
                "cbnz x12, 3f",
                "ldr x16, __ehdr_start + {target}",
                "br x16",
                "3:", // this call is to be timed
                "add x9, x12, x9",
                "b {sample}",
                ".cfi_endproc",
                entries = const ENTRIES,
                multiplier_low = const !HASH_MULTIPLIER & 0xffff,
                multiplier_high = const HASH_MULTIPLIER >> 16 & 0xffff,
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

/// Defines an entry that jumps to `slots::slow` to count: shorter, for functions that are called rarely.
macro_rules! looked_up {
    ($($name:ident => $function:expr, $counter:ident!, $base:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "hint #34",
                $counter!(),
                "adr x17, 7f",
                "b {slow}",
                "7:",
                "cbnz x12, 3f",
                "ldr x16, __ehdr_start + {target}",
                "br x16",
                "3:",
                "add x9, x12, x9",
                "b {sample}",
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

/// Chooses the counter by the clock id in `w0`, and loads its number into `w9`.
macro_rules! by_clock {
    () => {
        "mov w9, #{other}\n cmp w0, #{clocks}\n csel w9, w0, w9, lo\n add w9, w9, #{base}"
    };
}

/// Loads the number of the function's only counter.
macro_rules! single {
    () => {
        "mov w9, #{base}\n // {clocks} {other}"
    };
}

direct! {
    direct_clock_gettime => Function::ClockGettime;
    direct_gettimeofday => Function::Gettimeofday;
    direct_clock_getres => Function::ClockGetres;
    direct_getrandom => Function::Getrandom;
}

counted! {
    counted_clock_gettime => Function::ClockGettime, by_clock!, COUNTER_GETTIME;
    counted_gettimeofday => Function::Gettimeofday, single!, COUNTER_GETTIMEOFDAY;
}

looked_up! {
    looked_up_clock_gettime => Function::ClockGettime, by_clock!, COUNTER_GETTIME;
    looked_up_gettimeofday => Function::Gettimeofday, single!, COUNTER_GETTIMEOFDAY;
    looked_up_clock_getres => Function::ClockGetres, by_clock!, COUNTER_GETRES;
    looked_up_getrandom => Function::Getrandom, single!, COUNTER_GETRANDOM;
}

// Functions of the kernel's image without an entry of their own: one jump each, which changes only `x16`; and a table
// of their offsets in the kernel's image, which the command fills in (`image.rs` in `clockscope-tracee`). Unwinders
// recognise the return trampoline of signal handlers by its two instructions. It is therefore copied here as in the
// kernel's image, without a landing pad.
core::arch::global_asm!(
    ".pushsection .text.forward, \"ax\", @progbits",
    ".balign 8",
    ".globl clockscope_forward",
    "clockscope_forward:",
    ".cfi_startproc",
    ".set clockscope_place, 0",
    ".rept {count}",
    "ldr x16, __ehdr_start + {first} + clockscope_place",
    "br x16",
    ".balign {size}",
    ".set clockscope_place, clockscope_place + 8",
    ".endr",
    ".cfi_endproc",
    ".balign 8",
    "nop", // an unwinder looks up the instruction before the return address
    ".globl clockscope_rt_sigreturn",
    ".type clockscope_rt_sigreturn, @function",
    "clockscope_rt_sigreturn:",
    "mov x8, #139",
    "svc #0",
    ".size clockscope_rt_sigreturn, 8",
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
);

/// The exported names. They name the direct entries until the command sets their values.
macro_rules! export {
    ($($exported:literal = $entry:literal;)*) => {$(
        core::arch::global_asm!(
            concat!(".globl ", $exported),
            concat!(".type ", $exported, ",@function"),
            concat!(".set ", $exported, ", ", $entry),
        );
    )*};
}

export! {
    "__kernel_clock_gettime" = "direct_clock_gettime";
    "__kernel_gettimeofday" = "direct_gettimeofday";
    "__kernel_clock_getres" = "direct_clock_getres";
    "__kernel_getrandom" = "direct_getrandom";
    "__kernel_rt_sigreturn" = "clockscope_rt_sigreturn";
}
