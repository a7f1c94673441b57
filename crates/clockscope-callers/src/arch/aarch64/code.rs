//! Executes instructions symbolically: their effects on the stack and on callee-saved registers.
//!
//! Only the instructions that compilers use to build and remove frames are executed. For all others
//! only the registers they write matter; if those cannot be determined, nothing is known from there
//! on.
//!
//! # References
//!
//! Arm Architecture Reference Manual for A-profile (DDI 0487), C4.1 "A64 instruction set encoding"

use super::registers::{FP, PRESERVED, SP};
use crate::unwind_code::{Content, Flow, Place, Return};

/// Bytes that are read at an address: two instructions, the length of the code that signal handlers
/// return to.
pub(crate) const LONGEST: usize = 8;
/// The system calls that end a thread or a process.
const EXITS: [u32; 2] = [93, 94];
/// `x30`.
const LINK: usize = 30;
/// `svc #0`
const SYSTEM_CALL: u32 = 0xd400_0001;
/// The register of the system call number.
const NUMBER: usize = 8;
/// Registers that a called function may change: `x0` to `x18`.
const VOLATILE: u32 = 0x7_ffff;
/// Most stores that are remembered on one path.
const STORES_MAX: usize = 64;

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    word: u32,
    at: u64,
}

/// Scratch memory of the x86-64 version; not needed here.
pub(crate) struct Scratch;

impl Scratch {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// The instruction at an address.
pub(crate) fn decode(bytes: &[u8], at: u64) -> Instruction {
    /// `br x0`: an instruction with an unknown successor.
    const UNKNOWN: u32 = 0xd61f_0000;
    Instruction { word: bytes.first_chunk().map_or(UNKNOWN, |word| u32::from_le_bytes(*word)), at }
}

/// The address behind an instruction.
pub(crate) fn next(instruction: &Instruction) -> u64 {
    instruction.at.wrapping_add(4)
}

/// The function called by the instruction directly before an address; `code` gives bytes from an
/// address on.
pub(crate) fn called_before(at: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>) -> Option<u64> {
    let before = at.wrapping_sub(4);
    let call = decode(&code(before)?, before);
    call.is(0xfc00_0000, 0x9400_0000).then(|| call.target(0, 26))
}

impl Instruction {
    fn is(self, mask: u32, value: u32) -> bool {
        self.word & mask == value
    }

    /// The field of `bits` bits from bit `from` on.
    fn field(self, from: u32, bits: u32) -> u32 {
        self.word >> from & ((1 << bits) - 1)
    }

    fn bit(self, number: u32) -> bool {
        self.field(number, 1) == 1
    }

    fn signed(self, from: u32, bits: u32) -> i64 {
        let unused = u32::BITS - bits;
        i64::from((self.field(from, bits) << unused).cast_signed() >> unused)
    }

    /// The register whose number begins at bit `from`; 31 is the stack pointer or none.
    fn register(self, from: u32) -> usize {
        self.field(from, 5) as usize
    }

    /// The target of a branch whose distance is in `bits` bits from bit `from` on.
    fn target(self, from: u32, bits: u32) -> u64 {
        self.at.wrapping_add_signed(self.signed(from, bits) * 4)
    }
}

/// The state of registers and stack on a path.
#[derive(Clone, Debug)]
pub(crate) struct State {
    sp: Place,
    /// The constant in `x8`.
    number: Option<u32>,
    link: Content,
    /// In the order of `PRESERVED`.
    preserved: [Content; PRESERVED.len()],
    /// The words stored on the path.
    stored: Vec<(Place, Content)>,
    /// Registers that hold the address of a page, and registers that were loaded from such a page
    /// and may point to imported functions; one bit each.
    pages: u32,
    imported: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            sp: Place { base: SP, offset: 0 },
            number: None,
            link: Content::Same,
            preserved: [Content::Same; PRESERVED.len()],
            stored: Vec::new(),
            pages: 0,
            imported: 0,
        }
    }
}

