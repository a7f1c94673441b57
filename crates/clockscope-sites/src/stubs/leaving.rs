//! Moves a thread that has stopped in a stub to the program's own code, by a change of its registers.
//!
//! Before the count is made, the thread goes back to the displaced instructions, which have the same effect when they
//! are executed again. Behind the count, it goes on where the stub leads to.

use super::made::{Behind, Made};
use super::{MADE_CODE, MAPPED};
use super::{Stubs, assembled, timing};
use crate::find::{SYS_MMAP, SYS_MPROTECT};
use crate::site::{COMPARE, Calls, JUMP, Read, Site};

/// The registers of a stopped thread that stubs change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// `rip`.
    pub pc: u64,
    /// `rsp`.
    pub sp: u64,
    /// `rax`.
    pub rax: u64,
    /// `rcx`.
    pub rcx: u64,
    /// `rdx`.
    pub rdx: u64,
    /// `r10`.
    pub r10: u64,
    /// `r11`.
    pub r11: u64,
    /// `rflags`.
    pub flags: u64,
}

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ADJUST: u64 = 1 << 4;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;
/// The flags that `lahf` loads.
const LOADED: u64 = CARRY | PARITY | ADJUST | ZERO | SIGN;
/// Bytes from the start of `mov r11, rax; lahf; seto al` to the end of each instruction.
const MOVED: u64 = 3;
const ALL_KEPT: u64 = 7;
/// Bytes of `lahf; seto al`.
const FLAGS_KEPT: u64 = 4;

impl Made {
    /// A stub without its addresses.
    pub(super) fn of(site: &Site, bias: u64, begin: u64) -> Self {
        let goes_on = site.end().wrapping_add(bias);
        Self {
            begin,
            limit: begin,
            window: site.window.wrapping_add(bias),
            goes_on,
            calls: site.calls,
            is_timed: false,
            is_call: false,
            compared: None,
            keeps: None,
            counted: [0; 2],
            noted: None,
            shard: 0,
            shard_ends: 0,
            restored: 0,
            behind: None,
        }
    }

    fn has_counted(&self, pc: u64) -> bool {
        let [own, shard] = self.counted;
        // Behind the count of a number that has a word of its own stands a jump over that of the others.
        let is_over = self.has_others() && (pc == own - 9 || pc == shard - 10);
        is_over || own <= pc && pc < self.shard || shard <= pc && pc < self.shard_ends
    }

    /// Whether the number is known only when the call is made: numbers without a word of their own share one.
    fn has_others(&self) -> bool {
        matches!(self.calls, Calls::OfRax | Calls::Given(_))
    }

    /// The word in which a call with these arguments is noted: `mmap` or `mprotect` of executable memory.
    fn note(&self, at: &Thread) -> Option<usize> {
        let number = match self.calls {
            Calls::Of(number) => number.into(),
            _ => at.r11,
        };
        // PROT_EXEC, and MAP_ANONYMOUS.
        let is_code = at.rdx & 4 != 0;
        let is_file = number == u64::from(SYS_MMAP) && at.r10 & 0x20 == 0;
        let is_looked_at = [SYS_MMAP, SYS_MPROTECT].map(u64::from).contains(&number);
        (is_code && is_looked_at).then_some(if is_file { MAPPED } else { MADE_CODE })
    }

    /// A thread at a read of the counter. Where it has not made all displaced instructions, it makes them again, and counts
    /// once more.
    fn at_counter(&self, read: Read, at: Thread) -> Settled {
        let (mut thread, pc) = (at, at.pc);
        if self.keeps.is_some_and(|keeps| pc >= keeps + FLAGS_KEPT) && !self.is_restored(pc) {
            thread.flags = with_kept(at.flags, at.rax);
        }
        let has_ended = pc == self.shard - JUMP as u64;
        thread.pc = if has_ended { self.goes_on } else { self.window };
        let again = (self.has_counted(pc) && !has_ended).then_some(read.word);
        Settled { thread, place: None, noted: None, again }
    }

