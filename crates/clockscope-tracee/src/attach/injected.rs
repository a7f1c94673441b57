//! The instructions that a thread of a running process is made to execute, and what they are given.
//!
//! They stand in the unused end of the kernel's own vDSO page and are started by one change of
//! registers. They block all signals, do their work with registers and a stack of ours only, put
//! the signals back, then every register, and go on where the thread was: all without the tracer.
//!
//! When the work is done they wait for the tracer for a while. It stops the thread there and puts signals
//! and registers back as they were, so that the kernel itself decides how an interrupted system call
//! goes on. If it is dead, the instructions restart that call as the kernel would if no signal has come.

use std::ops::Range;

use vdso_image::layout::{
    AttachParams, CONFIG_OFFSET, INSTALL_MARK, LIVE_OFFSET, PAGE, SHARED_OFFSET, THREADS_OFFSET,
    THREADS_SIZE, TOTAL_SIZE, TRAMPOLINE_OFFSET,
};

use super::seccomp::Call;
use clockscope_sys::ptrace::Registers;

const SYS_RT_SIGPROCMASK: u32 = 14;
const SYS_SELECT: u32 = 23;
const SYS_MUNMAP: u32 = 11;
const SYS_MMAP: u32 = 9;
const SYS_RESTART_SYSCALL: u64 = 219;
const SIG_SETMASK: u32 = 2;
const PROT_READ_EXECUTE: u32 = 1 | 4;
/// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE`; Linux before 4.17 takes the address for a wish.
const MAP_PRIVATE_THERE: u32 = 0x02 | 0x20 | 0x10_0000;