impl State {
    /// The control flow of an instruction.
    pub(crate) fn flow(&self, instruction: &Instruction) -> Flow {
        let code = *instruction;
        match code.word {
            SYSTEM_CALL => Flow::SystemCall,
            _ if code.is(0xfc00_0000, 0x1400_0000) => Flow::Jump(code.target(0, 26)),
            _ if code.is(0xfc00_0000, 0x9400_0000) => Flow::Call(code.target(0, 26)),
            // `b.cond`, `cbz`, `cbnz`; `tbz`, `tbnz`
            _ if code.is(0xff00_0000, 0x5400_0000) || code.is(0x7e00_0000, 0x3400_0000) => {
                Flow::Branch(code.target(5, 19))
            }
            _ if code.is(0x7e00_0000, 0x3600_0000) => Flow::Branch(code.target(5, 14)),
            // `ret`, `retaa`, `retab`
            0xd65f_03c0 => Flow::Return,
            _ if code.is(0xffff_fbff, 0xd65f_0bff) => Flow::Return,
            // `blr` and its forms with pointer authentication
            _ if code.is(0xffff_fc1f, 0xd63f_0000) || code.is(0xfeff_f800, 0xd63f_0800) => {
                let is_imported = self.imported >> code.register(5) & 1 == 1;
                if is_imported { Flow::Unknown } else { Flow::PointerCall }
            }
            // `brk`, `udf`
            _ if code.is(0xffe0_001f, 0xd420_0000) || code.is(0xffff_0000, 0) => Flow::Trap,
            // Exceptions of other kinds, and jumps through registers.
            _ if code.is(0xff00_0000, 0xd400_0000) => Flow::Unknown,
            _ if code.is(0xfe00_0000, 0xd600_0000) => Flow::Unknown,
            _ => Flow::Next,
        }
    }

    /// A function was called and has returned.
    pub(crate) fn called(&mut self) {
        self.link = Content::Lost;
        self.number = None;
        self.pages &= !VOLATILE;
        self.imported &= !VOLATILE;
    }

    /// The state at a `ret`.
    pub(crate) fn returned(&self, _instruction: &Instruction) -> Option<Return> {
        (self.link != Content::Lost).then_some(Return {
            address: self.link,
            sp: self.sp,
            preserved: self.preserved,
        })
    }

    /// Whether a system call here is `exit` or `exit_group`.
    pub(crate) fn is_to_exit(&self) -> bool {
        self.number.is_some_and(|number| EXITS.contains(&number))
    }

    /// Executes an instruction; `None` if nothing is known of the stack afterwards.
    pub(crate) fn execute(&mut self, instruction: &Instruction, _: &mut Scratch) -> Option<()> {
        let code = *instruction;
        if code.word == SYSTEM_CALL {
            // The kernel writes its result to `x0` and keeps all other registers.
            return self.write(0);
        }
        match code.field(25, 4) {
            0b1000 | 0b1001 => self.with_constant(code),
            0b1010 | 0b1011 => self.of_system(code),
            0b0100 | 0b0110 | 0b1100 | 0b1110 => self.load_or_store(code),
            0b0101 | 0b1101 => self.with_registers(code),
            // Floating-point and vector instructions may write a general register.
            0b0111 | 0b1111 => self.write(code.register(0)),
            _ => None,
        }
    }

    /// Arithmetic with a constant.
    fn with_constant(&mut self, code: Instruction) -> Option<()> {
        let (target, source) = (code.register(0), code.register(5));
        let (is_64_bit, sets_flags) = (code.bit(31), code.bit(29));
        // `add` and `sub`
        if code.is(0x1f80_0000, 0x1100_0000) {
            if target != SP || sets_flags {
                return self.write(target);
            }
            let constant = i64::from(code.field(10, 12)) << if code.bit(22) { 12 } else { 0 };
            let bytes = if code.bit(30) { -constant } else { constant };
            let base = self.base(source).filter(|_| is_64_bit)?;
            self.sp = Place { offset: base.offset.checked_add(bytes)?, ..base };
            return Some(());
        }
        // Writes to the stack pointer by memory tagging and logical instructions.
        let is_logical = code.is(0x1f80_0000, 0x1200_0000);
        let has_flags = code.field(29, 2) == 3;
        if target == SP && (code.is(0x1f80_0000, 0x1180_0000) || is_logical && !has_flags) {
            return None;
        }
        self.write(target)?;
        // `movz`
        if code.is(0x7f80_0000, 0x5280_0000) && target == NUMBER {
            self.number = (code.field(21, 2) == 0).then(|| code.field(5, 16));
        }
        // `adrp`
        if code.is(0x9f00_0000, 0x9000_0000) && target != SP {
            self.pages |= 1 << target;
        }
        Some(())
    }

