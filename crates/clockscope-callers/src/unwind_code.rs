//! How code without unwind tables goes back to its caller, found by reading on to where it returns.
//!
//! From the place where a function waits, all ways on are followed until each returns, and what they do to the stack
//! pointer and to the registers that a function preserves is noted. A program that took one of these ways would
//! find its return address there, so it is no guess. A call may never come back: a way that goes through one is
//! followed only if the called function is seen to return. Jumps to computed addresses are not followed. If no such
//! way returns, those through calls of function pointers are followed too: no compiler knows of one that it never comes
//! back. If still none returns, or two disagree, nothing is known.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use super::module_file::Elf;
use super::symbol_table::SymbolTable;
use super::unwind_cfi::{PRESERVED, RBP, RSP, Registers, Stack};

/// Most instructions that are followed from one place.
const INSTRUCTIONS_MAX: usize = 600;
/// Ways that are remembered, for each file.
const CACHE_MAX: usize = 8192;
/// The first function of a thread calls one of these when what it has called is done.
const ENDS: [&str; 3] = ["exit", "pthread_exit", "__pthread_exit"];
/// Most instructions that are looked at for one place, with those of called functions.
const ALL_INSTRUCTIONS_MAX: usize = 4000;
/// How deep functions are looked into that are called on the way.
const CALLS_DEPTH: u8 = 2;
/// The system calls that end a thread or a process.
const EXITS: [u32; 2] = [60, 231];
/// Most bytes of an instruction.
const LONGEST: usize = 15;
/// What a handler returns to begins so: `rt_sigreturn` by `mov $15,%rax` or `mov $15,%eax`, and `syscall`.
const SIGNAL_RETURNS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];
/// Where the kernel keeps the general registers in the frame of a signal: `uc_mcontext` in `struct ucontext`,
/// and the numbers that DWARF has for `r8` and so on up to `rsp`, then `rip` (Linux 6.1,
/// `arch/x86/include/uapi/asm/sigcontext.h`).
const SIGNAL_REGISTERS: u64 = 40;
const SIGNAL_ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, RBP, 3, 1, 0, 2, RSP];

/// Where code goes from a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Back to its caller.
    Back(Return),
    /// Back to what a signal has interrupted.
    Signal,
    /// To the end of the thread or the program: nobody waits for it.
    End,
    /// That cannot be told.
    Unknown,
}

/// The ways in a file's code that were asked for.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: HashMap<(u64, bool), Way>,
    /// Functions that never return.
    ends: Option<Vec<u64>>,
}

impl Ways {
    /// The way from an address in the file's own counting on, where a function waits for what it
    /// called, or was interrupted.
    pub(super) fn way(&mut self, elf: &Elf, at: u64, is_interrupted: bool) -> &Way {
        let ends = self.ends.get_or_insert_with(|| ends_of(elf));
        if self.known.len() >= CACHE_MAX {
            self.known.clear();
        }
        self.known.entry((at, is_interrupted)).or_insert_with(|| {
            let code = |at| elf.code(at, LONGEST as u64);
            if is_interrupted {
                Way::from(at, &code, ends)
            } else {
                Way::behind_call(at, &code, ends)
            }
        })
    }
}

/// The functions of a C library that end threads and programs.
fn ends_of(elf: &Elf) -> Vec<u64> {
    let tables = [SymbolTable::full(elf), SymbolTable::exported(elf)];
    let mut ends = Vec::new();
    for table in tables.iter().flatten() {
        let functions = table.iter().map(|(_, symbol)| symbol);
        let is_end = |name: &[u8]| ENDS.iter().any(|end| end.as_bytes() == name);
        ends.extend(functions.filter(|symbol| is_end(symbol.name)).map(|symbol| symbol.start));
    }
    ends
}

/// What is so when a function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Return {
    /// Where the return address is.
    address: Place,
    /// Bytes that the function takes off the stack besides.
    more: u64,
    /// Where what must be preserved is, in the order of `PRESERVED`.
    preserved: [Content; PRESERVED.len()],
}

/// A place in memory: a register's value at the beginning, and what is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    base: usize,
    offset: i64,
}

/// What a register has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// What it had at the beginning.
    Same,
    /// What was in memory at the beginning.
    At(Place),
    Lost,
}

impl Way {
    /// The way from `at` on; `code` gives bytes from an address on, and `ends` are the addresses of functions
    /// that never return.
    pub(super) fn from(at: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>, ends: &[u64]) -> Way {
        let within = |pointers_return, at| {
            let left = Cell::new(ALL_INSTRUCTIONS_MAX);
            Way::within(&Asked { code, ends, pointers_return, left: &left }, at, CALLS_DEPTH)
        };
        match within(false, at) {
            Way::Unknown => within(true, at),
            way => way,
        }
    }

