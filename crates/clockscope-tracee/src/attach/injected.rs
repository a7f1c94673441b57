//! The instructions that a thread of a running process executes for clockscope, and their parameters.
//!
//! The instructions lie in the unused end of the kernel's own vDSO page. A single change of registers starts them. They
//! block all signals, do their work with registers and a stack of our own, restore the signal mask and then every
//! register, and return to the thread's next instruction, all without the tracer.
//!
//! When the work is done, they wait for the tracer for a while. The tracer stops the thread there and restores signal
//! mask and registers, so that the kernel itself decides how an interrupted system call continues. If the tracer is
//! dead, the instructions restart that call, as the kernel would without a signal.

use std::ops::Range;

use vdso_image::layout::{
    AREA_SIZE, AREAS, ATTACH_LEAVE, AttachParams, AttachSlots, CONFIG_OFFSET, LIVE_OFFSET,
    MAP_PRIVATE_THERE, PAGE, REPLACED_SIZE, SHARED_OFFSET, THREADS_OFFSET, THREADS_SIZE,
    TOTAL_SIZE, TRAMPOLINE_OFFSET,
};

use crate::arch::attach::registers;
use crate::launch_code::{attach, filled, map, marked_calls};
use clockscope_containers::filter::Call;
use clockscope_sys::memory;
use clockscope_sys::ptrace::Registers;

/// The work of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Maps private memory for the image, and areas for other code. The tracer writes both afterwards.
    Map {
        at: u64,
        /// Whether an image of an earlier session is there.
        is_there: bool,
        /// Addresses of areas; 0: none.
        areas: [u64; AREAS],
        /// System V id of the shared pages that the image's installer will attach.
        shared_id: u64,
        /// System V id of the page with the tracer's settings.
        live_id: u64,
    },
    /// Runs the installer of the image.
    Attach {
        at: u64,
        /// Offset of `clockscope_attach`.
        attach_offset: u32,
        /// System V id of the shared pages.
        shared_id: u64,
        /// The session's number for the process.
        process: u64,
        /// [`ATTACH_NEW`], [`ATTACH_AGAIN`] or [`ATTACH_LEAVE`].
        ///
        /// [`ATTACH_NEW`]: vdso_image::layout::ATTACH_NEW
        /// [`ATTACH_AGAIN`]: vdso_image::layout::ATTACH_AGAIN
        task: u64,
    },
}

/// The code, and the addresses in it at which the thread waits for the tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) bytes: Vec<u8>,
    /// Addresses of the waiting instructions.
    pub(crate) waiting: Range<u64>,
    /// Addresses behind the call that restores the signal mask: a signal may arrive here.
    pub(crate) last: Range<u64>,
}

impl Injected {
    /// Whether an address lies in the code, or in the image that the code calls.
    pub(super) fn covers(&self, work: &Work, at: u64, address: u64) -> bool {
        let in_image = matches!(work, Work::Attach { at: image, .. }
            if address.wrapping_sub(*image) < TOTAL_SIZE as u64);
        in_image || address.wrapping_sub(at) < self.bytes.len() as u64
    }
}

/// Makes the code for address `at`, for a thread that has stopped with these registers and blocks the signals in
/// `mask`.
pub(crate) fn assemble(work: &Work, at: u64, thread: &Registers, mask: u64) -> Injected {
    let (code, slots_at, waiting, last) = match work {
        Work::Map { .. } => {
            (map::CODE, map::SLOTS, map::WAITING..map::RESTORE, map::LAST..map::END)
        }
        Work::Attach { .. } => {
            let waiting = attach::WAITING..attach::RESTORE;
            (attach::CODE, attach::SLOTS, waiting, attach::LAST..attach::END)
        }
    };
    let there = |place: Range<usize>| at + place.start as u64..at + place.end as u64;
    let (waiting, last) = (there(waiting), there(last));
    let slots = registers::slots(thread, mask);
    let slots = memory::bytes_of(&slots);
    let bytes = match work {
        Work::Map { at: image, is_there, areas, .. } => {
            let image = (!is_there).then_some((*image, TOTAL_SIZE as u64));
            let ranges = image.into_iter().chain(of_areas(areas));
            let words = ranges.flat_map(|(address, size)| [address, size]).chain([0]);
            let code = filled(code, slots_at, slots).into_iter();
            code.chain(words.flat_map(u64::to_le_bytes)).collect()
        }
        Work::Attach { at: image, attach_offset, shared_id, process, task } => {
            let (return_to, installer) = (waiting.start, image + u64::from(*attach_offset));
            let (shared_id, process, task) = (*shared_id, *process, *task);
            let params = AttachParams { return_to, shared_id, process, task };
            let own = AttachSlots { params, installer };
            filled(code, slots_at, &[slots, memory::bytes_of(&own)].concat())
        }
    };
    Injected { bytes, waiting, last }
}

