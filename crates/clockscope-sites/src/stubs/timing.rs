//! Times some of the counted calls, without a stack and using only registers that a `syscall` changes.
//!
//! In each part of the table, the first [`FIRST`] calls of a number are all timed, then about one in 64. A hash of the
//! count chooses these calls, so that a program whose calls alternate in a pattern gives each of them its share. When a
//! timed call begins, it takes a *place*, selected by the stack pointer, and sets the carry flag. `syscall` preserves
//! that flag, and only sites whose code behind the call ignores the flags are timed. Behind the call, the flag says
//! whether to look at the place. If the place holds another stack pointer, the call is not timed.
//!
//! Places lie in memory that the kernel zeroes in a forked child. A thread that leaves a call by a jump (`siglongjmp`)
//! leaves its place taken. The next timed call from the same address of the stack, or from shortly above it, takes the
//! place over.
//!
//! # References
//!
//! `entry_SYSCALL_64` in `arch/x86/entry/entry_64.S` (Linux 6.18): the flags after the call are those in `r11`.

use std::mem::offset_of;

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, dword_ptr, eax, ecx, esp, qword_ptr, r11, rax, rcx, rdx, rsp,
};

use vdso_image::layout::{self, SITE_TIMES, TIMING, Timing};

use super::made::{Behind, Made};
use super::{
    Code, IF_OWN, JUMP, LOCK, LOOKED_AT, NEXT, OWN, PART, Pointers, SHARD, SHARDS, Stubs, TIMED,
    assembled, word_of,
};
use crate::site::{Calls, SYSCALL, Site};

/// In each part of the table, this many first calls of a number are all timed.
pub const FIRST: u64 = 16;

/// Calls that may return in another process, or never: `rt_sigreturn`, `clone`, `fork`, `vfork`, `execve`, `exit`,
/// `exit_group`, `execveat`, `clone3`.
const NEVER: [u32; 9] = [15, 56, 57, 58, 59, 60, 231, 322, 435];
/// Distance of the first word of the times from the start of the table.
const TIMES_AT: i32 = 0x2_8000;
/// Bytes of one kind of times.
const KIND: i32 = 0x1000;
/// A multiplier that scatters the bits of the count: 2^32 divided by the golden ratio.
const HASH: i32 = 0x9E37_79B1_u32.cast_signed();
const _: () = {
    assert!(SITE_TIMES == 8 && PART == KIND as usize);
    assert!(
        TIMES_AT as usize
            == offset_of!(layout::Shared, site_times) - offset_of!(layout::Shared, sites)
    );
    assert!(TIMING == 32 && size_of::<Timing>() == 64);
};

// Offsets in a place. The stack pointer is at offset 0.
/// Offset of the words for the call's kind (first or later calls), in bytes.
const OF_FIRST: i32 = 16;
const BEGAN: i32 = 24;
pub(super) const RESULT: i32 = 32;
pub(super) const RDX: i32 = 40;
const WORD: i32 = 48;
pub(super) const GOES_ON: i32 = 56;

// Lengths of code, for threads that stop in it.
/// From the code that ends the timing of a call in a stub to [`KEEP`], and the length of that.
pub(super) const KEEPS: u64 = (PLACE.len() + 4 + IF_OTHERS.len() + 4) as u64;
pub(super) const KEPT: u64 = KEEP.len() as u64;
/// From the instruction that reads the counter to the end of the one that restores `rdx`.
pub(super) const READ: u64 = 2 + 4 + 3 + 3;
/// From the begin of the shared code behind a timed call to where the address to go on at is saved.
pub(super) const KEEPS_RETURN: u64 = 4 + 4;
/// The last instruction of the shared code.
pub(super) const LAST: u64 = 3;

/// Places in the shared code: labels, then offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<T> {
    pub(super) begin: T,
    pub(super) end: T,
    /// The instructions that read the counter.
    pub(super) reads: [T; 2],
}

impl Shared<CodeLabel> {
    pub(super) fn resolved(
        &self,
        at: impl Fn(&CodeLabel) -> Result<u64, IcedError>,
    ) -> Result<Shared<u64>, IcedError> {
        let reads = [at(&self.reads[0])?, at(&self.reads[1])?];
        Ok(Shared { begin: at(&self.begin)?, end: at(&self.end)?, reads })
    }
}

