//! The stubs that give a new process its copy of the shim, with their slots filled.
//!
//! The code is written into the unused end of the kernel's own vDSO page (a private copy of it) and runs once, before
//! the program's first instruction. It does not need the tracer once it has begun. `vdso-image/src/arch/*/stubs.rs`
//! describes the code; this file fills its slots.

use std::mem::offset_of;

use super::arch::AUDIT_ARCH;
use clockscope_containers::filter::Call;
use vdso_image::layout::{
    CONFIG_OFFSET, ExecveSlots, IMAGE_PAGES, INSTALL_MARK, LaunchParams, LaunchSlots, MemoryMap,
    PAGE, THREADS_OFFSET, THREADS_SIZE, TOTAL_SIZE,
};

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// Code with its slots behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    /// The bytes of code and slots.
    pub(crate) bytes: Vec<u8>,
    slots: usize,
}

impl Stub {
    /// Makes a stub whose slots begin at this offset and are zero.
    pub(crate) fn new(code: &[u8], slots: usize) -> Self {
        Self { bytes: code.to_vec(), slots }
    }

    /// Writes words at these offsets from the first slot.
    pub(crate) fn fill(mut self, words: &[(usize, u64)]) -> Self {
        for (offset, word) in words {
            let at = self.slots + offset;
            self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        self
    }
}

/// Parameters of the launch code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Address of the image, at the start of a page; `None`: the tracer writes it after the code has mapped memory for
    /// it.
    pub image: Option<u64>,
    /// Offset of `clockscope_install` in the image.
    pub install_offset: u32,
    /// The installer's parameters.
    pub params: LaunchParams,
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

/// Makes the launch code: position-independent, about 400 bytes with the parameters.
pub(crate) fn assemble(launch: &Launch) -> Vec<u8> {
    let LaunchParams {
        kernel_base,
        auxv_slot,
        shared_id,
        process,
        entry,
        clock,
        clock_inode,
        areas,
        tells,
        memory: MemoryMap { segments, start_stack, strings, auxv, auxv_size, exe_fd },
    } = launch.params;
    let stub = match launch.image {
        Some(_) => Stub::new(launch::CODE, launch::SLOTS),
        None => Stub::new(launch_written::CODE, launch_written::SLOTS),
    };
    let params = offset_of!(LaunchSlots, params);
    let memory = params + offset_of!(LaunchParams, memory);
    let words = |at: usize, words: &[u64]| -> Vec<(usize, u64)> {
        words.iter().enumerate().map(|(index, word)| (at + 8 * index, *word)).collect()
    };
    let two_halves = u64::from(auxv_size) | u64::from(exe_fd) << 32;
    stub.fill(&[
        (offset_of!(LaunchSlots, image), launch.image.unwrap_or(0)),
        (offset_of!(LaunchSlots, install_offset), launch.install_offset.into()),
        (params + offset_of!(LaunchParams, kernel_base), kernel_base),
        (params + offset_of!(LaunchParams, auxv_slot), auxv_slot),
        (params + offset_of!(LaunchParams, shared_id), shared_id),
        (params + offset_of!(LaunchParams, process), process),
        (params + offset_of!(LaunchParams, entry), entry),
        (params + offset_of!(LaunchParams, clock), clock),
        (params + offset_of!(LaunchParams, clock_inode), clock_inode),
        (params + offset_of!(LaunchParams, tells), tells),
        (memory + offset_of!(MemoryMap, start_stack), start_stack),
        (memory + offset_of!(MemoryMap, auxv), auxv),
        (memory + offset_of!(MemoryMap, auxv_size), two_halves),
    ])
    .fill(&words(params + offset_of!(LaunchParams, areas), &areas))
    .fill(&words(memory + offset_of!(MemoryMap, segments), &segments))
    .fill(&words(memory + offset_of!(MemoryMap, strings), &strings))
    .bytes
}

/// Makes the code that executes a program once more. It runs without the tracer.
pub(crate) fn assemble_execve(again: &ExecveSlots) -> Vec<u8> {
    Stub::new(execute_again::CODE, execute_again::SLOTS)
        .fill(&[
            (offset_of!(ExecveSlots, path), again.path),
            (offset_of!(ExecveSlots, arguments), again.arguments),
            (offset_of!(ExecveSlots, environment), again.environment),
            (offset_of!(ExecveSlots, entry), again.entry),
        ])
        .bytes
}
