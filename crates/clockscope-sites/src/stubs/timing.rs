//! Timing some of the calls that are counted, with no stack and no register but those that a `syscall` changes.
//!
//! The first [`FIRST`] calls of a number in each part of the table are all timed, then about one in 64; which
//! ones these are follows from the count by a hash, so that a program whose calls alternate in a pattern gives each of
//! them its share. When a timed call begins it takes a *place*, by its stack pointer, and sets the carry flag, which
//! `syscall` keeps; what the program does behind the call does not look at it. Behind the call the flag says whether
//! to look at the place. A place whose stack pointer is another one says nothing: then the call is not timed.
//!
//! Places lie in memory that a forked child has zeroed. A thread that leaves a call by a jump leaves its place taken;
//! the next timed call from the same place of the stack, or right above it, takes it over.
//!
//! # References
//!
//! `entry_SYSCALL_64` in `arch/x86/entry/entry_64.S` (Linux 6.18): the flags are those in `r11` again.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, dword_ptr, eax, ecx, esp, qword_ptr, r11, rax, rcx, rdx, rsp,
};

use super::{
    ERRORS, IF_ERROR, IF_OWN, JUMP, KINDS, LOCK, LOOK, LOOKED_AT, Made, NEXT, OWN, PART, SHARD,
    SHARDS, Stubs, TIMED, assembled, increment, jump, moved, near, short, word_of,
};
use crate::find::Site;

/// So many calls of a number are all timed, in each part of the table.
pub const FIRST: u64 = 16;
/// Places for timed calls.
pub const PLACES: usize = 32;
/// Bytes of each.
pub const PLACE_SIZE: usize = 64;
/// What is known of timed calls of a number, first of the [`FIRST`] and then of the others: how many, their ticks, and
/// the sum of the squares of these, low word and high word.
pub const TIMES: usize = 8;

/// Calls that may return in another process, or never.
const NEVER: [u32; 9] = [15, 56, 57, 58, 59, 60, 231, 322, 435];
/// Where the first word of the times is, from the table on.
const TIMES_AT: i32 = 0x2_8000;
/// Bytes of the words of one kind of times.
const KIND: i32 = 0x1000;
/// A multiplier whose products have bits that look like drawn ones: 2^32 divided by the golden ratio.
const HASH: i32 = 0x9E37_79B1_u32.cast_signed();
const _: () = {
    assert!(TIMES == 8 && PART == KIND as usize && KINDS * SHARDS * PART == TIMES_AT as usize);
    assert!(PLACES == 32 && PLACE_SIZE == 64);
};

// Offsets in a place, behind the stack pointer.
/// Where the times of the call's kind begin, in bytes.
const OF_FIRST: i32 = 16;
const BEGAN: i32 = 24;
const RESULT: i32 = 32;
const RDX: i32 = 40;
const WORD: i32 = 48;
const GOES_ON: i32 = 56;

/// Where things are in the code that all stubs share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    begin: u64,
    end: u64,
    /// The instructions that read the counter.
    pub(super) reads: [u64; 2],
}

/// The labels of [`Shared`], and the pointers that it needs.
#[derive(Clone, Copy)]
pub(super) struct Labels {
    begin: CodeLabel,
    end: CodeLabel,
    reads: [CodeLabel; 2],
}

impl Labels {
    pub(super) fn new(a: &mut CodeAssembler) -> Self {
        let reads = [a.create_label(), a.create_label()];
        Self { begin: a.create_label(), end: a.create_label(), reads }
    }

    pub(super) fn resolved(
        &self,
        at: impl Fn(&CodeLabel) -> Result<u64, IcedError>,
    ) -> Result<Shared, IcedError> {
        let reads = [at(&self.reads[0])?, at(&self.reads[1])?];
        Ok(Shared { begin: at(&self.begin)?, end: at(&self.end)?, reads })
    }
}

/// Addresses of pointers in the head.
#[derive(Clone, Copy)]
pub(super) struct Pointers {
    pub(super) table: CodeLabel,
    pub(super) alive: CodeLabel,
    pub(super) places: CodeLabel,
    pub(super) no_timing: CodeLabel,
}

/// Makes `rcx` the address of the thread's place.
fn place(a: &mut CodeAssembler, places: CodeLabel) -> Result<(), IcedError> {
    a.mov(ecx, esp)?;
    a.shr(ecx, 16)?;
    a.and(ecx, 31)?;
    a.shl(ecx, 6)?;
    a.add(rcx, qword_ptr(places))
}

/// Reads the counter into `rax`; `rcx` is lost.
fn read(a: &mut CodeAssembler, at: &mut CodeLabel) -> Result<(), IcedError> {
    a.mov(rcx, rdx)?;
    a.set_label(at)?;
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.or(rax, rdx)?;
    a.mov(rdx, rcx)
}

