//! Runs once in every traced process, after `execve` and before the program's first instruction:
//! maps the pages behind the image, fills in the addresses and points the auxiliary vector at the
//! image.
//!
//! Nothing waits for the tracer here: if it dies at any moment, this code runs to its end and the
//! program starts. If anything fails, the auxiliary vector stays as it is and the program runs
//! with the kernel's image.

use core::arch::asm;
use core::sync::atomic::Ordering::Release;

use crate::layout::{
    CONFIG_OFFSET, Config, FUNCTIONS, INSTALL_MARK, InstallStep, LaunchParams, MemoryMap, PAGE,
    SHARED_OFFSET, Session, Shared, TARGET_KERNEL, TARGET_OURS, THREADS_OFFSET, THREADS_SIZE,
    Target, Threads,
};
use crate::slots::{image_base, session};

const SYS_MMAP: usize = 9;
const SYS_MPROTECT: usize = 10;
const SYS_MADVISE: usize = 28;
const SYS_SHMAT: usize = 30;
const SYS_PRCTL: usize = 157;
const PR_SET_MM: usize = 35;
const PR_SET_MM_MAP: usize = 14;
const PROT_READ: usize = 1;
const PROT_READ_WRITE: usize = 3;
const MAP_PRIVATE_FIXED_ANONYMOUS: usize = 0x02 | 0x10 | 0x20;
const MADV_WIPEONFORK: usize = 18;
const SHM_REMAP: usize = 0o40000;

/// A system call, marked as ours; the kernel's answer as it is.
fn syscall(number: usize, a: usize, b: usize, c: usize, d: usize) -> usize {
    let result;
    // `mmap` wants no file there, `prctl` a zero.
    let fifth = if number == SYS_MMAP { usize::MAX } else { 0 };
    // SAFETY: the callers pass addresses inside the range that was reserved when the image was
    // attached, so no memory of the program changes.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") fifth, in("r9") INSTALL_MARK,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

fn failed(result: usize) -> bool {
    result > usize::MAX - 4095
}

/// Installs the image in this process; called by the launch code with its parameters.
#[unsafe(no_mangle)]
extern "C" fn clockscope_install(params: &LaunchParams) {
    let base = image_base();
    let counting = session().counting != 0;
    if counting
        && failed(syscall(SYS_SHMAT, params.shared_id as usize, base + SHARED_OFFSET, SHM_REMAP, 0))
    {
        return; // the tracer sees that nothing was installed
    }
    // SAFETY: the pages were attached just now, and are read only when `counting`.
    let shared = unsafe { &*((base + SHARED_OFFSET) as *const Shared) };
    if let Err((step, error)) = prepare(base, params, counting) {
        if counting {
            let code = (step as u64) << 32 | error as u64;
            shared.header.failed.store(code, Release);
        }
        return;
    }
    // SAFETY: the tracer found the entry of the auxiliary vector at this address on the stack of
    // this process, which has not run since.
    unsafe { (params.auxv_slot as *mut u64).write(base as u64) };
    tell_kernel(params);
    if counting {
        shared.header.base.store(base as u64, Release);
    }
}

/// Makes the kernel show the changed vector to those who ask it (rustix, debuggers). If it refuses,
/// they find the kernel's image and are not counted, as good as without us.
fn tell_kernel(params: &LaunchParams) {
    if params.memory.auxv_size != 0 {
        let map = &raw const params.memory as usize;
        syscall(SYS_PRCTL, PR_SET_MM, PR_SET_MM_MAP, map, size_of::<MemoryMap>());
    }
}

/// Maps and fills the private pages.
fn prepare(base: usize, params: &LaunchParams, counting: bool) -> Result<(), (InstallStep, usize)> {
    let private = if counting { PAGE + THREADS_SIZE } else { PAGE };
    let check = |step, result: usize| {
        if failed(result) { Err((step, result.wrapping_neg())) } else { Ok(()) }
    };
    let at = base + CONFIG_OFFSET;
    check(InstallStep::MapPrivate, mmap_anonymous(at, private))?;
    if counting {
        let threads = base + THREADS_OFFSET;
        check(
            InstallStep::WipeOnFork,
            syscall(SYS_MADVISE, threads, THREADS_SIZE, MADV_WIPEONFORK, 0),
        )?;
        // SAFETY: the page was mapped just now and nobody else knows it.
        unsafe { (*(threads as *mut Threads)).process.store(params.process, Release) };
    }
    // SAFETY: as above.
    fill(unsafe { &mut *(at as *mut Config) }, base, params.kernel_base);
    check(InstallStep::Protect, syscall(SYS_MPROTECT, at, PAGE, PROT_READ, 0))
}

/// Private anonymous memory at a fixed address inside our range.
fn mmap_anonymous(at: usize, size: usize) -> usize {
    syscall(SYS_MMAP, at, size, PROT_READ_WRITE, MAP_PRIVATE_FIXED_ANONYMOUS)
}

/// Computes the addresses to jump to.
fn fill(config: &mut Config, base: usize, kernel_base: u64) {
    let session: &Session = session();
    let resolve = |target: &Target| match target.image {
        TARGET_KERNEL => kernel_base + u64::from(target.offset),
        TARGET_OURS => base as u64 + u64::from(target.offset),
        _ => 0,
    };
    for index in 0..FUNCTIONS {
        config.target[index] = resolve(&session.target[index]);
        config.kernel[index] = resolve(&session.kernel[index]);
    }
}
