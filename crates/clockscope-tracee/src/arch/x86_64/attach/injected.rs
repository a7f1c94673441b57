//! The instructions that a thread of a running process is made to execute, and what they are given.
//!
//! They stand in the unused end of the kernel's own vDSO page and are started by one change of
//! registers. They block all signals, do their work with registers and a stack of ours only, put
//! the signals back, then every register, and go on where the thread was: all without the tracer.
//!
//! When the work is done they wait for the tracer for a while. It stops the thread there and puts signals
//! and registers back as they were, so that the kernel itself decides how an interrupted system call
//! goes on. If it is dead, the instructions restart that call as the kernel would if no signal has come.

use std::mem::offset_of;
use std::ops::Range;

use vdso_image::layout::{
    AREA_SIZE, AREAS, AttachParams, AttachSlots, CONFIG_OFFSET, INSTALL_MARK, InjectedSlots,
    LIVE_OFFSET, MAP_PRIVATE_THERE, PAGE, SHARED_OFFSET, THREADS_OFFSET, THREADS_SIZE, TOTAL_SIZE,
    TRAMPOLINE_OFFSET,
};

use crate::launch_code::{Stub, attach, map, unmap};
use clockscope_containers::filter::{ARCH_X86_64, Call};
use clockscope_sys::ptrace::Registers;

const SYS_RESTART_SYSCALL: u64 = 219;

/// What the kernel leaves in `rax` of an interrupted system call: include/linux/errno.h (Linux 6.18).
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Maps private memory for the image, and areas for other code; the tracer writes both then.
    Map {
        at: u64,
        /// Those that are not 0.
        areas: [u64; AREAS],
        /// System V id of the shared pages that the image's installer will attach.
        shared_id: u64,
        /// The same of the page with what the tracer changes.
        live_id: u64,
    },
    /// Runs the installer of the image.
    Attach {
        at: u64,
        /// Offset of `clockscope_attach`.
        attach_offset: u32,
        /// System V id of the shared pages.
        shared_id: u64,
        /// The process, as a number of the session.
        process: u64,
    },
    /// Unmaps ranges: address and size.
    Unmap(Vec<(u64, u64)>),
}

impl Work {
    /// Whether it takes away the memory at an address.
    pub(super) fn takes_away(&self, address: u64) -> bool {
        matches!(self, Self::Unmap(ranges)
            if ranges.iter().any(|(at, size)| address.wrapping_sub(*at) < *size))
    }
}

/// How long the thread sleeps at a time while it waits for the tracer.
/// Microseconds.
const PAUSE_US: u64 = 1000;

/// The code, and where in it the thread waits for the tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Injected {
    pub(super) bytes: Vec<u8>,
    /// Addresses of the instructions that wait.
    pub(super) waiting: Range<u64>,
    /// Addresses behind the call that puts the signals back: one may come here.
    pub(super) last: Range<u64>,
}

impl Injected {
    /// Whether the code, or what it calls, stands at an address.
    pub(super) fn covers(&self, work: &Work, at: u64, address: u64) -> bool {
        let in_image = matches!(work, Work::Attach { at: image, .. }
            if address.wrapping_sub(*image) < TOTAL_SIZE as u64);
        in_image || address.wrapping_sub(at) < self.bytes.len() as u64
    }
}