    /// Hints, barriers, system registers.
    fn of_system(&mut self, code: Instruction) -> Option<()> {
        if !code.is(0xffc0_0000, 0xd500_0000) {
            return None;
        }
        let reads = code.bit(21);
        if reads { self.write(code.register(0)) } else { Some(()) }
    }

    /// Arithmetic with registers.
    fn with_registers(&mut self, code: Instruction) -> Option<()> {
        let target = code.register(0);
        // `add` and `sub` of an extended register, and `irg`, can write the stack pointer.
        let may_write_sp = code.is(0x3f20_0000, 0x0b20_0000) || code.is(0xffe0_fc00, 0x9ac0_1000);
        if target == SP && may_write_sp { None } else { self.write(target) }
    }

    fn load_or_store(&mut self, code: Instruction) -> Option<()> {
        if code.is(0x3a00_0000, 0x2800_0000) {
            return self.pair(code);
        }
        // An unsigned or a signed offset.
        if code.is(0x3b00_0000, 0x3900_0000) {
            let is_whole = code.field(30, 2) == 3;
            let offset = i64::from(code.field(10, 12)) * 8;
            let place = self.near(code.register(5), offset).filter(|_| is_whole);
            return self.single(code, place);
        }
        if code.is(0x3b20_0000, 0x3800_0000) {
            return self.single_indexed(code);
        }
        let target = code.register(0);
        let is_of_vectors = code.bit(26);
        // An offset in a register; an address relative to the instruction.
        if code.is(0x3b20_0c00, 0x3820_0800) || code.is(0x3b00_0000, 0x1800_0000) {
            return if is_of_vectors { Some(()) } else { self.write(target) };
        }
        // Atomic instructions, and accesses with memory ordering.
        let is_ordered = code.is(0x3f20_0c00, 0x1900_0000);
        if code.is(0x3f20_0c00, 0x3820_0000) || is_ordered {
            return self.write(target);
        }
        // Exclusive and compare-and-swap instructions: they write up to two pairs of registers.
        if code.is(0x3f00_0000, 0x0800_0000) {
            let status = code.register(16);
            let written = [target, target | 1, code.register(10), status, status | 1];
            return written.into_iter().try_for_each(|register| self.write(register));
        }
        // Vector structures.
        if code.is(0xbe00_0000, 0x0c00_0000) {
            return if code.bit(23) { self.moved(code.register(5)) } else { Some(()) };
        }
        None
    }

    fn pair(&mut self, code: Instruction) -> Option<()> {
        let (first, second, base) = (code.register(0), code.register(10), code.register(5));
        let (size, is_of_vectors, is_load) = (code.field(30, 2), code.bit(26), code.bit(22));
        if size == 3 || size == 1 && !is_of_vectors && !is_load {
            return None;
        }
        let bytes = match (is_of_vectors, size) {
            (true, _) => 4 << size,
            (false, 2) => 8,
            (false, _) => 4,
        };
        let offset = code.signed(15, 7) * bytes;
        let (is_before, is_after) = (code.field(23, 2) == 3, code.field(23, 2) == 1);
        let place = self.near(base, if is_after { 0 } else { offset });
        if is_before || is_after {
            self.move_base(base, offset)?;
        }
        if is_of_vectors {
            return Some(());
        }
        let place = place.filter(|_| size == 2);
        let above =
            place.and_then(|place| Some(Place { offset: place.offset.checked_add(8)?, ..place }));
        let registers = [(first, place), (second, above)];
        if is_load {
            let contents = registers.map(|(register, place)| (register, self.content(place)));
            return contents
                .into_iter()
                .try_for_each(|(register, content)| self.set(register, content));
        }
        registers.into_iter().try_for_each(|(register, place)| self.store(register, place))
    }

