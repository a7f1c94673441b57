//! `ptrace(2)`, as far as clockscope uses it: seized tracees only.

use std::io;
use std::ptr::without_provenance_mut;

use super::arch::registers::SYSCALL;
pub use super::arch::registers::{Registers, registers, set_registers, thread_pointer};
use super::arch::step;
use super::check;

/// Follow `execve`, `fork`, `vfork` and `clone`, and mark system-call stops with bit 7.
pub const FOLLOW: i32 = libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACESYSGOOD;
/// As [`FOLLOW`], and a thread stops when it ends.
pub const FOLLOW_TO_END: i32 = FOLLOW | libc::PTRACE_O_TRACEEXIT;

/// `PTRACE_SECCOMP_GET_FILTER`, include/uapi/linux/ptrace.h (Linux 4.4 and later).
const SECCOMP_GET_FILTER: libc::c_uint = 0x420c;
/// `PTRACE_SECCOMP_GET_METADATA`, include/uapi/linux/ptrace.h (Linux 4.16 and later).
const SECCOMP_GET_METADATA: libc::c_uint = 0x420d;
/// `PTRACE_GET_RSEQ_CONFIGURATION`, the same (Linux 5.13 and later).
const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
/// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG`, the same (Linux 6.4 and later).
const GET_SYSCALL_USER_DISPATCH: libc::c_uint = 0x4211;

/// Up to which event a resumed tracee runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until the next ptrace event.
    Run,
    /// Until it enters or leaves a system call.
    ToSyscall,
}

/// Makes a request.
pub(crate) fn call(
    request: libc::c_uint,
    pid: i32,
    address: usize,
    data: usize,
) -> io::Result<i64> {
    let pointer = without_provenance_mut::<libc::c_void>;
    // SAFETY: for the requests made in this file and for registers `address` and `data` are numbers, or point to
    // memory of the right size that outlives the call.
    check(unsafe { libc::ptrace(request, pid, pointer(address), pointer(data)) })
}

/// A signal or a set of options as `ptrace` takes it.
fn number(number: i32) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Becomes the tracer of a process without stopping it.
///
/// # Errors
///
/// `EPERM` when it is already traced or tracing is forbidden.
pub fn seize(pid: i32, options: i32) -> io::Result<()> {
    call(libc::PTRACE_SEIZE, pid, 0, number(options)?).map(drop)
}

/// Resumes a stopped tracee, with a signal (0: none). If the kernel has a step of its own pending
/// ([`is_at_breakpoint`]), that step is made, unless the tracee is to stop at system calls: no request does both.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn resume(pid: i32, how: Resume, signal: i32) -> io::Result<()> {
    let own = step::own_step(pid, signal);
    let request = match (how, own) {
        (Resume::Run, Some(_)) => libc::PTRACE_SINGLESTEP,
        (Resume::Run, None) => libc::PTRACE_CONT,
        (Resume::ToSyscall, _) => libc::PTRACE_SYSCALL,
    };
    call(request, pid, 0, number(own.unwrap_or(signal))?).map(drop)
}

/// Whether a stopped tracee has reached a hardware breakpoint of perf and the kernel is about to execute that
/// instruction as a single step. If the step is not made, the thread's breakpoints stay disabled. Always false on CPUs
/// that can resume across a breakpoint (`RF` of x86-64).
pub fn is_at_breakpoint(pid: i32) -> bool {
    step::own_step(pid, 0).is_some()
}

/// Leaves a tracee in its group-stop, but gets notice of the event that ends the group-stop.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn listen(pid: i32) -> io::Result<()> {
    call(libc::PTRACE_LISTEN, pid, 0, 0).map(drop)
}

/// Asks a tracee to stop; it stops where a signal could be delivered.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn interrupt(pid: i32) -> io::Result<()> {
    call(libc::PTRACE_INTERRUPT, pid, 0, 0).map(drop)
}

/// The signals that a stopped tracee blocks, one bit each. In a call that changes them temporarily (`sigsuspend`),
/// those from before the call.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn signal_mask(pid: i32) -> io::Result<u64> {
    let mut mask = 0_u64;
    call(libc::PTRACE_GETSIGMASK, pid, size_of::<u64>(), (&raw mut mask).expose_provenance())?;
    Ok(mask)
}

