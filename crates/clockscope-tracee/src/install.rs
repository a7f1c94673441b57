//! Writes the launch code into a process at `execve`.

use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Acquire;

use vdso_image::layout::{
    AREAS, Constants, ExecveSlots, INSTALL_NOTICE, InstallStep, LaunchParams, LaunchSlots,
    MemoryMap, SESSION_MARK, SESSION_OFFSET, SHARED_SIZE, Shared,
};

use super::areas;
use super::attach::filters;
use super::decline::Decline;
use super::launch_code::{self, assemble, assemble_execve};
use super::proc_stat::ProcStat;
use super::session::{Session, seccomp_filters};
use super::spare_pages::SparePages;
use super::stack::{VdsoEntry, find_vdso};
use clockscope_containers::filter;
use clockscope_sys::shm::Segment;
use clockscope_sys::{access, memory, ptrace};

/// A program with an address space limited to less than this may run out of it by the few hundred KiB that are mapped
/// behind the shim.
const ROOMY: u64 = 256 << 20;

/// Refuses a process whose address space is too small for the shim's mappings.
pub(crate) fn has_addresses(pid: i32) -> Result<(), Decline> {
    match access::address_space_limit(pid).filter(|limit| *limit < ROOMY) {
        Some(limit) => Err(Decline::AddressSpace(limit)),
        None => Ok(()),
    }
}

/// Result of installing the launch code in a process.
#[derive(Debug)]
pub struct Installed {
    /// The process's shared pages, if calls are counted.
    pub pages: Option<Segment<Shared>>,
    /// Address of the value of `AT_SYSINFO_EHDR` in the auxiliary vector, which holds the image's address after the
    /// installation.
    pub slot: u64,
    /// Whether the tracer must write the image after it is mapped.
    pub wants_image: bool,
    /// Addresses of the areas for code that counts system calls.
    pub(crate) areas: [u64; AREAS],
    /// Whether the process sends itself a signal after mapping them.
    pub(crate) tells: bool,
}

/// Makes a process that stands at the end of its `execve` start with the launch code.
///
/// The last step changes the registers at once. If this process dies before that, the program starts as usual; after
/// that, with the shim.
///
/// # Errors
///
/// A [`Decline`]. The process then starts as usual; only memory below its stack pointer may have changed.
pub(crate) fn install(
    session: &Session,
    pid: i32,
    number: u64,
    stat: Option<&ProcStat>,
    spare: &mut SparePages,
) -> Result<Installed, Decline> {
    let mut registers = ptrace::registers(pid).map_err(Decline::access)?;
    if !registers.is_64_bit() {
        return Err(Decline::Not64Bit);
    }
    memory::read_u64(pid, registers.sp()).map_err(|error| not_shown(pid, error))?;
    let vdso = find_vdso(registers.sp(), |address, into| memory::read(pid, address, into).ok())
        .ok_or(Decline::NoVdso)?;
    has_addresses(pid)?;
    let room = session.room.clone();
    let live_id = session.enter(pid)?;
    let shared = shared_pages(session, pid, spare)?;
    let shared_id = shared.as_ref().map_or(0, |pages| u64::from(pages.id().cast_unsigned()));
    let at = vdso.base + room.start as u64;
    if is_kept_by_filter(session, pid, shared_id, live_id, at) {
        return Err(Decline::Seccomp);
    }
    let (clock, clock_inode) = session.clock_place();
    let areas = areas_for(session, pid);
    let mask = (areas != [0; AREAS]).then(|| ptrace::signal_mask(pid).ok()).flatten();
    let tells = mask.is_some_and(|mask| may_tell(mask, session.seccomp_filters));
    let image = session.copies_itself.then(|| session.image(live_id));
    let image = image.map(|image| (below(registers.sp(), &image), image));
    let code = assemble(&LaunchSlots {
        image: image.as_ref().map_or(0, |(at, _)| *at),
        install_offset: session.ready.install_offset.into(),
        params: LaunchParams {
            kernel_base: vdso.base,
            auxv_slot: vdso.slot,
            shared_id,
            process: number,
            entry: registers.pc(),
            clock,
            clock_inode,
            areas,
            tells: tells.into(),
            memory: stat.and_then(|stat| memory_map(stat, &vdso)).unwrap_or_default(),
        },
    });
    if code.len() > room.len() {
        return Err(Decline::NoRoom);
    }
    if let Some((at, image)) = &image {
        memory::write(pid, *at, image).map_err(|_| Decline::Stack)?;
    }
    memory::write_text(pid, at, &code).map_err(Decline::access)?;
    registers.set_pc(at);
    ptrace::set_registers(pid, &registers).map_err(Decline::access)?;
    Ok(Installed { pages: shared, slot: vdso.slot, wants_image: image.is_none(), areas, tells })
}