    fn is_restored(&self, pc: u64) -> bool {
        (self.restored..self.shard).contains(&pc)
    }

    /// A thread in front of the call.
    fn before(&self, read: &dyn Fn(u64) -> Option<u64>, at: Thread) -> Option<Settled> {
        let (mut thread, pc) = (at, at.pc);
        let is_counted = self.has_counted(pc);
        if let Some(keeps) = self.keeps
            && pc > keeps + MOVED
            && pc != self.restored
        {
            thread.rax = at.r11;
            if pc >= keeps + ALL_KEPT {
                thread.flags = with_kept(at.flags, at.rax);
            }
        }
        if !is_counted {
            thread.pc = self.window;
            thread.sp = at.sp + if self.is_call { 8 } else { 0 };
            let has_noted = self.noted.is_some_and(|noted| noted <= pc);
            let noted = if has_noted { self.note(&at) } else { None };
            return Some(Settled { thread, place: None, noted, again: None });
        }
        thread.pc = self.goes_on;
        if let Some(byte) = self.compared {
            let byte = read(byte)? & 0xff;
            thread.flags = flags(at.flags, byte, byte & 0x80 != 0, [false; 3]);
        }
        if self.is_timed
            && let Calls::Of(number) = self.calls
        {
            thread.rax = number.into();
            thread.flags &= !CARRY;
        }
        Some(Settled { thread, place: None, noted: None, again: None })
    }
}

impl Behind {
    /// A thread behind the call.
    fn settled(&self, read: &dyn Fn(u64) -> Option<u64>, at: Thread) -> Option<Settled> {
        let (mut thread, pc) = (at, at.pc);
        let keeps = self.timed + timing::KEEPS;
        if pc > keeps + timing::KEPT {
            thread.rax = word(read, at.rcx, timing::RESULT)?;
        }
        if (self.compares..self.errors).contains(&pc) || (self.counted..self.timed).contains(&pc) {
            let difference = at.rax.wrapping_sub(self.with);
            let overflows = (at.rax ^ self.with) & (at.rax ^ difference);
            let adjusts = (at.rax ^ self.with ^ difference) & ADJUST != 0;
            let others = [at.rax < self.with, overflows >> 63 != 0, adjusts];
            thread.flags = flags(at.flags, difference, difference >> 63 != 0, others);
            thread.pc = self.after + COMPARE as u64;
        } else {
            thread.pc = self.after;
            if pc != self.at {
                thread.flags &= !CARRY;
            }
        }
        Some(Settled { thread, place: (pc > keeps).then_some(at.rcx), noted: None, again: None })
    }
}

/// The flags that `lahf` and `seto al` have kept in `rax`, before or behind `add al, 7fh`.
fn with_kept(flags: u64, rax: u64) -> u64 {
    let overflows = matches!(rax & 0xff, 1 | 0x80);
    flags & !(LOADED | OVERFLOW) | rax >> 8 & LOADED | if overflows { OVERFLOW } else { 0 }
}

/// A word of the place for timed calls at an address.
fn word(read: &dyn Fn(u64) -> Option<u64>, place: u64, offset: i32) -> Option<u64> {
    read(place + u64::from(offset.unsigned_abs()))
}

/// Flags after a comparison: those of the difference, and carry, overflow and adjust.
fn flags(before: u64, difference: u64, is_negative: bool, others: [bool; 3]) -> u64 {
    let [carry, overflow, adjust] = others;
    let is_even = (difference & 0xff).count_ones().is_multiple_of(2);
    let all = [
        (carry, CARRY),
        (is_even, PARITY),
        (adjust, ADJUST),
        (difference == 0, ZERO),
        (is_negative, SIGN),
        (overflow, OVERFLOW),
    ];
    let set = all.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag);
    set.fold(before & !(LOADED | OVERFLOW), |flags, flag| flags | flag)
}