/// Changes the signals that a stopped tracee blocks, one bit each.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn set_signal_mask(pid: i32, mask: u64) -> io::Result<()> {
    let address = std::ptr::from_ref(&mask).expose_provenance();
    call(libc::PTRACE_SETSIGMASK, pid, size_of::<u64>(), address).map(drop)
}

/// Detaches from a stopped tracee, with a signal (0: none).
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn detach_with(pid: i32, signal: i32) -> io::Result<()> {
    // This request makes no step either; but a SIGTRAP that is not the program's own would kill the program.
    let signal = step::own_step(pid, signal).unwrap_or(signal);
    call(libc::PTRACE_DETACH, pid, 0, number(signal)?).map(drop)
}

/// Address of the area that a stopped tracee has registered with `rseq(2)`; `None` if it has none, or if the kernel
/// does not report it (before Linux 5.13).
pub fn rseq_area(pid: i32) -> Option<u64> {
    // `struct ptrace_rseq_configuration`: pointer, size, signature, flags, padding.
    let mut area = [0_u64; 3];
    let size = size_of_val(&area);
    call(GET_RSEQ_CONFIGURATION, pid, size, area.as_mut_ptr().expose_provenance()).ok()?;
    (area[0] != 0).then_some(area[0])
}

/// True if a stopped tracee gets its own system calls as signals (`PR_SET_SYSCALL_USER_DISPATCH`); false if the kernel
/// does not report it (before Linux 6.4).
pub fn dispatches_system_calls(pid: i32) -> bool {
    // `struct ptrace_sud_config`: mode, selector, offset, length.
    let mut config = [0_u64; 4];
    let size = size_of_val(&config);
    call(GET_SYSCALL_USER_DISPATCH, pid, size, config.as_mut_ptr().expose_provenance()).is_ok()
        && config[0] != 0
}

/// Sets the options (`PTRACE_O_*`) of a stopped tracee.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn set_options(pid: i32, options: i32) -> io::Result<()> {
    call(libc::PTRACE_SETOPTIONS, pid, 0, number(options)?).map(drop)
}

/// Lets a stopped tracee execute one instruction, with a signal (0: none).
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile; `EIO` where the CPU cannot.
pub fn single_step(pid: i32, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_SINGLESTEP, pid, 0, number(signal)?).map(drop)
}

/// Whether the instruction at an address of a stopped tracee enters the kernel.
///
/// # Errors
///
/// `EIO` where nothing is mapped.
pub fn is_syscall(pid: i32, address: u64) -> io::Result<bool> {
    let at = usize::try_from(address).map_err(io::Error::other)?;
    let offset = at % size_of::<u64>();
    // An aligned word does not reach into a page that may be unmapped.
    let mut bytes = peek(libc::PTRACE_PEEKTEXT, pid, at - offset)?.to_le_bytes()[offset..].to_vec();
    if bytes.len() < SYSCALL.len() && SYSCALL.starts_with(&bytes) {
        bytes.extend(peek(libc::PTRACE_PEEKTEXT, pid, at - offset + 8)?.to_le_bytes());
    }
    Ok(bytes.starts_with(&SYSCALL))
}

/// Reads a word of a stopped tracee: of its memory or of its `struct user`, depending on `request`.
pub(crate) fn peek(request: libc::c_uint, pid: i32, address: usize) -> io::Result<u64> {
    let mut word = 0_u64;
    let into = (&raw mut word).expose_provenance();
    // The system call stores the word at `data`. The C library's wrapper would use its own variable for that.
    // SAFETY: the pointer is to a local of the right size.
    check(unsafe { libc::syscall(libc::SYS_ptrace, request, pid, address, into) })?;
    Ok(word)
}

/// The number that belongs to an event: the id of the new process, or the former thread id.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn event_message(pid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    call(libc::PTRACE_GETEVENTMSG, pid, 0, (&raw mut message).expose_provenance())?;
    i32::try_from(message).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Process id of the sender, and `si_code`, of the signal that a tracee has stopped for.
