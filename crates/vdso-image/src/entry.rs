//! The functions that programs call.
//!
//! Each function of the vDSO has up to three entries: `direct_*` only jumps, `counted_*` counts in the thread's own
//! slot, `looked_up_*` asks `slots.rs` for the slot. The command makes the exported symbols name one of them when it
//! prepares the image of a session (`image.rs` in `clockscope-tracee`).
//!
//! All entries are naked. Their instructions are in the architecture's folder (`arch/*/entry.rs`), and so are the
//! functions that only one architecture has.

#![allow(
    bad_asm_style,
    reason = "x86-64's jump to a sum of symbols is written in the other syntax, for one line"
)]

use core::arch::global_asm;

use crate::arch::entry::{by_clock, forward_code, forward_end, single};
use crate::layout::{
    CONFIG_OFFSET, COUNTER_GETRANDOM, COUNTER_GETRES, COUNTER_GETTIME, COUNTER_GETTIMEOFDAY,
    Config, FORWARD_SIZE, FORWARDED, Function, HASH_MULTIPLIER, Slot, THREADS_OFFSET, Threads,
};

/// Offset of the first thread entry from the image's base.
pub(crate) const ENTRIES: usize = THREADS_OFFSET + core::mem::offset_of!(Threads, entries);
/// Offset from the image's base of the address of the only thread's slot.
pub(crate) const ONLY_SLOT: usize = THREADS_OFFSET + core::mem::offset_of!(Threads, only_slot);
/// Offset of the counters in a slot.
pub(crate) const CALLS: usize = core::mem::offset_of!(Slot, calls);
/// Offset of the countdown in a slot.
pub(crate) const COUNTDOWN: usize = core::mem::offset_of!(Slot, countdown);

const _: () =
    assert!(HASH_MULTIPLIER == 0xffff_ffff_9e37_79b1, "the entries of both architectures load it");

/// Offset from the image's base of the address that a function's entries jump to.
pub(crate) const fn target(function: Function) -> usize {
    CONFIG_OFFSET + 8 * function as usize
}

/// Defines an entry that only jumps.
macro_rules! direct {
    ($($name:ident => $function:expr;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $crate::arch::entry::direct_code!(),
                ".cfi_endproc",
                target = const $crate::entry::target($function),
            )
        }
    )*};
}

/// Defines an entry that counts: by this code of the architecture, which has some operands of its own.
macro_rules! counting {
    ($name:ident, $code:ident, $function:expr, $counter:ident!, $base:expr, $($own:tt)*) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $crate::arch::entry::$code!($counter),
                ".cfi_endproc",
                $($own)*
                target = const $crate::entry::target($function),
                base = const $base,
                clocks = const $crate::layout::CLOCKS,
                other = const $crate::layout::OTHER_CLOCK,
                slow = sym $crate::arch::slots::slow,
                sample = sym $crate::arch::sample::sample,
            )
        }
    };
}

/// Defines an entry that counts in the thread's own slot.
macro_rules! counted {
    ($($name:ident => $function:expr, $counter:ident!, $base:expr;)*) => {$(
        $crate::entry::counting! {
            $name, counted_code, $function, $counter!, $base,
            entries = const $crate::entry::ENTRIES,
            only_slot = const $crate::entry::ONLY_SLOT,
            calls = const $crate::entry::CALLS,
            countdown = const $crate::entry::COUNTDOWN,
        }
    )*};
}

/// Defines an entry that has `slots::slow` count. It is shorter: for functions that are called rarely, and for hosts
/// where threads do not count in slots of their own.
macro_rules! looked_up {
    ($($name:ident => $function:expr, $counter:ident!, $base:expr;)*) => {$(
        $crate::entry::counting! { $name, looked_up_code, $function, $counter!, $base, }
    )*};
}

/// Defines exported names, and their weak aliases. They name the direct entries until the command sets their values.
macro_rules! export {
    ($($exported:literal = $entry:literal $(, $alias:literal)?;)*) => {$(
        core::arch::global_asm!(
            concat!(".globl ", $exported), concat!(".type ", $exported, ",@function"),
            concat!(".set ", $exported, ", ", $entry),
            $(
                concat!(".weak ", $alias), concat!(".type ", $alias, ",@function"),
                concat!(".set ", $alias, ", ", $entry),
            )?
        );
    )*};
}

#[allow(unused_imports, reason = "arm64 has no entries of its own")]
pub(crate) use {counted, counting, direct, export, looked_up};

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

// Functions of the kernel's image without an entry of their own: one jump each; and a table of their offsets in the
// kernel's image, which the command fills in (`image.rs` in `clockscope-tracee`).
global_asm!(
    ".pushsection .text.forward, \"ax\", @progbits",
    ".balign 8",
    ".globl clockscope_forward",
    "clockscope_forward:",
    ".cfi_startproc",
    ".set clockscope_place, 0",
    ".rept {count}",
    forward_code!(),
    ".set clockscope_place, clockscope_place + 8",
    ".endr",
    ".cfi_endproc",
    forward_end!(),
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
