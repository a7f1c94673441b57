//! The shim reads the time-stamp counter, and the program has forbidden that to itself.

use std::io;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;

use fastclock::ClockId;
use fastclock::page::Trust;
use vdso_image::layout::{CONFIG_OFFSET, Config, Function, IMAGE_SIZE, PAGE, Shared, TRUST_OFFSET};

use super::arch::counter_read;
use super::session::Session;
use clockscope_sys::{memory, ptrace, tsc};

/// If the fault of a stopped thread is one of our own reads of the time-stamp counter, which the program has
/// forbidden to itself (`PR_SET_TSC`, strict seccomp): goes on behind the read, times no more,
/// and lets the kernel answer this process from now on. Where the kernel's functions read the
/// counter too, they raise the same signal, and that one is the program's.
pub(super) fn step_over(session: &Session, thread: i32, pages: Option<&Shared>) -> bool {
    if !is_fault(thread) {
        return false;
    }
    let (has_clock, delays) = (session.clock_page().is_some(), session.delays_reads);
    let Ok(mut registers) = ptrace::registers(thread) else { return false };
    let image = &session.ready().bytes;
    if pages.is_none() && !has_clock && !delays {
        return false;
    }
    let pc = registers.pc();
    let Some(base) = image_base(thread, pc, image) else { return false };
    let offset = usize::try_from(pc - base).ok();
    let Some(code) = offset.filter(|at| *at < IMAGE_SIZE).and_then(|at| image.get(at..)) else {
        return false;
    };
    // A zero is long before the page's line: the image looks again, and finds out. A delayed read ends.
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

/// Whether the signal of a stopped thread is of an instruction that it may not execute.
pub(super) fn is_fault(thread: i32) -> bool {
    ptrace::signal_sender(thread).is_ok_and(|(_, code)| code == SI_KERNEL)
}

/// Lets the kernel's functions answer in a process for good. The page is read-only there, and private.
fn stop_delaying(thread: i32, base: u64) -> io::Result<()> {
    let config = base + CONFIG_OFFSET as u64;
    for function in [Function::ClockGettime, Function::Gettimeofday] {
        let at = |table: usize| config + (table + 8 * function as usize) as u64;
        let kernel = memory::read_u64(thread, at(offset_of!(Config, kernel)))?;
        memory::write_text(thread, at(offset_of!(Config, target)), &kernel.to_ne_bytes())?;
    }
    Ok(())
}

/// `si_code` of signals that an instruction raised without an address: asm-generic/siginfo.h.
const SI_KERNEL: i32 = 0x80;
/// The page is at most this far ahead of the kernel's clock, ns: what a process compares it with
/// before it trusts the page.
const AHEAD: i64 = 20_000;

/// Where the shim begins in a process that executes an instruction of it.
fn image_base(thread: i32, at: u64, image: &[u8]) -> Option<u64> {
    let page = PAGE as u64;
    let mut header = [0; 64];
    let begins = |base: &u64| {
        memory::read(thread, *base, &mut header).is_ok_and(|read| read == header.len())
            && image.get(..header.len()) == Some(&header[..])
    };
    let pages = (IMAGE_SIZE as u64).div_ceil(page);
    (0..pages).filter_map(|n| (at & !(page - 1)).checked_sub(n * page)).find(begins)
}

/// Lets the kernel answer in a process for good, never before what the page may have said.
fn forbid_page(thread: i32, base: u64) -> io::Result<()> {
    let floor = tsc::now(ClockId::Monotonic).0.saturating_add(AHEAD);
    let trust = base + TRUST_OFFSET as u64;
    memory::write(thread, trust + Trust::FORBIDDEN_OFFSET as u64, &floor.to_ne_bytes())?;
    memory::write(thread, trust + Trust::CHECKED_OFFSET as u64, &0_u64.to_ne_bytes())
}
