//! Runs once in every traced process, after `execve` and before the program's first instruction: maps the pages behind
//! the image, fills in the addresses and points the auxiliary vector at the image.
//!
//! This code never waits for the tracer: if the tracer dies at any moment, this code runs to its end and the program
//! starts. If a step fails, the auxiliary vector stays unchanged and the program runs with the kernel's image.

mod clock_file;

use core::sync::atomic::Ordering::Release;

use self::clock_file::map_clock;
use crate::arch::start::forwarded;
use crate::arch::syscall::{SYS_GETPID, SYS_MREMAP, SYS_MUNMAP, SYS_PRCTL, SYS_TGKILL};
pub(crate) use crate::arch::syscall::{SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_SHMAT, syscall_5};
use crate::layout::{
    AREA_SIZE, CONFIG_OFFSET, Config, Constants, FUNCTIONS, GRANULE, INSTALL_NOTICE, InstallStep,
    KERNEL_OFFSET, KernelMapping, LIVE_OFFSET, LaunchParams, MAP_PRIVATE_THERE, MemoryMap,
    ONLY_THREAD, PAGE, SHARED_OFFSET, Shared, TARGET_KERNEL, TARGET_OURS, THREADS_OFFSET,
    THREADS_SIZE, TOTAL_SIZE, TRUST_OFFSET, Target, Threads,
};
use crate::slots::{image_base, session};

const PR_SET_MM: usize = 35;
const PR_SET_MM_MAP: usize = 14;
pub(crate) const PROT_READ: usize = 1;
pub(crate) const PROT_READ_EXECUTE: usize = 1 | 4;
pub(crate) const PROT_READ_WRITE: usize = 3;
pub(crate) const MAP_PRIVATE_FIXED_ANONYMOUS: usize = 0x02 | 0x10 | 0x20;
pub(crate) const MADV_WIPEONFORK: usize = 18;
pub(crate) const MREMAP_FIXED_MAYMOVE: usize = 3;
pub(crate) const SHM_REMAP: usize = 0o40000;
pub(crate) const SHM_RDONLY: usize = 0o10000;

/// Makes a marked system call; returns the kernel's result unchanged.
pub(crate) fn syscall(number: usize, a: usize, b: usize, c: usize, d: usize) -> usize {
    // The fifth argument: for `mmap` no file descriptor, for `prctl` zero.
    let fifth = if number == SYS_MMAP { usize::MAX } else { 0 };
    syscall_5(number, a, b, c, d, fifth)
}

pub(crate) fn failed(result: usize) -> bool {
    result > usize::MAX - 4095
}

/// Installs the image in this process; returns the address of the program's first instruction.
pub(crate) extern "C" fn install(params: &LaunchParams) -> u64 {
    let base = image_base();
    let counting = session().counting != 0;
    let (entry, kernel_base, areas) = (params.entry, params.kernel_base, params.areas);
    let tells = params.tells != 0;
    let attach =
        || syscall(SYS_SHMAT, params.shared_id as usize, base + SHARED_OFFSET, SHM_REMAP, 0);
    if counting && failed(attach()) {
        return entry; // the tracer sees that nothing was installed
    }
    // SAFETY: the pages were attached just now, and are read only when `counting`.
    let shared = unsafe { &*((base + SHARED_OFFSET) as *const Shared) };
    let live = if counting { attach_live(base) } else { Ok(()) };
    let mapped = live.and_then(|()| map_clock(base, params));
    if let Err((step, error)) = mapped.and_then(|()| map_private(base, params.process)) {
        if counting {
            let code = (step as u64) << 32 | error as u64;
            shared.header.failed.store(code, Release);
        }
        return entry;
    }
    // SAFETY: the tracer found the entry of the auxiliary vector at this address on the stack, and the program has not
    // run since.
    unsafe { (params.auxv_slot as *mut u64).write(base as u64) };
    tell_kernel(params);
    // `params` lies in a page of the kernel's image, which moves now: do not use it below this line.
    let kernel_base = move_kernel_image(base, kernel_base);
    release_rest(base, kernel_base);
    for area in areas {
        map_area(area as usize);
    }
    let config = base + CONFIG_OFFSET;
    // SAFETY: the page was mapped above and no other code uses it yet.
    let config_page = unsafe { &mut *(config as *mut Config) };
    fill(config_page, base, |_, target| kernel_base + u64::from(target.offset));
    for (address, offset) in config_page.forwarded.iter_mut().zip(forwarded()) {
        *address = kernel_base + u64::from(*offset);
    }
    // If this fails, the addresses stay writable and the image works all the same.
    syscall(SYS_MPROTECT, config, PAGE, PROT_READ, 0);
    if counting {
        shared.header.base.store(base as u64, Release);
    }
    if tells {
        tell_tracer();
    }
    entry
}

/// Sends this thread a signal, so that it stops for the tracer, which then writes into the areas. Without a tracer the
/// signal is ignored, because the program has no handlers yet. The tracer asks for the signal only if it is not
/// blocked.
fn tell_tracer() {
    // The only thread has the same id as its process.
    let own = syscall(SYS_GETPID, 0, 0, 0, 0);
    syscall(SYS_TGKILL, own, own, INSTALL_NOTICE as usize, 0);
}