/// What is done before a call that is to be timed, and behind it.
pub(super) fn assemble(
    a: &mut CodeAssembler,
    at: Pointers,
    labels: &mut Labels,
) -> Result<(), IcedError> {
    a.set_label(&mut labels.begin)?;
    draw_next(a)?;
    begin(a, at, &mut labels.reads[0])?;
    a.set_label(&mut labels.end)?;
    end(a, at, &mut labels.reads[1])
}

/// Says which call is timed next.
///
/// `rax` is which call of its number this is, `rcx` where the next timed one stands, and `r11` where it goes on.
fn draw_next(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let [mut rest, mut next] = [a.create_label(), a.create_label()];
    a.cmp(rax, i32::try_from(FIRST).expect("small"))?;
    a.mov(qword_ptr(rcx), rax)?;
    a.jb(next)?;
    a.je(rest)?;
    // The highest bit of an address that nobody has says that it is none of the first.
    a.bts(r11, 63)?;
    a.set_label(&mut rest)?;
    a.imul_3(eax, eax, HASH)?;
    a.shr(eax, 25)?;
    a.add(qword_ptr(rcx), rax)?;
    a.set_label(&mut next)?;
    a.inc(qword_ptr(rcx))
}

/// Takes a place and reads the counter, if that is allowed and a place is to be had: the carry flag says so.
fn begin(a: &mut CodeAssembler, at: Pointers, reads: &mut CodeLabel) -> Result<(), IcedError> {
    let [mut take, mut refuse] = [a.create_label(), a.create_label()];
    a.mov(rax, qword_ptr(at.alive))?;
    a.mov(eax, dword_ptr(rax))?;
    a.test(eax, eax)?;
    a.je(refuse)?;
    // FUTEX_OWNER_DIED.
    a.test(eax, 1 << 30)?;
    a.jne(refuse)?;
    a.mov(rax, qword_ptr(at.no_timing))?;
    a.cmp(dword_ptr(rax), 0)?;
    a.jne(refuse)?;
    place(a, at.places)?;
    a.mov(rax, qword_ptr(rcx))?;
    a.test(rax, rax)?;
    a.je(take)?;
    // Left by a jump from the same place of this stack, or right below: stacks of threads are further apart.
    a.neg(rax)?;
    a.add(rax, rsp)?;
    a.cmp(rax, 4096)?;
    a.jae(refuse)?;
    a.neg(rax)?;
    a.add(rax, rsp)?;
    a.set_label(&mut take)?;
    a.lock().cmpxchg(qword_ptr(rcx), rsp)?;
    a.jne(refuse)?;
    a.mov(rax, r11)?;
    a.shr(rax, 63)?;
    a.imul_3(eax, eax, 4 * KIND)?;
    a.mov(qword_ptr(rcx + OF_FIRST), rax)?;
    a.btr(r11, 63)?;
    read(a, reads)?;
    place(a, at.places)?;
    a.mov(qword_ptr(rcx + BEGAN), rax)?;
    a.stc()?;
    a.jmp(r11)?;
    a.set_label(&mut refuse)?;
    a.btr(r11, 63)?;
    a.clc()?;
    a.jmp(r11)
}

/// Records a timed call.
///
/// `rcx` is the thread's place, with its registers, which nobody takes over; `eax` the offset of the number's words, and
/// `r11` where it goes on.
fn end(a: &mut CodeAssembler, at: Pointers, reads: &mut CodeLabel) -> Result<(), IcedError> {
    let mut passed = a.create_label();
    a.mov(qword_ptr(rcx + WORD), rax)?;
    a.mov(qword_ptr(rcx + GOES_ON), r11)?;
    a.set_label(reads)?;
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.or(rax, rdx)?;
    a.sub(rax, qword_ptr(rcx + BEGAN))?;
    a.jb(passed)?;
    a.mov(r11, qword_ptr(rcx + OF_FIRST))?;
    a.add(r11, qword_ptr(rcx + WORD))?;
    a.add(r11, qword_ptr(at.table))?;
    a.lock().inc(qword_ptr(r11 + TIMES_AT))?;
    a.lock().add(qword_ptr(r11 + (TIMES_AT + KIND)), rax)?;
    a.mul(rax)?;
    a.lock().add(qword_ptr(r11 + (TIMES_AT + 2 * KIND)), rax)?;
    a.lock().adc(qword_ptr(r11 + (TIMES_AT + 3 * KIND)), rdx)?;
    a.set_label(&mut passed)?;
    a.mov(r11, qword_ptr(rcx + GOES_ON))?;
    a.mov(rax, qword_ptr(rcx + RESULT))?;
    a.mov(rdx, qword_ptr(rcx + RDX))?;
    a.mov(qword_ptr(rcx), 0)?;
    a.jmp(r11)
}

