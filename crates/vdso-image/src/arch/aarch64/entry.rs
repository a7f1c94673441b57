//! The instructions of the functions that programs call (`entry.rs`).
//!
//! The fast path uses no stack and changes only the flags and `x9` to `x17`, which any function may change, so the
//! final jump passes the program's arguments on unchanged. Each entry begins with a landing pad (`hint #34` is
//! `bti c`) and jumps through `x16`, which the landing pads of the kernel's functions allow.
//!
//! A count is an exclusive load and store, which every arm64 CPU has. If a signal handler reads a clock between the
//! two, the store fails and the entry repeats the count.

use crate::entry::export;

/// Only jumps.
macro_rules! direct_code {
    () => {
        "hint #34\n ldr x16, __ehdr_start + {target}\n br x16"
    };
}

/// Jumps to `slots::slow` to count, and goes on to the kernel's function, or to time the call.
macro_rules! slow_code {
    () => {
        concat!(
            "adr x17, 7f\n",
            "b {slow}\n",
            "7:\n",
            "cbnz x12, 3f\n",
            "ldr x16, __ehdr_start + {target}\n",
            "br x16\n",
            // this call is to be timed
            "3:\n",
            "add x9, x12, x9\n",
            "b {sample}\n",
        )
    };
}

/// Counts in the thread's own slot.
///
/// The key is `TPIDR_EL0` plus one, the hash is `layout::thread_hash`. The countdown is decremented with a plain load
/// and store: a signal handler in between may lose a step, which delays the next timed call by one.
macro_rules! counted_code {
    ($counter:ident) => {
        concat!(
            "hint #34 /* the search costs little here: {only_slot} */\n",
            $counter!(), "\n",
            "mrs x10, tpidr_el0\n",
            "cbz x10, 2f\n",
            "add x10, x10, #1\n",
            "movn x11, #0x864e\n",
            "movk x11, #0x9e37, lsl #16\n",
            "mul x11, x10, x11\n",
            "lsr x11, x11, #40\n",
            "and x11, x11, #0xff0\n",
            "adr x12, __ehdr_start + {entries}\n",
            "add x12, x12, x11\n",
            "ldr x11, [x12]\n",
            "cmp x11, x10\n",
            "b.ne 4f\n",
            "5:\n",
            // Another thread with the same key may have written the key, while the slot's address is not yet
            // visible here.
            "ldr x12, [x12, #8]\n",
            "cbz x12, 2f\n",
            "add x11, x12, #{calls}\n",
            "add x11, x11, x9, lsl #3\n",
            "6:\n",
            "ldxr x13, [x11]\n",
            "add x13, x13, #1\n",
            "stxr w14, x13, [x11]\n",
            "cbnz w14, 6b\n",
            "add x11, x12, #{countdown}\n",
            "add x11, x11, x9, lsl #2\n",
            "ldr w13, [x11]\n",
            "subs w13, w13, #1\n",
            "str w13, [x11]\n",
            "b.eq 3f\n",
            "ldr x16, __ehdr_start + {target}\n",
            "br x16\n",
            // another thread's key: try the next entry before calling `slow`
            "4:\n",
            "ldr x11, [x12, #16]!\n",
            "cmp x11, x10\n",
            "b.eq 5b\n",
            "2:\n",
            $crate::arch::entry::slow_code!(),
        )
    };
}

/// Has `slots::slow` count.
macro_rules! looked_up_code {
    ($counter:ident) => {
        concat!("hint #34\n", $counter!(), "\n", $crate::arch::entry::slow_code!(),)
    };
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

/// Jumps to a function of the kernel's image, and changes only `x16`.
macro_rules! forward_code {
    () => {
        "ldr x16, __ehdr_start + {first} + clockscope_place\n br x16\n .balign {size}"
    };
}

/// The return trampoline of signal handlers, which unwinders recognise by its two instructions. It is therefore copied
/// here as in the kernel's image, without a landing pad. An unwinder looks up the instruction before the return
/// address: a `nop`.
macro_rules! forward_end {
    () => {
        ".balign 8
         nop
         .globl clockscope_rt_sigreturn
         .type clockscope_rt_sigreturn, @function
         clockscope_rt_sigreturn:
         mov x8, #139
         svc #0
         .size clockscope_rt_sigreturn, 8"
    };
}

pub(crate) use {
    by_clock, counted_code, direct_code, forward_code, forward_end, looked_up_code, single,
    slow_code,
};

export! {
    "__kernel_clock_gettime" = "direct_clock_gettime";
    "__kernel_gettimeofday" = "direct_gettimeofday";
    "__kernel_clock_getres" = "direct_clock_getres";
    "__kernel_getrandom" = "direct_getrandom";
    "__kernel_rt_sigreturn" = "clockscope_rt_sigreturn";
}