    /// The way from a return address on: behind a call that may never come back there is other code. The
    /// first function of a thread has the one that it calls by a pointer; others may end the program too.
    pub(super) fn behind_call(at: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>, ends: &[u64]) -> Way {
        const DIRECT_CALL: usize = 5;
        let before = at.wrapping_sub(DIRECT_CALL as u64);
        let bytes = code(before).unwrap_or_default();
        let call = bytes
            .get(..DIRECT_CALL)
            .map(|bytes| Decoder::with_ip(64, bytes, before, DecoderOptions::NONE).decode());
        let target = call.filter(Instruction::is_call_near).map(|call| call.near_branch_target());
        let is_of_other = |target| !matches!(Way::from(target, code, ends), Way::Back(_));
        match (Way::from(at, code, ends), target) {
            (_, Some(target)) if is_of_other(target) => Way::Unknown,
            (Way::End, Some(_)) => Way::Unknown,
            (way, _) => way,
        }
    }

    /// The same, with called functions looked into to this depth.
    fn within(asked: &Asked<'_>, at: u64, depth: u8) -> Way {
        let Asked { code, left, .. } = asked;
        let begins = |bytes: Vec<u8>| SIGNAL_RETURNS.iter().any(|start| bytes.starts_with(start));
        if code(at).is_some_and(begins) {
            return Way::Signal;
        }
        let mut walk =
            Walk { asked, found: None, reached_end: false, stopped: false, agrees: true };
        let mut queue = VecDeque::from([(at, State::default())]);
        let mut seen = BTreeSet::new();
        let mut factory = InstructionInfoFactory::new();
        while let Some((at, mut state)) = queue.pop_front() {
            if seen.len() >= INSTRUCTIONS_MAX || left.get() == 0 {
                return Way::Unknown;
            }
            left.set(left.get() - 1);
            if !seen.insert(at) {
                continue;
            }
            let bytes = code(at).unwrap_or_default();
            let bytes = &bytes[..bytes.len().min(LONGEST)];
            let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
            let returns = |called: u64| {
                depth > 0 && matches!(Way::within(asked, called, depth - 1), Way::Back(_))
            };
            let next = walk.follow(&instruction, &mut state, &mut factory, returns);
            queue.extend(next.into_iter().map(|next| (next, state.clone())));
        }
        match walk {
            Walk { agrees: false, .. } => Way::Unknown,
            Walk { found: Some(found), .. } => Way::Back(found),
            Walk { reached_end: true, stopped: false, .. } => Way::End,
            Walk { .. } => Way::Unknown,
        }
    }
}

/// What is asked, and by what rules.
struct Asked<'a> {
    code: &'a dyn Fn(u64) -> Option<Vec<u8>>,
    ends: &'a [u64],
    /// Whether calls of function pointers are taken to come back.
    pointers_return: bool,
    /// Instructions that may still be looked at.
    left: &'a Cell<usize>,
}

/// What has been found on all ways.
struct Walk<'a> {
    asked: &'a Asked<'a>,
    found: Option<Return>,
    reached_end: bool,
    /// Whether a way was not followed to where it leads.
    stopped: bool,
    agrees: bool,
}

impl Walk<'_> {
    /// The instructions that may come next.
    fn follow(
        &mut self,
        instruction: &Instruction,
        state: &mut State,
        factory: &mut InstructionInfoFactory,
        returns: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let target = instruction.near_branch_target();
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::UnconditionalBranch
                if self.asked.ends.contains(&target) =>
            {
                self.reached_end = true;
                return Vec::new();
            }
            FlowControl::Call
                if instruction.mnemonic() == Mnemonic::Syscall && state.is_to_exit() =>
            {
                self.reached_end = true;
                return Vec::new();
            }
            // Of what iced counts as calls, only system calls come back by themselves.
            FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => {}
            FlowControl::Call if instruction.is_call_near() && returns(target) => {
                return vec![instruction.next_ip()];
            }
            FlowControl::IndirectCall
                if self.asked.pointers_return && is_of_pointer(instruction) =>
            {
                return vec![instruction.next_ip()];
            }
            FlowControl::UnconditionalBranch => return vec![target],
            FlowControl::ConditionalBranch => return vec![instruction.next_ip(), target],
            // `ud2`, and `hlt` in a program, end it.
            FlowControl::Exception if !instruction.is_invalid() => return Vec::new(),
            FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => return Vec::new(),
            FlowControl::Next => {}
            FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => {
                let found = state.returned(instruction);
                self.agrees &= found.is_some()
                    && self.found.as_ref().is_none_or(|known| found.as_ref() == Some(known));
                self.found = found;
                return Vec::new();
            }
            _ => {
                self.stopped = true;
                return Vec::new();
            }
        }
        if state.execute(instruction, factory).is_none() {
            self.stopped = true;
            return Vec::new();
        }
        vec![instruction.next_ip()]
    }
}