/// Appends code that sets `rcx` to the address of the thread's place.
fn place(a: &mut CodeAssembler, places: CodeLabel) -> Result<(), IcedError> {
    a.mov(ecx, esp)?;
    a.shr(ecx, 16)?;
    a.and(ecx, 31)?;
    a.shl(ecx, 6)?;
    a.add(rcx, qword_ptr(places))
}

/// Appends code that reads the counter into `rax` and destroys `rcx`.
fn read(a: &mut CodeAssembler, at: &mut CodeLabel) -> Result<(), IcedError> {
    a.mov(rcx, rdx)?;
    a.set_label(at)?;
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.or(rax, rdx)?;
    a.mov(rdx, rcx)
}

/// Appends the shared code that runs before a timed call and behind it.
pub(super) fn assemble(
    a: &mut CodeAssembler,
    at: Pointers,
) -> Result<Shared<CodeLabel>, IcedError> {
    let [mut begins, mut ends, mut first, mut second] = std::array::from_fn(|_| a.create_label());
    a.set_label(&mut begins)?;
    draw_next(a)?;
    begin(a, at, &mut first)?;
    a.set_label(&mut ends)?;
    end(a, at, &mut second)?;
    Ok(Shared { begin: begins, end: ends, reads: [first, second] })
}

/// Appends code that chooses the next call to time.
///
/// `rax` is the count of the number's calls, `rcx` the address of the word with the next call to time, and `r11` the
/// address to go on at.
fn draw_next(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let [mut rest, mut next] = [a.create_label(), a.create_label()];
    a.cmp(rax, i32::try_from(FIRST).expect("small"))?;
    a.mov(qword_ptr(rcx), rax)?;
    a.jb(next)?;
    a.je(rest)?;
    // Bit 63 of `r11`, which no program address has, marks a call after the first ones.
    a.bts(r11, 63)?;
    a.set_label(&mut rest)?;
    a.imul_3(eax, eax, HASH)?;
    a.shr(eax, 25)?;
    a.add(qword_ptr(rcx), rax)?;
    a.set_label(&mut next)?;
    a.inc(qword_ptr(rcx))
}

/// Appends code that takes a place and reads the counter, if timing is allowed and the place is free. The carry flag is
/// the result.
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
    // A jump has left a call at the same address of this stack, or shortly below. Stacks of other threads are further
    // away.
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

/// Appends code that records a timed call.
///
/// `rcx` is the thread's place, which holds its registers and which no other call takes over; `eax` is the offset of
/// the number's words, and `r11` the address to go on at.
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

/// The number of a site's calls, if the site can be timed: nothing changes the flags between the stub and the call, and
/// the comparison behind it reads none.
pub(super) fn can_be(site: &Site) -> Option<u32> {
    let Calls::Of(number) = site.calls else { return None };
    let can_be = word_of(number).is_some() && !NEVER.contains(&number);
    let is_near = |(after, _): (u64, _)| site.end() + SYSCALL == after;
    (can_be && site.behind.is_some_and(is_near)).then_some(number)
}

/// `lea r11, [rip+distance]`, without the distance.
const GO_ON: [u8; 3] = [0x4c, 0x8d, 0x1d];
/// `mov eax, number`, without the number.
const NUMBER: u8 = 0xb8;
const CLEAR_CARRY: u8 = 0xf8;
/// Sets `rcx` to the address of the thread's place; without the last distance.
#[rustfmt::skip]
const PLACE: [u8; 14] = [
    0x89, 0xe1,                         // mov ecx, esp
    0xc1, 0xe9, 16,                     // shr ecx, 16
    0x83, 0xe1, 31,                     // and ecx, 31
    0xc1, 0xe1, 6,                      // shl ecx, 6
    0x48, 0x03, 0x0d,                   // add rcx, [rip+places]
];
/// Checks that the place belongs to the thread, and jumps if not; without the last distance.
#[rustfmt::skip]
const IF_OTHERS: [u8; 5] = [
    0x48, 0x39, 0x21,                   // cmp [rcx], rsp
    0x0f, 0x85,                         // jne
];
/// Saves registers in the place, which no other thread can take over after this.
#[rustfmt::skip]
const KEEP: [u8; 15] = [
    0x48, 0xc7, 0x01, 0xff, 0xff, 0xff, 0xff, // mov qword [rcx], -1
    0x48, 0x89, 0x41, 32,               // mov [rcx+32], rax
    0x48, 0x89, 0x51, 40,               // mov [rcx+40], rdx
];
const _: () = assert!(KEEP[10] as i32 == RESULT && KEEP[14] as i32 == RDX);