/// Maps an area for code that the tracer writes. If another mapping is in the way, the call fails and the tracer finds
/// no area there.
fn map_area(at: usize) {
    if at != 0 {
        syscall(SYS_MMAP, at, AREA_SIZE, PROT_READ_EXECUTE, MAP_PRIVATE_THERE as usize);
    }
}

/// Unmaps the reserved memory behind the kernel's image, if that image was moved. The memory before it stays mapped,
/// used or not, because our ELF segment spans all of it.
fn release_rest(base: usize, kernel_base: u64) {
    let session: &Constants = session();
    let size: usize = session.mappings.iter().map(|mapping| mapping.size as usize).sum();
    let (used, end) = (base + KERNEL_OFFSET + size, base + TOTAL_SIZE);
    let moved = kernel_base as usize > base && (kernel_base as usize) < used;
    if moved && used < end {
        syscall(SYS_MUNMAP, used, end - used, 0, 0);
    }
}

/// Moves the kernel's image to its place behind this image; returns its new base. If the kernel refuses to move a part,
/// all parts return to their old addresses.
fn move_kernel_image(base: usize, kernel_base: u64) -> u64 {
    let session: &Constants = session();
    let to = base + KERNEL_OFFSET;
    let from = kernel_base as usize - session.code_offset as usize;
    for (index, mapping) in session.mappings.iter().enumerate() {
        if failed(move_mapping(from, to, mapping)) {
            for moved in session.mappings.iter().take(index) {
                move_mapping(to, from, moved);
            }
            return kernel_base;
        }
    }
    to as u64 + session.code_offset
}

fn move_mapping(from: usize, to: usize, mapping: &KernelMapping) -> usize {
    let (offset, size) = (mapping.offset as usize, mapping.size as usize);
    if size == 0 {
        return 0;
    }
    let [from, to] = [from + offset, to + offset];
    syscall_5(SYS_MREMAP, from, size, size, MREMAP_FIXED_MAYMOVE, to)
}

/// Gives the kernel the changed vector, which rustix and debuggers ask the kernel for. If the kernel refuses, they find
/// the kernel's image, and their calls are not counted.
fn tell_kernel(params: &LaunchParams) {
    if params.memory.auxv_size != 0 {
        let map = &raw const params.memory as usize;
        syscall(SYS_PRCTL, PR_SET_MM, PR_SET_MM_MAP, map, size_of::<MemoryMap>());
    }
}

/// The step that failed, and its error number.
pub(crate) type Failure = (InstallStep, usize);

pub(crate) fn check(step: InstallStep, result: usize) -> Result<(), Failure> {
    if failed(result) { Err((step, result.wrapping_neg())) } else { Ok(()) }
}

/// Attaches the page with the tracer's settings.
pub(crate) fn attach_live(base: usize) -> Result<(), Failure> {
    let Some(id) = (session().live as usize).checked_sub(1) else { return Ok(()) };
    let at = base + LIVE_OFFSET;
    check(InstallStep::AttachLive, syscall(SYS_SHMAT, id, at, SHM_REMAP | SHM_RDONLY, 0))
}

/// Maps the private pages.
fn map_private(base: usize, process: u64) -> Result<(), Failure> {
    let (counting, clock) = (session().counting != 0, session().clock != 0);
    let end = if counting {
        THREADS_OFFSET + THREADS_SIZE
    } else if clock {
        TRUST_OFFSET + GRANULE
    } else {
        CONFIG_OFFSET + GRANULE
    };
    let wiped = if clock { TRUST_OFFSET } else { THREADS_OFFSET };
    check(InstallStep::MapPrivate, mmap_anonymous(base + CONFIG_OFFSET, end - CONFIG_OFFSET))?;
    if wiped < end {
        check(
            InstallStep::WipeOnFork,
            syscall(SYS_MADVISE, base + wiped, end - wiped, MADV_WIPEONFORK, 0),
        )?;
    }
    if counting {
        let threads = base + THREADS_OFFSET;
        // SAFETY: the page was mapped just now and no other code uses it yet.
        let threads = unsafe { &*(threads as *const Threads) };
        threads.process.store(process, Release);
        if session().follows != 0 {
            threads.only_slot.store(ONLY_THREAD | process, Release);
        }
    }
    Ok(())
}

/// Maps private anonymous memory at a fixed address in the image's range.
fn mmap_anonymous(at: usize, size: usize) -> usize {
    syscall(SYS_MMAP, at, size, PROT_READ_WRITE, MAP_PRIVATE_FIXED_ANONYMOUS)
}

/// Fills in the addresses to jump to. `kernel` gives the address for a function of the kernel's by its index and
/// target.
#[inline(always)]
pub(crate) fn fill(config: &mut Config, base: usize, kernel: impl Fn(usize, &Target) -> u64) {
    let session: &Constants = session();
    let resolve = |index, target: &Target| match target.image {
        TARGET_KERNEL => kernel(index, target),
        TARGET_OURS => base as u64 + u64::from(target.offset),
        _ => 0,
    };
    for index in 0..FUNCTIONS {
        config.target[index] = resolve(index, &session.target[index]);
        config.kernel[index] = resolve(index, &session.kernel[index]);
    }
}
