//! The operands of the stubs (`arch/*/stubs.rs`), which are the same on each architecture.

pub(crate) const MAP_PRIVATE_ANONYMOUS: usize = 0x02 | 0x20;
pub(crate) const MADV_DONTNEED: usize = 4;
pub(crate) const SIG_SETMASK: usize = 2;
/// Number of sleeps of [`pause`](crate::layout::InjectedSlots::pause) (1 ms) before the thread continues without the
/// tracer: 50 ms, however busy the machine is.
pub(crate) const WAITS: usize = 50;

/// One `global_asm!` of these instructions, because the compiler may reorder several, and their macros must come first;
/// then the operands of one architecture.
macro_rules! stubs {
    ($($text:literal,)* ; $($own:tt)*) => {
        core::arch::global_asm!(
            $($text,)*
            mark = const INSTALL_MARK,
            total = const TOTAL_SIZE,
            private_anonymous = const MAP_PRIVATE_ANONYMOUS,
            read_write = const PROT_READ_WRITE,
            read_execute = const PROT_READ_EXECUTE,
            mmap = const SYS_MMAP,
            munmap = const SYS_MUNMAP,
            madvise = const SYS_MADVISE,
            mprotect = const SYS_MPROTECT,
            execve = const SYS_EXECVE,
            dontneed = const MADV_DONTNEED,
            session_mark = const SESSION_MARK,
            mark_offset = const SESSION_OFFSET + offset_of!(Constants, mark),
            image = const offset_of!(LaunchSlots, image),
            install_offset = const offset_of!(LaunchSlots, install_offset),
            launch_params = const offset_of!(LaunchSlots, params),
            entry = const offset_of!(LaunchSlots, params) + offset_of!(LaunchParams, entry),
            launch_slots = const size_of::<LaunchSlots>(),
            path = const offset_of!(ExecveSlots, path),
            arguments = const offset_of!(ExecveSlots, arguments),
            environment = const offset_of!(ExecveSlots, environment),
            execve_entry = const offset_of!(ExecveSlots, entry),
            execve_slots = const size_of::<ExecveSlots>(),
            sigprocmask = const SYS_RT_SIGPROCMASK,
            set_mask = const SIG_SETMASK,
            waits = const WAITS,
            injected_slots = const size_of::<InjectedSlots>(),
            attach_slots = const size_of::<AttachSlots>(),
            params = const offset_of!(AttachSlots, params),
            installer = const offset_of!(AttachSlots, installer),
            all_signals = const offset_of!(InjectedSlots, all_signals),
            mask = const offset_of!(InjectedSlots, mask),
            flags = const offset_of!(InjectedSlots, flags),
            resume = const offset_of!(InjectedSlots, resume),
            pause = const offset_of!(InjectedSlots, pause),
            $($own)*
        );
    };
}

pub(crate) use stubs;
