//! Attaching to one process: mapping the shim near the kernel's, and making the kernel's functions begin with a jump to it.

use std::io;
use std::rc::Rc;

use vdso_image::layout::{
    ATTACH_AGAIN, ATTACH_LEAVE, ATTACH_NEW, SESSION_OFFSET, Shared, TOTAL_SIZE,
};

use super::inject::run;
use super::injected::Work;
use super::patch::{self, Patch};
use super::place::{self, Limits};
use super::process::{self, Known, is_ending};
use super::{Attached, How, Refusal, command_name, listed, stack_scan};
use crate::attach::threads::Threads;
use crate::decline::Decline;
use crate::image::entry;
use crate::install::{has_addresses, has_image, not_installed, shared_pages, write_image};
use crate::session::seccomp_filters;
use crate::sites::{InProcess, There};
use crate::spare_pages::SparePages;
use clockscope_sys::memory;
use clockscope_sys::own_vdso;
use clockscope_sys::precedence::Precedence;
use clockscope_sys::ptrace::{self, Resume};
use clockscope_sys::shm::Segment;

/// So often is it tried, where a process executes one program after the other or maps memory all the time.
const TRIALS: u32 = 8;

/// Attaches to a running process: its calls are counted when this returns, and it runs.
///
/// # Errors
///
/// A [`Refusal`]; the process is then as it was, but perhaps for an image that nobody uses.
pub fn attach(number: i32, how: &mut How<'_>) -> Result<Attached, Refusal> {
    let known = process::known(number)?;
    for left in (0..TRIALS).rev() {
        match attach_known(&known, how) {
            // Whatever was seen of a process that was ending, that is why.
            Err(_) if is_ending(known.pid) => return Err(Refusal::Ended),
            Err(Refusal::Executed) => {}
            // It may have mapped something there since the place was chosen, as a loader of libraries does.
            Err(Refusal::Declined(Decline::NotAttached)) if left > 0 => {}
            // A child of vfork lets its parent go on a moment before it leaves the memory (`exec_mmap` in fs/exec.c and
            // `exit_mm` in kernel/exit.c, Linux 6.18).
            Err(Refusal::SharesMemory(_)) if left > 0 => {}
            // A thread that executes a program ends the others.
            Err(Refusal::Gone) if !listed(known.pid).is_empty() => {}
            done => return done,
        }
    }
    Err(if is_ending(known.pid) { Refusal::Ended } else { Refusal::Executed })
}

fn attach_known(known: &Known, how: &mut How<'_>) -> Result<Attached, Refusal> {
    let pid = known.pid;
    if !process::is_64_bit(pid) {
        return Err(Refusal::Bits);
    }
    process::not_frozen(pid)?;
    has_addresses(pid).map_err(Refusal::Declined)?;
    let live_id = how.session.enter(pid).map_err(Refusal::Declined)?;
    let pages =
        shared_pages(how.session, pid, &mut SparePages::default()).map_err(Refusal::Declined)?;
    let (Some(pages), Some(live_id)) = (pages, live_id) else { return Err(Refusal::Stuck) };
    // The kernel charges a page to who touches it first: not to a container that is near its limit.
    pages.touch(std::mem::offset_of!(Shared, sites));
    let pages = Rc::new(pages);
    let mut threads = Threads::seize(pid).map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => Refusal::Gone,
        _ => known.not_allowed(),
    })?;
    threads.patience = how.patience;
    attach_traced(pid, how, &mut threads, (&pages, live_id)).map_err(|refusal| {
        // What was seen of a program that is there no more, or only half, is no reason.
        let executed = threads.stop_all().is_ok() && threads.has_executed();
        threads.release();
        if executed { Refusal::Executed } else { refusal }
    })
}

