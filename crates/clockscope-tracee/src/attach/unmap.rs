//! Making a thread unmap our images, where nobody is any more.

use std::time::{Duration, Instant};

use super::inject::{Room, run};
use super::injected::Work;
use super::process::{has_mapped, is_ending, sharers_of};
use crate::arch::attach::registers::RANGES_AT_ONCE;
use crate::attach::threads::{Look, SEIZED, Threads};
use crate::attach::{Refusal, listed};
use crate::install::has_image;
use clockscope_sys::ptrace;

const WAIT: Duration = Duration::from_millis(2);

/// Makes a thread unmap those of these images and areas of ours, address and size, that are there.
///
/// # Errors
///
/// Those of [`run`]; `Gone` where the thread does not stand still, or is one of another process than `pid`
/// and has executed a program.
pub(super) fn take_out(
    threads: &mut Threads,
    thread: i32,
    pid: i32,
    room: &Room,
    mapped: &[(u64, u64)],
) -> Result<(), Refusal> {
    for some in mapped.chunks(RANGES_AT_ONCE) {
        if !threads.settle(thread) {
            return Err(Refusal::Gone);
        }
        // What a program has that was executed since is no image of ours.
        let ranges: Vec<_> =
            some.iter().copied().filter(|range| is_there(thread, *range)).collect();
        if ranges.is_empty() {
            let is_own = listed(pid).contains(&thread);
            return if is_own { Ok(()) } else { Err(Refusal::Gone) };
        }
        run(threads, thread, room, &Work::Unmap(ranges))?;
    }
    Ok(())
}

/// Whether an image, the memory for it, or an area is there.
fn is_there(thread: i32, (base, size): (u64, u64)) -> bool {
    has_image(thread, base) || has_mapped(thread, base..base + size)
}

/// Where the thread that was to unmap cannot, or not in time: any other one does, as all are outside. A
/// child of vfork, where the process waits for it. `traced` are those that this process traces already.
pub(super) fn somebody_takes_out(
    pid: i32,
    traced: &mut Threads,
    room: &Room,
    mapped: &[(u64, u64)],
    deadline: Instant,
) -> bool {
    let done = |result: Result<(), Refusal>| match result {
        Ok(()) => Some(true),
        Err(Refusal::Stuck) => Some(false),
        Err(_) => None,
    };
    while !is_ending(pid) {
        for thread in traced.all() {
            traced.ask(thread);
            if traced.look(thread) == Look::Stands
                && let Some(done) = done(take_out(traced, thread, pid, room, mapped))
            {
                return done;
            }
        }
        let others = listed(pid).into_iter().chain(sharers_of(pid));
        for thread in others.filter(|thread| !traced.is_known(*thread)).collect::<Vec<_>>() {
            if ptrace::seize(thread, SEIZED).is_err() {
                continue;
            }
            let mut one = Threads::of(thread, [thread]);
            let result = take_out(&mut one, thread, pid, room, mapped);
            one.release();
            if let Some(done) = done(result) {
                return done;
            }
        }
        if Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(WAIT);
    }
    false
}
