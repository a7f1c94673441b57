//! Generates the code that counts.
//!
//! An *area* of memory begins with the head: pointers, and code that all stubs share. Behind the head are the stubs,
//! one per site: the displaced instructions, the count, and a jump back. A count adds one to a word of a table. A
//! process with one thread has a part of the table to itself: a word holds the part's address, and a single instruction
//! without a lock adds one. If that word is zero, the thread adds with a lock to one of the [`SHARDS`] shared parts.
//! The stack pointer selects the shard, so that threads rarely contend for a cache line. Stubs preserve the flags,
//! because `syscall` does and some compilers rely on it. Stubs use no stack, because a thread may make calls with an
//! invalid stack pointer.
//!
//! Calls that make memory executable are noted in words of the table, so that the tracer knows when to look at the
//! program's mappings. Stubs make no system call, with one exception: before a dynamic loader protects data for the
//! first time, it has mapped all libraries, and no code of the program has run. If the tracer has asked for it, the
//! thread then sends itself the signal [`NOTICE`], once. The tracer suppresses the signal. If the tracer dies before, the
//! signal is ignored, as by default.
//!
//! # References
//!
//! `entry_SYSCALL_64` in `arch/x86/entry/entry_64.S` (Linux 6.18): the registers that `syscall` preserves. `LAHF` and
//! `SAHF` in volume 2 of Intel's manual.

mod leaving;
mod made;
mod timing;

use std::rc::Rc;
use std::sync::OnceLock;

use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, dword_ptr, eax, edi, edx, esi, qword_ptr, r9, r11, r11d, rax, rcx,
    rdi, rdx, rsi,
};
use iced_x86::{BlockEncoderOptions, IcedError};

use vdso_image::layout::{INSTALL_NOTICE as NOTICE, SITE_SHARDS as SHARDS, SITE_WORDS as WORDS};

use crate::find::{LOOKED_AT, SYS_MMAP, SYS_MPROTECT};
use crate::site::{CALL, COMPARE, Calls, JUMP, NUMBERS, Read, Site};

use made::{Behind, Made};

pub use leaving::{Settled, Thread};
pub use timing::FIRST;

/// The word for all other numbers.
pub const OTHERS: usize = NUMBERS;
/// The word that counts how often a file was mapped as executable.
pub const MAPPED: usize = NUMBERS + 1;
/// The word that counts how often memory without a file was made executable. It is `MAP_ANONYMOUS` bytes behind the
/// other.
pub const MADE_CODE: usize = MAPPED + 0x20 / 8;
/// Calls at sites where errors are counted.
pub const SEEN: usize = 0;
/// Calls at sites where errors are not seen.
pub const UNSEEN: usize = 1;
/// Calls at sites where errors are counted and some calls are timed.
pub const TIMED: usize = 2;
/// The least [`TIMED`] count at which the next call is timed.
pub const NEXT: usize = 3;
/// Calls that returned an error.
pub const ERRORS: usize = 4;
/// Bytes of a part.
const PART: usize = 8 * WORDS;

/// The parameters of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Address of the table of counts in the process.
    pub table: u64,
    /// Address of the tracer's robust futex: its thread id; 0, or with bit 30 set, if no tracer lives.
    pub alive: u64,
    /// The value in `r9` of system calls that clockscope's code makes.
    pub mark: u64,
    /// Address of a word with the address of the process's own part of the table, or 0.
    pub own: u64,
    /// Address of eight zeroed words of the process. The first is not zero if the thread must send itself the signal once
    /// the loader has mapped all libraries; the others hold registers meanwhile.
    pub loading: u64,
    /// Address of zeroed, writable places for timed calls.
    pub places: u64,
    /// Address of a word that is not zero if the code must not read the counter.
    pub no_timing: u64,
    /// Whether calls are timed.
    pub times: bool,
}

impl Head {
    /// Table and mark from the first words of an area; meaningless for other memory.
    pub fn table_and_mark(words: &[u64; 3]) -> (u64, u64) {
        (words[0], words[2])
    }
}

/// A jump to a stub, or a call of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Address of the jump in the process.
    pub at: u64,
    /// The jump.
    pub bytes: [u8; JUMP],
    /// The program's bytes at that address.
    pub original: [u8; JUMP],
}

/// Bytes to write into the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Address in the process.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The assembled head, for address 0 and without its pointers.
#[derive(Debug)]
struct Assembled {
    code: Vec<u8>,
    /// Offset of the code that sends the signal.
    tell: u64,
    timing: timing::Shared<u64>,
}

/// Number of pointers at the start of an area.
const POINTERS: usize = 6;

/// The pointers that the shared code uses.
#[derive(Clone, Copy)]
struct Pointers {
    table: CodeLabel,
    alive: CodeLabel,
    mark: CodeLabel,
    loading: CodeLabel,
    places: CodeLabel,
    no_timing: CodeLabel,
}

/// Assembles the code that all stubs of an area share.
fn assemble() -> Result<Assembled, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut pointers: [CodeLabel; POINTERS] = std::array::from_fn(|_| a.create_label());
    let mut begin = a.create_label();
    for pointer in &mut pointers {
        a.set_label(pointer)?;
        a.dq(&[0])?;
    }
    let [table, alive, mark, loading, places, no_timing] = pointers;
    let pointers = Pointers { table, alive, mark, loading, places, no_timing };
    a.set_label(&mut begin)?;
    tell(&mut a, pointers)?;
    let timing = timing::assemble(&mut a, pointers)?;
    let assembled = a.assemble_options(0, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
    let tell = assembled.label_ip(&begin)?;
    let timing = timing.resolved(|label| assembled.label_ip(label))?;
    Ok(Assembled { code: assembled.inner.code_buffer, tell, timing })
}