fn attach_traced(
    pid: i32,
    how: &mut How<'_>,
    threads: &mut Threads,
    (pages, live_id): (&Rc<Segment<Shared>>, u64),
) -> Result<Attached, Refusal> {
    (how.traced)(pid);
    let own = own_vdso::read().ok_or(Refusal::Declined(Decline::NoVdso))?;
    // The first thread may have ended, and the process then shows its memory by the others only.
    let through = threads.all().first().copied().ok_or(Refusal::Gone)?;
    let maps = process::mappings(through)?;
    let vdso = patch::vdso_of(&maps).ok_or(Refusal::Declined(Decline::NoVdso))?.start;
    let base = place::near(&maps, vdso, Limits::of(&maps));
    let patch = Patch::plan(through, how.session, &own, &maps, base)?;
    let sharers = process::sharers_of(pid);
    if patch.room_is_used {
        patch::wait_for_room(threads, &patch)?;
    }
    let shared_id = u64::from(pages.id().cast_unsigned());
    let (at, is_there) = (patch.base, patch.is_there);
    let map = Work::Map { at, is_there, areas: patch.areas, shared_id, live_id };
    if how.session.counts_sites() {
        // While the threads run: this takes its time.
        how.sites.look_at_files(through);
    }
    // The first threads that go on would otherwise keep the last ones waiting for us.
    let _first = Precedence::ask();
    // All at once: a thread that executes our code while the others compete with it for processors
    // takes many times longer. One that does not stop may hold what our code needs.
    if !threads.stop_all().map_err(Refusal::at("tracing a new thread"))?.is_empty() {
        threads.resume_all(Resume::Run);
    }
    let thread = choose(threads, pid)?;
    if threads.has_executed() {
        return Err(Refusal::Executed);
    }
    run(threads, thread, &patch.room, &map)?;
    if !is_there && !process::has_mapped(thread, at..at + TOTAL_SIZE as u64) {
        return Err(Refusal::Declined(Decline::NotAttached));
    }
    let filled = fill_and_redirect(how, threads, (pid, &sharers), thread, (pages, &patch));
    let sites = filled.inspect_err(|_| {
        // Nobody has come into the image. The next attachment uses it; if this fails, only its pages are attached longer.
        let work = work_in_image(at, ATTACH_LEAVE, 0, 0);
        if threads.settle(thread) && has_image(thread, at) {
            let _ = work.and_then(|work| run(threads, thread, &patch.room, &work));
        }
    })?;
    let mut all = Vec::new();
    for thread in threads.stopped() {
        if let Ok(pointer) = ptrace::thread_pointer(thread)
            && ptrace::set_options(thread, ptrace::FOLLOW).is_ok()
        {
            all.push((thread, pointer));
        }
    }
    threads.resume_all(how.resume);
    Ok(Attached {
        pid,
        command: command_name(pid),
        threads: all,
        pages: Rc::clone(pages),
        patch: Rc::new(patch),
        sites,
        pause: threads.longest,
    })
}

/// Gives the process the image where a thread has mapped memory for it, and redirects its functions.
fn fill_and_redirect(
    how: &mut How<'_>,
    threads: &mut Threads,
    (pid, sharers): (i32, &[i32]),
    thread: i32,
    (pages, patch): (&Rc<Segment<Shared>>, &Patch),
) -> Result<InProcess, Refusal> {
    // One that a session before has left lacks the constants of this one.
    let from = if patch.is_there { SESSION_OFFSET } else { 0 };
    let step = Refusal::at("writing the image");
    write_image(how.session, thread, patch.base, from).map_err(step)?;
    if !threads.settle(thread) {
        return Err(patch::why_late(pid, thread));
    }
    if threads.has_executed() {
        return Err(Refusal::Executed);
    }
    let shared_id = u64::from(pages.id().cast_unsigned());
    let task = if patch.is_installed { ATTACH_AGAIN } else { ATTACH_NEW };
    run(threads, thread, &patch.room, &work_in_image(patch.base, task, shared_id, how.number)?)?;
    if let Some(decline) = not_installed(pages, &[]) {
        return Err(Refusal::Declined(decline));
    }
    let written = patch.write_trampolines(thread);
    if how.mapped_takes_long {
        threads.resume_all(Resume::Run);
    }
    (how.mapped)(pid, patch.base);
    written?;
    redirect(how, threads, (pid, sharers), thread, (pages, patch))
}

