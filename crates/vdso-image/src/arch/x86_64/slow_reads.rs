//! `--clock slow`: the kernel's answers, after as long as a read takes on a host whose clocksource is slow.
//!
//! The kernel answers at once, and the call returns when the time-stamp counter has gone on by
//! [`Constants::read_ticks`](crate::layout::Constants) since its start. The answer is the kernel's own, so a
//! clock never runs backwards. Only reads that ask the clocksource take longer: on a host that fell back, the
//! coarse clocks, `time` and the processor times cost what they cost everywhere.
//!
//! A program that forbids itself the counter (`PR_SET_TSC`) has its reads of it stepped over by the tracer,
//! which leaves a zero: then the call returns at once.

use core::arch::naked_asm;

use fastclock::ClockId;

use crate::layout::{CONFIG_OFFSET, Config, Constants, Function, SESSION_OFFSET};

/// Offset of the ticks that a read takes from the image's base.
const READ_TICKS: usize = SESSION_OFFSET + core::mem::offset_of!(Constants, read_ticks);

/// Offset of the address of a function of the kernel's from the image's base.
const fn kernel(function: Function) -> usize {
    CONFIG_OFFSET + core::mem::offset_of!(Config, kernel) + 8 * function as usize
}

/// A bit for the number of each clock whose reads ask the clocksource. The two alarm clocks do so by a
/// system call, everywhere.
const ASKS_CLOCKSOURCE: u32 = bit(ClockId::Realtime)
    | bit(ClockId::Monotonic)
    | bit(ClockId::MonotonicRaw)
    | bit(ClockId::Boottime)
    | bit(ClockId::Tai)
    | bit(ClockId::RealtimeAlarm)
    | bit(ClockId::BoottimeAlarm);

const fn bit(clock: ClockId) -> u32 {
    1 << clock.as_raw()
}

/// Asks a function of the kernel's with the program's own arguments, and returns its result when the read
/// has taken long enough. `lfence` before the first reading, so that it comes after the last one of the
/// call before: reads in a row take their times in a row.
macro_rules! answer_slowly {
    () => {
        concat!(
            "lfence\n rdtsc\n shl rdx, 32\n or rax, rdx\n",
            "push rax\n .cfi_adjust_cfa_offset 8\n",
            "call qword ptr [rip + __ehdr_start + {kernel}]\n",
            "pop rcx\n .cfi_adjust_cfa_offset -8\n",
            "mov esi, eax\n",
            "test rcx, rcx\n jz 5f\n",
            "4:\n rdtsc\n shl rdx, 32\n or rax, rdx\n jz 5f\n",
            "sub rax, rcx\n",
            // A counter that is behind, on another CPU, ends the wait too: the difference is unsigned.
            "cmp rax, qword ptr [rip + __ehdr_start + {ticks}]\n jb 4b\n",
            "5:\n mov eax, esi\n ret"
        )
    };
}

/// `clock_gettime`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn slow_clock_gettime() {
    naked_asm!(
        ".cfi_startproc",
        "cmp edi, 31",
        "ja 3f",
        "mov eax, {asks}",
        "bt eax, edi",
        "jnc 3f",
        answer_slowly!(),
        "3:",
        "jmp qword ptr [rip + __ehdr_start + {kernel}]",
        ".cfi_endproc",
        asks = const ASKS_CLOCKSOURCE,
        kernel = const kernel(Function::ClockGettime),
        ticks = const READ_TICKS,
    )
}

/// `gettimeofday`; for the time zone alone the kernel looks at no clock.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn slow_gettimeofday() {
    naked_asm!(
        ".cfi_startproc",
        "test rdi, rdi",
        "jz 3f",
        answer_slowly!(),
        "3:",
        "jmp qword ptr [rip + __ehdr_start + {kernel}]",
        ".cfi_endproc",
        kernel = const kernel(Function::Gettimeofday),
        ticks = const READ_TICKS,
    )
}
