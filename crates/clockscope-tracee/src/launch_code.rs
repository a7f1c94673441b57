//! The stubs that give a new process its copy of the shim, with their slots filled.
//!
//! The code is written into the unused end of the kernel's own vDSO page (a private copy of it) and runs once, before
//! the program's first instruction. It does not need the tracer once it has begun. `vdso-image/src/arch/*/stubs.rs`
//! describes the code; this file fills its slots.

use super::arch::AUDIT_ARCH;
use clockscope_containers::filter::Call;
use clockscope_sys::memory;
use vdso_image::layout::{
    CONFIG_OFFSET, ExecveSlots, IMAGE_PAGES, INSTALL_MARK, LaunchSlots, MemoryMap, PAGE,
    THREADS_OFFSET, THREADS_SIZE, TOTAL_SIZE,
};

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// Code, with its slots at this offset.
pub(crate) fn filled(code: &[u8], at: usize, slots: &[u8]) -> Vec<u8> {
    let mut bytes = code.to_vec();
    bytes[at..at + slots.len()].copy_from_slice(slots);
    bytes
}

/// Makes descriptions of marked system calls by code at an address, as a seccomp filter sees them.
pub(crate) fn marked_calls(at: u64) -> impl Fn(&'static str, i64, [u64; 5]) -> Call {
    move |name, number, [a, b, c, d, e]| {
        let arguments = [a, b, c, d, e, INSTALL_MARK];
        Call { name, number, arch: AUDIT_ARCH, at, arguments }
    }
}

/// The system calls of the launch code and, if calls are counted, of the installer, as a seccomp filter sees them. The
/// kernel chooses the image's address later, so the addresses are stand-ins.
pub(crate) fn calls(copies_itself: bool, shared_id: u64, live_id: u64, at: u64) -> Vec<Call> {
    const ANONYMOUS: u64 = 0x22;
    const FIXED: u64 = 0x32;
    const READ_WRITE: u64 = 3;
    const READ_EXECUTE: u64 = 5;
    let size = |bytes: usize| bytes as u64;
    let (base, total) = (at & !(size(PAGE) - 1), size(TOTAL_SIZE));
    let call = marked_calls(at);
    let access = if copies_itself { READ_WRITE } else { READ_EXECUTE };
    let private = size(THREADS_OFFSET + THREADS_SIZE - CONFIG_OFFSET);
    let memory_map = size(size_of::<MemoryMap>());
    vec![
        call("mmap", libc::SYS_mmap, [0, total, access, ANONYMOUS, u64::MAX]),
        call("madvise", libc::SYS_madvise, [base, size(IMAGE_PAGES), 4, 0, 0]),
        call("mprotect", libc::SYS_mprotect, [base, total, READ_EXECUTE, 0, 0]),
        call("shmat", libc::SYS_shmat, [shared_id, base, 0o40_000, 0, 0]),
        call("shmat", libc::SYS_shmat, [live_id, base, 0o50_000, 0, 0]),
        call("mmap", libc::SYS_mmap, [base, private, READ_WRITE, FIXED, u64::MAX]),
        call("madvise", libc::SYS_madvise, [base, size(THREADS_SIZE), 18, 0, 0]),
        call("prctl", libc::SYS_prctl, [35, 14, at, memory_map, 0]),
        call("mremap", libc::SYS_mremap, [base, size(PAGE), size(PAGE), 3, base]),
        call("munmap", libc::SYS_munmap, [base, size(PAGE), 0, 0, 0]),
        call("mprotect", libc::SYS_mprotect, [base, size(PAGE), 1, 0, 0]),
    ]
}

/// Makes the launch code: position-independent, about 400 bytes with the parameters. Without an address of the image in
/// the slots, the tracer writes the image after the code has mapped memory for it.
pub(crate) fn assemble(slots: &LaunchSlots) -> Vec<u8> {
    match slots.image {
        0 => filled(launch_written::CODE, launch_written::SLOTS, memory::bytes_of(slots)),
        _ => filled(launch::CODE, launch::SLOTS, memory::bytes_of(slots)),
    }
}

/// Makes the code that executes the program again.
pub(crate) fn assemble_execve(slots: &ExecveSlots) -> Vec<u8> {
    filled(execute_again::CODE, execute_again::SLOTS, memory::bytes_of(slots))
}
