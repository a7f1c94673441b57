//! Registers in the samples of perf, by their numbers in arch/arm64/include/uapi/asm/perf_regs.h (Linux 6.18).

/// Registers in a sample: `x1`, `x5`, `x9` to `x11`, `x19` to `x30`, `sp`, `pc`.
pub const REGISTERS: u64 = 1 << SHOWN | 1 << MARK | 0b111 << SLOT | 0x3fff << 19;
/// The next instruction.
pub const IP: u64 = 32;
/// The registers that unwinding needs: each with its perf number and its DWARF number.
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
/// At the sample probe: low half, number of calls that the sample stands for; high half, ticks since the pair's first
/// call.
pub const SHOWN: u64 = 1;
/// At the sample probe: address of the slot plus the number of the counter.
pub const SLOT: u64 = 9;
/// At the sample probe: ticks that the slot's last pass through the probe took.
pub const COST: u64 = 10;
/// At the sample probe: the number of the wait (0: none).
pub const WAIT: u64 = 11;
/// At the entry of a system call: the mark of clockscope's own calls.
pub const MARK: u64 = 5;
/// Bytes that a breakpoint on an instruction watches.
pub const BREAKPOINT_BYTES: u64 = 4;
