//! The code that counts.
//!
//! An *area* of memory begins with the head: two pointers, and what all stubs share. Behind it are the stubs, one a
//! site: the displaced instructions, the count, and a jump back. A word of a table is added to; the table has
//! [`SHARDS`] parts, of which a thread takes the one that its stack pointer says, so that threads do not wait for
//! each other's CPU. Flags are kept: `syscall` keeps them, and some compilers count on it.
//!
//! Before a program maps a file to be executed, the thread gives itself the signal [`NOTICE`], if a tracer lives: the
//! tracer takes it away, and writes into the mapping before anything of it is executed. If the tracer dies between the
//! two, the program is given a signal that is ignored unless it has a handler of its own.
//!
//! # References
//!
//! `entry_SYSCALL_64` in `arch/x86/entry/entry_64.S` (Linux 6.18): what `syscall` keeps; `LAHF`, `SAHF` in volume
//! 2 of Intel's manual.

use std::sync::OnceLock;

use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, dl, dword_ptr, eax, ecx, edi, edx, esi, qword_ptr, r9, r10, r10b,
    r11, rax, rcx, rdi, rdx, rsi, rsp,
};
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Decoder, DecoderOptions, IcedError, Instruction,
    InstructionBlock,
};

use crate::find::Site;

/// Bytes of a near jump.
pub const JUMP: usize = 5;
/// Numbers of system calls that have a word of their own: Linux 7.3 has 472.
pub const NUMBERS: usize = 500;
/// The word for all other numbers.
pub const OTHERS: usize = NUMBERS;
/// The word that counts how often memory was made executable that no file is behind.
pub const MADE_CODE: usize = NUMBERS + 1;
/// The word that is not zero once the process may not make all system calls any more.
pub const SEALED: usize = NUMBERS + 2;
/// The word that counts how often a file was mapped to be executed.
pub const MAPPED: usize = NUMBERS + 3;
/// Parts of the table. Words that do not count calls are in the first.
pub const SHARDS: usize = 8;
/// Words of each part of the table, of eight bytes.
pub const TABLE_WORDS: usize = 512;
/// The signal by which a thread tells that it is about to map a file: `SIGURG`, which is ignored by default.
pub const NOTICE: i32 = 23;

/// System calls whose arguments say that code may come: `mmap`, `mprotect`, `prctl`, `seccomp`.
const LOOKED_AT: [u32; 4] = [9, 10, 157, 317];

/// What an area is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Address of the table in the process.
    pub table: u64,
    /// Address of the word that is the tracer's thread while it lives: 0 or with bit 30 set if not.
    pub alive: u64,
    /// The value in `r9` of system calls that are not the program's.
    pub mark: u64,
}

/// Bytes that are written to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub at: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// The assembled head, for address 0 and without its pointers.
#[derive(Debug)]
struct Assembled {
    code: Vec<u8>,
    /// Offset of what stubs call.
    look: u64,
    /// Offset of where a thread stands that has told.
    told: u64,
}

