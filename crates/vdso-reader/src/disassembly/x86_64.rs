//! x86-64, in the form of the assembler NASM.

use iced_x86::{
    Decoder, DecoderOptions, Formatter as _, Instruction, Mnemonic, NasmFormatter, SymbolResolver,
    SymbolResult,
};

use super::{InstructionText, Labels, NONE};

/// The instructions of code that stands at an address.
pub(super) fn instructions(code: &[u8], address: u64, labels: &Labels) -> Vec<InstructionText> {
    let mut formatter = formatter(labels.clone());
    let mut lines = Vec::new();
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let from = decoder.position();
        decoder.decode_out(&mut instruction);
        let mut text = String::new();
        if instruction.mnemonic() == Mnemonic::INVALID {
            text.push_str(NONE);
        } else {
            formatter.format(&instruction, &mut text);
        }
        lines.push(InstructionText::new(instruction.ip(), &code[from..decoder.position()], text));
    }
    lines
}

fn formatter(labels: Labels) -> NasmFormatter {
    let mut formatter = NasmFormatter::with_options(Some(Box::new(labels)), None);
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_branch_leading_zeros(false);
    formatter
}

impl SymbolResolver for Labels {
    fn symbol(
        &mut self,
        _instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let (name, start) = self.label(address)?;
        Some(SymbolResult::with_string(start, name))
    }
}