/// The reason why the memory of a program that was just executed cannot be read.
fn not_shown(pid: i32, error: std::io::Error) -> Decline {
    let status = clockscope_sys::proc_text::read(format!("/proc/{pid}/status"));
    match status {
        Ok(status) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Decline::of_kept_memory(&status, access::real_ids())
        }
        _ => Decline::access(error),
    }
}

/// Addresses of areas for code that counts system calls; none if a seccomp filter might not allow the code's calls.
fn areas_for(session: &Session, pid: i32) -> [u64; AREAS] {
    let wanted = session.counts_sites && !has_foreign_filter(session, pid);
    let maps = wanted.then(|| clockscope_sys::proc_text::read(format!("/proc/{pid}/maps")).ok());
    maps.flatten()
        .map_or([0; AREAS], |text| areas::places(&vdso_reader::maps::parse(&text), 0..0, &[]))
}

/// Whether a process with this signal mask, and with this many seccomp filters inherited from us, may send itself the
/// signal. A blocked signal would stay pending if the tracer does not take it away, and a filter might kill the process
/// for sending it.
fn may_tell(mask: u64, filters: u32) -> bool {
    filters == 0 && mask >> (INSTALL_NOTICE - 1) & 1 == 0
}

/// Address at which the image waits for the launch code: in the pages below the page of the stack pointer. The kernel
/// gives every program 128 KiB of unused stack there, within the stack limit (`stack_expand` in `setup_arg_pages`,
/// fs/exec.c, Linux 6.18).
fn below(stack: u64, image: &[u8]) -> u64 {
    let page = memory::page_size() as u64;
    (stack & !(page - 1)).saturating_sub((image.len() as u64).next_multiple_of(page))
}

/// Writes the image, from offset `from` on, into a stopped process that has mapped memory for it at `base`. `through`
/// is a thread of the process.
///
/// # Errors
///
/// As for [`memory::write_text`]. The process then starts without the image.
pub(crate) fn write_image(
    session: &Session,
    through: i32,
    base: u64,
    from: usize,
) -> std::io::Result<()> {
    let live_id = session.enter(through).map_err(|_| std::io::ErrorKind::PermissionDenied)?;
    memory::write_text(through, base + from as u64, &session.image(live_id)[from..])
}

/// The reason why the installer has not ended successfully in the process with these pages, if so. If it failed in one
/// of `steps`, the reason is only [`Decline::NotAttached`].
pub(crate) fn not_installed(pages: &Segment<Shared>, steps: &[InstallStep]) -> Option<Decline> {
    let header = &pages.get().header;
    if header.base.load(Acquire) != 0 {
        return None;
    }
    let failed = header.failed.load(Acquire);
    let in_step = steps.iter().any(|step| failed >> 32 == *step as u64);
    Some(match i32::try_from(failed & 0xffff_ffff) {
        Ok(errno) if failed != 0 && !in_step => Decline::Install(errno),
        _ => Decline::NotAttached,
    })
}

/// Whether one of clockscope's images is at this address, seen through a thread. A program that was executed later does
/// not have it there.
pub(crate) fn has_image(thread: i32, base: u64) -> bool {
    let mark = base.checked_add((SESSION_OFFSET + offset_of!(Constants, mark)) as u64);
    mark.and_then(|mark| memory::read_u64(thread, mark).ok()) == Some(SESSION_MARK)
}

