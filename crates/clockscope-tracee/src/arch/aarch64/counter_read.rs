//! Steps over instructions that read the counter.

use clockscope_sys::ptrace::Registers;

/// `mrs x0, cntvct_el0`; the register's number is in the lowest five bits.
const READ: u32 = 0xd53b_e040;

/// Moves a thread that stands in front of a counter read behind it, with zero as the result. False if `code` begins
/// with another instruction.
pub(crate) fn step_over(registers: &mut Registers, code: &[u8]) -> bool {
    let Some(word) = code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else {
        return false;
    };
    if word & !0x1f != READ {
        return false;
    }
    registers.set_pc(registers.pc() + 4);
    registers.set_general(word as usize & 0x1f, 0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_the_counter_gives_a_zero_and_nothing_else_is_stepped_over() {
        let mut registers = Registers::zero();
        registers.set_general(9, 7);
        assert!(step_over(&mut registers, &[0x49, 0xe0, 0x3b, 0xd5, 0]));
        assert_eq!((registers.pc(), registers.argument(9)), (4, 0));
        // `mrs x9, tpidr_el0`.
        assert!(!step_over(&mut registers, &[0x49, 0xd0, 0x3b, 0xd5]));
        assert!(!step_over(&mut registers, &[0x49]));
    }
}
