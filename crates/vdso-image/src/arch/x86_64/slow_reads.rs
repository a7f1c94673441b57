//! The instructions of `--clock slow` (`slow_reads.rs`).

/// Calls a function of the kernel's with the program's own arguments, and returns its result when the read has taken
/// long enough. The `lfence` keeps the first counter reading behind the last one of the previous call, so reads in a
/// row do not overlap in time.
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
            // A counter that is behind, on another CPU, ends the wait too, because the difference is unsigned.
            "cmp rax, qword ptr [rip + __ehdr_start + {ticks}]\n jb 4b\n",
            "5:\n mov eax, esi\n ret"
        )
    };
}

/// Jumps to 3 unless reads of the clock ask the clocksource.
macro_rules! asks_clocksource {
    () => {
        "cmp edi, 31\n ja 3f\n mov eax, {asks}\n bt eax, edi\n jnc 3f"
    };
}

/// Jumps to 3 if the call is for the time zone alone.
macro_rules! asks_for_time {
    () => {
        "test rdi, rdi\n jz 3f"
    };
}

/// Jumps to the kernel's function.
macro_rules! to_kernel {
    () => {
        "jmp qword ptr [rip + __ehdr_start + {kernel}]"
    };
}

pub(crate) use {answer_slowly, asks_clocksource, asks_for_time, to_kernel};
