//! Installs the image in a process that clockscope attaches to. This code runs there with all signals of the thread
//! blocked. On attaching, it maps the pages behind the image and fills in the addresses. On detaching, it replaces the
//! pages that are shared with the tracer by private ones. The entry point of each architecture is in its folder
//! (`arch/`).
//!
//! The image stays mapped for ever: a context that a signal handler has suspended inside the image may be resumed at
//! any time, and then counts into private pages that the tracer does not read. The next clockscope of the same build
//! uses the image again.
//!
//! This code never waits for the tracer and uses no memory of the program: its stack is a page behind the image. If a
//! step fails, the program goes on unchanged. The tracer redirects the program's calls only after the header says that
//! the image is installed.

use core::sync::atomic::Ordering::Release;

use crate::arch::syscall::SYS_MREMAP;
use crate::install::{
    Failure, MADV_WIPEONFORK, MAP_PRIVATE_FIXED_ANONYMOUS, MREMAP_FIXED_MAYMOVE, PROT_READ,
    PROT_READ_EXECUTE, PROT_READ_WRITE, SHM_REMAP, SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_SHMAT,
    attach_live, check, failed, fill, syscall, syscall_5,
};
use crate::layout::{
    ATTACH_LEAVE, ATTACH_NEW, AttachParams, CONFIG_OFFSET, Config, InstallStep, LIVE_OFFSET, PAGE,
    REPLACED_SIZE, SHARED_OFFSET, Shared, THREADS_OFFSET, THREADS_SIZE, TRAMPOLINE_OFFSET,
    TRAMPOLINE_SIZE, Threads,
};
use crate::slots::image_base;

/// `MAP_NORESERVE` as well: no memory is reserved for pages that are hardly ever used.
const MAP_PRIVATE_ANONYMOUS: usize = 0x02 | 0x20 | 0x4000;

/// Does the task in `params`; the private pages are already mapped.
pub(crate) extern "C" fn attach(params: &AttachParams) {
    match params.task {
        ATTACH_LEAVE => leave(image_base()),
        _ => come(image_base(), params),
    }
}

/// Maps the missing pages and fills in the addresses.
fn come(base: usize, params: &AttachParams) {
    let id = params.shared_id as usize;
    if failed(syscall(SYS_SHMAT, id, base + SHARED_OFFSET, SHM_REMAP, 0)) {
        return; // the tracer sees that nothing was installed
    }
    // SAFETY: the pages were attached just now.
    let shared = unsafe { &*((base + SHARED_OFFSET) as *const Shared) };
    if let Err((step, error)) = map(base, params) {
        shared.header.failed.store((step as u64) << 32 | error as u64, Release);
        return;
    }
    shared.header.base.store(base as u64, Release);
}

fn map(base: usize, params: &AttachParams) -> Result<(), Failure> {
    attach_live(base)?;
    let is_new = params.task == ATTACH_NEW;
    let at = base + THREADS_OFFSET;
    let wipe = syscall(SYS_MADVISE, at, THREADS_SIZE, MADV_WIPEONFORK, 0);
    check(InstallStep::WipeOnFork, wipe)?;
    // SAFETY: the pages are ours and mapped as long as the image; they consist of atomics.
    let threads = unsafe { &*(at as *const Threads) };
    forget(threads);
    threads.process.store(params.process, Release);
    if is_new {
        let at = base + TRAMPOLINE_OFFSET;
        let mapped = syscall(SYS_MMAP, at, PAGE, PROT_READ_EXECUTE, MAP_PRIVATE_FIXED_ANONYMOUS);
        check(InstallStep::MapTrampolines, mapped)?;
    }
    let config = base + CONFIG_OFFSET;
    let writable = syscall(SYS_MPROTECT, config, PAGE, PROT_READ_WRITE, 0);
    check(InstallStep::MapPrivate, writable)?;
    // SAFETY: the page belongs to the image and is writable now. No other code writes it. A call that reads it, in an
    // image that an earlier session has left, finds the same addresses as before in the words that [`fill`] writes
    // again.
    let config = unsafe { &mut *(config as *mut Config) };
    // Entries jump to the trampolines, which the tracer writes before it redirects a call.
    fill(config, base, |index, _| (base + TRAMPOLINE_OFFSET + index * TRAMPOLINE_SIZE) as u64);
    if config.replacement == 0 {
        let mapped = syscall(SYS_MMAP, 0, REPLACED_SIZE, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS);
        check(InstallStep::MapPrivate, mapped)?;
        config.replacement = mapped as u64;
    }
    // If this fails, the addresses stay writable and the image works all the same.
    syscall(SYS_MPROTECT, base + CONFIG_OFFSET, PAGE, PROT_READ, 0);
    Ok(())
}

/// Clears the slot of every thread: the shared pages are new, and no thread owns a slot in them. A context that is
/// suspended between finding its slot and adding to it adds to a slot that may belong to another thread by then.
fn forget(threads: &Threads) {
    for entry in &threads.entries {
        entry.key.store(0, Release);
    }
    for word in [&threads.full, &threads.own_site_part, &threads.only_slot, &threads.hold_one_in] {
        word.store(0, Release);
    }
}

/// Moves the private pages over the pages that are shared with the tracer. The kernel does this in one call, so a
/// thread that counts meanwhile writes either to the old pages or to the new ones. If the kernel refuses, the pages
/// stay as they were.
fn leave(base: usize) {
    let at = base + CONFIG_OFFSET;
    // SAFETY: the page is ours, and mapped as long as the image.
    let from = unsafe { (*(at as *const Config)).replacement } as usize;
    if from == 0 || failed(syscall(SYS_MPROTECT, at, PAGE, PROT_READ_WRITE, 0)) {
        return;
    }
    let to = base + LIVE_OFFSET;
    let moved = syscall_5(SYS_MREMAP, from, REPLACED_SIZE, REPLACED_SIZE, MREMAP_FIXED_MAYMOVE, to);
    if !failed(moved) {
        // SAFETY: the page is writable now, and no other code uses this word.
        unsafe { (*(at as *mut Config)).replacement = 0 };
    }
    syscall(SYS_MPROTECT, at, PAGE, PROT_READ, 0);
}