/// The code that all stubs of an area share.
///
/// `rcx` is where to go on, `r11` the number, and the flags are in `ax`.
fn assemble() -> Result<Assembled, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let [mut table, mut alive, mut mark] = [a.create_label(), a.create_label(), a.create_label()];
    let [mut look, mut told, mut back] = [a.create_label(), a.create_label(), a.create_label()];
    let [mut map, mut protect, mut made] = [a.create_label(), a.create_label(), a.create_label()];
    let [mut filter, mut sealed] = [a.create_label(), a.create_label()];
    for pointer in [&mut table, &mut alive, &mut mark] {
        a.set_label(pointer)?;
        a.dq(&[0])?;
    }
    a.set_label(&mut look)?;
    a.cmp(r11, 9)?;
    a.je(map)?;
    a.cmp(r11, 10)?;
    a.je(protect)?;
    a.cmp(r11, 157)?;
    a.je(filter)?;
    // seccomp(2): both kinds of filters.
    a.cmp(r11, 317)?;
    a.jne(back)?;
    a.cmp(edi, 1)?;
    a.jbe(sealed)?;
    a.set_label(&mut back)?;
    a.jmp(rcx)?;
    a.set_label(&mut filter)?;
    // PR_SET_SECCOMP.
    a.cmp(edi, 22)?;
    a.jne(back)?;
    a.set_label(&mut sealed)?;
    add_to(&mut a, table, SEALED)?;
    a.jmp(rcx)?;
    a.set_label(&mut protect)?;
    // PROT_EXEC.
    a.test(dl, 4)?;
    a.je(back)?;
    a.set_label(&mut made)?;
    add_to(&mut a, table, MADE_CODE)?;
    a.jmp(rcx)?;
    a.set_label(&mut map)?;
    a.test(dl, 4)?;
    a.je(back)?;
    // MAP_ANONYMOUS.
    a.test(r10b, 0x20)?;
    a.jne(made)?;
    add_to(&mut a, table, MAPPED)?;
    tell(&mut a, [table, alive, mark], &mut told)?;
    a.jmp(rcx)?;
    let assembled = a.assemble_options(0, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
    let (look, told) = (assembled.label_ip(&look)?, assembled.label_ip(&told)?);
    Ok(Assembled { code: assembled.inner.code_buffer, look, told })
}

/// Gives the signal, if a tracer lives and the process may do what it likes.
fn tell(
    a: &mut CodeAssembler,
    [table, alive, mark]: [CodeLabel; 3],
    told: &mut CodeLabel,
) -> Result<(), IcedError> {
    let mut done = a.create_label();
    // Below what the caller may have below its stack pointer: a `siginfo_t`, and the registers.
    const INFO: i32 = 128;
    a.lea(rsp, qword_ptr(rsp - (128 + INFO)))?;
    let kept = [rcx, r11, rax, rdi, rsi, rdx, r9, r10];
    for register in kept {
        a.push(register)?;
    }
    a.mov(rcx, qword_ptr(table))?;
    a.cmp(qword_ptr(rcx + 8 * i32::try_from(SEALED).expect("small")), 0)?;
    a.jne(done)?;
    a.mov(rcx, qword_ptr(alive))?;
    a.mov(ecx, dword_ptr(rcx))?;
    a.test(ecx, ecx)?;
    a.je(done)?;
    // FUTEX_OWNER_DIED.
    a.test(ecx, 1 << 30)?;
    a.jne(done)?;
    a.mov(r9, qword_ptr(mark))?;
    // getpid(2), gettid(2) and rt_tgsigqueueinfo(2).
    a.mov(eax, 39)?;
    a.syscall()?;
    a.mov(edi, eax)?;
    a.mov(eax, 186)?;
    a.syscall()?;
    a.mov(esi, eax)?;
    a.lea(r10, qword_ptr(rsp + 64))?;
    let word = |at: i32| dword_ptr(r10 + at);
    a.mov(word(0), NOTICE)?;
    a.mov(word(4), 0)?;
    // SI_QUEUE, from this process, with the mark.
    a.mov(word(8), -1)?;
    a.mov(word(12), 0)?;
    a.mov(word(16), edi)?;
    a.mov(word(20), 0)?;
    a.mov(qword_ptr(r10 + 24), r9)?;
    a.mov(edx, NOTICE)?;
    a.mov(eax, 297)?;
    a.syscall()?;
    a.set_label(told)?;
    a.nop()?;
    a.set_label(&mut done)?;
    for register in kept.into_iter().rev() {
        a.pop(register)?;
    }
    a.lea(rsp, qword_ptr(rsp + (128 + INFO)))
}

/// Adds one to a word of the table, without a register; the flags are kept by the stub.
fn add_to(a: &mut CodeAssembler, table: CodeLabel, word: usize) -> Result<(), IcedError> {
    let at = 8 * i32::try_from(word).expect("small");
    a.lea(rsp, qword_ptr(rsp - 128))?;
    a.push(rcx)?;
    a.mov(rcx, qword_ptr(table))?;
    a.lock().inc(qword_ptr(rcx + at))?;
    a.pop(rcx)?;
    a.lea(rsp, qword_ptr(rsp + 128))
}