/// What a thread continues with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Its registers.
    pub thread: Thread,
    /// Address of a place for timed calls that becomes free: a word to be zeroed.
    pub place: Option<u64>,
    /// A word of the table in which the thread will note its call a second time.
    pub noted: Option<usize>,
    /// The word of the table in which the thread will count a read a second time.
    pub again: Option<usize>,
}

impl Stubs {
    /// Takes a thread out of the area. `read` gives eight bytes of the process. `None` if it does not stand in a stub, or if
    /// it sends the signal: then the program has no handlers yet.
    pub fn settled(&self, at: Thread, read: &dyn Fn(u64) -> Option<u64>) -> Option<Settled> {
        let shared = assembled();
        let code = self.base..self.base + shared.code.len() as u64;
        if !code.contains(&at.pc) {
            let made = self.made_at(at.pc)?;
            return match made.behind.filter(|behind| behind.at <= at.pc) {
                Some(behind) => behind.settled(read, at),
                None => match made.calls {
                    Calls::Counter(read) => Some(made.at_counter(read, at)),
                    _ => made.before(read, at),
                },
            };
        }
        let [begin, end] =
            [shared.timing.begin, shared.timing.end].map(|offset| self.base + offset);
        if at.pc < begin {
            return None;
        }
        if at.pc < end {
            let made = self.made_at(at.r11 & !(1 << 63))?;
            let mut settled = made.before(read, Thread { pc: made.counted[0], ..at })?;
            // `rcx` has `rdx` between the instruction that reads the counter and the last of those behind it.
            let reads = self.base + shared.timing.reads[0];
            if (reads + 2..reads + timing::READ).contains(&at.pc) {
                settled.thread.rdx = at.rcx;
            }
            return Some(settled);
        }
        // `rcx` is the place until the last instruction.
        let has_ended = at.pc >= code.end - timing::LAST;
        let is_kept = !has_ended && at.pc >= end + timing::KEEPS_RETURN;
        let back = if is_kept { word(read, at.rcx, timing::GOES_ON)? } else { at.r11 };
        let behind = self.made_at(back)?.behind?;
        let mut thread = Thread { pc: behind.after, flags: at.flags & !CARRY, ..at };
        if !has_ended {
            thread.rax = word(read, at.rcx, timing::RESULT)?;
            thread.rdx = word(read, at.rcx, timing::RDX)?;
        }
        Some(Settled { thread, place: (!has_ended).then_some(at.rcx), noted: None, again: None })
    }

    fn made_at(&self, pc: u64) -> Option<&Made> {
        let behind = self.made.partition_point(|made| made.begin <= pc);
        self.made[..behind].last().filter(|made| pc < made.limit)
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};

    use super::*;
    use crate::stubs::Head;
    use crate::stubs::tests::{BASE, HEAD, compared, site};

    const PLACE: u64 = 0x7000_0000_0000;
    const FLAGS: u64 = 0x202;

    fn sites() -> Vec<Site> {
        let several = site(&[0x4c, 0x89, 0xc0, 0x48, 0x89, 0xd6], Calls::OfRax);
        vec![
            site(&[0xb8, 110, 0, 0, 0], Calls::Of(110)),
            compared(110),
            compared(10),
            Site { is_several: true, ..several },
            site(&[0x80, 0x3d, 0, 1, 0, 0, 0], Calls::Cancellable(7)),
            site(&[0xe8, 0, 1, 0, 0], Calls::Cancellable(7)),
            site(&[0xe9, 0, 1, 0, 0], Calls::Given(6)),
        ]
    }