/// Whether a call is one of a function pointer, and not of an imported function, whose address is in the file's data.
fn is_of_pointer(call: &Instruction) -> bool {
    call.op0_kind() == OpKind::Register || !call.is_ip_rel_memory_operand()
}

/// What is known on the way.
#[derive(Clone, Debug)]
struct State {
    sp: Place,
    /// The constant in `eax`.
    eax: Option<u32>,
    /// What was pushed on the way.
    pushed: Vec<Content>,
    preserved: [Content; PRESERVED.len()],
}

impl Default for State {
    fn default() -> Self {
        let sp = Place { base: RSP, offset: 0 };
        Self { sp, eax: None, pushed: Vec::new(), preserved: [Content::Same; PRESERVED.len()] }
    }
}

/// The place of a register among the preserved ones.
fn preserved(register: Register) -> Option<usize> {
    const ORDER: [Register; PRESERVED.len()] =
        [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];
    ORDER.iter().position(|own| *own == register.full_register())
}

impl State {
    /// What is so at a `ret`.
    fn returned(&self, instruction: &Instruction) -> Option<Return> {
        let more =
            if instruction.op_count() == 0 { 0 } else { u64::from(instruction.immediate16()) };
        // A return address that was pushed on the way is a jump.
        self.pushed.is_empty().then_some(Return {
            address: self.sp,
            more,
            preserved: self.preserved,
        })
    }

    /// Whether a system call here is `exit` or `exit_group`.
    fn is_to_exit(&self) -> bool {
        self.eax.is_some_and(|number| EXITS.contains(&number))
    }

