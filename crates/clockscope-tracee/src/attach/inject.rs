//! Makes a thread of a running process execute our code.

use std::time::{Duration, Instant};

use super::injected::{Injected, Work, assemble, calls};
use super::stack_scan;
use crate::arch::attach::registers;
use crate::arch::attach::restart::{self, InCall};
use crate::attach::Refusal;
use crate::attach::filters;
use crate::attach::threads::Threads;
use crate::decline::Decline;
use crate::session::seccomp_filters;
use clockscope_containers::filter;
use clockscope_sys::ptrace::{self, Registers, Resume};
use clockscope_sys::wait::{self, Status};
use clockscope_sys::{memory, signals};

/// Time after which the tracer gives up. The thread then finishes by itself when it can.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Time after which the tracer stops the thread to see where it is, if the thread does not sleep where it must wait for
/// the tracer, nor outside of our code.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// Shortest and longest pause between two checks of the thread from outside.
const SHORTEST_NAP: Duration = Duration::from_micros(5);
const LONGEST_NAP: Duration = Duration::from_micros(500);
const ALL_SIGNALS: u64 = u64::MAX;
/// How often the tracer stops a thread until it can execute our code.
const ATTEMPTS: u32 = 64;

/// The unused end of the kernel's vDSO page in a process, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) at: u64,
    /// The bytes before our code is written.
    pub(super) content: Vec<u8>,
}

impl Room {
    /// Whether an address lies in the room.
    pub(super) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.at) < self.content.len() as u64
    }
}

/// Makes a stopped thread do the work. When this returns, the thread has stopped again, either as before or where it
/// has continued by itself.
///
/// A single change of registers starts the work; from then on the thread does not need this process. The tracer blocks
/// the thread's signals itself, although the code does so, too: a thread that receives one signal after another would
/// execute nothing else, and a handler's return address in our code would be invalid after the work.
///
/// # Errors
///
/// `Gone` if the thread has ended meanwhile; `Stuck` if this thread, or an earlier one, is still in the room. That
/// thread ends the work by itself.
pub(super) fn run(
    threads: &mut Threads,
    thread: i32,
    room: &Room,
    work: &Work,
) -> Result<(), Refusal> {
    may_make_calls(thread, work, room.at)?;
    if ptrace::dispatches_system_calls(thread) {
        return Err(Refusal::Dispatched);
    }
    let mut before = until_it_can_go_on(threads, thread)?;
    let in_call = threads.in_call(thread);
    restart::keep_time(&mut before, in_call.as_ref());
    let in_call =
        in_call.or_else(|| restart::next_call(&before, &mut |at| instruction(thread, at)));
    if room.contains(before.pc()) {
        return Err(Refusal::Stuck);
    }
    let mask = ptrace::signal_mask(thread).map_err(Refusal::at("reading its signal mask"))?;
    let code = assemble(work, room.at, &before, mask);
    if code.bytes.len() > room.content.len() {
        return Err(Refusal::Declined(Decline::NoRoom));
    }
    let bytes = &code.bytes;
    memory::write_text(thread, room.at, bytes).map_err(Refusal::at("writing to its vDSO page"))?;
    let mut begin = before;
    registers::send_to(&mut begin, room.at);
    let step = Refusal::at("changing its registers");
    ptrace::set_registers(thread, &begin).map_err(step)?;
    // Set the registers first: the code restores the signal mask even if the tracer dies after blocking the signals.
    let step = Refusal::at("blocking its signals");
    ptrace::set_signal_mask(thread, ALL_SIGNALS).map_err(step)?;
    let ended = until_it_ends(threads, thread, &code, room, work)?;
    if ended == Ended::Waiting {
        // Restore the mask first: with its own signals the code would end as well. From here on the kernel decides as
        // usual how an interrupted system call continues.
        let step = Refusal::at("restoring its signal mask");
        ptrace::set_signal_mask(thread, mask).map_err(step)?;
    }
    if ended != Ended::GoneOn {
        let stop = threads.status(thread);
        if matches!(stop, Some(Status::Signal(signal)) if signals::is_handled(thread, signal)) {
            restart::end(&mut before, in_call.as_ref());
        }
        let step = Refusal::at("restoring its registers");
        ptrace::set_registers(thread, &before).map_err(step)?;
        threads.remember(thread, in_call.map(InCall::moved));
    }
    let content = &room.content;
    memory::write_text(thread, room.at, content).map_err(Refusal::at("restoring its vDSO page"))
}

/// The registers of a thread that can execute our code. Lets the thread run until it can, because some instructions do
/// not allow it.
fn until_it_can_go_on(threads: &mut Threads, thread: i32) -> Result<Registers, Refusal> {
    for attempt in 0..ATTEMPTS {
        let step = Refusal::at("reading its registers");
        let mut before = ptrace::registers(thread).map_err(step)?;
        if !before.is_64_bit() {
            return Err(Refusal::Bits);
        }
        leave_restartable_sequence(thread, &mut before);
        if registers::can_go_on(&before, &mut |at| instruction(thread, at)) {
            return Ok(before);
        }
        threads.resume(thread, Resume::Run);
        std::thread::sleep(SHORTEST_NAP * (1 << attempt.min(8)));
        if !threads.settle(thread) {
            return Err(Refusal::Gone);
        }
    }
    Err(Refusal::Stuck)
}