    /// A load or store that changes its base register before or after the access, or with a byte
    /// offset.
    fn single_indexed(&mut self, code: Instruction) -> Option<()> {
        let (base, offset) = (code.register(5), code.signed(12, 9));
        let mode = code.field(10, 2);
        let is_whole = code.field(30, 2) == 3;
        let place = self.near(base, if mode == 1 { 0 } else { offset }).filter(|_| is_whole);
        if mode == 1 || mode == 3 {
            self.move_base(base, offset)?;
        }
        self.single(code, place)
    }

    /// One register at a place, which is known only for 64-bit accesses.
    fn single(&mut self, code: Instruction, place: Option<Place>) -> Option<()> {
        let (target, base) = (code.register(0), code.register(5));
        if code.bit(26) {
            return Some(());
        }
        match (code.field(30, 2), code.field(22, 2)) {
            // `prfm`
            (3, 2) => Some(()),
            (_, 0) => self.store(target, place),
            (3, 1) => {
                let is_of_page = base != SP && self.pages >> base & 1 == 1;
                let content = self.content(place);
                self.set(target, content)?;
                if is_of_page && target != SP {
                    self.imported |= 1 << target;
                }
                Some(())
            }
            _ => self.write(target),
        }
    }

    /// A register gets an unknown value; 31 is none.
    fn write(&mut self, register: usize) -> Option<()> {
        self.set(register, Content::Lost)
    }

    fn set(&mut self, register: usize, content: Content) -> Option<()> {
        if register == SP {
            return Some(());
        }
        self.pages &= !(1 << register);
        self.imported &= !(1 << register);
        if register == NUMBER {
            self.number = None;
        }
        if register == LINK {
            self.link = content;
        }
        if let Some(index) = PRESERVED.iter().position(|own| *own == register) {
            self.preserved[index] = content;
        }
        Some(())
    }

    /// The place to which the stack pointer or the frame pointer points, if known.
    fn base(&self, register: usize) -> Option<Place> {
        let has_frame_pointer = self.preserved.last() == Some(&Content::Same);
        match register {
            SP => Some(self.sp),
            FP if has_frame_pointer => Some(Place { base: FP, offset: 0 }),
            _ => None,
        }
    }

    fn near(&self, register: usize, offset: i64) -> Option<Place> {
        let base = self.base(register)?;
        Some(Place { offset: base.offset.checked_add(offset)?, ..base })
    }

    /// An instruction changes its base register by `bytes`.
    fn move_base(&mut self, register: usize, bytes: i64) -> Option<()> {
        if register == SP {
            self.sp.offset = self.sp.offset.checked_add(bytes)?;
            return Some(());
        }
        self.write(register)
    }

    /// An instruction changes its base register by an unknown amount.
    fn moved(&mut self, register: usize) -> Option<()> {
        if register == SP { None } else { self.write(register) }
    }

    fn store(&mut self, register: usize, place: Option<Place>) -> Option<()> {
        let Some(place) = place else { return Some(()) };
        let content = match register {
            LINK => self.link,
            _ => PRESERVED
                .iter()
                .position(|own| *own == register)
                .map_or(Content::Lost, |index| self.preserved[index]),
        };
        self.stored.retain(|(known, _)| *known != place);
        self.stored.push((place, content));
        (self.stored.len() <= STORES_MAX).then_some(())
    }

    /// The content of memory at a place: unknown if a different store on the path may overlap it.
    fn content(&self, place: Option<Place>) -> Content {
        let Some(place) = place else { return Content::Lost };
        if let Some((_, content)) = self.stored.iter().find(|(known, _)| *known == place) {
            return *content;
        }
        let overlaps =
            |known: &Place| known.base != place.base || known.offset.abs_diff(place.offset) < 8;
        let is_stored = self.stored.iter().any(|(known, _)| overlaps(known));
        if is_stored { Content::Lost } else { Content::At(place) }
    }
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
