//! Executes instructions symbolically: their effects on the stack and on callee-saved registers.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::registers::{FP, PRESERVED, SP};
use crate::unwind_code::{Content, Flow, Place, Return};

pub(crate) use iced_x86::Instruction;

/// Most bytes of an instruction.
pub(crate) const LONGEST: usize = 15;
/// The system calls that end a thread or a process.
const EXITS: [u32; 2] = [60, 231];

/// Scratch memory, reused for each instruction.
pub(crate) struct Scratch(InstructionInfoFactory);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(InstructionInfoFactory::new())
    }
}

/// The instruction at an address.
pub(crate) fn decode(bytes: &[u8], at: u64) -> Instruction {
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode()
}

/// The address behind an instruction.
pub(crate) fn next(instruction: &Instruction) -> u64 {
    instruction.next_ip()
}

/// The function called by the instruction directly before an address; `code` gives bytes from an
/// address on.
pub(crate) fn called_before(at: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>) -> Option<u64> {
    const DIRECT_CALL: usize = 5;
    let before = at.wrapping_sub(DIRECT_CALL as u64);
    let call = decode(code(before)?.get(..DIRECT_CALL)?, before);
    call.is_call_near().then(|| call.near_branch_target())
}

/// Whether a call goes through a function pointer, and not to an imported function, whose address
/// is in the file's data.
fn is_of_pointer(call: &Instruction) -> bool {
    call.op0_kind() == OpKind::Register || !call.is_ip_rel_memory_operand()
}

/// The state of registers and stack on a path.
#[derive(Clone, Debug)]
pub(crate) struct State {
    sp: Place,
    /// The constant in `eax`.
    eax: Option<u32>,
    /// The words pushed on the path.
    pushed: Vec<Content>,
    preserved: [Content; PRESERVED.len()],
}

impl Default for State {
    fn default() -> Self {
        let sp = Place { base: SP, offset: 0 };
        Self { sp, eax: None, pushed: Vec::new(), preserved: [Content::Same; PRESERVED.len()] }
    }
}

/// The index of a register among the callee-saved ones.
fn preserved(register: Register) -> Option<usize> {
    const ORDER: [Register; PRESERVED.len()] =
        [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];
    ORDER.iter().position(|own| *own == register.full_register())
}

impl State {
    /// The control flow of an instruction.
    pub(crate) fn flow(&self, instruction: &Instruction) -> Flow {
        let target = instruction.near_branch_target();
        match instruction.flow_control() {
            // Of the instructions that iced counts as calls, only system calls always return.
            FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => Flow::SystemCall,
            FlowControl::Call if instruction.is_call_near() => Flow::Call(target),
            FlowControl::IndirectCall if is_of_pointer(instruction) => Flow::PointerCall,
            FlowControl::UnconditionalBranch => Flow::Jump(target),
            FlowControl::ConditionalBranch => Flow::Branch(target),
            // `ud2`, and `hlt` in a program, end the program.
            FlowControl::Exception if !instruction.is_invalid() => Flow::Trap,
            FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => Flow::Trap,
            FlowControl::Next => Flow::Next,
            FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Flow::Return,
            _ => Flow::Unknown,
        }
    }

    /// A function was called and has returned.
    pub(crate) fn called(&mut self) {
        self.eax = None;
    }

    /// The state at a `ret`.
    pub(crate) fn returned(&self, instruction: &Instruction) -> Option<Return> {
        let more =
            if instruction.op_count() == 0 { 0 } else { i64::from(instruction.immediate16()) };
        let above = self.sp.offset.checked_add(8)?.checked_add(more)?;
        // With a pushed return address, `ret` is a jump.
        self.pushed.is_empty().then_some(Return {
            address: Content::At(self.sp),
            sp: Place { offset: above, ..self.sp },
            preserved: self.preserved,
        })
    }

    /// Whether a system call here is `exit` or `exit_group`.
    pub(crate) fn is_to_exit(&self) -> bool {
        self.eax.is_some_and(|number| EXITS.contains(&number))
    }

    /// Executes an instruction; `None` if nothing is known of the stack afterwards.
    pub(crate) fn execute(
        &mut self,
        instruction: &Instruction,
        scratch: &mut Scratch,
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
            _ => self.execute_other(instruction, scratch),
        }
    }

    /// For all other instructions only the registers they write matter.
    fn execute_other(&mut self, instruction: &Instruction, scratch: &mut Scratch) -> Option<()> {
        for used in scratch.0.info(instruction).used_registers() {
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

    /// Sets the stack pointer: only upwards, past words that were pushed on the path.
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

    /// The place to which `rbp` points, if it is unchanged.
    fn of_rbp(&self) -> Option<Place> {
        (self.preserved[1] == Content::Same).then_some(Place { base: FP, offset: 0 })
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

    /// The content of memory at a place: unknown if it was pushed on the path.
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

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