/// Has a thread do one of the tasks that the image at an address has code for.
pub(super) fn work_in_image(
    at: u64,
    task: u64,
    shared_id: u64,
    process: u64,
) -> Result<Work, Refusal> {
    let attach_offset = entry("clockscope_attach").map_err(|_| Refusal::Stuck)?.0;
    Ok(Work::Attach { at, attach_offset, shared_id, process, task })
}

/// A thread that can execute our code: it stands still.
fn choose(threads: &mut Threads, pid: i32) -> Result<i32, Refusal> {
    let mut why = Refusal::Gone;
    for thread in threads.all() {
        if threads.settle(thread) {
            return Ok(thread);
        }
        if threads.is_known(thread) {
            why = patch::why_late(pid, thread);
        }
    }
    Err(why)
}

/// Redirects the functions while all threads stand still, which they do when this returns well. No thread waits
/// in vfork then, so another process that still has this memory runs on it all the time, unseen.
fn redirect(
    how: &mut How<'_>,
    threads: &mut Threads,
    (pid, sharers): (i32, &[i32]),
    through: i32,
    (pages, patch): (&Rc<Segment<Shared>>, &Patch),
) -> Result<InProcess, Refusal> {
    patch::stop_outside(threads, pid, patch)?;
    if let Some(other) = sharers.iter().find(|other| memory::is_shared_with(through, **other)) {
        threads.resume_all(Resume::Run);
        return Err(Refusal::SharesMemory(*other));
    }
    let vdso = process::mappings(through).ok();
    let stayed = vdso.is_some_and(|maps| {
        maps.iter().any(|mapping| mapping.start == patch.base)
            && patch::vdso_of(&maps).is_some_and(|vdso| vdso.contains(patch.room.at))
    });
    if !stayed {
        threads.resume_all(Resume::Run);
        return Err(Refusal::Executed);
    }
    let redirected = patch.redirect(through);
    redirected.inspect_err(|_| {
        let _ = patch.put_back(through);
        threads.resume_all(Resume::Run);
    })?;
    let counts = how.session.counts_sites();
    Ok(if counts { count_sites(how, threads, through, (pages, patch)) } else { <_>::default() })
}

/// Counts system calls where no thread is in the way; those that stand at displaced instructions go on at the same
/// in their new place. All threads stand still.
fn count_sites(
    how: &mut How<'_>,
    threads: &Threads,
    through: i32,
    (pages, patch): (&Rc<Segment<Shared>>, &Patch),
) -> InProcess {
    let mut stack = vec![0; stack_scan::WHOLE_STACK];
    let mut standing = Vec::new();
    let mut returns = Vec::new();
    for thread in threads.stopped() {
        let Ok(registers) = ptrace::registers(thread) else { continue };
        returns.extend(stack_scan::returns_of(thread, registers.sp(), &mut stack));
        standing.push((thread, registers));
    }
    let is_filtered = seccomp_filters(&through.to_string()).is_none_or(|filters| filters > 0);
    let there = There {
        pcs: standing.iter().map(|(_, registers)| registers.pc()).collect(),
        returns,
        old_areas: &patch.old_areas,
        is_filtered,
    };
    let mut sites = how.sites.enter(through, patch.base, patch.areas, pages, &there);
    if standing.len() == 1 {
        sites.give_part(through, pages);
    }
    for (thread, mut registers) in standing {
        if let Some(at) = sites.to_stub(registers.pc()) {
            registers.set_pc(at);
            // One that has been killed since goes nowhere.
            let _ = ptrace::set_registers(thread, &registers);
        }
    }
    sites
}

impl Refusal {
    /// What the kernel said to a step.
    pub(super) fn at(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            Some(libc::ESRCH | libc::ECHILD) => Self::Gone,
            _ => Self::Failed(step, said(&error)),
        }
    }
}

/// What the kernel said, in lower case and without the number.
fn said(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or(&words).to_lowercase()
}
