//! Attaches to a process: maps the shim near the kernel's image, and makes the kernel's functions begin with a jump to
//! it.

use std::rc::Rc;
use std::time::Duration;

use vdso_image::layout::{
    ATTACH_AGAIN, ATTACH_LEAVE, ATTACH_NEW, SESSION_OFFSET, Shared, THREADS_OFFSET, TOTAL_SIZE,
};

use super::inject::run;
use super::injected::Work;
use super::patch::{self, Patch};
use super::place::{self, Limits};
use super::process::{self, Known, is_ending};
use super::{Refusal, command_name};
use crate::areas::InProcess;
use crate::attach::threads::Threads;
use crate::decline::Decline;
use crate::image::entry;
use crate::install::{has_addresses, has_image, not_installed, shared_pages, write_image};
use crate::new_tasks::tell_only_thread;
use crate::session::Session;
use crate::sites::Sites;
use crate::spare_pages::SparePages;
use clockscope_sys::access::threads_of;
use clockscope_sys::loaded_vdso;
use clockscope_sys::memory;
use clockscope_sys::own_vdso;
use clockscope_sys::precedence::Precedence;
use clockscope_sys::ptrace::{self, Resume};
use clockscope_sys::shm::Segment;
use clockscope_text::foreign::Foreign;
use vdso_reader::Class;

/// A process that is being counted.
#[derive(Debug)]
pub struct Attached {
    /// Process id.
    pub pid: i32,
    /// Name of the program.
    pub command: Foreign,
    /// Threads, each with the address of its thread-local storage.
    pub threads: Vec<(i32, u64)>,
    /// The process's shared pages.
    pub pages: Rc<Segment<Shared>>,
    /// The redirected functions.
    pub patch: Rc<Patch>,
    /// The process's areas and jumps for counting system calls.
    pub sites: InProcess,
    /// Longest time that a thread was stopped, from the first stop to the last resumption.
    pub pause: Duration,
}

/// Parameters for attaching.
pub struct How<'a> {
    /// The image.
    pub session: &'a Session,
    /// The session's number for the process.
    pub number: u64,
    /// How the process's threads are resumed.
    pub resume: Resume,
    /// Called with process and address after the shim is mapped, before a call reaches it.
    pub mapped: &'a mut dyn FnMut(i32, u64),
    /// Whether `mapped` takes long: the threads then run meanwhile and are stopped a second time.
    pub mapped_takes_long: bool,
    /// Called with the process when all its threads are traced, before any of them is stopped.
    pub traced: &'a mut dyn FnMut(i32),
    /// How long the tracer waits for threads that are in a transfer.
    pub patience: Duration,
    /// Counts system calls in the process, if the session does.
    pub sites: &'a mut Sites,
}

/// Maximum number of attempts if the process executes one program after another or maps memory all the time.
const TRIALS: u32 = 8;

/// Attaches to a running process. When this returns, the process runs and its calls are counted.
///
/// # Errors
///
/// A [`Refusal`]. The process is then unchanged, except perhaps for an unused image in its memory.
pub fn attach(number: i32, how: &mut How<'_>) -> Result<Attached, Refusal> {
    let known = process::known(number)?;
    for left in (0..TRIALS).rev() {
        match attach_known(&known, how) {
            // If the process is ending, report that instead of other errors.
            Err(_) if is_ending(known.pid) => return Err(Refusal::Ended),
            Err(Refusal::Executed) => {}
            // The process may have mapped memory at the chosen address since, as a loader of libraries does.
            Err(Refusal::Declined(Decline::NotAttached)) if left > 0 => {}
            // A vfork child lets its parent continue a moment before the child leaves the memory (`exec_mmap` in
            // fs/exec.c and `exit_mm` in kernel/exit.c, Linux 6.18).
            Err(Refusal::SharesMemory(_)) if left > 0 => {}
            // A thread that executes a program ends the other threads.
            Err(Refusal::Gone) if !threads_of(known.pid).is_empty() => {}
            done => return done,
        }
    }
    Err(if is_ending(known.pid) { Refusal::Ended } else { Refusal::Executed })
}

