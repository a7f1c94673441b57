//! Registers in the samples of perf, by their numbers in arch/x86/include/uapi/asm/perf_regs.h (Linux 6.18).

/// What a sample has: `rbx`, `rdx`, `rbp`, `rsp`, `rip`, `r9` to `r15`.
pub const REGISTERS: u64 =
    1 << 1 | 1 << DX | 1 << 6 | 1 << 7 | 1 << IP | 0b111 << R9 | 0b1111 << 20;
/// The next instruction.
pub const IP: u64 = 8;
/// The registers that unwinding needs: their numbers here, and those that DWARF has for them.
pub const UNWINDING: [(u64, usize); 7] =
    [(1, 3), (6, 6), (7, 7), (20, 12), (21, 13), (22, 14), (23, 15)];
/// At the sample probe, what the call stands for.
pub const SHOWN: u64 = DX;
/// At the sample probe, the slot and the counter.
pub const SLOT: u64 = R9;
/// At the sample probe, what the slot's last passage took.
pub const COST: u64 = R9 + 1;
/// At the sample probe, the number of the wait.
pub const WAIT: u64 = R9 + 2;
/// At the beginning of a system call, the mark of clockscope's own.
pub const MARK: u64 = R9;
/// Bytes that a breakpoint on an instruction watches.
pub const BREAKPOINT_BYTES: u64 = 8;

const DX: u64 = 3;
const R9: u64 = 17;
