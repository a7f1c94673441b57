//! Runs once in every traced process, after `execve` and before the program's first instruction:
//! maps the pages behind the image, fills in the addresses and points the auxiliary vector at the
//! image.
//!
//! Nothing waits for the tracer here: if it dies at any moment, this code runs to its end and the
//! program starts. If anything fails, the auxiliary vector stays as it is and the program runs
//! with the kernel's image.

use core::sync::atomic::Ordering::Release;

use crate::arch::start::forwarded;
use crate::arch::syscall::{SYS_GETPID, SYS_MREMAP, SYS_MUNMAP, SYS_PRCTL, SYS_TGKILL};
pub(crate) use crate::arch::syscall::{SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_SHMAT, syscall_5};
use crate::clock_file::map_clock;
use crate::layout::{
    AREA_SIZE, CONFIG_OFFSET, Config, Constants, FUNCTIONS, GRANULE, INSTALL_NOTICE, InstallStep,
    KERNEL_OFFSET, KernelMapping, LIVE_OFFSET, LaunchParams, MAP_PRIVATE_THERE, MemoryMap, PAGE,
    SHARED_OFFSET, Shared, TARGET_KERNEL, TARGET_OURS, THREADS_OFFSET, THREADS_SIZE, TOTAL_SIZE,
    TRUST_OFFSET, Target, Threads,
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

/// A system call, marked as ours; the kernel's answer as it is.
pub(crate) fn syscall(number: usize, a: usize, b: usize, c: usize, d: usize) -> usize {
    // `mmap` wants no file there, `prctl` a zero.
    let fifth = if number == SYS_MMAP { usize::MAX } else { 0 };
    syscall_5(number, a, b, c, d, fifth)
}

pub(crate) fn failed(result: usize) -> bool {
    result > usize::MAX - 4095
}

/// Installs the image in this process; gives the program's first instruction.
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
    // SAFETY: the tracer found the entry of the auxiliary vector at this address on the stack of
    // this process, which has not run since.
    unsafe { (params.auxv_slot as *mut u64).write(base as u64) };
    tell_kernel(params);
    // The parameters lie in a page of the kernel's image, which moves now.
    let kernel_base = move_kernel_image(base, kernel_base);
    release_rest(base, kernel_base);
    for area in areas {
        map_area(area as usize);
    }
    let config = base + CONFIG_OFFSET;
    // SAFETY: the page was mapped above and nobody else knows it.
    fill(unsafe { &mut *(config as *mut Config) }, base, kernel_base);
    // If this fails, which has no reason to, the addresses stay writable and all works.
    syscall(SYS_MPROTECT, config, PAGE, PROT_READ, 0);
    if counting {
        shared.header.base.store(base as u64, Release);
    }
    if tells {
        tell_tracer();
    }
    entry
}

/// Stops for the tracer, which writes into the areas now. Without one the signal is ignored: the program has no handlers
/// yet. The tracer asks for it only where the signal is not blocked.
fn tell_tracer() {
    // The only thread has the number of its process.
    let own = syscall(SYS_GETPID, 0, 0, 0, 0);
    syscall(SYS_TGKILL, own, own, INSTALL_NOTICE as usize, 0);
}

/// Maps an area for code that the tracer writes. If something lies there, the tracer sees that it is not one.
fn map_area(at: usize) {
    if at != 0 {
        syscall(SYS_MMAP, at, AREA_SIZE, PROT_READ_EXECUTE, MAP_PRIVATE_THERE as usize);
    }
}

/// Gives back what was reserved behind the kernel's image, if that was moved. What lies before it
/// stays ours, used or not: our segment says that it spans all of it.
fn release_rest(base: usize, kernel_base: u64) {
    let session: &Constants = session();
    let size: usize = session.mappings.iter().map(|mapping| mapping.size as usize).sum();
    let (used, end) = (base + KERNEL_OFFSET + size, base + TOTAL_SIZE);
    let moved = kernel_base as usize > base && (kernel_base as usize) < used;
    if moved && used < end {
        syscall(SYS_MUNMAP, used, end - used, 0, 0);
    }
}

/// Moves the kernel's image to its place behind ours; gives where it is then. If the kernel does
/// not let go of a part, all parts stay where they were.
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

/// Makes the kernel show the changed vector to those who ask it (rustix, debuggers). If it refuses,
/// they find the kernel's image and are not counted, as good as without us.
fn tell_kernel(params: &LaunchParams) {
    if params.memory.auxv_size != 0 {
        let map = &raw const params.memory as usize;
        syscall(SYS_PRCTL, PR_SET_MM, PR_SET_MM_MAP, map, size_of::<MemoryMap>());
    }
}

/// What went wrong, and the error number.
pub(crate) type Failure = (InstallStep, usize);

pub(crate) fn check(step: InstallStep, result: usize) -> Result<(), Failure> {
    if failed(result) { Err((step, result.wrapping_neg())) } else { Ok(()) }
}

/// Attaches the page with what the tracer changes.
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
        // SAFETY: the page was mapped just now and nobody else knows it.
        unsafe { (*(threads as *mut Threads)).process.store(process, Release) };
    }
    Ok(())
}

/// Private anonymous memory at a fixed address inside our range.
fn mmap_anonymous(at: usize, size: usize) -> usize {
    syscall(SYS_MMAP, at, size, PROT_READ_WRITE, MAP_PRIVATE_FIXED_ANONYMOUS)
}

/// Computes the addresses to jump to.
fn fill(config: &mut Config, base: usize, kernel_base: u64) {
    let session: &Constants = session();
    let resolve = |target: &Target| match target.image {
        TARGET_KERNEL => kernel_base + u64::from(target.offset),
        TARGET_OURS => base as u64 + u64::from(target.offset),
        _ => 0,
    };
    for index in 0..FUNCTIONS {
        config.target[index] = resolve(&session.target[index]);
        config.kernel[index] = resolve(&session.kernel[index]);
    }
    for (address, offset) in config.forwarded.iter_mut().zip(forwarded()) {
        *address = kernel_base + u64::from(*offset);
    }
}