/// Makes the code, to stand at `at`, for a thread that stopped with these registers and blocks the
/// signals in `mask`.
pub(super) fn assemble(work: &Work, at: u64, registers: &Registers, mask: u64) -> Injected {
    let (code, slots, waiting, last) = match work {
        Work::Map { .. } => {
            (map::CODE, map::SLOTS, map::WAITING..map::RESTORE, map::LAST..map::END)
        }
        Work::Attach { .. } => {
            let waiting = attach::WAITING..attach::RESTORE;
            (attach::CODE, attach::SLOTS, waiting, attach::LAST..attach::END)
        }
        Work::Unmap(_) => {
            let waiting = unmap::WAITING..unmap::RESTORE;
            (unmap::CODE, unmap::SLOTS, waiting, unmap::LAST..unmap::END)
        }
    };
    let there = |place: Range<usize>| at + place.start as u64..at + place.end as u64;
    let (waiting, last) = (there(waiting), there(last));
    let work_at = size_of::<InjectedSlots>();
    let params = work_at + offset_of!(AttachSlots, params);
    let r = registers;
    let (rax, resume) = resumed(r);
    let stub = Stub::new(code, slots).fill(&[
        (offset_of!(InjectedSlots, all_signals), u64::MAX),
        (offset_of!(InjectedSlots, mask), mask),
        (offset_of!(InjectedSlots, flags), r.eflags & !TRAP_FLAG),
        (offset_of!(InjectedSlots, resume), resume),
        (offset_of!(InjectedSlots, pause) + 8, PAUSE_US),
        (offset_of!(InjectedSlots, rax), rax),
        (offset_of!(InjectedSlots, rcx), r.rcx),
        (offset_of!(InjectedSlots, rdx), r.rdx),
        (offset_of!(InjectedSlots, rbx), r.rbx),
        (offset_of!(InjectedSlots, rsp), r.rsp),
        (offset_of!(InjectedSlots, rbp), r.rbp),
        (offset_of!(InjectedSlots, rsi), r.rsi),
        (offset_of!(InjectedSlots, rdi), r.rdi),
        (offset_of!(InjectedSlots, r8), r.r8),
        (offset_of!(InjectedSlots, r9), r.r9),
        (offset_of!(InjectedSlots, r10), r.r10),
        (offset_of!(InjectedSlots, r11), r.r11),
        (offset_of!(InjectedSlots, r12), r.r12),
        (offset_of!(InjectedSlots, r13), r.r13),
        (offset_of!(InjectedSlots, r14), r.r14),
        (offset_of!(InjectedSlots, r15), r.r15),
    ]);
    let with_ranges = |stub: Stub, ranges: &[(u64, u64)]| {
        let words = ranges.iter().flat_map(|(address, size)| [*address, *size]).chain([0]);
        stub.bytes.into_iter().chain(words.flat_map(u64::to_le_bytes)).collect()
    };
    let bytes = match work {
        Work::Map { at: image, areas, .. } => {
            let ranges = [(*image, TOTAL_SIZE as u64)].into_iter().chain(of_areas(areas));
            with_ranges(stub, &ranges.collect::<Vec<_>>())
        }
        Work::Attach { at: image, attach_offset, shared_id, process } => {
            let words = [
                (params + offset_of!(AttachParams, return_to), waiting.start),
                (params + offset_of!(AttachParams, shared_id), *shared_id),
                (params + offset_of!(AttachParams, process), *process),
                (work_at + offset_of!(AttachSlots, installer), image + u64::from(*attach_offset)),
            ];
            stub.fill(&words).bytes
        }
        Work::Unmap(ranges) => with_ranges(stub, ranges),
    };
    Injected { bytes, waiting, last }
}

/// Areas as ranges: address and size.
pub(super) fn of_areas(areas: &[u64; AREAS]) -> impl Iterator<Item = (u64, u64)> + '_ {
    areas.iter().filter(|area| **area != 0).map(|area| (*area, AREA_SIZE as u64))
}

