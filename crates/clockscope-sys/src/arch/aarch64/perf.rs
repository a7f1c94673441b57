//! Registers in the samples of perf, by their numbers in arch/arm64/include/uapi/asm/perf_regs.h (Linux 6.18).

/// What a sample has: `x1`, `x5`, `x9` to `x11`, `x19` to `x30`, `sp`, `pc`.
pub const REGISTERS: u64 = 1 << SHOWN | 1 << MARK | 0b111 << SLOT | 0x3fff << 19;
/// The next instruction.
pub const IP: u64 = 32;
/// The registers that unwinding needs: their numbers here, and those that DWARF has for them.
pub const UNWINDING: [(u64, usize); 13] = [
    (19, 19),
    (20, 20),
    (21, 21),
    (22, 22),
    (23, 23),
    (24, 24),
    (25, 25),
    (26, 26),
    (27, 27),
    (28, 28),
    (29, 29),
    (30, 30),
    (31, 31),
];
/// At the sample probe, what the call stands for.
pub const SHOWN: u64 = 1;
/// At the sample probe, the slot and the counter.
pub const SLOT: u64 = 9;
/// At the sample probe, what the slot's last passage took.
pub const COST: u64 = 10;
/// At the sample probe, the number of the wait.
pub const WAIT: u64 = 11;
/// At the beginning of a system call, the mark of clockscope's own.
pub const MARK: u64 = 5;
/// Bytes that a breakpoint on an instruction watches.
pub const BREAKPOINT_BYTES: u64 = 4;