/// The number of a site's calls, if some can be timed.
pub(super) fn can_be(site: &Site) -> Option<u32> {
    let wants_flags = match &site.behind {
        Some(behind) => behind.wants_flags,
        None => site.stays() || site.wants_flags,
    };
    let can_be = |number: &u32| word_of(*number).is_some() && !NEVER.contains(number);
    site.number.filter(can_be).filter(|_| !wants_flags)
}

/// What is displaced behind a `syscall`: instructions, whether they are plain, and where the program goes on.
fn rest(site: &Site) -> Option<(&[u8], bool, u64)> {
    if let Some(behind) = &site.behind {
        let end = site.after() + behind.displaced as u64;
        return Some((behind.original.get(..behind.displaced)?, behind.is_plain, end));
    }
    let at = usize::try_from(site.after() - site.window).ok()?;
    Some((site.original.get(at..)?, false, site.end))
}

/// `lea r11, [rip+distance]`, without the distance.
const GO_ON: [u8; 3] = [0x4c, 0x8d, 0x1d];
/// `mov eax, number`, without the number.
const NUMBER: u8 = 0xb8;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const CLEAR_CARRY: u8 = 0xf8;
/// What makes `rcx` the address of the thread's place; last without the distance.
#[rustfmt::skip]
const PLACE: [u8; 14] = [
    0x89, 0xe1,                         // mov ecx, esp
    0xc1, 0xe9, 16,                     // shr ecx, 16
    0x83, 0xe1, 31,                     // and ecx, 31
    0xc1, 0xe1, 6,                      // shl ecx, 6
    0x48, 0x03, 0x0d,                   // add rcx, [rip+places]
];
/// Whether it is the thread's, and a jump if not; last without the distance.
#[rustfmt::skip]
const IF_OTHERS: [u8; 5] = [
    0x48, 0x39, 0x21,                   // cmp [rcx], rsp
    0x0f, 0x85,                         // jne
];
/// Keeps registers in it, which nobody else takes over any more.
#[rustfmt::skip]
const KEEP: [u8; 15] = [
    0x48, 0xc7, 0x01, 0xff, 0xff, 0xff, 0xff, // mov qword [rcx], -1
    0x48, 0x89, 0x41, 32,               // mov [rcx+32], rax
    0x48, 0x89, 0x51, 40,               // mov [rcx+40], rdx
];
const _: () = assert!(KEEP[10] as i32 == RESULT && KEEP[14] as i32 == RDX);

/// A stub under construction.
struct Code<'a> {
    at: u64,
    begin: usize,
    bytes: &'a mut Vec<u8>,
}

impl Code<'_> {
    fn here(&self) -> u64 {
        self.at + (self.bytes.len() - self.begin) as u64
    }

    /// The distance that ends an instruction, to an address.
    fn distance(&mut self, to: u64) -> Option<()> {
        let distance = near(self.here() + 4, to)?;
        self.bytes.extend(distance);
        Some(())
    }

    fn jump(&mut self, to: u64) -> Option<()> {
        let jump = jump(self.here(), to)?;
        self.bytes.extend(jump);
        Some(())
    }

    /// `mov rax, [rcx+count]` and `cmp rax, [rcx+next]`.
    fn compare(&mut self, [count, next]: [usize; 2]) -> Option<()> {
        self.bytes.extend([0x48, 0x8b, 0x81]);
        self.bytes.extend(u32::try_from(count).ok()?.to_le_bytes());
        self.bytes.extend([0x48, 0x3b, 0x81]);
        self.bytes.extend(u32::try_from(next).ok()?.to_le_bytes());
        Some(())
    }

    /// Lets the shared code decide on a call, and go on.
    fn begin_to_time(&mut self, next: usize, goes_on: u64, begin: u64) -> Option<()> {
        // lea rcx, [rcx+next]
        self.bytes.extend([0x48, 0x8d, 0x89]);
        self.bytes.extend(u32::try_from(next).ok()?.to_le_bytes());
        self.bytes.extend(GO_ON);
        self.distance(goes_on)?;
        self.jump(begin)
    }
}