fn assembled() -> &'static Assembled {
    static HEAD: OnceLock<Assembled> = OnceLock::new();
    HEAD.get_or_init(|| assemble().expect("the instructions stand above"))
}

/// The stubs of an area, which begins with its head.
#[derive(Clone, Debug)]
pub struct Stubs {
    base: u64,
    size: usize,
    used: usize,
}

impl Stubs {
    /// Those of an area at `base` of `size` bytes, and the head to write there.
    pub fn new(base: u64, size: usize, head: Head) -> (Self, Write) {
        let mut bytes = assembled().code.clone();
        for (at, word) in bytes.chunks_exact_mut(8).zip([head.table, head.alive, head.mark]) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let used = bytes.len().next_multiple_of(16);
        (Self { base, size, used }, Write { at: base, bytes })
    }

    /// Where a thread stands that has told that it is about to map a file.
    pub fn told_at(&self) -> u64 {
        self.base + assembled().told
    }

    /// Whether an address lies in the area.
    pub fn holds(&self, address: u64) -> bool {
        (self.base..self.base + self.size as u64).contains(&address)
    }

    /// Makes the stubs of sites of a file that is mapped `bias` above its own numbers. Gives the code, to be written
    /// first, and the jumps; `None` if there is no room, or it is too far away.
    pub fn add(&mut self, sites: &[Site], bias: u64) -> Option<(Write, Vec<Write>)> {
        let at = self.base + self.used as u64;
        let mut code = Vec::with_capacity(sites.len() * 64);
        let mut jumps = Vec::with_capacity(sites.len());
        for site in sites {
            let stub = at + code.len() as u64;
            let window = site.window.wrapping_add(bias);
            jumps.push(Write { at: window, bytes: jump(window, stub)?.to_vec() });
            self.stub(site, bias, stub, &mut code)?;
        }
        let used = self.used + code.len().next_multiple_of(16);
        if used > self.size {
            return None;
        }
        self.used = used;
        Some((Write { at, bytes: code }, jumps))
    }

    fn stub(&self, site: &Site, bias: u64, at: u64, code: &mut Vec<u8>) -> Option<()> {
        let begin = code.len();
        let stays = site.end <= site.syscall;
        let at_syscall = usize::try_from(site.syscall - site.window).ok()?;
        let (before, itself) = site.original.split_at_checked(at_syscall)?;
        if site.is_plain {
            code.extend(before);
        } else {
            code.extend(moved(before, site.window.wrapping_add(bias), at)?);
        }
        let here = |code: &Vec<u8>| at + (code.len() - begin) as u64;
        let word = |word: usize| u32::try_from(8 * word).expect("small").to_le_bytes();
        code.extend(KEEP);
        let behind = here(code) + ADD_TABLE.len() as u64 + 4;
        code.extend(ADD_TABLE);
        code.extend(near(behind, self.base)?);
        let known = site.number.and_then(|number| usize::try_from(number).ok());
        if let Some(number) = known.filter(|number| *number < NUMBERS) {
            code.extend(INCREMENT);
            code.extend(word(number));
        } else {
            code.extend(INCREMENT_ANY);
            code.extend(word(OTHERS));
        }
        if site.number.is_none_or(|number| LOOKED_AT.contains(&number)) {
            code.extend(LOOK);
            let behind = here(code) + JUMP as u64 - 1;
            code.extend(near(behind, self.base + assembled().look)?);
        }
        code.extend(RESTORE);
        if stays {
            code.extend(jump(here(code), site.syscall.wrapping_add(bias))?);
        } else {
            code.extend(moved(itself, site.syscall.wrapping_add(bias), here(code))?);
            code.extend(jump(here(code), site.end.wrapping_add(bias))?);
        }
        Some(())
    }
}