impl Code {
    /// `mov rax, [rcx+count]` and `cmp rax, [rcx+next]`.
    fn compare(&mut self, [count, next]: [usize; 2]) -> Option<()> {
        self.put(&[0x48, 0x8b, 0x81]);
        self.word(count)?;
        self.put(&[0x48, 0x3b, 0x81]);
        self.word(next)
    }

    /// Appends a jump to the shared code that begins the timing of a call and goes on at `goes_on`.
    fn begin_to_time(&mut self, next: usize, goes_on: u64, begin: u64) -> Option<()> {
        // lea rcx, [rcx+next]
        self.put(&[0x48, 0x8d, 0x89]);
        self.word(next)?;
        self.put(&GO_ON);
        self.distance(goes_on)?;
        self.jump(begin)
    }
}

impl Stubs {
    /// Appends the stub of a site with timed calls.
    pub(super) fn timed_stub(
        &self,
        (site, mut made): (&Site, Made),
        number: u32,
        bias: u64,
        code: &mut Code,
    ) -> Option<Made> {
        let begin = self.base + assembled().timing.begin;
        let word = word_of(number)?;
        code.put(&site.displaced);
        made.is_timed = true;
        if LOOKED_AT.contains(&number) {
            // mov r11d, number
            code.put(&[0x41, 0xbb]);
            code.put(&number.to_le_bytes());
            self.look_at_arguments(site, code, &mut made)?;
        }
        let if_not = code.load(OWN, self.own, IF_OWN);
        let own = [TIMED, NEXT].map(|kind| kind * PART + 8 * word);
        code.increment(Some(word), &[], TIMED * PART)?;
        made.counted[0] = code.here();
        code.compare(own)?;
        // jae
        code.put(&[0x73]);
        let if_timed = code.open();
        let not_timed = code.here();
        code.put(&[CLEAR_CARRY]);
        let goes_on = code.here();
        code.put(&[NUMBER]);
        code.put(&number.to_le_bytes());
        code.jump(site.end().wrapping_add(bias))?;
        code.close(if_timed)?;
        code.begin_to_time(own[1], goes_on, begin)?;
        code.close(if_not)?;
        made.shard = code.here();
        code.put(SHARD);
        code.distance(self.base)?;
        let shard = [TIMED, NEXT].map(|kind| kind * SHARDS * PART + 8 * word);
        code.increment(Some(word), &[LOCK], TIMED * SHARDS * PART)?;
        made.counted[1] = code.here();
        code.compare(shard)?;
        // jb
        code.put(&[0x0f, 0x82]);
        code.distance(not_timed)?;
        code.begin_to_time(shard[1], goes_on, begin)?;

        // Behind the call.
        made.shard_ends = code.here();
        // jc
        code.put(&[0x0f, 0x82]);
        let if_timed = code.bytes.len();
        code.bytes.extend([0; 4]);
        let recorded = code.here();
        self.look_for_errors(word, site.behind?, bias, code, &mut made)?;
        let timed = code.here();
        let distance = u32::try_from(code.bytes.len() - if_timed - 4).ok()?;
        code.bytes[if_timed..if_timed + 4].copy_from_slice(&distance.to_le_bytes());
        code.put(&PLACE);
        code.distance(self.base + PLACES_AT)?;
        code.put(&IF_OTHERS);
        code.distance(recorded)?;
        code.put(&KEEP);
        code.put(&[NUMBER]);
        code.word(8 * word)?;
        code.put(&GO_ON);
        code.distance(recorded)?;
        code.jump(self.base + assembled().timing.end)?;
        made.behind = made.behind.map(|behind| Behind { at: made.shard_ends, timed, ..behind });
        Some(made)
    }
}

/// Offset in an area of the pointer to the places: behind those to the table, the tracer's word, the mark and the
/// loader's words.
const PLACES_AT: u64 = 4 * 8;
const _: () = assert!(JUMP == 5);