/// Sends the signal, if the tracer waits for it, and only once. On entry `rcx` is the return address and `r11` the
/// number of `mprotect`, as at the end. Preserves all other registers.
fn tell(a: &mut CodeAssembler, at: Pointers) -> Result<(), IcedError> {
    let mut done = a.create_label();
    let registers = [rcx, rax, rdi, rsi, rdx, r9];
    let place = |index: i32| qword_ptr(r11 + 8 * index);
    a.mov(r11, qword_ptr(at.loading))?;
    a.cmp(dword_ptr(r11), 0)?;
    a.je(done)?;
    a.mov(dword_ptr(r11), 0)?;
    for (index, register) in (1..).zip(registers) {
        a.mov(place(index), register)?;
    }
    a.mov(r9, qword_ptr(at.mark))?;
    // getpid(2) and tgkill(2) by the only thread, whose id is that of the process.
    a.mov(eax, 39)?;
    a.syscall()?;
    a.mov(edi, eax)?;
    a.mov(esi, eax)?;
    a.mov(edx, NOTICE)?;
    a.mov(eax, 234)?;
    a.syscall()?;
    a.mov(r11, qword_ptr(at.loading))?;
    for (index, register) in (1..).zip(registers) {
        a.mov(register, place(index))?;
    }
    a.set_label(&mut done)?;
    a.mov(r11d, SYS_MPROTECT)?;
    a.jmp(rcx)
}

fn assembled() -> &'static Assembled {
    static HEAD: OnceLock<Assembled> = OnceLock::new();
    HEAD.get_or_init(|| assemble().expect("the instructions stand above"))
}

/// The stubs of one area.
#[derive(Clone, Debug)]
pub struct Stubs {
    base: u64,
    size: usize,
    used: usize,
    own: u64,
    times: bool,
    /// What an earlier session has written behind the head.
    earlier: Rc<[u8]>,
    /// In ascending order.
    made: Rc<Vec<Made>>,
}

impl Stubs {
    /// The stubs of an area of `size` bytes at `base`, still without sites, and the head to write there.
    pub fn new(base: u64, size: usize, head: Head) -> (Self, Write) {
        let mut bytes = assembled().code.clone();
        let pointers: [u64; POINTERS] =
            [head.table, head.alive, head.mark, head.loading, head.places, head.no_timing];
        for (at, word) in bytes.chunks_exact_mut(8).zip(pointers) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let used = bytes.len().next_multiple_of(16);
        let (earlier, made) = <_>::default();
        (
            Self { base, size, used, own: head.own, times: head.times, earlier, made },
            Write { at: base, bytes },
        )
    }

    /// The same stubs, in an area where an earlier session has left `written`. What it has written stays, because a
    /// suspended context may return to it: a stub is used again where it would be made anew byte for byte, and others are
    /// made behind.
    #[must_use]
    pub fn behind_earlier(self, written: &[u8]) -> Self {
        let end = written.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self { earlier: written[self.used.min(end)..end].into(), ..self }
    }

    /// Address of the area.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether the instruction at `address` reads the counter for timing.
    pub fn reads_counter(&self, address: u64) -> bool {
        assembled().timing.reads.iter().any(|read| self.base + read == address)
    }

    /// Whether the jump at `address` leads to a stub that counts reads of the counter.
    pub fn counts_reads(&self, address: u64) -> bool {
        let is_it = |made: &Made| made.window == address && matches!(made.calls, Calls::Counter(_));
        self.made.iter().any(is_it)
    }

    /// Whether an address lies in the area.
    pub fn holds(&self, address: u64) -> bool {
        (self.base..self.base + self.size as u64).contains(&address)
    }

    /// Makes the stubs of sites of a file that is mapped `bias` above its own addresses. Returns the code, to be
    /// written first, and the jumps; `None` if the area is full or too far away.
    pub fn add(&mut self, sites: &[Site], bias: u64) -> Option<(Write, Vec<Jump>)> {
        let (code, jumps, made) = self.make(sites, bias)?;
        let begun = self.used - assembled().code.len().next_multiple_of(16);
        let earlier = self.earlier.get(begun..).filter(|earlier| !earlier.is_empty());
        if earlier.is_some_and(|earlier| !earlier.starts_with(&code.bytes)) {
            self.used += (self.earlier.len() - begun).next_multiple_of(16);
            return self.add(sites, bias);
        }
        let used = self.used + code.bytes.len().next_multiple_of(16);
        if used > self.size {
            return None;
        }
        self.used = used;
        Rc::make_mut(&mut self.made).extend(made);
        Some((code, jumps))
    }

    fn make(&self, sites: &[Site], bias: u64) -> Option<(Write, Vec<Jump>, Vec<Made>)> {
        let at = self.base + self.used as u64;
        let mut code = Code { at, bytes: Vec::with_capacity(sites.len() * 64) };
        let mut jumps = Vec::with_capacity(sites.len());
        let mut all = Vec::with_capacity(sites.len());
        for site in sites {
            let window = site.window.wrapping_add(bias);
            let mut bytes = jump(window, code.here())?;
            bytes[0] = site.branch().unwrap_or(bytes[0]);
            jumps.push(Jump { at: window, bytes, original: *site.displaced.first_chunk()? });
            let mut made = self.stub(site, bias, &mut code)?;
            if let (Some(Behind { at, after, .. }), Some((_, compare))) = (made.behind, site.behind)
            {
                let original = *compare.first_chunk()?;
                jumps.push(Jump { at: after, bytes: jump(after, at)?, original });
            }
            made.limit = code.here();
            all.push(made);
        }
        Some((Write { at, bytes: code.bytes }, jumps, all))
    }