/// The system calls that this work makes, as a filter sees them, and the one that undoes it.
pub(super) fn calls(work: &Work, at: u64) -> Vec<Call> {
    let call = |name, number, arguments: [u64; 5]| {
        let [a, b, c, d, e] = arguments;
        let arguments = [a, b, c, d, e, INSTALL_MARK];
        Call { name, number, arch: ARCH_X86_64, at, arguments }
    };
    let munmap = |at, size| call("munmap", libc::SYS_munmap, [at, size, 0, 0, 0]);
    let size = |bytes: usize| bytes as u64;
    let set_mask = size(2); // SIG_SETMASK
    let mut calls = vec![
        call("rt_sigprocmask", libc::SYS_rt_sigprocmask, [set_mask, at, 0, 8, 0]),
        call("select", libc::SYS_select, [0, 0, 0, 0, at]),
    ];
    match work {
        // All that the installer will do, too: nothing is begun that a filter would end.
        Work::Map { at: base, areas, shared_id, live_id } => {
            let mmap = |offset: usize, bytes, access, flags| {
                let at = base + size(offset);
                call("mmap", libc::SYS_mmap, [at, size(bytes), access, flags, u64::MAX])
            };
            let shmat = |id, offset: usize, flags| {
                call("shmat", libc::SYS_shmat, [id, base + size(offset), flags, 0, 0])
            };
            let private = THREADS_OFFSET + THREADS_SIZE - CONFIG_OFFSET;
            calls.extend(of_areas(areas).flat_map(|(at, bytes)| {
                let flags = MAP_PRIVATE_THERE.into();
                [call("mmap", libc::SYS_mmap, [at, bytes, 5, flags, u64::MAX]), munmap(at, bytes)]
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
                call("mprotect", libc::SYS_mprotect, [config, size(PAGE), 1, 0, 0]),
                munmap(*base, size(TOTAL_SIZE)),
            ]);
        }
        Work::Attach { .. } => {}
        Work::Unmap(ranges) => calls.extend(ranges.iter().map(|(at, size)| munmap(*at, *size))),
    }
    calls
}

/// `TF`: a debugger's single step, not the program's.
const TRAP_FLAG: u64 = 0x100;

/// `rax` and `rip` of a thread that goes on after an interrupted system call, if the kernel finds no
/// signal for it: `arch_do_signal_or_restart` in arch/x86/kernel/signal.c (Linux 6.18).
pub(super) fn resumed(registers: &Registers) -> (u64, u64) {
    let in_call = registers.orig_rax.cast_signed() >= 0;
    match registers.rax.cast_signed() {
        ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND if in_call => {
            (registers.orig_rax, registers.rip - 2)
        }
        ERESTART_RESTARTBLOCK if in_call => (SYS_RESTART_SYSCALL, registers.rip - 2),
        _ => (registers.rax, registers.rip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, NasmFormatter};

    fn registers(rax: i64, orig_rax: i64) -> Registers {
        let mut registers = Registers::zero();
        registers.rax = rax.cast_unsigned();
        registers.orig_rax = orig_rax.cast_unsigned();
        registers.rip = 0x40_1002;
        registers.rsp = 0x7ffd_0000_1238;
        registers.r15 = 15;
        registers.rbx = 3;
        registers.eflags = 0x246;
        registers
    }

    /// The instructions before the slots, with their addresses; of one that refers to a slot, what stands
    /// in that.
    fn listing(code: &[u8], slots: usize) -> Vec<(u64, String)> {
        let mut formatter = NasmFormatter::new();
        let decoder = Decoder::with_ip(64, &code[..slots], 0x1000, DecoderOptions::NONE);
        let line = |instruction: Instruction| {
            let mut line = String::new();
            formatter.format(&instruction, &mut line);
            if let Some((before, _)) = line.split_once("[rel") {
                let at = usize::try_from(instruction.ip_rel_memory_address() - 0x1000).unwrap();
                let slot = code.get(at..at + 8).map_or([0; 8], |bytes| bytes.try_into().unwrap());
                line = format!("{before}[{:X}h]", u64::from_le_bytes(slot));
            }
            (instruction.ip(), line)
        };
        decoder.into_iter().map(line).collect()
    }

    const ATTACH: Work =
        Work::Attach { at: 0x7f00_0000_0000, attach_offset: 0x1612, shared_id: 77, process: 5 };

    #[test]
    fn an_interrupted_call_goes_on_as_the_kernel_would_have_it() {
        for (rax, expected) in [
            (-512, (232, 0x40_1000)),
            (-513, (232, 0x40_1000)),
            (-514, (232, 0x40_1000)),
            (-516, (219, 0x40_1000)),
            (-4, (-4_i64.cast_unsigned().cast_signed(), 0x40_1002)),
            (7, (7, 0x40_1002)),
        ] {
            let (got, rip) = resumed(&registers(rax, 232));
            assert_eq!((got.cast_signed(), rip), expected, "{rax}");
        }
        // Not in a system call: the number in rax is the program's own.
        assert_eq!(resumed(&registers(-512, -1)), ((-512_i64).cast_unsigned(), 0x40_1002));
    }

    #[test]
    fn the_code_reads_as_meant() {
        let Injected { bytes: code, waiting, last } =
            assemble(&ATTACH, 0x1000, &registers(7, -1), 0x55);
        let data = attach::SLOTS;
        let text = listing(&code, data);
        let position = |line: &str| {
            text.iter()
                .position(|(_, other)| other == line)
                .unwrap_or_else(|| panic!("{line}: {text:?}"))
        };
        assert_eq!(text.iter().filter(|(_, line)| *line == "syscall").count(), 3, "{text:?}");
        assert_eq!(position("lea rsi,[FFFFFFFFFFFFFFFFh]"), 1, "all signals");
        assert!(position("jmp qword [7F0000001612h]") < position("popf"));
        assert!(position("lea rsp,[246h]") + 1 == position("popf"), "the flags");
        assert!(position("popf") < position("mov rsp,[7FFD00001238h]"));
        assert!(position("mov rsp,[7FFD00001238h]") < position("lea rsi,[55h]"), "the mask");
        assert!(position("lea rsi,[55h]") < position("mov r15,[Fh]"));
        assert_eq!(position("mov r15,[Fh]") + 1, position("jmp qword [401002h]"));
        // What the installer is given, and how long the thread waits.
        let word = |n: usize| u64::from_le_bytes(code[data + 8 * n..][..8].try_into().unwrap());
        assert_eq!((word(4), word(5)), (0, PAUSE_US));
        let params = size_of::<InjectedSlots>() / 8;
        assert_eq!([0, 1, 2].map(|n| word(params + n)), [waiting.start, 77, 5]);
        let range = |place: &Range<u64>| -> Vec<&str> {
            let there = text.iter().filter(|(at, _)| place.contains(at));
            there.map(|(_, line)| line.as_str()).collect()
        };
        let wait = range(&waiting);
        assert_eq!((wait[0], wait[5], wait[9]), ("mov ebx,32h", "lea r8,[0h]", "dec ebx"));
        let again = format!("jne short {:016X}h", waiting.start + 5);
        assert_eq!(wait[10..], [again.as_str()]);
        assert_eq!(position("lea rsp,[246h]"), position("mov ebx,32h") + wait.len());
        // A signal comes behind the last call, where only registers are missing.
        let rest = range(&last);
        let before = text.iter().position(|(at, _)| *at == last.start).unwrap() - 1;
        assert_eq!(text[before].1, "syscall");
        let (jump, loads) = rest.split_last().unwrap();
        assert_eq!(loads.len(), 15);
        assert!(loads.iter().all(|line| line.starts_with("mov ")), "{rest:?}");
        assert!(jump.starts_with("jmp qword"), "{rest:?}");
    }

    #[test]
    fn unmapping_leaves_every_register_as_it_was() {
        let ranges = vec![(0x10_0000, 0x2000), (0x20_0000, 0x3000)];
        let code = assemble(&Work::Unmap(ranges), 0, &registers(7, -1), 0).bytes;
        let text = listing(&code, unmap::SLOTS);
        for line in ["lea rbx,[100000h]", "mov rbx,[3h]", "mov rax,[7h]"] {
            assert!(text.iter().any(|(_, other)| other == line), "{line}: {text:?}");
        }
        let ranges = &code[unmap::SLOTS + size_of::<InjectedSlots>()..];
        let words = ranges.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        assert_eq!(words.collect::<Vec<_>>(), [0x10_0000, 0x2000, 0x20_0000, 0x3000, 0]);
    }
}