/// Keeps the number in `r11` and the flags in `ax`, and takes the offset of the thread's part of the table from its
/// stack pointer: stacks of threads lie 8 MiB from each other. A part has 4 KiB.
#[rustfmt::skip]
const KEEP: &[u8] = &[
    0x49, 0x89, 0xc3,                   // mov r11, rax
    0x9f,                               // lahf
    0x0f, 0x90, 0xc0,                   // seto al
    0x89, 0xe1,                         // mov ecx, esp
    0xc1, 0xe9, 11,                     // shr ecx, 11
    0x81, 0xe1, 0, 0x70, 0, 0,          // and ecx, 7000h
];
/// `add rcx, [rip+table]`, without the distance.
const ADD_TABLE: &[u8] = &[0x48, 0x03, 0x0d];
/// `lock inc qword [rcx+word]`, without the word.
const INCREMENT: &[u8] = &[0xf0, 0x48, 0xff, 0x81];
/// The same by the number in `r11`; last without the word for all others.
#[rustfmt::skip]
const INCREMENT_ANY: &[u8] = &[
    0x49, 0x81, 0xfb, 0xf4, 1, 0, 0,    // cmp r11, 500
    0x73, 7,                            // jae other
    0xf0, 0x4a, 0xff, 0x04, 0xd9,       // lock inc qword [rcx+r11*8]
    0xeb, 8,                            // jmp behind
    0xf0, 0x48, 0xff, 0x81,             // other: lock inc qword [rcx+word]
];
/// `lea rcx, [rip+5]` and a jump without the distance.
const LOOK: &[u8] = &[0x48, 0x8d, 0x0d, 5, 0, 0, 0, 0xe9];
/// The flags and the number again.
#[rustfmt::skip]
const RESTORE: &[u8] = &[
    0x04, 0x7f,                         // add al, 7fh
    0x9e,                               // sahf
    0x4c, 0x89, 0xd8,                   // mov rax, r11
];

/// The distance from the end of an instruction.
fn near(behind: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(behind).cast_signed()).ok().map(i32::to_le_bytes)
}

fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    let [a, b, c, d] = near(from + JUMP as u64, to)?;
    Some([0xe9, a, b, c, d])
}

/// Instructions that say where they are, at another address.
fn moved(bytes: &[u8], from: u64, to: u64) -> Option<Vec<u8>> {
    let instructions: Vec<Instruction> =
        Decoder::with_ip(64, bytes, from, DecoderOptions::NONE).iter().collect();
    let block = InstructionBlock::new(&instructions, to);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?;
    Some(encoded.code_buffer)
}

#[cfg(test)]
mod tests {
    use iced_x86::{Formatter as _, NasmFormatter};

    use super::*;

    const BASE: u64 = 0x10_0000;
    const HEAD: Head = Head { table: 0x7000_0000_0000, alive: 0x7000_0001_0000, mark: 0x6d61_726b };

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

    fn site(original: &[u8], displaced: u64, number: Option<u32>, is_plain: bool) -> Site {
        Site {
            window: 0x1000,
            syscall: 0x1000 + original.len() as u64 - 2,
            end: 0x1000 + displaced,
            original: original.to_vec(),
            number,
            is_plain,
        }
    }

    fn stub(site: Site, bias: u64) -> (Vec<String>, Vec<String>) {
        let (mut stubs, head) = Stubs::new(BASE, 1 << 20, HEAD);
        assert_eq!(head.bytes[..8], HEAD.table.to_le_bytes());
        let (code, jumps) = stubs.add(&[site], bias).expect("room");
        let code = disassembled(&code.bytes, code.at);
        (code, jumps.iter().flat_map(|jump| disassembled(&jump.bytes, jump.at)).collect())
    }

