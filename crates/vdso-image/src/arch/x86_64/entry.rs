//! The instructions of the functions that programs call (`entry.rs`), and the functions that only x86-64 has.
//!
//! The fast path uses no stack and changes only `rax`, `r10`, `r11` and the flags. So the final jump passes the
//! program's arguments on unchanged, and at every instruction an unwinder finds the return address on top of the stack.

use core::arch::naked_asm;

use super::slots::slow;
use crate::entry::{COUNTDOWN, counted, direct, export, looked_up, target};
use crate::layout::{COUNTER_GETCPU, COUNTER_SGX, COUNTER_TIME, Function};

/// Only jumps.
macro_rules! direct_code {
    () => {
        "jmp qword ptr [rip + __ehdr_start + {target}]"
    };
}

/// Calls `slots::slow` to count, and goes on to the kernel's function, or to time the call.
macro_rules! slow_code {
    () => {
        concat!(
            "call {slow}\n",
            "test r11, r11\n",
            "jnz 3f\n",
            "jmp qword ptr [rip + __ehdr_start + {target}]\n",
            // this call is to be timed
            "3:\n",
            "lea r9, [r11 + rax]\n",
            "jmp {sample}\n",
        )
    };
}

/// Counts in the thread's own slot: that of the only thread, or the one with the thread's key.
///
/// The key is FS base plus one, the hash is `layout::thread_hash`. A count is one instruction, so no signal can come
/// between its read and its write. Where the kernel's function waits for earlier instructions (`rdtscp`), the search is
/// paid in full: 8 of 30 ns on an Intel Xeon (Sapphire Rapids), and 1 ns on an AMD EPYC.
macro_rules! counted_code {
    ($counter:ident) => {
        concat!(
            "mov r11, qword ptr [rip + __ehdr_start + {only_slot}]\n",
            "test r11, r11\n",
            "jle 6f\n",
            $counter!(),
            "\n",
            "5:\n",
            "inc qword ptr [r11 + 8 * rax + {calls}]\n",
            "dec dword ptr [r11 + 4 * rax + {countdown}]\n",
            "jz 3f\n",
            "jmp qword ptr [rip + __ehdr_start + {target}]\n",
            "6:\n",
            "rdfsbase r11\n",
            "inc r11\n",
            "imul r10, r11, -1640531535\n",
            "lea rax, [rip + __ehdr_start + {entries}]\n",
            "shr r10, 40\n",
            "and r10d, 0xff0\n",
            "add r10, rax\n",
            $counter!(),
            "\n",
            "cmp qword ptr [r10], r11\n",
            "jne 4f\n",
            "mov r11, qword ptr [r10 + 8]\n",
            "jmp 5b\n",
            // another thread's key: try the next entry before calling `slow`
            "4:\n",
            "cmp qword ptr [r10 + 16], r11\n",
            "jne 2f\n",
            "mov r11, qword ptr [r10 + 24]\n",
            "jmp 5b\n",
            "2:\n",
            $crate::arch::entry::slow_code!(),
        )
    };
}

/// Has `slots::slow` count.
macro_rules! looked_up_code {
    ($counter:ident) => {
        concat!($counter!(), "\n", $crate::arch::entry::slow_code!(),)
    };
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

/// Jumps to a function of the kernel's image, and changes no register.
macro_rules! forward_code {
    () => {
        ".att_syntax prefix\n jmpq *__ehdr_start+{first}+clockscope_place(%rip)\n .intel_syntax noprefix
         .balign {size}, 0xcc"
    };
}

/// Nothing follows the jumps.
macro_rules! forward_end {
    () => {
        ""
    };
}

pub(crate) use {
    by_clock, counted_code, direct_code, forward_code, forward_end, looked_up_code, single,
    slow_code,
};

direct! {
    direct_time => Function::Time;
    direct_getcpu => Function::Getcpu;
    direct_sgx_enter_enclave => Function::SgxEnterEnclave;
}

counted! {
    counted_time => Function::Time, single!, COUNTER_TIME;
    counted_getcpu => Function::Getcpu, single!, COUNTER_GETCPU;
}

looked_up! {
    looked_up_time => Function::Time, single!, COUNTER_TIME;
    looked_up_getcpu => Function::Getcpu, single!, COUNTER_GETCPU;
}

untimed! {
    looked_up_sgx_enter_enclave => Function::SgxEnterEnclave, COUNTER_SGX;
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
