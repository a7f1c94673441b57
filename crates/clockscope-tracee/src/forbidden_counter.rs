//! Handles programs that have forbidden themselves the time-stamp counter, which the shim reads.

use std::io;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;

use fastclock::ClockId;
use fastclock::page::Trust;
use vdso_image::layout::{CONFIG_OFFSET, Config, Function, IMAGE_SIZE, PAGE, Shared, TRUST_OFFSET};

use super::arch::counter_read;
use super::session::Session;
use clockscope_sys::{memory, ptrace, tsc};

/// Handles the fault of a stopped thread if it is the shim's read of the time-stamp counter, which the program has
/// forbidden to itself (`PR_SET_TSC`, strict seccomp): steps over the read, ends all timing, and lets the kernel answer
/// this process from now on. If the kernel's functions read the counter too, they raise the same signal, which belongs
/// to the program.
pub(super) fn step_over(session: &Session, thread: i32, pages: Option<&Shared>) -> bool {
    if !is_fault(thread) {
        return false;
    }
    let (has_clock, delays) = (session.clock_page().is_some(), session.delays_reads);
    let Ok(mut registers) = ptrace::registers(thread) else { return false };
    let image = &session.ready.bytes;
    if pages.is_none() && !has_clock && !delays {
        return false;
    }
    let pc = registers.pc();
    let Some(base) = image_base(thread, pc, image) else { return false };
    let offset = usize::try_from(pc - base).ok();
    let Some(code) = offset.filter(|at| *at < IMAGE_SIZE).and_then(|at| image.get(at..)) else {
        return false;
    };
    // A counter of zero is long before the page's time, so the image checks again and asks the kernel. A delayed read
    // ends.
    if !counter_read::step_over(&mut registers, code) {
        return false;
    }
    if let Some(pages) = pages {
        pages.header.no_timing.store(1, Relaxed);
    }
    if has_clock && forbid_page(thread, base).is_err()
        || delays && stop_delaying(thread, base).is_err()
    {
        return false;
    }
    ptrace::set_registers(thread, &registers).is_ok()
}

/// Whether the signal of a stopped thread was raised by a forbidden instruction.
pub(super) fn is_fault(thread: i32) -> bool {
    ptrace::signal_sender(thread).is_ok_and(|(_, code)| code == SI_KERNEL)
}

/// Redirects a process's reads to the kernel's functions for good. The page is private, and read-only for the process.
fn stop_delaying(thread: i32, base: u64) -> io::Result<()> {
    let config = base + CONFIG_OFFSET as u64;
    for function in [Function::ClockGettime, Function::Gettimeofday] {
        let at = |table: usize| config + (table + 8 * function as usize) as u64;
        let kernel = memory::read_u64(thread, at(offset_of!(Config, kernel)))?;
        memory::write_text(thread, at(offset_of!(Config, target)), &kernel.to_ne_bytes())?;
    }
    Ok(())
}

/// `si_code` of signals that an instruction raised, without an address: asm-generic/siginfo.h.
const SI_KERNEL: i32 = 0x80;
/// Maximum lead of the page over the kernel's clock, in ns. A process checks this before it trusts the page.
const AHEAD: i64 = 20_000;

/// Base address of the shim in a process that executes an instruction of it.
fn image_base(thread: i32, at: u64, image: &[u8]) -> Option<u64> {
    let page = PAGE as u64;
    let header = image.get(..64)?;
    let begins = |base: &u64| memory::holds(thread, *base, header);
    let pages = (IMAGE_SIZE as u64).div_ceil(page);
    (0..pages).filter_map(|n| (at & !(page - 1)).checked_sub(n * page)).find(begins)
}

/// Makes the kernel answer a process for good, never with an earlier time than the page may have given.
fn forbid_page(thread: i32, base: u64) -> io::Result<()> {
    let floor = tsc::now(ClockId::Monotonic).0.saturating_add(AHEAD);
    let trust = base + TRUST_OFFSET as u64;
    memory::write(thread, trust + Trust::FORBIDDEN_OFFSET as u64, &floor.to_ne_bytes())?;
    memory::write(thread, trust + Trust::CHECKED_OFFSET as u64, &0_u64.to_ne_bytes())
}