/// What the kernel leaves in `rax` of an interrupted system call: include/linux/errno.h (Linux 6.18).
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Maps private memory for the image, which the tracer writes then.
    Map {
        /// The address.
        at: u64,
        /// System V id of the shared pages that the image's installer will attach.
        shared_id: u64,
        /// The same of the page with what the tracer changes.
        live_id: u64,
    },
    /// Runs the installer of the image.
    Attach {
        /// The image's address.
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

/// How often the thread sleeps for [`PAUSE_US`] before it goes on without the tracer: a twentieth of a
/// second, however busy the machine is.
///
/// By `select`, because the kernel keeps nothing of a `select` that is interrupted. Of `nanosleep`,
/// `poll` or `futex` it keeps how to go on (`restart_block`), in the place where that of the
/// program's own interrupted call stands: kernel/time/hrtimer.c, fs/select.c (Linux 6.18).
const WAITS: u32 = 50;
/// Microseconds.
const PAUSE_US: u64 = 1000;

/// The code, and where in it the thread waits for the tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Injected {
    /// The bytes.
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
#[must_use]
pub(super) fn assemble(work: &Work, at: u64, registers: &Registers, mask: u64) -> Injected {
    let mut code = Assembly { bytes: Vec::with_capacity(512), fixes: Vec::new() };
    code.set_mask(Data::AllSignals);
    match work {
        Work::Map { at: image, .. } => {
            code.load(RDI, *image);
            code.load(RSI, TOTAL_SIZE as u64);
            code.load(RDX, u64::from(PROT_READ_EXECUTE));
            code.load(R10, u64::from(MAP_PRIVATE_THERE));
            code.load(R8, u64::MAX);
            code.marked_call(SYS_MMAP);
        }
        Work::Attach { at: image, attach_offset, .. } => {
            code.address(RDI, Data::Params);
            code.load(RAX, image + u64::from(*attach_offset));
            code.bytes.extend([0xff, 0xe0]); // jmp rax: it comes back by the parameters
        }
        Work::Unmap(ranges) => {
            for (address, size) in ranges {
                code.load(RDI, *address);
                code.load(RSI, *size);
                code.marked_call(SYS_MUNMAP);
            }
        }
    }
    let back = at + code.bytes.len() as u64;
    code.wait();
    let waiting = back..at + code.bytes.len() as u64;
    let mask_is_back = code.restore(registers);
    let last = at + mask_is_back as u64..at + code.bytes.len() as u64;
    let (shared_id, process) = match work {
        Work::Attach { shared_id, process, .. } => (*shared_id, *process),
        Work::Map { .. } | Work::Unmap(_) => (0, 0),
    };
    let params = AttachParams { return_to: back, shared_id, process };
    let flags = registers.eflags & !TRAP_FLAG;
    let words = [u64::MAX, mask, flags, resumed(registers).1, 0, PAUSE_US];
    let bytes = code.finish(words, params);
    Injected { bytes, waiting, last }
}

/// The system calls that this work makes, as a filter sees them, and the one that undoes it.
#[must_use]
pub(super) fn calls(work: &Work, at: u64) -> Vec<Call> {
    let call = |name, number, arguments: [u64; 5]| {
        let [a, b, c, d, e] = arguments;
        Call { name, number, at, arguments: [a, b, c, d, e, INSTALL_MARK] }
    };
    let size = |bytes: usize| bytes as u64;
    let mut calls = vec![
        call("rt_sigprocmask", SYS_RT_SIGPROCMASK, [SIG_SETMASK.into(), at, 0, 8, 0]),
        call("select", SYS_SELECT, [0, 0, 0, 0, at]),
    ];
    match work {
        // All that the installer will do, too: nothing is begun that a filter would end.
        Work::Map { at: base, shared_id, live_id } => {
            let in_image = |offset: usize| base + offset as u64;
            let private = size(THREADS_OFFSET + THREADS_SIZE - CONFIG_OFFSET);
            let there = MAP_PRIVATE_THERE.into();
            calls.extend([
                call(
                    "mmap",
                    9,
                    [*base, size(TOTAL_SIZE), PROT_READ_EXECUTE.into(), there, u64::MAX],
                ),
                call("mmap", 9, [in_image(CONFIG_OFFSET), private, 3, 0x32, u64::MAX]),
                call("shmat", 30, [*shared_id, in_image(SHARED_OFFSET), 0o40_000, 0, 0]),
                call("shmat", 30, [*live_id, in_image(LIVE_OFFSET), 0o50_000, 0, 0]),
                call("madvise", 28, [in_image(THREADS_OFFSET), size(THREADS_SIZE), 18, 0, 0]),
                call("mmap", 9, [in_image(TRAMPOLINE_OFFSET), size(PAGE), 5, 0x32, u64::MAX]),
                call("mprotect", 10, [in_image(CONFIG_OFFSET), size(PAGE), 1, 0, 0]),
                call("munmap", 11, [*base, size(TOTAL_SIZE), 0, 0, 0]),
            ]);
        }
        Work::Attach { .. } => {}
        Work::Unmap(ranges) => {
            calls.extend(ranges.iter().map(|(at, size)| call("munmap", 11, [*at, *size, 0, 0, 0])));
        }
    }
    calls
}

/// `TF`: a debugger's single step, not the program's.
const TRAP_FLAG: u64 = 0x100;

/// `rax` and `rip` of a thread that goes on after an interrupted system call, if the kernel finds no
/// signal for it: `arch_do_signal_or_restart` in arch/x86/kernel/signal.c (Linux 6.18).
#[must_use]
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

/// Words behind the code, in this order; then the parameters.
#[derive(Clone, Copy)]
enum Data {
    AllSignals,
    Mask,
    Flags,
    Resume,
    /// `struct timeval`, of two words.
    Pause,
    Params = 6,
}

/// Numbers of registers in instructions.
const RAX: u8 = 0;
const RDX: u8 = 2;
const RSP: u8 = 4;
const RSI: u8 = 6;
const RDI: u8 = 7;
const R8: u8 = 8;
const R9: u8 = 9;
const R10: u8 = 10;

struct Assembly {
    bytes: Vec<u8>,
    /// Where a distance to a word of data goes.
    fixes: Vec<(usize, Data)>,
}

impl Assembly {
    /// `mov register, value`; changes no flags.
    fn load(&mut self, register: u8, value: u64) {
        self.bytes.extend([0x48 | register >> 3, 0xb8 | register & 7]);
        self.bytes.extend(value.to_le_bytes());
    }

    /// `lea register, [rip + data]`, of the first eight registers.
    fn address(&mut self, register: u8, data: Data) {
        self.bytes.extend([0x48, 0x8d, 0x05 | register << 3]);
        self.reference(data);
    }

    fn reference(&mut self, data: Data) {
        self.fixes.push((self.bytes.len(), data));
        self.bytes.extend([0; 4]);
    }

    /// `mov eax, number; mov r9, mark; syscall`.
    fn marked_call(&mut self, number: u32) {
        self.load(R9, INSTALL_MARK);
        self.bytes.push(0xb8);
        self.bytes.extend(number.to_le_bytes());
        self.bytes.extend([0x0f, 0x05]);
    }

    /// `mov ebx, n; again: select(0, NULL, NULL, NULL, pause); dec ebx; jnz again`. The kernel cannot
    /// write the rest of the time into the page, which it takes as that.
    fn wait(&mut self) {
        self.bytes.push(0xbb);
        self.bytes.extend(WAITS.to_le_bytes());
        let again = self.bytes.len();
        self.bytes.extend([0x31, 0xff, 0x31, 0xf6, 0x31, 0xd2, 0x45, 0x31, 0xd2]); // edi, esi, edx, r10d
        self.bytes.extend([0x4c, 0x8d, 0x05]); // lea r8, [rip + pause]
        self.reference(Data::Pause);
        self.marked_call(SYS_SELECT);
        self.bytes.extend([0xff, 0xcb, 0x75]);
        let distance = u8::try_from(self.bytes.len() + 1 - again).unwrap_or(0);
        self.bytes.push(distance.wrapping_neg());
    }

    fn set_mask(&mut self, set: Data) {
        self.bytes.push(0xbf); // mov edi
        self.bytes.extend(SIG_SETMASK.to_le_bytes());
        self.address(RSI, set);
        self.bytes.extend([0xba, 0, 0, 0, 0]); // mov edx, 0
        self.load(R10, 8);
        self.marked_call(SYS_RT_SIGPROCMASK);
    }

    /// Flags and stack pointer, then the signals, then all other registers, none of which changes a
    /// flag; last the jump. Gives where the signals are back.
    fn restore(&mut self, registers: &Registers) -> usize {
        self.address(RSP, Data::Flags);
        self.bytes.push(0x9d); // popfq: reads, so that the page need not be writable
        self.load(RSP, registers.rsp);
        self.set_mask(Data::Mask);
        let mask_is_back = self.bytes.len();
        let r = registers;
        let (rax, _) = resumed(r);
        let values = [rax, r.rcx, r.rdx, r.rbx, r.rbp, r.rsi, r.rdi];
        for (register, value) in [0, 1, 2, 3, 5, 6, 7].into_iter().zip(values) {
            self.load(register, value);
        }
        let values = [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15];
        for (register, value) in (8..16).zip(values) {
            self.load(register, value);
        }
        self.bytes.extend([0xff, 0x25]); // jmp [rip + data]
        self.reference(Data::Resume);
        mask_is_back
    }

    fn finish(mut self, words: [u64; 6], params: AttachParams) -> Vec<u8> {
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0xcc);
        }
        let data = self.bytes.len();
        for (at, what) in std::mem::take(&mut self.fixes) {
            let distance = u32::try_from(data + 8 * what as usize - (at + 4)).unwrap_or(0);
            self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        let AttachParams { return_to, shared_id, process } = params;
        for word in words.into_iter().chain([return_to, shared_id, process]) {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};

    fn registers(rax: i64, orig_rax: i64) -> Registers {
        let mut registers = clockscope_sys::ptrace::no_registers();
        registers.rax = rax.cast_unsigned();
        registers.orig_rax = orig_rax.cast_unsigned();
        registers.rip = 0x40_1002;
        registers.rsp = 0x7ffd_0000_1238;
        registers.r15 = 15;
        registers.rbx = 3;
        registers.eflags = 0x246;
        registers
    }

    fn listing(code: &[u8]) -> Vec<String> {
        let mut formatter = NasmFormatter::new();
        Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE)
            .iter()
            .map(|instruction| {
                let mut line = String::new();
                formatter.format(&instruction, &mut line);
                line
            })
            .collect()
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
        let text = listing(&code);
        let position = |line: &str| {
            text.iter()
                .position(|other| other == line)
                .unwrap_or_else(|| panic!("{line}: {text:?}"))
        };
        assert_eq!(text.iter().filter(|line| *line == "syscall").count(), 3, "{text:?}");
        assert!(position("mov rax,7F0000001612h") < position("jmp rax"));
        assert!(position("jmp rax") < position("popf"));
        assert!(position("popf") < position("mov rsp,7FFD00001238h"));
        assert!(position("mov rsp,7FFD00001238h") < position("mov r15,0Fh"));
        // The words behind the code are where the code looks for them.
        let data = code.len() - 9 * 8;
        let word = |n: usize| u64::from_le_bytes(code[data + 8 * n..][..8].try_into().unwrap());
        assert_eq!([word(0), word(1), word(2), word(3)], [u64::MAX, 0x55, 0x246, 0x40_1002]);
        assert_eq!((word(4), word(5)), (0, PAUSE_US));
        assert_eq!((word(7), word(8)), (77, 5));
        let resume = format!("jmp qword [rel {:X}h]", 0x1000 + data + 24);
        position(&resume);
        let back = usize::try_from(word(6) - 0x1000).unwrap();
        assert_eq!(word(6), waiting.start);
        let wait = listing(&code[back..usize::try_from(waiting.end - 0x1000).unwrap()]);
        assert_eq!(wait[0], "mov ebx,32h");
        let pause = format!("lea r8,[rel {:X}h]", 0x1000 + data + 32 - back);
        assert!(wait.contains(&pause), "{pause}: {wait:?}");
        assert_eq!(wait[9..], ["dec ebx", "jne short 0000000000001005h"], "{wait:?}");
        let behind = usize::try_from(waiting.end - 0x1000).unwrap();
        assert_eq!(listing(&code[behind..])[1], "popf");
        // A signal comes behind the last call, where only registers are missing.
        let offset = |address: u64| usize::try_from(address - 0x1000).unwrap();
        let before = listing(&code[..offset(last.start)]);
        assert_eq!(before.last().map(String::as_str), Some("syscall"));
        let rest = listing(&code[offset(last.start)..offset(last.end)]);
        let (jump, loads) = rest.split_last().unwrap();
        assert!(loads.iter().all(|line| line.starts_with("mov ")), "{rest:?}");
        assert!(jump.starts_with("jmp qword"), "{rest:?}");
    }

    #[test]
    fn unmapping_leaves_every_register_as_it_was() {
        let code = assemble(&Work::Unmap(vec![(0x10_0000, 0x2000)]), 0, &registers(7, -1), 0);
        let text = listing(&code.bytes);
        for line in ["mov rdi,100000h", "mov rsi,2000h", "mov rbx,3", "mov rax,7"] {
            assert!(text.iter().any(|other| other == line), "{line}: {text:?}");
        }
    }
}