impl Stubs {
    /// The stub of a site whose calls are timed, behind other code.
    pub(super) fn timed_stub(
        &self,
        site: &Site,
        number: u32,
        bias: u64,
        at: u64,
        bytes: &mut Vec<u8>,
    ) -> Option<Made> {
        let begin = self.base + assembled().timing.begin;
        let word = word_of(number)?;
        let before = site.original.get(..usize::try_from(site.syscall - site.window).ok()?)?;
        let start = bytes.len();
        moved(before, site.is_plain, site.window.wrapping_add(bias), at, bytes)?;
        let mut code = Code { at, begin: start, bytes };
        if LOOKED_AT.contains(&number) {
            // mov r11d, number
            code.bytes.extend([0x41, 0xbb]);
            code.bytes.extend(number.to_le_bytes());
            code.bytes.extend(LOOK);
            code.distance(self.base + assembled().look)?;
        }
        code.bytes.extend(OWN);
        code.bytes.extend(self.own.to_le_bytes());
        code.bytes.extend(IF_OWN);
        let if_not = code.bytes.len();
        code.bytes.push(0);
        let own = [TIMED, NEXT].map(|kind| kind * PART + 8 * word);
        increment(Some(word), &[], TIMED * PART, code.bytes)?;
        code.compare(own)?;
        // jae
        code.bytes.push(0x73);
        let if_timed = code.bytes.len();
        code.bytes.push(0);
        let not_timed = code.here();
        code.bytes.push(CLEAR_CARRY);
        let goes_on = code.here();
        code.bytes.push(NUMBER);
        code.bytes.extend(number.to_le_bytes());
        let mut made = Made::default();
        let calls = if site.stays() {
            code.jump(site.syscall.wrapping_add(bias))?;
            None
        } else {
            made.call = Some(code.here());
            code.bytes.extend(SYSCALL);
            // jmp
            code.bytes.extend([0xeb, 0]);
            Some(code.bytes.len())
        };
        code.bytes[if_timed] = short(code.bytes.len() - if_timed - 1)?;
        code.begin_to_time(own[1], goes_on, begin)?;
        code.bytes[if_not] = short(code.bytes.len() - if_not - 1)?;
        code.bytes.extend(SHARD);
        code.distance(self.base)?;
        let shard = [TIMED, NEXT].map(|kind| kind * SHARDS * PART + 8 * word);
        increment(Some(word), &[LOCK], TIMED * SHARDS * PART, code.bytes)?;
        code.compare(shard)?;
        // jb
        code.bytes.extend([0x0f, 0x82]);
        code.distance(not_timed)?;
        code.begin_to_time(shard[1], goes_on, begin)?;

        if let Some(calls) = calls {
            code.bytes[calls - 1] = short(code.bytes.len() - calls)?;
        }
        let behind = self.behind_timed(site, word, bias, &mut code)?;
        made.behind = site.behind.is_some().then_some(behind);
        Some(made)
    }

    /// The stub behind the calls of a site. Gives where it is, and what was displaced there.
    fn behind_timed(
        &self,
        site: &Site,
        word: usize,
        bias: u64,
        code: &mut Code<'_>,
    ) -> Option<(u64, u64)> {
        let places = self.base + PLACES_AT;
        let stub = code.here();
        // jc
        code.bytes.extend([0x0f, 0x82]);
        let if_timed = code.bytes.len();
        code.bytes.extend([0; 4]);
        let recorded = code.here();
        code.bytes.extend(IF_ERROR);
        let if_error = code.bytes.len();
        code.bytes.push(0);
        let copy = code.here();
        let (displaced, is_plain, goes_on) = rest(site)?;
        moved(displaced, is_plain, site.after().wrapping_add(bias), copy, code.bytes)?;
        code.jump(goes_on.wrapping_add(bias))?;
        code.bytes[if_error] = short(code.bytes.len() - if_error - 1)?;
        code.bytes.extend(SHARD);
        code.distance(self.base)?;
        increment(Some(word), &[LOCK], ERRORS * SHARDS * PART, code.bytes)?;
        code.jump(copy)?;
        let distance = u32::try_from(code.bytes.len() - if_timed - 4).ok()?;
        code.bytes[if_timed..if_timed + 4].copy_from_slice(&distance.to_le_bytes());
        code.bytes.extend(PLACE);
        code.distance(places)?;
        code.bytes.extend(IF_OTHERS);
        code.distance(recorded)?;
        code.bytes.extend(KEEP);
        code.bytes.push(NUMBER);
        code.bytes.extend(u32::try_from(8 * word).ok()?.to_le_bytes());
        code.bytes.extend(GO_ON);
        code.distance(recorded)?;
        code.jump(self.base + assembled().timing.end)?;
        Some((stub, copy))
    }
}

/// Where the pointer to the places is in an area: behind those to the table, the tracer's word, the mark and registers.
const PLACES_AT: u64 = 4 * 8;
const _: () = assert!(JUMP == 5);