/// Areas as pairs of address and size.
pub(super) fn of_areas(areas: &[u64; AREAS]) -> impl Iterator<Item = (u64, u64)> + '_ {
    areas.iter().filter(|area| **area != 0).map(|area| (*area, AREA_SIZE as u64))
}

/// The system calls of this work, as a seccomp filter sees them.
pub(super) fn calls(work: &Work, at: u64) -> Vec<Call> {
    let call = marked_calls(at);
    let size = |bytes: usize| bytes as u64;
    let set_mask = size(2); // SIG_SETMASK
    let (name, number, arguments) = registers::waiting(at);
    let mut calls = vec![
        call("rt_sigprocmask", libc::SYS_rt_sigprocmask, [set_mask, at, 0, 8, 0]),
        call(name, number, arguments),
    ];
    match work {
        // With all calls of the installer, so that nothing is begun that a filter would end.
        Work::Map { at: base, areas, shared_id, live_id, .. } => {
            let mmap = |offset: usize, bytes, access, flags| {
                let at = base + size(offset);
                call("mmap", libc::SYS_mmap, [at, size(bytes), access, flags, u64::MAX])
            };
            let shmat = |id, offset: usize, flags| {
                call("shmat", libc::SYS_shmat, [id, base + size(offset), flags, 0, 0])
            };
            let private = THREADS_OFFSET + THREADS_SIZE - CONFIG_OFFSET;
            calls.extend(of_areas(areas).map(|(at, bytes)| {
                let flags = MAP_PRIVATE_THERE.into();
                call("mmap", libc::SYS_mmap, [at, bytes, 5, flags, u64::MAX])
            }));
            let threads = base + size(THREADS_OFFSET);
            let config = base + size(CONFIG_OFFSET);
            calls.extend([
                mmap(0, TOTAL_SIZE, 5, MAP_PRIVATE_THERE.into()),
                mmap(CONFIG_OFFSET, private, 3, 0x32),
                shmat(*shared_id, SHARED_OFFSET, 0o40_000),
                shmat(*live_id, LIVE_OFFSET, 0o50_000),
                call("madvise", libc::SYS_madvise, [threads, size(THREADS_SIZE), 18, 0, 0]),
                mmap(TRAMPOLINE_OFFSET, PAGE, 5, 0x32),
                call("mprotect", libc::SYS_mprotect, [config, size(PAGE), 3, 0, 0]),
                call("mmap", libc::SYS_mmap, [0, size(REPLACED_SIZE), 3, 0x4022, u64::MAX]),
                call("mprotect", libc::SYS_mprotect, [config, size(PAGE), 1, 0, 0]),
            ]);
        }
        Work::Attach { at: base, task: ATTACH_LEAVE, .. } => {
            let (config, live) = (base + size(CONFIG_OFFSET), base + size(LIVE_OFFSET));
            let bytes = size(REPLACED_SIZE);
            calls.extend([3, 1].map(|access| {
                call("mprotect", libc::SYS_mprotect, [config, size(PAGE), access, 0, 0])
            }));
            // The source address is known to the process only.
            calls.push(call("mremap", libc::SYS_mremap, [live, bytes, bytes, 3, live]));
        }
        Work::Attach { .. } => {}
    }
    calls
}
