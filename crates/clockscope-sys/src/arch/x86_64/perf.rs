//! Registers in the samples of perf, by their numbers in arch/x86/include/uapi/asm/perf_regs.h (Linux 6.18).

/// Registers in a sample: `rbx`, `rdx`, `rbp`, `rsp`, `rip`, `r9` to `r15`.
pub const REGISTERS: u64 =
    1 << 1 | 1 << DX | 1 << 6 | 1 << 7 | 1 << IP | 0b111 << R9 | 0b1111 << 20;
/// The next instruction.
pub const IP: u64 = 8;
/// The registers that unwinding needs: each with its perf number and its DWARF number.
pub const UNWINDING: [(u64, usize); 7] =
    [(1, 3), (6, 6), (7, 7), (20, 12), (21, 13), (22, 14), (23, 15)];
/// At the sample probe: low half, number of calls that the sample stands for; high half, ticks since the pair's first
/// call.
pub const SHOWN: u64 = DX;
/// At the sample probe: address of the slot plus the number of the counter.
pub const SLOT: u64 = R9;
/// At the sample probe: ticks that the slot's last pass through the probe took.
pub const COST: u64 = R9 + 1;
/// At the sample probe: the number of the wait (0: none).
pub const WAIT: u64 = R9 + 2;
/// At the entry of a system call: the mark of clockscope's own calls.
pub const MARK: u64 = R9;
/// Bytes that a breakpoint on an instruction watches.
pub const BREAKPOINT_BYTES: u64 = 8;

const DX: u64 = 3;
const R9: u64 = 17;
