//! Runs once in a process that clockscope attaches to, while all its signals are blocked: maps the
//! pages behind the image and fills in the addresses. Where it begins, each architecture has in its folder (`arch/`).
//!
//! Nothing waits for the tracer here, and no memory of the program is used: the stack is a page of
//! ours. If anything fails, the program goes on as it was; the tracer redirects its calls only
//! when the header says that all is there.

use core::sync::atomic::Ordering::Release;

use crate::install::{
    Failure, MADV_WIPEONFORK, MAP_PRIVATE_FIXED_ANONYMOUS, PROT_READ, PROT_READ_EXECUTE, SHM_REMAP,
    SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_SHMAT, attach_live, check, failed, syscall,
};
use crate::layout::{
    AttachParams, CONFIG_OFFSET, Config, Constants, FUNCTIONS, InstallStep, PAGE, SHARED_OFFSET,
    Shared, TARGET_KERNEL, TARGET_OURS, THREADS_OFFSET, THREADS_SIZE, TRAMPOLINE_OFFSET,
    TRAMPOLINE_SIZE, Target, Threads,
};
use crate::slots::{image_base, session};

/// Maps what is missing and fills in the addresses; the private pages are there already.
pub(crate) extern "C" fn attach(params: &AttachParams) {
    let base = image_base();
    let id = params.shared_id as usize;
    if failed(syscall(SYS_SHMAT, id, base + SHARED_OFFSET, SHM_REMAP, 0)) {
        return; // the tracer sees that nothing was installed
    }
    // SAFETY: the pages were attached just now.
    let shared = unsafe { &*((base + SHARED_OFFSET) as *const Shared) };
    if let Err((step, error)) = map(base, params.process) {
        shared.header.failed.store((step as u64) << 32 | error as u64, Release);
        return;
    }
    let config = base + CONFIG_OFFSET;
    // SAFETY: the page was mapped before this was called and nobody else knows it.
    fill(unsafe { &mut *(config as *mut Config) }, base);
    // If this fails, which has no reason to, the addresses stay writable and all works.
    syscall(SYS_MPROTECT, config, PAGE, PROT_READ, 0);
    shared.header.base.store(base as u64, Release);
}

fn map(base: usize, process: u64) -> Result<(), Failure> {
    attach_live(base)?;
    let threads = base + THREADS_OFFSET;
    let wipe = syscall(SYS_MADVISE, threads, THREADS_SIZE, MADV_WIPEONFORK, 0);
    check(InstallStep::WipeOnFork, wipe)?;
    // SAFETY: the page is ours, and nobody else knows it.
    unsafe { (*(threads as *mut Threads)).process.store(process, Release) };
    let at = base + TRAMPOLINE_OFFSET;
    let mapped = syscall(SYS_MMAP, at, PAGE, PROT_READ_EXECUTE, MAP_PRIVATE_FIXED_ANONYMOUS);
    check(InstallStep::MapTrampolines, mapped)
}

/// Our entries jump to the trampolines, which the tracer writes before it redirects a call.
fn fill(config: &mut Config, base: usize) {
    let session: &Constants = session();
    for index in 0..FUNCTIONS {
        let resolve = |target: &Target| match target.image {
            TARGET_KERNEL => (base + TRAMPOLINE_OFFSET + index * TRAMPOLINE_SIZE) as u64,
            TARGET_OURS => base as u64 + u64::from(target.offset),
            _ => 0,
        };
        config.target[index] = resolve(&session.target[index]);
        config.kernel[index] = resolve(&session.kernel[index]);
    }
}