    /// Appends the stub of a site.
    fn stub(&self, site: &Site, bias: u64, code: &mut Code) -> Option<Made> {
        let mut made = Made::of(site, bias, code.here());
        let number = match site.calls {
            Calls::Cancellable(_) | Calls::Given(_) => {
                return self.cancellable_stub((site, made), bias, code);
            }
            Calls::Counter(read) => return self.counter_stub((site, made), read, code),
            Calls::Of(number) => word_of(number),
            Calls::OfRax => None,
        };
        if self.times
            && let Some(number) = timing::can_be(site)
        {
            return self.timed_stub((site, made), number, bias, code);
        }
        let behind = site.behind.filter(|_| number.is_some());
        let kind = if behind.is_some() { SEEN } else { UNSEEN };
        code.put(&site.displaced);
        made.keeps = Some(code.here());
        code.put(KEEP);
        self.look_at_arguments(site, code, &mut made)?;
        let if_not = code.load(OWN, self.own, IF_OWN);
        code.increment(number, &[], kind * PART)?;
        let counted = code.here();
        code.put(RESTORE);
        made.restored = code.here();
        code.jump(made.goes_on)?;
        code.close(if_not)?;
        made.shard = code.here();
        code.put(SHARD);
        code.distance(self.base)?;
        code.increment(number, &[LOCK], kind * SHARDS * PART)?;
        made.counted = [counted, code.here()];
        code.jump(counted)?;
        made.shard_ends = code.here();
        if let (Some(behind), Some(number)) = (behind, number) {
            self.look_for_errors(number, behind, bias, code, &mut made)?;
        }
        Some(made)
    }

    /// Appends the stub of a site whose reads of the counter are counted: in front of the read, which changes `rax` and
    /// `rdx`, these are free.
    fn counter_stub(
        &self,
        (site, mut made): (&Site, Made),
        read: Read,
        code: &mut Code,
    ) -> Option<Made> {
        let (before, rest) = site.displaced.split_at_checked(read.at.into())?;
        let count = |prefix: &[u8], distance: usize, code: &mut Code| {
            code.put(prefix);
            code.put(ADD_BY_RDX);
            code.word(distance + 8 * read.word)
        };
        code.put(before);
        made.keeps = Some(code.here());
        code.put(KEEP_FLAGS);
        let if_not = code.load(OWN_BY_RDX, self.own, IF_NO_OWN_BY_RDX);
        count(&[], UNSEEN * PART, code)?;
        let counted = code.here();
        code.put(RESTORE_FLAGS);
        made.restored = code.here();
        code.put(rest);
        code.jump(made.goes_on)?;
        code.close(if_not)?;
        made.shard = code.here();
        code.put(SHARD_BY_RDX);
        code.distance(self.base)?;
        count(&[LOCK], UNSEEN * SHARDS * PART, code)?;
        made.counted = [counted, code.here()];
        code.jump(counted)?;
        made.shard_ends = code.here();
        Some(made)
    }

    /// Appends code that notes a call that makes memory executable, and sends the signal before the loader protects data.
    /// `r11` is the call's number. Changes `rcx` and the flags.
    fn look_at_arguments(&self, site: &Site, code: &mut Code, made: &mut Made) -> Option<()> {
        if site.number().is_some_and(|number| !LOOKED_AT.contains(&number)) {
            return Some(());
        }
        code.put(IF_CODE);
        code.distance(self.base)?;
        code.put(&[LOCK]);
        code.put(ADD);
        code.word(8 * MAPPED)?;
        made.noted = Some(code.here());
        if site.is_of_loader {
            code.put(IF_ONLY_READ);
            code.distance(self.base + assembled().tell)?;
        }
        Some(())
    }

    /// Appends code behind a call that counts its error and compares the result as the program does.
    fn look_for_errors(
        &self,
        word: usize,
        (after, compare): (u64, [u8; COMPARE]),
        bias: u64,
        code: &mut Code,
        made: &mut Made,
    ) -> Option<()> {
        let begin = code.here();
        code.put(IF_ERROR);
        let if_error = code.open();
        let goes_on = code.here();
        code.put(&compare);
        code.jump(after.wrapping_add(bias) + COMPARE as u64)?;
        code.close(if_error)?;
        let errors = code.here();
        code.put(SHARD);
        code.distance(self.base)?;
        code.increment(Some(word), &[LOCK], ERRORS * SHARDS * PART)?;
        let counted = code.here();
        code.jump(goes_on)?;
        let with = i64::from(i32::from_le_bytes(*compare.last_chunk()?)).cast_unsigned();
        made.behind = Some(Behind {
            at: begin,
            after: after.wrapping_add(bias),
            with,
            compares: goes_on,
            errors,
            counted,
            timed: code.here(),
        });
        Some(())
    }

