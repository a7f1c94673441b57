//! Making one thread of a running process execute our code.

use std::time::{Duration, Instant};

use vdso_image::layout::TOTAL_SIZE;

use super::injected::{Injected, Work, assemble, calls};
use super::outside::returns_into;
use super::patch::STACK_TOP;
use super::refusal::Refusal;
use super::seccomp;
use super::threads::Threads;
use crate::sys::memory;
use crate::sys::ptrace::{self, Registers, Resume};
use crate::sys::wait::Status;
use crate::tracee::decline::Decline;
use crate::tracee::session::seccomp_filters;

/// After this long the thread is given up; it finishes by itself when it can.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The unused end of the kernel's vDSO page in a process, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Its address.
    pub(super) at: u64,
    /// What stood there before.
    pub(super) content: Vec<u8>,
}

/// Makes a thread that stands still do the work; it stands still again when this returns, as it was, or
/// where it has gone on to by itself. `done` may say early that the work is over.
///
/// The last step before the thread runs changes its registers at once; from then on it does not need
/// this process.
///
/// # Errors
///
/// `Gone` when the thread has ended meanwhile.
pub(super) fn run(
    threads: &mut Threads,
    thread: i32,
    room: &Room,
    work: &Work,
    done: &dyn Fn() -> bool,
) -> Result<(), Refusal> {
    may_make_calls(thread, work, room.at)?;
    let mut before = ptrace::registers(thread).map_err(Refusal::at("reading its registers"))?;
    leave_restartable_sequence(thread, &mut before);
    let mask = ptrace::signal_mask(thread).map_err(Refusal::at("reading its signal mask"))?;
    let code = assemble(work, room.at, &before, mask);
    if code.bytes.len() > room.content.len() {
        return Err(Refusal::Declined(Decline::NoRoom));
    }
    let bytes = &code.bytes;
    memory::write_text(thread, room.at, bytes).map_err(Refusal::at("writing to its vDSO page"))?;
    let begin = Registers { rip: room.at, orig_rax: u64::MAX, ..before };
    ptrace::set_registers(thread, &begin).map_err(Refusal::at("changing its registers"))?;
    if is_waiting_at_the_end(threads, thread, &code, room, work, done)? {
        // In this order: with its own signals the code would come to its end as well. From here
        // the kernel decides how an interrupted system call goes on, as it always does.
        let step = Refusal::at("restoring its signal mask");
        ptrace::set_signal_mask(thread, mask).map_err(step)?;
        let step = Refusal::at("restoring its registers");
        ptrace::set_registers(thread, &before).map_err(step)?;
    }
    let content = &room.content;
    memory::write_text(thread, room.at, content).map_err(Refusal::at("restoring its vDSO page"))
}

/// Lets the thread run until it waits for us; `false`: it has waited long enough and has gone on. It
/// stands still then.
fn is_waiting_at_the_end(
    threads: &mut Threads,
    thread: i32,
    code: &Injected,
    room: &Room,
    work: &Work,
    done: &dyn Fn() -> bool,
) -> Result<bool, Refusal> {
    let deadline = Instant::now() + ENDS_WITHIN;
    let mut patience = Duration::from_micros(200);
    let mut stack = vec![0; STACK_TOP];
    let in_code = |address: u64| {
        let in_image = matches!(work, Work::Attach { at, .. }
            if address.wrapping_sub(*at) < TOTAL_SIZE as u64);
        in_image || address.wrapping_sub(room.at) < code.bytes.len() as u64
    };
    while Instant::now() < deadline {
        push_on(threads, thread);
        let begun = Instant::now();
        while !done() && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_micros(5));
        }
        patience = (patience * 2).min(Duration::from_millis(20));
        if !threads.stop(thread) {
            continue;
        }
        match threads.status(thread) {
            None => return Err(Refusal::Gone),
            Some(Status::Event(libc::PTRACE_EVENT_STOP, _)) => {}
            Some(_) => continue,
        }
        let registers = ptrace::registers(thread).map_err(Refusal::at("reading its registers"))?;
        if code.waiting.contains(&registers.rip) {
            return Ok(true);
        }
        if !in_code(registers.rip) && !returns_into(thread, registers.rsp, &mut stack, &in_code) {
            return Ok(false);
        }
    }
    Err(Refusal::Stuck)
}

/// Lets a thread run, with the signal that it has stopped for, even if its process is stopped.
fn push_on(threads: &mut Threads, thread: i32) {
    let signal = match threads.status(thread) {
        None => return,
        Some(Status::Signal(signal)) => signal,
        Some(_) => 0,
    };
    threads.set(thread, None);
    // It may have been killed since; then its end comes next.
    let _ = ptrace::resume(thread, Resume::Run, signal);
}

/// Whether the thread's filters let the calls of this work pass.
fn may_make_calls(thread: i32, work: &Work, at: u64) -> Result<(), Refusal> {
    let mut filters = Vec::new();
    loop {
        match ptrace::seccomp_filter(thread, filters.len()) {
            Ok(Some(filter)) => filters.push(filter.into_iter().map(instruction).collect()),
            Ok(None) => break,
            // Who may not ask may not know; a filter of clockscope's own lets these calls pass.
            Err(_) => {
                let count = |pid: &str| seccomp_filters(pid).unwrap_or(0);
                let has_more = count(&thread.to_string()) > count("self");
                return if has_more { Err(Refusal::Filters) } else { Ok(()) };
            }
        }
    }
    if filters.is_empty() && seccomp_filters(&thread.to_string()).unwrap_or(0) > 0 {
        return Err(Refusal::Filters); // the strict mode, which has no filter
    }
    match calls(work, at).iter().find(|call| !seccomp::lets_pass(&filters, call)) {
        Some(call) => Err(Refusal::Filtered(call.name)),
        None => Ok(()),
    }
}

fn instruction(bytes: [u8; 8]) -> seccomp::Instruction {
    let [a, b, if_true, if_false, k @ ..] = bytes;
    let (code, k) = (u16::from_le_bytes([a, b]), u32::from_le_bytes(k));
    seccomp::Instruction { code, if_true, if_false, k }
}

/// If the thread stands in a restartable sequence, its place to start again is where it goes on, as
/// the kernel has it after every interruption: the kernel itself sees only our code when it looks.
fn leave_restartable_sequence(thread: i32, registers: &mut Registers) {
    // `struct rseq`: the pointer to the sequence is at 8; `struct rseq_cs`: start, length and place.
    let Some(area) = ptrace::rseq_area(thread) else { return };
    let Ok(sequence) = memory::read_u64(thread, area + 8) else { return };
    if sequence == 0 {
        return;
    }
    let word = |offset| memory::read_u64(thread, sequence + offset);
    if let (Ok(start), Ok(length), Ok(again)) = (word(8), word(16), word(24))
        && registers.rip.wrapping_sub(start) < length
    {
        registers.rip = again;
    }
}