    /// Executes an instruction; `None` if then nothing is known of the stack.
    fn execute(
        &mut self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Option<()> {
        let (target, source) = (instruction.op0_register(), instruction.op1_register());
        let is_sp = target == Register::RSP;
        if target.full_register() == Register::RAX {
            let constant = instruction.try_immediate(1).ok().map(|number| number & 0xffff_ffff);
            let is_whole = instruction.mnemonic() == Mnemonic::Mov && target != Register::AH;
            self.eax = constant.filter(|_| is_whole).and_then(|number| u32::try_from(number).ok());
        }
        match instruction.mnemonic() {
            Mnemonic::Push if instruction.stack_pointer_increment() == -8 => {
                let is_register = instruction.op0_kind() == OpKind::Register;
                let content = preserved(target).filter(|_| is_register && target.is_gpr64());
                self.pushed.push(content.map_or(Content::Lost, |index| self.preserved[index]));
                self.move_by(-8)
            }
            Mnemonic::Pop
                if instruction.op0_kind() == OpKind::Register && target.is_gpr64() && !is_sp =>
            {
                let content = self.pushed.pop().unwrap_or(Content::At(self.sp));
                if let Some(index) = preserved(target) {
                    self.preserved[index] = content;
                }
                self.move_by(8)
            }
            Mnemonic::Add | Mnemonic::Sub if is_sp => {
                let bytes = immediate(instruction)?;
                let bytes = if instruction.mnemonic() == Mnemonic::Add {
                    bytes
                } else {
                    bytes.checked_neg()?
                };
                for _ in 0..(bytes / 8).max(0) {
                    self.pushed.pop();
                }
                for _ in 0..(-bytes / 8).clamp(0, 1 << 16) {
                    self.pushed.push(Content::Lost);
                }
                self.move_by(bytes)
            }
            Mnemonic::Lea if is_sp => {
                let place = self.place(instruction)?;
                self.go_to(place)
            }
            Mnemonic::Mov if is_sp && source == Register::RBP => {
                let place = self.of_rbp()?;
                self.go_to(place)
            }
            Mnemonic::Leave => {
                let place = self.of_rbp()?;
                self.go_to(place)?;
                self.preserved[1] = Content::At(place);
                self.move_by(8)
            }
            Mnemonic::Mov
                if preserved(target).is_some()
                    && target.is_gpr64()
                    && instruction.op1_kind() == OpKind::Memory =>
            {
                let content =
                    self.place(instruction).map_or(Content::Lost, |place| self.content(place));
                self.preserved[preserved(target)?] = content;
                Some(())
            }
            _ => self.execute_other(instruction, factory),
        }
    }

    /// Of another instruction only what it writes matters.
    fn execute_other(
        &mut self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Option<()> {
        for used in factory.info(instruction).used_registers() {
            let is_written = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
            );
            if is_written && used.register().full_register() == Register::RSP {
                return None;
            }
            if let Some(index) = preserved(used.register()).filter(|_| is_written) {
                self.preserved[index] = Content::Lost;
            }
        }
        Some(())
    }

    fn move_by(&mut self, bytes: i64) -> Option<()> {
        self.sp.offset = self.sp.offset.checked_add(bytes)?;
        Some(())
    }

    /// Sets the stack pointer: only upwards, past all that was pushed on the way.
    fn go_to(&mut self, place: Place) -> Option<()> {
        if place.base == self.sp.base {
            let bytes = place.offset.checked_sub(self.sp.offset)?;
            if bytes < 0 {
                return None;
            }
            for _ in 0..(bytes / 8).min(1 << 16) {
                self.pushed.pop();
            }
        } else {
            self.pushed.clear();
        }
        self.sp = place;
        Some(())
    }

    /// Where `rbp` points, if it points where it did.
    fn of_rbp(&self) -> Option<Place> {
        (self.preserved[1] == Content::Same).then_some(Place { base: RBP, offset: 0 })
    }

    /// The place of a memory operand.
    fn place(&self, instruction: &Instruction) -> Option<Place> {
        let base = match instruction.memory_base() {
            Register::RSP => self.sp,
            Register::RBP => self.of_rbp()?,
            _ => return None,
        };
        let is_plain = instruction.memory_index() == Register::None
            && instruction.segment_prefix() == Register::None;
        let offset = base.offset.checked_add(instruction.memory_displacement64().cast_signed())?;
        is_plain.then_some(Place { offset, ..base })
    }

    /// What is in memory there: not known if it was pushed on the way.
    fn content(&self, place: Place) -> Content {
        let pushed = i64::try_from(self.pushed.len()).unwrap_or(i64::MAX).saturating_mul(8);
        let is_pushed = place.base == self.sp.base
            && (self.sp.offset..self.sp.offset.saturating_add(pushed)).contains(&place.offset);
        if is_pushed || (place.base != self.sp.base && pushed > 0) {
            Content::Lost
        } else {
            Content::At(place)
        }
    }
}

/// The constant that is added or subtracted, a multiple of 8.
fn immediate(instruction: &Instruction) -> Option<i64> {
    let is_constant = matches!(
        instruction.op1_kind(),
        OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate64
    );
    let bytes = is_constant.then(|| instruction.immediate(1).cast_signed());
    bytes.filter(|bytes| bytes % 8 == 0)
}

impl Return {
    /// The caller's registers; `None` if they are not in what was copied of the stack.
    pub(super) fn caller(&self, registers: &Registers, stack: Stack<'_>) -> Option<Registers> {
        let address = self.address.of(registers)?;
        let mut caller = Registers { ip: stack.word(address)?, general: [None; 16] };
        for (number, content) in PRESERVED.iter().zip(self.preserved) {
            caller.general[*number] = match content {
                Content::Same => registers.general[*number],
                Content::At(place) => place.of(registers).and_then(|at| stack.word(at)),
                Content::Lost => None,
            };
        }
        caller.general[RSP] = Some(address.checked_add(8)?.checked_add(self.more)?);
        Some(caller)
    }
}

impl Place {
    fn of(self, registers: &Registers) -> Option<u64> {
        registers.general[self.base]?.checked_add_signed(self.offset)
    }
}

/// The registers of what a signal has interrupted, where its handler returns to the kernel.
pub(super) fn interrupted(registers: &Registers, stack: Stack<'_>) -> Option<Registers> {
    let saved = registers.general[RSP]?.checked_add(SIGNAL_REGISTERS)?;
    let word = |index: usize| stack.word(saved.checked_add(8 * index as u64)?);
    let mut before = Registers { ip: word(SIGNAL_ORDER.len())?, general: [None; 16] };
    for (index, number) in SIGNAL_ORDER.into_iter().enumerate() {
        before.general[number] = Some(word(index)?);
    }
    Some(before)
}

#[cfg(test)]
#[path = "unwind_code_tests.rs"]
mod tests;