    /// Wherever a thread stands, it makes each call with one count: it goes on behind the displaced instructions if it has
    /// counted, and in front of them if not.
    #[test]
    fn a_thread_goes_back_before_the_count_and_on_behind_it() {
        for (site, times) in
            sites().into_iter().flat_map(|site| [(site.clone(), false), (site, true)])
        {
            let (mut stubs, _) = Stubs::new(BASE, 1 << 20, Head { times, ..HEAD });
            let (code, jumps) = stubs.add(std::slice::from_ref(&site), 0).expect("room");
            let behind = stubs.made[0].behind.map_or(u64::MAX, |behind| behind.at);
            let decoder = Decoder::with_ip(64, &code.bytes, code.at, DecoderOptions::NONE);
            let all: Vec<_> = decoder.into_iter().collect();
            let goes_on = match site.calls {
                Calls::Cancellable(_) | Calls::Given(_) if site.branch().is_some() => 0x1105,
                _ => site.end(),
            };
            let [mut counted, mut seen, mut is_over] = [false; 3];
            for one in &all {
                // Here begins the code for a shard.
                let begins = one.op1_register() == Register::ESP;
                counted &= !begins && !is_over;
                let at =
                    Thread { pc: one.ip(), sp: 64, r11: 110, flags: FLAGS, ..Thread::default() };
                let at = Thread { rcx: PLACE, ..at };
                let settled = stubs.settled(at, &|_| Some(0));
                if one.ip() >= behind {
                    let settled = settled.expect("a place behind the call");
                    assert!([0x1007, 0x100d].contains(&settled.thread.pc), "{one:x?} {settled:x?}");
                } else if let Some(settled) = settled {
                    let wanted = if counted { goes_on } else { 0x1000 };
                    assert_eq!(settled.thread.pc, wanted, "{site:x?} {:x}", one.ip());
                    let pops = if jumps[0].bytes[0] == 0xe8 && !counted { 8 } else { 0 };
                    assert_eq!(settled.thread.sp, 64 + pops, "{site:x?}");
                    seen |= counted;
                } else {
                    panic!("{site:x?} {:x}", one.ip());
                }
                let is_count = one.mnemonic() == Mnemonic::Inc
                    && one.memory_displacement64() != 8 * MAPPED as u64;
                counted |= is_count;
                // The count of other numbers stands behind a jump over it.
                is_over = one.mnemonic() == Mnemonic::Jmp && one.len() == 2;
            }
            assert!(seen, "{site:x?}");
        }
    }

    /// A thread that has noted its call, and not counted it, notes it again.
    #[test]
    fn a_call_that_is_noted_twice_is_told() {
        let mmap = Thread { rdx: 5, r11: 9, ..Thread::default() };
        let protect = Thread { r11: 10, ..mmap };
        for (site, thread, word) in [
            (compared(9), mmap, MAPPED),
            (compared(9), Thread { r10: 0x22, ..mmap }, MADE_CODE),
            (compared(10), protect, MADE_CODE),
            (sites().remove(3), mmap, MAPPED),
            (sites().remove(3), Thread { r10: 0x22, ..protect }, MADE_CODE),
        ] {
            for times in [false, true] {
                let (mut stubs, _) = Stubs::new(BASE, 1 << 20, Head { times, ..HEAD });
                stubs.add(std::slice::from_ref(&site), 0).expect("room");
                let made = stubs.made[0];
                let noted = made.noted.expect("a note");
                let at = |pc: u64, rdx: u64| {
                    let thread = Thread { pc, rdx, ..thread };
                    stubs.settled(thread, &|_| None).expect("in a stub").noted
                };
                assert_eq!([noted - 8, made.counted[0]].map(|pc| at(pc, 5)), [None; 2]);
                assert_eq!([at(noted, 3), at(noted, 5)], [None, Some(word)], "{site:x?}");
                assert_eq!(at(made.shard, 5), Some(word), "{site:x?}");
            }
        }
        let (stubs, _) = Stubs::new(BASE, 1 << 20, HEAD);
        let telling = Thread { pc: BASE + assembled().tell, ..protect };
        assert_eq!(stubs.settled(telling, &|_| None), None);
    }

