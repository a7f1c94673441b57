//! What the kernel does beside each system call of the calling thread.
//!
//! The kernel keeps a word for each thread that says why its system calls cannot take the short
//! way: a probe on `sys_enter` or `sys_exit` is attached (by whomever, in whatever way), the call is
//! audited, a tracer stops at it. A BPF program of twelve instructions reads that word.

use std::io;

use super::bpf;

/// What is done beside each system call.
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
/// What the program returns if it cannot read; no bit that high is in use.
const UNREADABLE: u32 = 1 << 31;

/// Reads the word of the calling thread.
///
/// The place of the word is known for x86-64 since Linux 5.11 and is tried out: a feature that sets
/// another bit of it is switched on and off again, and the bit must follow.
///
/// # Errors
///
/// Without the right to load BPF programs that read kernel memory, and where the word is not in
/// its place.
///
/// # References
///
/// - `struct thread_info` in arch/x86/include/asm/thread_info.h, `enum syscall_work_bit` in
///   include/linux/thread_info.h, `syscall_regfunc` in kernel/tracepoint.c (Linux 6.18)
/// - `prctl(2)`, `PR_SET_SYSCALL_USER_DISPATCH`
pub fn read() -> io::Result<SyscallWork> {
    if !cfg!(target_arch = "x86_64") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let program = bpf::load_raw_tracepoint(&instructions())?;
    let before = bpf::run(&program)?;
    set_user_dispatch(true)?;
    let with = bpf::run(&program);
    set_user_dispatch(false)?;
    let after = bpf::run(&program)?;
    let is_place = [before, after].iter().all(|word| word & (UNREADABLE | BIT_USER_DISPATCH) == 0)
        && with? & (UNREADABLE | BIT_USER_DISPATCH) == BIT_USER_DISPATCH;
    if !is_place {
        return Err(io::Error::other("this kernel keeps the word elsewhere"));
    }
    Ok(SyscallWork { tracepoint: after & BIT_TRACEPOINT != 0, audit: after & BIT_AUDIT != 0 })
}

/// Offset of `syscall_work` in `struct task_struct`, whose first member is `struct thread_info`.
const OFFSET: i32 = 8;
const HELPER_GET_CURRENT_TASK: i32 = 35;
const HELPER_PROBE_READ_KERNEL: i32 = 113;

/// `return *(u32 *)((char *)current + OFFSET)`, or [`UNREADABLE`].
fn instructions() -> [bpf::Instruction; 12] {
    use bpf::Instruction as I;
    [
        I::call(HELPER_GET_CURRENT_TASK),
        I::copy(3, 0),
        I::add(3, OFFSET),
        I::copy(1, 10),
        I::add(1, -8),
        I::set(2, 8),
        I::call(HELPER_PROBE_READ_KERNEL),
        I::jump_if_zero(0, 2),
        I::set(0, i32::MIN),
        I::exit(),
        I::load(0, 10, -8),
        I::exit(),
    ]
}

/// With every address allowed the feature changes nothing but the word.
fn set_user_dispatch(on: bool) -> io::Result<()> {
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    let all = if on { libc::c_ulong::MAX } else { 0 };
    // SAFETY: takes numbers; concerns the calling thread only. No address is outside of the range
    // from 0 that is allowed to make system calls, so none is ever turned into a signal.
    let result = unsafe {
        let mode = libc::c_ulong::from(on);
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, 0 as libc::c_ulong, all, 0 as libc::c_ulong)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_read_or_forbidden_and_the_thread_is_as_before() {
        match read() {
            Ok(first) => assert_eq!(read().unwrap().audit, first.audit),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        set_user_dispatch(false).unwrap();
    }
}