    #[test]
    fn a_stub_executes_counts_with_all_kept_and_goes_to_the_call() {
        let getppid = [0xb8, 110, 0, 0, 0, 0x0f, 0x05];
        let (code, jumps) = stub(site(&getppid, 5, Some(110), true), 0x40_0000);
        let table = BASE;
        let expected = [
            "mov eax,6Eh".to_owned(),
            "mov r11,rax".to_owned(),
            "lahf".to_owned(),
            "seto al".to_owned(),
            "mov ecx,esp".to_owned(),
            "shr ecx,0Bh".to_owned(),
            "and ecx,7000h".to_owned(),
            format!("add rcx,[rel {table:X}h]"),
            "lock inc qword [rcx+370h]".to_owned(),
            "add al,7Fh".to_owned(),
            "sahf".to_owned(),
            "mov rax,r11".to_owned(),
            "jmp 0000000000401005h".to_owned(),
        ];
        assert_eq!(code, expected);
        assert!(jumps.len() == 1 && jumps[0].starts_with("jmp 00000000001"), "{jumps:?}");
    }

    #[test]
    fn numbers_that_are_not_known_are_told_apart_where_there_are_words() {
        let indirect = [0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x0f, 0x05];
        let (code, _) = stub(site(&indirect, 6, None, true), 0);
        let count: Vec<&str> = code.iter().skip(9).map(String::as_str).take(5).collect();
        assert_eq!(count[0], "cmp r11,1F4h", "{code:#?}");
        assert!(count[1].starts_with("jae short"), "{code:#?}");
        assert_eq!(count[2], "lock inc qword [rcx+r11*8]");
        assert!(count[3].starts_with("jmp short"), "{code:#?}");
        assert_eq!(count[4], format!("lock inc qword [rcx+0{:X}h]", 8 * OTHERS));
        // Which call it is is looked at, and it goes on right behind.
        let at = code.iter().position(|line| line.starts_with("lea rcx,[rel ")).expect("a call");
        assert!(code[at + 1].starts_with("jmp 00000000001000"), "{code:#?}");
    }

    #[test]
    fn instructions_that_say_where_they_are_say_the_same_elsewhere() {
        // je 1007h; mov rdi,[rip+10h]; syscall
        let original = [0x74, 5, 0x48, 0x8b, 0x3d, 0x10, 0, 0, 0, 0x0f, 0x05];
        let (code, _) = stub(site(&original, 9, None, false), 0x40_0000);
        assert_eq!(code[0], "je near 0000000000401007h");
        assert_eq!(code[1], "mov rdi,[rel 401019h]");
    }

    #[test]
    fn a_call_that_does_not_return_is_made_in_the_stub() {
        // xor edi,edi; mov eax,edx; syscall; and back to the first.
        let original = [0x31, 0xff, 0x89, 0xd0, 0x0f, 0x05];
        let mut site = site(&original, 6, None, true);
        site.syscall = 0x1004;
        let (code, _) = stub(site, 0x40_0000);
        let last: Vec<&str> = code.iter().rev().take(2).map(String::as_str).collect();
        assert_eq!(last, ["jmp 0000000000401006h", "syscall"]);
    }

    #[test]
    fn what_is_too_far_away_or_has_no_room_is_not_written() {
        let original = [0xb8, 110, 0, 0, 0, 0x0f, 0x05];
        let far = site(&original, 5, Some(110), true);
        let (mut stubs, _) = Stubs::new(BASE, 1 << 20, HEAD);
        assert_eq!(stubs.add(std::slice::from_ref(&far), 0x7f00_0000_0000), None);
        let many = vec![far; 30_000];
        assert_eq!(stubs.add(&many, 0), None);
        assert!(stubs.add(&many[..100], 0).is_some(), "what was refused took no room");
    }

    #[test]
    fn the_head_ends_with_going_on() {
        let (stubs, head) = Stubs::new(BASE, 1 << 20, HEAD);
        let code = disassembled(&head.bytes[24..], BASE + 24);
        assert_eq!(code.last().map(String::as_str), Some("jmp rcx"), "{code:#?}");
        assert!(code.iter().all(|line| line != "(bad)"), "{code:#?}");
        assert_eq!(code.iter().filter(|line| *line == "syscall").count(), 3, "{code:#?}");
        let told = usize::try_from(stubs.told_at() - BASE).expect("small");
        assert_eq!(head.bytes[told - 2..=told], [0x0f, 0x05, 0x90], "right behind the last call");
    }
}