///
/// # Errors
///
/// `EINVAL` when it has not stopped for a signal.
pub fn signal_sender(pid: i32) -> io::Result<(i32, i32)> {
    let SignalInfo(info) = SignalInfo::of(pid)?;
    // SAFETY: the field is a plain integer in every variant of the union.
    Ok((unsafe { info.si_pid() }, info.si_code))
}

/// The `siginfo_t` of the signal that a tracee has stopped for.
#[derive(Clone, Copy)]
pub struct SignalInfo(libc::siginfo_t);

impl SignalInfo {
    /// Reads the signal information of a stopped tracee.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it has not stopped for a signal.
    pub fn of(pid: i32) -> io::Result<Self> {
        // SAFETY: all-zero is a value of this plain union.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        call(libc::PTRACE_GETSIGINFO, pid, 0, (&raw mut info).expose_provenance())?;
        Ok(Self(info))
    }

    /// Whether the signal comes from the instruction at which the tracee stands. Such an instruction gives the signal
    /// again when it is executed again, and the kernel then kills a tracee that blocks the signal (`SYNCHRONOUS_MASK`
    /// in kernel/signal.c, Linux 6.18).
    pub fn is_fault(&self) -> bool {
        let of_instructions =
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGFPE, libc::SIGSYS];
        of_instructions.contains(&self.0.si_signo) && self.0.si_code > libc::SI_USER
    }
}

/// A system-call stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallStop {
    /// The tracee stands before the call.
    Entry {
        /// Audit architecture (`AUDIT_ARCH_*`).
        arch: u32,
        /// Number of the call.
        number: u64,
        /// The arguments, as in the registers.
        arguments: [u64; 6],
    },
    /// The tracee stands after the call.
    Exit {
        /// True if the call failed.
        is_error: bool,
    },
    /// The tracee stands at no system call.
    Other,
}

/// Whether a tracee has stopped at the entry or exit of a system call, and that call.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile; `EIO` before Linux 5.3.
pub fn syscall_info(pid: i32) -> io::Result<SyscallStop> {
    // SAFETY: all-zero is a value of this plain struct.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::ptrace_syscall_info>();
    call(libc::PTRACE_GET_SYSCALL_INFO, pid, size, (&raw mut info).expose_provenance())?;
    // SAFETY: `op` says which variant of the union the kernel has filled in.
    Ok(unsafe {
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => SyscallStop::Entry {
                arch: info.arch,
                number: info.u.entry.nr,
                arguments: info.u.entry.args,
            },
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                SyscallStop::Exit { is_error: info.u.exit.is_error != 0 }
            }
            _ => SyscallStop::Other,
        }
    })
}

/// True if the tracee has a seccomp filter; `None` if the kernel does not report it.
///
/// # References
///
/// `PTRACE_SECCOMP_GET_METADATA` in `ptrace(2)`: needs `CAP_SYS_ADMIN`
pub fn has_seccomp_filter(pid: i32) -> Option<bool> {
    let mut metadata = [0_u64; 2];
    let size = size_of_val(&metadata);
    let asked = call(SECCOMP_GET_METADATA, pid, size, metadata.as_mut_ptr().expose_provenance());
    match asked.map_err(|error| error.raw_os_error()) {
        Ok(_) => Some(true),
        Err(Some(libc::EINVAL | libc::ENOENT)) => Some(false),
        Err(_) => None,
    }
}

/// Seccomp filter number `index` of a stopped tracee, as words of eight bytes (`struct sock_filter`); `None` if it has
/// no more than `index` filters.
///
/// # Errors
///
/// `EACCES` without `CAP_SYS_ADMIN`, or under a filter; `EMEDIUMTYPE` for a filter that is not classic BPF.
pub fn seccomp_filter(pid: i32, index: usize) -> io::Result<Option<Vec<[u8; 8]>>> {
    const NONE: [i32; 2] = [libc::ENOENT, libc::EINVAL];
    let length = match call(SECCOMP_GET_FILTER, pid, index, 0) {
        Ok(length) => usize::try_from(length).map_err(io::Error::other)?,
        Err(error) if error.raw_os_error().is_some_and(|e| NONE.contains(&e)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut filter = vec![[0; 8]; length];
    call(SECCOMP_GET_FILTER, pid, index, filter.as_mut_ptr().expose_provenance())?;
    Ok(Some(filter))
}
