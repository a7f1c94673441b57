//! Making one thread of a running process execute our code.

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

/// After this long the thread is given up; it finishes by itself when it can.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// After this long it is stopped to see where it is: when it has not gone to sleep where it is to wait for
/// us, and does not sleep elsewhere.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// Between two looks from outside.
const SHORTEST_NAP: Duration = Duration::from_micros(5);
const LONGEST_NAP: Duration = Duration::from_micros(500);
const ALL_SIGNALS: u64 = u64::MAX;
/// How often a thread is stopped until it can execute our code.
const ATTEMPTS: u32 = 64;

/// The unused end of the kernel's vDSO page in a process, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) at: u64,
    /// What stood there before.
    pub(super) content: Vec<u8>,
}

impl Room {
    /// Whether an address lies in it.
    pub(super) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.at) < self.content.len() as u64
    }
}

/// Makes a thread that stands still do the work; it stands still again when this returns, as it was, or
/// where it has gone on to by itself.
///
/// One change of registers starts it; from then on the thread does not need this process. Its signals
/// are blocked here and not by the code only: a thread that is given one signal after the other executes
/// nothing else, and what a handler would return to is gone when this is over.
///
/// # Errors
///
/// `Gone` when the thread has ended meanwhile; `Stuck` when it, or the thread before it, is in the room
/// still and comes to its end by itself.
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
    // In this order: the code puts the signals back, whoever has blocked them.
    let step = Refusal::at("blocking its signals");
    ptrace::set_signal_mask(thread, ALL_SIGNALS).map_err(step)?;
    let ended = until_it_ends(threads, thread, &code, room, work)?;
    if ended == Ended::Waiting {
        // In this order: with its own signals the code would come to its end as well. From here
        // the kernel decides how an interrupted system call goes on, as it always does.
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

/// The registers of a thread that can execute our code: not all can everywhere. It is let run until it can.
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

/// Four bytes of a program's code.
fn instruction(thread: i32, at: u64) -> Option<u32> {
    let mut word = [0; 4];
    let read = memory::read(thread, at, &mut word);
    read.is_ok_and(|read| read == word.len()).then(|| u32::from_le_bytes(word))
}

/// How a thread stands when the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It waits for us.
    Waiting,
    /// It has waited long enough; a signal has come when it had put its signals back and had only registers
    /// left to load. No handler has run.
    Signalled,
    /// It has waited long enough and has gone on.
    GoneOn,
}

/// Lets the thread run until the work is done. It stands still then.
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

/// Watches a thread until it has stopped by itself, or sleeps in a system call at an address of this kind,
/// or the time is over. It is not disturbed by that: one that waits for a processor and is asked to stop
/// does so before it has executed an instruction.
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

/// Lets a thread run, with the signal that it has stopped for, even if its process is stopped.
fn push_on(threads: &mut Threads, thread: i32) {
    let signal = match threads.status(thread) {
        None => return,
        Some(Status::Signal(signal)) => signal,
        Some(_) => 0,
    };
    threads.set(thread, None);
    threads.remember(thread, None);
    // It may have been killed since; then its end comes next.
    let _ = ptrace::resume(thread, Resume::Run, signal);
}

/// Whether the thread's filters let the calls of this work pass.
fn may_make_calls(thread: i32, work: &Work, at: u64) -> Result<(), Refusal> {
    let filters = match filters::of(thread) {
        Ok(filters) => filters,
        // Who may not ask may not know; a filter of clockscope's own lets these calls pass.
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
        && registers.pc().wrapping_sub(start) < length
    {
        registers.set_pc(again);
    }
}
