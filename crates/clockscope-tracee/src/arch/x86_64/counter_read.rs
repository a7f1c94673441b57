//! Steps over instructions that read the counter.

use clockscope_sys::ptrace::Registers;

/// Moves a thread that stands in front of a counter read behind it, with zero as the result. False if `code` begins
/// with another instruction.
pub(crate) fn step_over(registers: &mut Registers, code: &[u8]) -> bool {
    let length = match code {
        [0x0f, 0x31, ..] => 2,       // rdtsc
        [0x0f, 0x01, 0xf9, ..] => 3, // rdtscp
        _ => return false,
    };
    registers.rip += length;
    registers.rax = 0;
    registers.rdx = 0;
    if length == 3 {
        registers.rcx = 0;
    }
    true
}
