//! arm64, in the form of Arm's own assembler.

use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand};

use super::{InstructionText, Labels, NONE};

/// Bytes of an instruction. They stand in this order on machines of the other byte order, too.
const SIZE: usize = 4;

/// The instructions of code that stands at an address.
pub(super) fn instructions(code: &[u8], address: u64, labels: &Labels) -> Vec<InstructionText> {
    let addresses = (0..).map(|at| address.wrapping_add(at * SIZE as u64));
    let line = |(bytes, at): (&[u8], u64)| InstructionText::new(at, bytes, text(bytes, at, labels));
    code.chunks(SIZE).zip(addresses).map(line).collect()
}

fn text(bytes: &[u8], at: u64, labels: &Labels) -> String {
    let Ok(instruction) = InstDecoder::default().decode(&mut U8Reader::new(bytes)) else {
        return NONE.to_owned();
    };
    let text = instruction.to_string();
    let Some(target) = target(&instruction, at) else { return hint(text) };
    // The distance is the last operand, after a dollar sign, which nothing else has.
    let before = text.split('$').next().unwrap_or(&text);
    match labels.label(target) {
        Some((name, start)) if start == target => format!("{before}{name}"),
        Some((name, start)) => format!("{before}{name}+{:#x}", target.wrapping_sub(start)),
        None => format!("{before}{target:#x}"),
    }
}

/// Where jumps by a register may lead: the decoder has numbers for these instructions.
fn hint(text: String) -> String {
    let name = match text.as_str() {
        "hint #0x20" => "bti",
        "hint #0x22" => "bti c",
        "hint #0x24" => "bti j",
        "hint #0x26" => "bti jc",
        _ => return text,
    };
    name.to_owned()
}

/// The address that an instruction names by its distance.
fn target(instruction: &Instruction, at: u64) -> Option<u64> {
    let distance = instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(distance) => Some(*distance),
        _ => None,
    })?;
    // `adrp` counts from the beginning of the 4 KiB that it stands in, whatever the size of pages.
    let from = if instruction.opcode == Opcode::ADRP { at & !0xfff } else { at };
    Some(from.wrapping_add_signed(distance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;
    use crate::image_tests::AARCH64;

    fn shown(word: u32, at: u64) -> String {
        let labels = Labels::new(&Image::parse(AARCH64).unwrap(), 0x7000_0000, &[]);
        instructions(&word.to_le_bytes(), at, &labels)[0].text.verbatim().to_owned()
    }

    #[test]
    fn distances_become_addresses() {
        assert_eq!(shown(0x1400_0001, 0x1000), "b 0x1004");
        assert_eq!(shown(0x17ff_ffff, 0x1000), "b 0xffc");
        assert_eq!(shown(0x3600_0040, 0x1000), "tbz w0, #0x0, 0x1008");
        assert_eq!(shown(0x5800_0040, 0x1000), "ldr x0, 0x1008");
        assert_eq!(shown(0x1000_0020, 0x1004), "adr x0, 0x1008");
    }

    #[test]
    fn adrp_counts_from_the_beginning_of_its_4_kib() {
        assert_eq!(shown(0xb000_0000, 0x1ffc), "adrp x0, 0x2000");
        assert_eq!(shown(0x9000_0000, 0x1ffc), "adrp x0, 0x1000");
    }

    #[test]
    fn places_to_jump_to_have_their_names() {
        let words = [0xd503_241f, 0xd503_245f, 0xd503_249f, 0xd503_24df];
        assert_eq!(words.map(|word| shown(word, 0)), ["bti", "bti c", "bti j", "bti jc"]);
        assert_eq!(shown(0xd503_201f, 0), "nop");
    }

    #[test]
    fn what_is_no_instruction_is_said_to_be_none() {
        assert_eq!(shown(0xd41f_fff0, 0), NONE);
        let labels = Labels::new(&Image::parse(AARCH64).unwrap(), 0, &[]);
        let lines = instructions(&[0x1f, 0x20, 0x03, 0xd5, 0x1f, 0x20], 8, &labels);
        let texts: Vec<_> = lines.iter().map(|line| line.text.verbatim()).collect();
        assert_eq!((texts, lines[1].address.0), (vec!["nop", NONE], 12));
        assert_eq!(lines[1].bytes, "1f20");
    }
}