    /// Appends the stub of a site whose calls can be cancelled. It uses `r11` and the flags alone. A displaced `call` has
    /// pushed its return address, so the stub goes on at its target.
    fn cancellable_stub(
        &self,
        (site, mut made): (&Site, Made),
        bias: u64,
        code: &mut Code,
    ) -> Option<Made> {
        let count = |prefix: &[u8], kind: usize, code: &mut Code| match site.calls {
            Calls::Given(register) => code.count_by_r11(register, prefix, kind * PART),
            _ => {
                let word = 8 * site.number().and_then(word_of).unwrap_or(OTHERS);
                code.put(prefix);
                code.put(ADD_BY_R11);
                code.word(kind * PART + word)
            }
        };
        let end = site.end().wrapping_add(bias);
        let if_not = code.load(OWN_BY_R11, self.own, IF_NO_OWN_BY_R11);
        count(&[], UNSEEN, code)?;
        let counted = code.here();
        // The distance is behind the opcode of `call` or `jmp`, or behind that of `cmpb $0, distance(%rip)` and its operands.
        let (opcode, rest) =
            site.displaced.split_at_checked(if site.branch().is_some() { 1 } else { 2 })?;
        let (distance, rest) = rest.split_first_chunk()?;
        let target = end.wrapping_add_signed(i32::from_le_bytes(*distance).into());
        if let Some(branch) = site.branch() {
            made.is_call = branch == CALL;
            made.goes_on = target;
            code.jump(target)?;
        } else {
            made.compared = Some(target);
            code.put(opcode);
            code.distance(target.wrapping_sub(rest.len() as u64))?;
            code.put(rest);
            code.jump(end)?;
        }
        code.close(if_not)?;
        made.shard = code.here();
        code.put(SHARD_BY_R11);
        code.distance(self.base)?;
        count(&[LOCK], UNSEEN * SHARDS, code)?;
        made.counted = [counted, code.here()];
        code.jump(counted)?;
        made.shard_ends = code.here();
        Some(made)
    }
}

/// Stubs under construction.
struct Code {
    /// Address of the first of the bytes.
    at: u64,
    bytes: Vec<u8>,
}