/// Reads four bytes of a program's code.
fn instruction(thread: i32, at: u64) -> Option<u32> {
    let mut word = [0; 4];
    memory::read_exact(thread, at, &mut word).ok()?;
    Some(u32::from_le_bytes(word))
}

/// State of a thread when the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The thread waits for the tracer.
    Waiting,
    /// The thread has waited long enough. A signal has arrived after it restored its signal mask, when only registers
    /// were left to load. No handler has run.
    Signalled,
    /// The thread has waited long enough and has continued by itself.
    GoneOn,
}

/// Lets the thread run until the work is done. The thread has stopped then.
fn until_it_ends(
    threads: &mut Threads,
    thread: i32,
    code: &Injected,
    room: &Room,
    work: &Work,
) -> Result<Ended, Refusal> {
    let deadline = Instant::now() + ENDS_WITHIN;
    let mut patience = FIRST_LOOK;
    let is_inside = |address| code.covers(work, room.at, address);
    while Instant::now() < deadline {
        push_on(threads, thread);
        watch(thread, patience, &|at| code.waiting.contains(&at) || !is_inside(at));
        patience *= 2;
        if !threads.stop(thread) {
            continue;
        }
        let Some(status) = threads.status(thread) else { return Err(Refusal::Gone) };
        let at = ptrace::registers(thread).map_err(Refusal::at("reading its registers"))?.pc();
        match status {
            Status::Signal(_) if code.last.contains(&at) => return Ok(Ended::Signalled),
            Status::Event(libc::PTRACE_EVENT_STOP, _) if code.waiting.contains(&at) => {
                return Ok(Ended::Waiting);
            }
            _ if !is_inside(at) => return Ok(Ended::GoneOn),
            _ => {}
        }
    }
    Err(Refusal::Stuck)
}

/// Watches a thread until it has stopped by itself, sleeps in a system call at a wanted address, or the time is over.
/// This does not disturb the thread. In contrast, a thread that waits for a processor and is asked to stop would stop
/// before it has executed an instruction.
fn watch(thread: i32, patience: Duration, is_wanted: &dyn Fn(u64) -> bool) {
    let begun = Instant::now();
    let mut nap = SHORTEST_NAP;
    while begun.elapsed() < patience && matches!(wait::look(thread), Ok(None)) {
        if stack_scan::sleeps_at(thread).is_some_and(is_wanted) {
            return;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(LONGEST_NAP);
    }
}

/// Resumes a thread with the signal that it has stopped for, even if its process is in a group-stop.
fn push_on(threads: &mut Threads, thread: i32) {
    let signal = match threads.status(thread) {
        None => return,
        Some(Status::Signal(signal)) => signal,
        Some(_) => 0,
    };
    threads.set(thread, None);
    threads.remember(thread, None);
    // If the thread was killed since, the next wait reports its end.
    let _ = ptrace::resume(thread, Resume::Run, signal);
}

/// Whether the thread's seccomp filters allow the system calls of this work.
fn may_make_calls(thread: i32, work: &Work, at: u64) -> Result<(), Refusal> {
    let filters = match filters::of(thread) {
        Ok(filters) => filters,
        // The tracer may not read the filters. Filters inherited from clockscope's own process allow these calls.
        Err(_) => {
            let theirs = seccomp_filters(&thread.to_string()).ok_or(Refusal::Gone)?;
            let has_more = seccomp_filters("self").is_none_or(|own| theirs > own);
            return if has_more { Err(Refusal::Filters) } else { Ok(()) };
        }
    };
    if filters.is_empty() && seccomp_filters(&thread.to_string()).ok_or(Refusal::Gone)? > 0 {
        return Err(Refusal::Filters); // the strict mode, which has no filter
    }
    match calls(work, at).iter().find(|call| !filter::lets_pass(&filters, call)) {
        Some(call) => Err(Refusal::Filtered(call.name)),
        None => Ok(()),
    }
}

/// If the thread stands in a restartable sequence, sets it back to the sequence's abort address, as the kernel does
/// after every interruption: the kernel itself would see only our code.
fn leave_restartable_sequence(thread: i32, registers: &mut Registers) {
    // `struct rseq`: the pointer to the sequence is at 8; `struct rseq_cs`: start, length and place.
    let Some(area) = ptrace::rseq_area(thread) else { return };
    let Ok(sequence) = memory::read_u64(thread, area + 8) else { return };
    if sequence == 0 {
        return;
    }
    let word = |offset| memory::read_u64(thread, sequence + offset);
    if let (Ok(start), Ok(length), Ok(again)) = (word(8), word(16), word(24))
        && registers.pc().wrapping_sub(start) < length
    {
        registers.set_pc(again);
    }
}
