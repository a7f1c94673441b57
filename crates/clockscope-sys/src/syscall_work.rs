//! The kernel's additional work in each system call of the calling thread.
//!
//! The kernel keeps a word for each thread with the reasons why its system calls cannot take the short path. Reasons
//! are a probe on `sys_enter` or `sys_exit` (of any process and kind), auditing, and a tracer that stops at the call. A
//! BPF program of twelve instructions reads that word.

use std::io;

use super::bpf::programs::{Program, Purpose, instruction};
use aya_obj::generated::bpf_insn;

/// The kinds of additional work in each system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallWork {
    /// A probe is attached to `sys_enter` or `sys_exit`: BPF, perf or ftrace.
    pub tracepoint: bool,
    /// The call is given to the audit subsystem.
    pub audit: bool,
}

/// `enum syscall_work_bit`.
const BIT_TRACEPOINT: u32 = 1 << 1;
const BIT_AUDIT: u32 = 1 << 4;
const BIT_USER_DISPATCH: u32 = 1 << 5;
/// Result of the program if it cannot read the word; no bit that high is in use.
const UNREADABLE: u32 = 1 << 31;

/// Reads the word of the calling thread.
///
/// The offset of the word is known for x86-64 since Linux 5.11. It is tested: a feature that sets another bit of the
/// word is switched on and off again, and the bit must follow.
///
/// # Errors
///
/// Without the privilege to load BPF programs that read kernel memory, and if the word is not at its offset.
///
/// # References
///
/// - `struct thread_info` in arch/x86/include/asm/thread_info.h, `enum syscall_work_bit` in
///   include/linux/thread_info.h, `syscall_regfunc` in kernel/tracepoint.c (Linux 6.18)
/// - `prctl(2)`, `PR_SET_SYSCALL_USER_DISPATCH`
pub fn read() -> io::Result<SyscallWork> {
    let program = Program::load("syscall_work", Purpose::Once, &program(), c"Dual MIT/GPL")?;
    let word = || program.run(&[0; 12]);
    let before = word()?;
    set_user_dispatch(true)?;
    let with = word();
    set_user_dispatch(false)?;
    let after = word()?;
    let is_place = [before, after].iter().all(|word| word & (UNREADABLE | BIT_USER_DISPATCH) == 0)
        && with? & (UNREADABLE | BIT_USER_DISPATCH) == BIT_USER_DISPATCH;
    if !is_place {
        return Err(io::Error::other("this kernel keeps the word elsewhere"));
    }
    Ok(SyscallWork { tracepoint: after & BIT_TRACEPOINT != 0, audit: after & BIT_AUDIT != 0 })
}

/// `return *(u32 *)((char *)current + 8)`, or [`UNREADABLE`]. `syscall_work` is 8 bytes into `struct
/// task_struct`, whose first member is `struct thread_info`.
///
/// # References
///
/// - Documentation/bpf/standardization/instruction-set.rst (Linux 6.18); the numbers of the functions
///   are those of include/uapi/linux/bpf.h
fn program() -> [bpf_insn; 12] {
    /// Calls a function; `to = from`, `to += value` and `to = value`.
    const CALL: u8 = 0x85;
    const COPY: u8 = 0xbf;
    const ADD: u8 = 0x07;
    const SET: u8 = 0xb7;
    const JUMP_IF_EQUAL: u8 = 0x15;
    const LOAD: u8 = 0x79;
    const EXIT: u8 = 0x95;
    const GET_CURRENT_TASK: i32 = 35;
    const PROBE_READ_KERNEL: i32 = 113;
    [
        instruction(CALL, 0, 0, 0, GET_CURRENT_TASK),
        instruction(COPY, 3, 0, 0, 0),
        instruction(ADD, 3, 0, 0, 8),
        instruction(COPY, 1, 10, 0, 0),
        instruction(ADD, 1, 0, 0, -8),
        instruction(SET, 2, 0, 0, 8),
        instruction(CALL, 0, 0, 0, PROBE_READ_KERNEL),
        instruction(JUMP_IF_EQUAL, 0, 0, 2, 0),
        instruction(SET, 0, 0, 0, i32::MIN),
        instruction(EXIT, 0, 0, 0, 0),
        instruction(LOAD, 0, 10, -8, 0),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// With every address allowed, the feature changes nothing but this word.
fn set_user_dispatch(on: bool) -> io::Result<()> {
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    let all = if on { libc::c_ulong::MAX } else { 0 };
    // SAFETY: takes numbers; concerns the calling thread only. The range of addresses that may make system calls, from
    // 0 on, covers all, so no call is turned into a signal.
    let result = unsafe {
        let mode = libc::c_ulong::from(on);
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, 0 as libc::c_ulong, all, 0 as libc::c_ulong)
    };
    super::check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_read_or_forbidden_and_the_thread_is_as_before() {
        let is_read = match read() {
            Ok(first) => {
                assert_eq!(read().unwrap().audit, first.audit);
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        };
        // Some kernels lack the feature; then the word cannot be tested and is not known.
        assert!(set_user_dispatch(false).is_ok() || !is_read);
    }
}