impl Code {
    fn here(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Appends a 32-bit number.
    fn word(&mut self, word: usize) -> Option<()> {
        self.put(&u32::try_from(word).ok()?.to_le_bytes());
        Some(())
    }

    /// Appends the distance that ends an instruction, to an address.
    fn distance(&mut self, to: u64) -> Option<()> {
        self.put(&near(self.here() + 4, to)?);
        Some(())
    }

    fn jump(&mut self, to: u64) -> Option<()> {
        self.put(&jump(self.here(), to)?);
        Some(())
    }

    /// Appends the distance of a short jump forward, for [`close`](Self::close).
    fn open(&mut self) -> usize {
        self.bytes.push(0);
        self.bytes.len()
    }

    /// Lets a short jump go here.
    fn close(&mut self, open: usize) -> Option<()> {
        let distance = u8::try_from(self.bytes.len() - open).ok();
        self.bytes[open - 1] = distance.filter(|distance| *distance < 0x80)?;
        Some(())
    }

    /// Appends code that loads the address of the process's own part of the table from `own`, and jumps if it is zero.
    fn load(&mut self, from: &[u8], own: u64, if_zero: &[u8]) -> usize {
        self.put(from);
        self.put(&own.to_le_bytes());
        self.put(if_zero);
        self.open()
    }

    /// Appends an increment, at `distance` from `r11`, of the word of the number in a register (6 for `rsi`, 7 for
    /// `rdi`).
    fn count_by_r11(&mut self, register: u8, prefix: &[u8], distance: usize) -> Option<()> {
        let length = u8::try_from(prefix.len()).ok()?;
        // cmp register, NUMBERS; jae others
        self.put(&[0x48, 0x81, 0xf8 | register]);
        self.word(NUMBERS)?;
        self.put(&[0x73, length + 10]);
        self.put(prefix);
        // inc qword [r11+register*8+distance]; jmp
        self.put(&[0x49, 0xff, 0x84, 0xc3 | register << 3]);
        self.word(distance)?;
        self.put(&[0xeb, length + 7]);
        self.put(prefix);
        self.put(ADD_BY_R11);
        self.word(distance + 8 * OTHERS)
    }

    /// Appends an increment of the word of a number, or of the number in `r11`, at `distance` from `rcx`. `None` if the
    /// number has no word of its own.
    fn increment(&mut self, number: Option<usize>, prefix: &[u8], distance: usize) -> Option<()> {
        // inc qword [rcx+r11*8+distance]
        const ANY: &[u8] = &[0x4a, 0xff, 0x84, 0xd9];
        let mut put = |around: &[u8], instruction: &[u8], word: usize| {
            self.put(around);
            self.put(prefix);
            self.put(instruction);
            self.word(distance + 8 * word).filter(|()| word <= OTHERS)
        };
        if let Some(number) = number {
            return put(&[], ADD, number);
        }
        let length = |instruction: &[u8]| u8::try_from(prefix.len() + instruction.len() + 4).ok();
        // cmp r11, NUMBERS; jae others
        let [low, high] = u16::try_from(NUMBERS).ok()?.to_le_bytes();
        put(&[0x49, 0x81, 0xfb, low, high, 0, 0, 0x73, length(ANY)? + 2], ANY, 0)?;
        put(&[0xeb, length(ADD)?], ADD, OTHERS)
    }
}

/// Moves the system-call number, or the result, to `r11` and the flags to `ax`.
#[rustfmt::skip]
const KEEP: &[u8] = &[
    0x49, 0x89, 0xc3,                   // mov r11, rax
    0x9f,                               // lahf
    0x0f, 0x90, 0xc0,                   // seto al
];
/// Moves the flags to `ax`.
const KEEP_FLAGS: &[u8] = &[0x9f, 0x0f, 0x90, 0xc0];
/// Restores them.
const RESTORE_FLAGS: &[u8] = &[0x04, 0x7f, 0x9e];
/// `mov rdx, own`, without the address.
const OWN_BY_RDX: &[u8] = &[0x48, 0xba];
/// Loads the word at that address, and jumps if it is zero; without the distance.
#[rustfmt::skip]
const IF_NO_OWN_BY_RDX: &[u8] = &[
    0x48, 0x8b, 0x12,                   // mov rdx, [rdx]
    0x48, 0x85, 0xd2,                   // test rdx, rdx
    0x74,                               // je
];
/// As [`SHARD`].
#[rustfmt::skip]
const SHARD_BY_RDX: &[u8] = &[
    0x89, 0xe2,                         // mov edx, esp
    0xc1, 0xea, 11,                     // shr edx, 11
    0x81, 0xe2, 0, 0x70, 0, 0,          // and edx, 7000h
    0x48, 0x03, 0x15,                   // add rdx, [rip+table]
];
/// `inc qword [rdx+word]`, without the word.
const ADD_BY_RDX: &[u8] = &[0x48, 0xff, 0x82];
/// `mov rcx, own`, without the address.
const OWN: &[u8] = &[0x48, 0xb9];
/// Loads the word at that address, and jumps if it is zero; without the distance.
#[rustfmt::skip]
const IF_OWN: &[u8] = &[
    0x48, 0x8b, 0x09,                   // mov rcx, [rcx]
    0xe3,                               // jrcxz
];
/// Derives the offset of the thread's shard from its stack pointer: the stacks of threads are 8 MiB apart, and a part
/// has 4 KiB. The distance of the last instruction is missing.
#[rustfmt::skip]
const SHARD: &[u8] = &[
    0x89, 0xe1,                         // mov ecx, esp
    0xc1, 0xe9, 11,                     // shr ecx, 11
    0x81, 0xe1, 0, 0x70, 0, 0,          // and ecx, 7000h
    0x48, 0x03, 0x0d,                   // add rcx, [rip+table]
];
const LOCK: u8 = 0xf0;

/// `cmp rax, -4095` and a jump if the result is an error, without the distance.
const IF_ERROR: &[u8] = &[0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73];
/// `inc qword [rcx+word]`, without the word.
const ADD: &[u8] = &[0x48, 0xff, 0x81];
/// `mov r11, own`, without the address.
const OWN_BY_R11: &[u8] = &[0x49, 0xbb];
/// Loads the word at that address, and jumps if it is zero; without the distance.
#[rustfmt::skip]
const IF_NO_OWN_BY_R11: &[u8] = &[
    0x4d, 0x8b, 0x1b,                   // mov r11, [r11]
    0x4d, 0x85, 0xdb,                   // test r11, r11
    0x74,                               // je
];
/// `inc qword [r11+word]`, without the word.
const ADD_BY_R11: &[u8] = &[0x49, 0xff, 0x83];

/// As [`SHARD`].
#[rustfmt::skip]
const SHARD_BY_R11: &[u8] = &[
    0x41, 0x89, 0xe3,                   // mov r11d, esp
    0x41, 0xc1, 0xeb, 11,               // shr r11d, 11
    0x41, 0x81, 0xe3, 0, 0x70, 0, 0,    // and r11d, 7000h
    0x4c, 0x03, 0x1d,                   // add r11, [rip+table]
];

/// The word of a number, if it has one of its own.
fn word_of(number: u32) -> Option<usize> {
    usize::try_from(number).ok().filter(|number| *number < NUMBERS)
}

/// Adds `MAP_ANONYMOUS` or 0 to the address of the table if a call makes memory executable, and goes behind the note if
/// not. `mprotect` counts as if for memory without a file. The distance of the last instruction is missing.
#[rustfmt::skip]
const IF_CODE: &[u8] = &[
    0xf6, 0xc2, 4,                      // test dl, PROT_EXEC
    0x74, 40,                           // je behind the note
    0x49, 0x83, 0xfb, 9,                // cmp r11, mmap
    0x72, 34,                           // jb behind the note
    0x44, 0x89, 0xd1,                   // mov ecx, r10d
    0x74, 11,                           // je and
    0x49, 0x83, 0xfb, 10,               // cmp r11, mprotect
    0x77, 23,                           // ja behind the note
    0xb9, 0x20, 0, 0, 0,                // mov ecx, MAP_ANONYMOUS
    0x83, 0xe1, 0x20,                   // and ecx, MAP_ANONYMOUS
    0x48, 0x03, 0x0d,                   // add rcx, [rip+table]
];
const _: () = assert!(SYS_MMAP == 9 && SYS_MPROTECT == 10);
/// Sends the signal if `mprotect` allows reading only, without the distance.
#[rustfmt::skip]
const IF_ONLY_READ: &[u8] = &[
    0x83, 0xfa, 1,                      // cmp edx, PROT_READ
    0x75, 12,                           // jne behind the jump
    0x48, 0x8d, 0x0d, 5, 0, 0, 0,       // lea rcx, [rip+5]
    0xe9,                               // jmp tell
];
/// Restores the flags, and moves `r11` back to `rax`.
#[rustfmt::skip]
const RESTORE: &[u8] = &[
    0x04, 0x7f,                         // add al, 7fh
    0x9e,                               // sahf
    0x4c, 0x89, 0xd8,                   // mov rax, r11
];

/// A 32-bit distance from the end of an instruction to `to`.
fn near(behind: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(behind).cast_signed()).ok().map(i32::to_le_bytes)
}

fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    let [a, b, c, d] = near(from + JUMP as u64, to)?;
    Some([0xe9, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use iced_x86::{
        Decoder, DecoderOptions, Formatter as _, Instruction, Mnemonic, NasmFormatter, Register,
    };

    use super::*;

    pub(super) const BASE: u64 = 0x10_0000;
    pub(super) const HEAD: Head = Head {
        table: 0x7000_0000_0000,
        alive: 0x7000_0001_0000,
        mark: 0x6d61_726b,
        own: 0x7000_0002_0000,
        loading: 0x7000_0003_0000,
        places: 0x7000_0004_0000,
        no_timing: 0x7000_0005_0000,
        times: false,
    };

    fn disassembled(bytes: &[u8], at: u64) -> Vec<String> {
        let mut formatter = NasmFormatter::new();
        let mut text = |instruction: &Instruction| {
            let mut line = String::new();
            formatter.format(instruction, &mut line);
            line
        };
        Decoder::with_ip(64, bytes, at, DecoderOptions::NONE)
            .iter()
            .map(|found| text(&found))
            .collect()
    }

    pub(super) fn site(displaced: &[u8], calls: Calls) -> Site {
        let displaced = displaced.to_vec();
        let (is_several, is_of_loader) = (false, calls == Calls::Of(SYS_MPROTECT));
        Site { window: 0x1000, displaced, is_several, calls, behind: None, is_of_loader }
    }

    /// The site of `mov eax,NUMBER; syscall; cmp rax,-4096`, where errors are seen.
    pub(super) fn compared(number: u32) -> Site {
        let [a, b, c, d] = number.to_le_bytes();
        let behind = Some((0x1007, [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff]));
        Site { behind, ..site(&[0xb8, a, b, c, d], Calls::Of(number)) }
    }

    fn stub(site: Site, bias: u64) -> (Vec<String>, Vec<String>) {
        stub_of(HEAD, site, bias)
    }

    fn stub_of(head: Head, site: Site, bias: u64) -> (Vec<String>, Vec<String>) {
        let (mut stubs, head) = Stubs::new(BASE, 1 << 20, head);
        assert_eq!(head.bytes[..8], HEAD.table.to_le_bytes());
        let (code, jumps) = stubs.add(&[site], bias).expect("room");
        let code = disassembled(&code.bytes, code.at);
        (code, jumps.iter().flat_map(|jump| disassembled(&jump.bytes, jump.at)).collect())
    }

    #[test]
    fn a_stub_executes_counts_with_all_kept_and_goes_to_the_call() {
        let getppid = [0xb8, 110, 0, 0, 0];
        let (code, jumps) = stub(site(&getppid, Calls::Of(110)), 0x40_0000);
        // Terms: bytes of the instructions before.
        let (stubs, _) = Stubs::new(BASE, 1 << 20, HEAD);
        let (table, first) = (BASE, BASE + stubs.used as u64);
        let (counted, locked) =
            (first + 5 + 7 + 10 + 3 + 2 + 7, first + 5 + 7 + 10 + 3 + 2 + 7 + 11);
        let expected = [
            "mov eax,6Eh".to_owned(),
            "mov r11,rax".to_owned(),
            "lahf".to_owned(),
            "seto al".to_owned(),
            "mov rcx,700000020000h".to_owned(),
            "mov rcx,[rcx]".to_owned(),
            format!("jrcxz {locked:016X}h"),
            "inc qword [rcx+1370h]".to_owned(),
            "add al,7Fh".to_owned(),
            "sahf".to_owned(),
            "mov rax,r11".to_owned(),
            "jmp 0000000000401005h".to_owned(),
            "mov ecx,esp".to_owned(),
            "shr ecx,0Bh".to_owned(),
            "and ecx,7000h".to_owned(),
            format!("add rcx,[rel {table:X}h]"),
            "lock inc qword [rcx+8370h]".to_owned(),
            format!("jmp {counted:016X}h"),
        ];
        assert_eq!(code, expected);
        assert!(jumps.len() == 1 && jumps[0].starts_with("jmp 00000000001"), "{jumps:?}");
    }

    #[test]
    fn what_a_call_returns_is_looked_at_behind_it() {
        let (code, jumps) = stub(compared(110), 0x40_0000);
        assert!(code.iter().any(|line| line == "inc qword [rcx+370h]"), "{code:#?}");
        assert!(code.iter().any(|line| line == "lock inc qword [rcx+370h]"), "{code:#?}");
        assert_eq!(jumps.len(), 2);
        let at =
            code.iter().position(|line| line.contains("0FFFFFFFFFFFFF001h")).expect("a compare");
        assert!(code[at + 1].starts_with("jae short"), "{code:#?}");
        assert_eq!(code[at + 2], "cmp rax,0FFFFFFFFFFFFF000h");
        assert_eq!(code[at + 3], "jmp 000000000040100Dh");
        assert_eq!(code[at + 8], "lock inc qword [rcx+20370h]");
        assert!(code[at + 9].starts_with("jmp 00000000001"), "{code:#?}");
        assert_eq!(code.len(), at + 10);
    }

    #[test]
    fn a_call_that_may_be_timed_leaves_the_carry_flag_to_what_is_behind_it() {
        let timed = Head { times: true, ..HEAD };
        let (code, jumps) = stub_of(timed, compared(110), 0x40_0000);
        assert_eq!(jumps.len(), 2);
        let at = |line: &str| code.iter().position(|one| one == line).expect(line);
        // The call is counted, compared with the next call to be timed, and made.
        let counted = at("inc qword [rcx+2370h]");
        assert_eq!(code[counted + 1], "mov rax,[rcx+2370h]");
        assert_eq!(code[counted + 2], "cmp rax,[rcx+3370h]");
        assert!(code[counted + 3].starts_with("jae short"), "{code:#?}");
        let clear = counted + 4;
        let to_the_call = ["clc", "mov eax,6Eh", "jmp 0000000000401005h"];
        assert_eq!(code[clear..clear + 3], to_the_call);
        // All paths go on at the same address; the carry flag holds the decision.
        let locked = at("lock inc qword [rcx+10370h]");
        assert_eq!(code[locked + 2], "cmp rax,[rcx+18370h]");
        assert!(code[locked + 3].starts_with("jb near"), "{code:#?}");
        let goes_on: Vec<&String> =
            code[..locked + 6].iter().filter(|line| line.starts_with("lea r11")).collect();
        assert_eq!(goes_on.len(), 2);
        assert_eq!(goes_on[0], goes_on[1]);
        // Behind the call the carry flag is checked, then the result; no other code differs.
        let looked =
            code.iter().position(|one| one.starts_with("jb near") && one != &code[locked + 3]);
        let looked = looked.expect("a look at the flag");
        assert_eq!(code[looked + 1], "cmp rax,0FFFFFFFFFFFFF001h");
        assert_eq!(code[looked + 3], "cmp rax,0FFFFFFFFFFFFF000h");
        assert_eq!(code[looked + 4], "jmp 000000000040100Dh");
        // A call is not timed if nothing compares its result, or if it creates a process.
        let unseen = Site { behind: None, ..compared(110) };
        for site in [unseen, compared(57)] {
            let (code, _) = stub_of(timed, site, 0x40_0000);
            assert!(!code.iter().any(|line| line == "clc"), "{code:#?}");
        }
    }

    /// A stub where threads may be cancelled uses no register but `r11`.
    #[test]
    fn a_call_that_can_be_cancelled_is_counted_where_only_r11_is_free() {
        // call 1105h; and cmp byte [rel 1107h],0.
        let call = [0xe8, 0, 1, 0, 0];
        let compare = [0x80, 0x3d, 0, 1, 0, 0, 0];
        for (bytes, first, goes_on) in [
            (&call[..], "call ", "jmp 0000000000401105h"),
            (&compare[..], "jmp ", "cmp byte [rel 401107h],0"),
        ] {
            let (code, jumps) = stub(site(bytes, Calls::Cancellable(7)), 0x40_0000);
            assert!(jumps[0].starts_with(first), "{jumps:?}");
            let at = code.iter().position(|line| line == "inc qword [r11+1038h]");
            assert_eq!(code[at.expect("a count") + 1], goes_on, "{code:#?}");
            assert!(code.iter().any(|line| line == "lock inc qword [r11+8038h]"), "{code:#?}");
            let uses_others = |line: &String| {
                line.contains("rcx") || line.contains("rax") || line.contains("ecx")
            };
            assert!(!code.iter().any(uses_others), "{code:#?}");
        }
    }

    /// The number is in a register, in the table or one of the others.
    #[test]
    fn a_call_of_a_function_that_is_given_the_number_is_counted_by_it() {
        for (opcode, jumps_by) in [(0xe8, "call "), (0xe9, "jmp ")] {
            let (code, jumps) = stub(site(&[opcode, 0, 1, 0, 0], Calls::Given(7)), 0x40_0000);
            assert!(jumps[0].starts_with(jumps_by), "{jumps:?}");
            let at = |line: &str| code.iter().position(|one| one == line).expect(line);
            for line in ["je short", "mov r11,700000020000h"] {
                assert!(code.iter().any(|one| one.starts_with(line)), "{code:#?}");
            }
            let own = at("inc qword [r11+rdi*8+1000h]");
            assert_eq!(code[own - 2], format!("cmp rdi,{NUMBERS:X}h"));
            assert_eq!(code[own + 2], format!("inc qword [r11+{:X}h]", 0x1000 + 8 * OTHERS));
            assert_eq!(code[own + 3], "jmp 0000000000401105h");
            at("lock inc qword [r11+rdi*8+8000h]");
        }
    }

    /// Representatives of all 2^32 numbers: each is counted in its own word or in the word for all other numbers. No
    /// other word of the table is changed.
    #[test]
    fn every_number_is_in_the_table_or_one_of_the_others() {
        let first = u32::try_from(NUMBERS).expect("small");
        let mut classes = vec![0, 1, 110, 511, 512, 513, 600, 0x4000_0000 | first];
        classes.extend(first - 2..first + 20);
        classes.extend([u32::MAX - first + 1, u32::MAX - 1, u32::MAX]);
        classes.extend([13, 16, 30, 31].into_iter().flat_map(|bit| [(1 << bit) - 1, 1 << bit]));
        for (number, times) in classes.iter().flat_map(|number| [(*number, false), (*number, true)])
        {
            let (mut stubs, _) = Stubs::new(BASE, 1 << 20, Head { times, ..HEAD });
            let (code, _) = stubs.add(&[compared(number)], 0).expect("room");
            let code = Decoder::with_ip(64, &code.bytes, code.at, DecoderOptions::NONE);
            let counts = code.into_iter().filter(|one| one.mnemonic() == Mnemonic::Inc);
            let mut words = Vec::new();
            for one in counts {
                assert_eq!(one.memory_base(), Register::RCX, "{number:#x}");
                let distance = usize::try_from(one.memory_displacement64()).expect("small");
                let parts = vdso_image::layout::SITE_KINDS * SHARDS * PART;
                assert!(distance < parts, "{number:#x} {distance:#x}");
                let is_any = one.memory_index() == Register::R11;
                assert!(is_any || one.memory_index() == Register::None, "{number:#x}");
                words.push(if is_any { 0 } else { distance % PART / 8 });
            }
            let wanted = usize::try_from(number).expect("fits");
            let allowed = if wanted < NUMBERS { vec![wanted] } else { vec![0, OTHERS] };
            assert!(words.iter().all(|word| allowed.contains(word)), "{number:#x} {words:?}");
            assert!(words.len() >= 2, "{number:#x} {words:?}");
        }
    }

    #[test]
    fn numbers_that_are_not_known_are_told_apart_where_there_are_words() {
        let indirect = [0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7];
        let (code, _) = stub(site(&indirect, Calls::OfRax), 0);
        let compares = format!("cmp r11,{NUMBERS:X}h");
        let compared: Vec<usize> = (0..code.len()).filter(|at| code[*at] == compares).collect();
        assert_eq!(compared.len(), 2, "{code:#?}");
        for (at, lock, unseen) in [(compared[0], "", 0x1000), (compared[1], "lock ", 0x8000)] {
            assert!(code[at + 1].starts_with("jae short"), "{code:#?}");
            assert_eq!(code[at + 2], format!("{lock}inc qword [rcx+r11*8+{unseen:X}h]"));
            assert!(code[at + 3].starts_with("jmp short"), "{code:#?}");
            let others = unseen + 8 * OTHERS;
            assert_eq!(code[at + 4], format!("{lock}inc qword [rcx+{others:X}h]"));
        }
    }

    /// Calls that make memory executable are noted by what they map, and none goes into the middle of an instruction.
    #[test]
    fn a_call_that_brings_code_is_noted_in_front_of_its_count() {
        let indirect = [0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7];
        let sites = [compared(9), compared(10), site(&indirect, Calls::OfRax)];
        let timed = [false, true].map(|times| Head { times, ..HEAD });
        for (site, head) in sites.iter().flat_map(|site| timed.map(|head| (site, head))) {
            let (mut stubs, _) = Stubs::new(BASE, 1 << 20, head);
            let (code, _) = stubs.add(std::slice::from_ref(site), 0).expect("room");
            let all: Vec<_> = Decoder::with_ip(64, &code.bytes, code.at, DecoderOptions::NONE)
                .into_iter()
                .collect();
            let noted = stubs.made[0].noted.expect("a note");
            let counted = stubs.made[0].counted[0];
            assert!(noted < counted, "{site:x?}");
            let at = all.iter().position(|one| one.ip() == noted).expect("an instruction");
            assert_eq!(all[at - 1].memory_displacement64(), 8 * MAPPED as u64);
            let targets = |mnemonic: Mnemonic| {
                let jumps = all[..at].iter().filter(move |one| one.mnemonic() == mnemonic);
                jumps.map(|one| one.near_branch_target()).collect::<Vec<_>>()
            };
            let and = all[..at].iter().find(|one| one.mnemonic() == Mnemonic::And);
            assert_eq!(targets(Mnemonic::Je), [noted, and.expect("the bit").ip()]);
            assert_eq!([targets(Mnemonic::Jb), targets(Mnemonic::Ja)], [[noted], [noted]]);
            let tells = all.iter().position(|one| one.near_branch_target() == BASE + 48);
            assert_eq!(tells.is_some(), site.number() == Some(10), "{site:x?}");
            if let Some(tells) = tells {
                assert_eq!(all[tells - 2].near_branch_target(), all[tells].next_ip());
                assert_eq!(all[tells - 1].memory_displacement64(), all[tells].next_ip());
            }
        }
    }

    #[test]
    fn what_is_too_far_away_or_has_no_room_is_not_written() {
        let far = site(&[0xb8, 110, 0, 0, 0], Calls::Of(110));
        let (mut stubs, _) = Stubs::new(BASE, 1 << 20, HEAD);
        assert_eq!(stubs.add(std::slice::from_ref(&far), 0x7f00_0000_0000), None);
        let many = vec![far; 30_000];
        assert_eq!(stubs.add(&many, 0), None);
        assert!(stubs.add(&many[..100], 0).is_some(), "what was refused took no room");
    }

    /// An area is used again where its stubs would be the same. Others are made behind all that is there.
    #[test]
    fn what_an_earlier_session_has_written_stays() {
        let (sites, others) = (vec![compared(39), compared(110)], vec![compared(110)]);
        let with = |written: &[(usize, &[u8])]| {
            let mut area = vec![0; 4096];
            written.iter().for_each(|(at, code)| area[*at..*at + code.len()].copy_from_slice(code));
            let (stubs, head) = Stubs::new(BASE, 4096, HEAD);
            area[..head.bytes.len()].copy_from_slice(&head.bytes);
            stubs.behind_earlier(&area)
        };
        let made = |mut stubs: Stubs, sites: &[Site]| stubs.add(sites, 0).map(|made| made.0);
        let first = made(with(&[]), &sites).expect("there is room");
        let at = usize::try_from(first.at - BASE).expect("small");
        assert_eq!(made(with(&[(at, &first.bytes)]), &sites), Some(first.clone()));
        // Less than was there, more, and something else.
        let begin = made(with(&[]), &sites[..1]).expect("there is room");
        assert_eq!(made(with(&[(at, &first.bytes)]), &sites[..1]), Some(begin.clone()));
        let behind = |stubs: Stubs, sites: &[Site], written: &[u8]| {
            let made = made(stubs, sites).expect("there is room");
            assert_eq!(made.at, first.at + written.len().next_multiple_of(16) as u64);
        };
        behind(with(&[(at, &begin.bytes)]), &sites, &begin.bytes);
        behind(with(&[(at, &first.bytes)]), &others, &first.bytes);
        assert_eq!(made(with(&[(at, &[0xcc; 3500])]), &sites), None);
    }

    #[test]
    fn the_head_ends_with_going_on() {
        let (_, head) = Stubs::new(BASE, 1 << 20, HEAD);
        let pointers = 8 * POINTERS;
        let code = disassembled(&head.bytes[pointers..], BASE + pointers as u64);
        assert_eq!(code.last().map(String::as_str), Some("jmp r11"), "{code:#?}");
        assert!(code.iter().all(|line| line != "(bad)"), "{code:#?}");
        // A thread need not have a valid stack.
        assert!(
            code.iter().all(|line| {
                let uses = ["push", "pop", "call", "ret"];
                !line.contains("[rsp") && !uses.iter().any(|what| line.starts_with(what))
            }),
            "{code:#?}"
        );
        assert_eq!(code.iter().filter(|line| *line == "syscall").count(), 2, "{code:#?}");
    }
}