/// Makes a process that stands at the end of its `execve` execute the same program once more, for a program that would
/// have more privileges if it were not traced. The tracer detaches after this. If the second `execve` fails, the
/// program continues as it is.
///
/// # Errors
///
/// A [`Decline`]. The process is then unchanged.
pub(crate) fn execute_again(session: &Session, pid: i32) -> Result<(), Decline> {
    let mut registers = ptrace::registers(pid).map_err(Decline::access)?;
    if !registers.is_64_bit() {
        return Err(Decline::Not64Bit);
    }
    let stack = registers.sp();
    let vdso = find_vdso(stack, |address, into| memory::read(pid, address, into).ok());
    let vdso = vdso.ok_or(Decline::NoVdso)?;
    let path = vdso.path.ok_or(Decline::NoVdso)?;
    let arguments = memory::read_u64(pid, stack).map_err(Decline::access)?;
    // The argument count, the arguments and a zero precede the environment.
    let size = arguments.checked_add(2).and_then(|words| words.checked_mul(8));
    let environment = size.and_then(|size| stack.checked_add(size)).ok_or(Decline::NoVdso)?;
    let code = assemble_execve(&ExecveSlots {
        path,
        arguments: stack + 8,
        environment,
        entry: registers.pc(),
    });
    let room = session.room.clone();
    if code.len() > room.len() {
        return Err(Decline::NoRoom);
    }
    let at = vdso.base + room.start as u64;
    memory::write_text(pid, at, &code).map_err(Decline::access)?;
    registers.set_pc(at);
    ptrace::set_registers(pid, &registers).map_err(Decline::access)
}

/// The kernel's record of the process's memory, with the auxiliary vector on the stack; `None` if `/proc/PID/stat` does
/// not show it.
fn memory_map(stat: &ProcStat, vdso: &VdsoEntry) -> Option<MemoryMap> {
    let [start_code, end_code, start_stack, start_data, end_data, start_brk, strings @ ..] =
        stat.fields([26, 27, 28, 45, 46, 47, 48, 49, 50, 51])?;
    if start_code == 0 || strings[3] == 0 {
        return None;
    }
    Some(MemoryMap {
        // The heap is empty before the first instruction: its end is its start.
        segments: [start_code, end_code, start_data, end_data, start_brk, start_brk],
        start_stack,
        strings,
        auxv: vdso.vector,
        auxv_size: vdso.vector_size,
        exe_fd: u32::MAX,
    })
}

/// Shared pages for the counts. The process can attach them if the tracer is in its IPC namespace.
pub(super) fn shared_pages(
    session: &Session,
    pid: i32,
    spare: &mut SparePages,
) -> Result<Option<Segment<Shared>>, Decline> {
    if !session.is_counting() {
        return Ok(None);
    }
    let refused = |error: std::io::Error| Decline::NoSharedMemory(error.kind());
    let process = std::fs::metadata(format!("/proc/{pid}")).map_err(Decline::access)?;
    let owner = Some((process.uid(), process.gid()));
    let owner = owner.filter(|(uid, _)| *uid != access::effective_uid());
    if let Some(pages) = spare.take(owner) {
        return Ok(Some(pages));
    }
    let mut pages = Segment::<Shared>::new(SHARED_SIZE, 0o600).map_err(refused)?;
    if let Some((uid, gid)) = owner {
        pages.give_to(uid, gid, 0o600).map_err(refused)?;
    }
    Ok(Some(pages))
}

/// True if the process has seccomp filters that this process does not have, and they would not allow the system calls
/// of the launch code or cannot be read.
fn is_kept_by_filter(
    session: &Session,
    pid: i32,
    shared_id: u64,
    live_id: Option<u64>,
    at: u64,
) -> bool {
    if !has_foreign_filter(session, pid) {
        return false;
    }
    // Without counting, the installer makes other calls, and another clock makes further calls when it is read.
    let Some(live_id) = live_id else { return true };
    match filters::of(pid) {
        Ok(filters) if !filters.is_empty() => {
            let calls = launch_code::calls(session.copies_itself, shared_id, live_id, at);
            !calls.iter().all(|call| filter::lets_pass(&filters, call))
        }
        _ => true,
    }
}

/// True if the process has seccomp filters that this process does not have: they might kill the process for the system
/// calls of the launch code.
fn has_foreign_filter(session: &Session, pid: i32) -> bool {
    match ptrace::has_seccomp_filter(pid) {
        Some(answer) => answer && session.seccomp_filters == 0,
        None => seccomp_filters(&pid.to_string()).is_none_or(|n| n > session.seccomp_filters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_is_not_given_where_it_would_stay_or_a_filter_might_kill_for_it() {
        let urgent = 1 << (INSTALL_NOTICE - 1);
        assert!(may_tell(0, 0) && may_tell(!urgent, 0));
        assert!(!may_tell(urgent, 0) && !may_tell(u64::MAX, 0) && !may_tell(0, 1));
    }
}