fn attach_known(known: &Known, how: &mut How<'_>) -> Result<Attached, Refusal> {
    let pid = known.pid;
    // That of a file that cannot be read counts as 64-bit; the registers tell later.
    if loaded_vdso::class_of(&format!("/proc/{pid}")) == Class::Elf32 {
        return Err(Refusal::Bits);
    }
    process::not_frozen(pid)?;
    has_addresses(pid).map_err(Refusal::Declined)?;
    let live_id = how.session.enter(pid).map_err(Refusal::Declined)?;
    let pages =
        shared_pages(how.session, pid, &mut SparePages::default()).map_err(Refusal::Declined)?;
    let (Some(pages), Some(live_id)) = (pages, live_id) else { return Err(Refusal::Stuck) };
    // The kernel charges a page to the control group that touches it first. Touching the pages here spares a container
    // that is near its limit.
    pages.touch(std::mem::offset_of!(Shared, sites));
    let pages = Rc::new(pages);
    let mut threads = known.seize()?;
    threads.patience = how.patience;
    attach_traced(pid, how, &mut threads, (&pages, live_id)).map_err(|refusal| {
        // If the process has executed another program, errors from before are meaningless.
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
    // If the first thread has ended, the process's memory is visible through its other threads only.
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
    let map = Work::Map { at, is_there, areas: patch.new_areas(), shared_id, live_id };
    if how.session.counts_sites {
        // This takes a while, so it happens while the threads run.
        how.sites.look_at_files(through);
    }
    // Without this, the first threads to resume would delay the resumption of the last ones.
    let _first = Precedence::ask();
    // Stop all threads: a thread that executes our code while the other threads compete with it for processors takes
    // many times longer. If a thread does not stop, let all run, because that thread may hold a lock that our code
    // needs.
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
        // No thread has entered the image yet. The next attachment uses the image. If this call fails, only its pages
        // stay attached for longer.
        let work = work_in_image(at, ATTACH_LEAVE, 0, 0);
        if threads.settle(thread) && has_image(thread, at) {
            let _ = work.and_then(|work| run(threads, thread, &patch.room, &work));
        }
    })?;
    let mut all = Vec::new();
    let counts_ends = how.session.counts_sites;
    let options = if counts_ends { ptrace::FOLLOW_TO_END } else { ptrace::FOLLOW };
    for thread in threads.stopped() {
        if let Ok(pointer) = ptrace::thread_pointer(thread)
            && ptrace::set_options(thread, options).is_ok()
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

/// Writes the image into the memory that a thread has mapped for it, and redirects the functions.
fn fill_and_redirect(
    how: &mut How<'_>,
    threads: &mut Threads,
    (pid, sharers): (i32, &[i32]),
    thread: i32,
    (pages, patch): (&Rc<Segment<Shared>>, &Patch),
) -> Result<InProcess, Refusal> {
    // An image of an earlier session needs this session's constants.
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

/// The work for a thread to run one of the tasks of the image at `at`.
pub(super) fn work_in_image(
    at: u64,
    task: u64,
    shared_id: u64,
    process: u64,
) -> Result<Work, Refusal> {
    let attach_offset = entry("clockscope_attach").map_err(|_| Refusal::Stuck)?.0;
    Ok(Work::Attach { at, attach_offset, shared_id, process, task })
}

/// Picks a thread that can execute our code, and stops it.
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

/// Redirects the functions while all threads have stopped. On success they are still stopped. No thread is in vfork
/// then, so a process that still shares this memory is not a vfork child and would run changed code untraced.
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
    if threads.stopped().count() == 1 {
        tell_only_thread(through, patch.base + THREADS_OFFSET as u64, how.number);
    }
    let counts = how.session.counts_sites;
    Ok(if counts { count_sites(how, threads, through, (pages, patch)) } else { <_>::default() })
}

/// Writes jumps for counting system calls. Each displaces one instruction, so that no thread can be in the way. All
/// threads have stopped.
fn count_sites(
    how: &mut How<'_>,
    threads: &Threads,
    through: i32,
    (pages, patch): (&Rc<Segment<Shared>>, &Patch),
) -> InProcess {
    let mut sites = how.sites.enter(through, patch.base, patch.areas, &patch.old_areas);
    if threads.stopped().count() == 1 {
        sites.give_part(through, pages);
    }
    sites
}