    /// A thread that has not made all displaced instructions makes them again, and counts again if it has counted.
    #[test]
    fn a_read_of_the_counter_that_is_interrupted_is_made_again() {
        // mov r8d, 1; rdtsc or rdtscp; mov rsi, rax
        for (code, is_ordered) in [(&[0x0f, 0x31][..], false), (&[0x0f, 0x01, 0xf9], true)] {
            let displaced = [&[0x41, 0xb8, 1, 0, 0, 0], code, &[0x48, 0x89, 0xc6]].concat();
            let read = Read::new(6, is_ordered);
            let site = Site { is_several: true, ..site(&displaced, Calls::Counter(read)) };
            let (mut stubs, _) = Stubs::new(BASE, 1 << 20, HEAD);
            let (code, _) = stubs.add(std::slice::from_ref(&site), 0).expect("room");
            let decoder = Decoder::with_ip(64, &code.bytes, code.at, DecoderOptions::NONE);
            let [mut is_counted, mut is_kept, mut seen] = [false; 3];
            for one in decoder {
                let begins = one.op1_register() == Register::ESP;
                (is_counted, is_kept) = (is_counted && !begins, is_kept || begins);
                let at =
                    Thread { pc: one.ip(), rax: 0xd5 << 8 | 1, flags: FLAGS, ..Thread::default() };
                let settled = stubs.settled(at, &|_| None).expect("in the stub");
                let is_end = one.near_branch_target() == site.end();
                let pc = if is_end { site.end() } else { site.window };
                let again = (is_counted && !is_end).then_some(read.word);
                let flags = if is_kept { FLAGS | LOADED | OVERFLOW } else { FLAGS };
                let found = (settled.thread.pc, settled.thread.flags, settled.again);
                assert_eq!(found, (pc, flags, again), "{one}");
                is_counted |= one.mnemonic() == Mnemonic::Inc;
                is_kept = (is_kept || one.mnemonic() == Mnemonic::Seto)
                    && one.mnemonic() != Mnemonic::Sahf;
                seen |= is_end;
            }
            assert!(seen, "{site:x?}");
        }
    }

    #[test]
    fn the_number_and_the_flags_are_what_they_were() {
        let (mut stubs, _) = Stubs::new(BASE, 1 << 20, HEAD);
        let sites = sites();
        stubs.add(&sites[3..4], 0).expect("room");
        let made = stubs.made[0];
        let keeps = made.keeps.expect("it saves them");
        let all = LOADED | OVERFLOW;
        let kept = Thread { r11: 39, rax: 0xd5 << 8 | 1, flags: FLAGS, ..Thread::default() };
        let settled = |pc: u64, thread: Thread| {
            stubs.settled(Thread { pc, ..thread }, &|_| None).expect("in a stub").thread
        };
        let before = settled(made.counted[0] - 16, kept);
        assert_eq!((before.pc, before.rax, before.flags), (0x1000, 39, FLAGS | all));
        let behind = settled(made.restored - 3, Thread { rax: 0x80, ..kept });
        assert_eq!((behind.pc, behind.rax, behind.flags), (0x1006, 39, FLAGS | OVERFLOW));
        // The number is in `rax` still, and again.
        for pc in [keeps + 3, made.restored] {
            assert_eq!(settled(pc, kept).rax, kept.rax);
            assert_eq!(settled(pc, kept).flags, FLAGS);
        }
    }

    #[test]
    fn a_comparison_that_was_displaced_sets_the_same_flags() {
        let (mut stubs, _) = Stubs::new(BASE, 1 << 20, HEAD);
        stubs.add(&sites()[1..2], 0).expect("room");
        let behind = stubs.made[0].behind.expect("it sees errors");
        // cmp rax, -4096
        for (rax, set) in [
            (0_u64, CARRY | PARITY),
            (4096_u64.wrapping_neg(), ZERO | PARITY),
            (2_u64.wrapping_neg(), 0),
            (1 << 63, CARRY | SIGN | PARITY),
        ] {
            let at =
                Thread { pc: behind.compares, rax, flags: FLAGS | OVERFLOW, ..Thread::default() };
            let thread = stubs.settled(at, &|_| None).expect("behind the call").thread;
            assert_eq!((thread.pc, thread.rax), (0x100d, rax));
            assert_eq!(thread.flags, FLAGS | set, "{rax:x}");
        }
    }
}
