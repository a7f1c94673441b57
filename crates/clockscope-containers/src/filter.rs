//! Runs a seccomp filter's code on a system call to get its result. Pure.
//!
//! # References
//!
//! `seccomp(2)`, `include/uapi/linux/seccomp.h`; `kernel/seccomp.c` (`seccomp_check_filter`: the permitted
//! instructions, `seccomp_run_filters`: precedence of several results), Linux 6.18

/// One instruction of a filter, `struct sock_filter`: include/uapi/linux/filter.h (Linux 6.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Number of instructions to skip if the comparison is true.
    pub if_true: u8,
    /// Number of instructions to skip if it is false.
    pub if_false: u8,
    /// The constant operand.
    pub k: u32,
}

/// A system call in the form that a filter gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call's name, for messages.
    pub name: &'static str,
    /// The call's number in the table of `arch`.
    pub number: i64,
    /// The table of system calls: `AUDIT_ARCH_*`.
    pub arch: u32,
    /// Address of the instruction after the call.
    pub at: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// `AUDIT_ARCH_X86_64`.
pub const ARCH_X86_64: u32 = 0xc000_003e;
/// `AUDIT_ARCH_AARCH64`.
pub const ARCH_AARCH64: u32 = 0xc000_00b7;
/// `AUDIT_ARCH_I386`: 32-bit programs.
pub const ARCH_I386: u32 = 0x4000_0003;
/// `AUDIT_ARCH_ARM`: 32-bit programs on arm64.
pub const ARCH_ARM: u32 = 0x4000_0028;
/// `SECCOMP_RET_ACTION_FULL`, `SECCOMP_RET_ALLOW` and `SECCOMP_RET_LOG`.
const ACTION: u32 = 0xffff_0000;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
/// `SECCOMP_RET_KILL_PROCESS`, `SECCOMP_RET_ERRNO`, `SECCOMP_RET_USER_NOTIF` and `SECCOMP_RET_TRACE`.
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const USER_NOTIF: u32 = 0x7fc0_0000;
const TRACE: u32 = 0x7ff0_0000;
/// `MAX_ERRNO`: the largest error number that a filter can give.
const MAX_ERRNO: u32 = 4095;

impl Instruction {
    /// Decodes a `struct sock_filter`.
    pub fn parse(bytes: [u8; 8]) -> Self {
        let [a, b, if_true, if_false, k @ ..] = bytes;
        let (code, k) = (u16::from_le_bytes([a, b]), u32::from_le_bytes(k));
        Self { code, if_true, if_false, k }
    }
}

/// A filter's result for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call is made.
    Passes,
    /// The call fails with this error number.
    Fails(u16),
    /// The process or the thread is killed, or gets `SIGSYS`.
    Kills,
    /// Another process decides.
    Asks,
}

/// The result for a call that passes through all filters: the most restrictive of their results.
pub fn answer(filters: &[Vec<Instruction>], call: &Call) -> Answer {
    let of = |filter: &Vec<Instruction>| run(filter, call).unwrap_or(KILL_PROCESS);
    // A more restrictive action is smaller as a signed number.
    let least = filters.iter().map(of).min_by_key(|value| (value & ACTION).cast_signed());
    let Some(value) = least else { return Answer::Passes };
    match value & ACTION {
        ALLOW | LOG => Answer::Passes,
        ERRNO => Answer::Fails(u16::try_from((value & 0xffff).min(MAX_ERRNO)).unwrap_or(0)),
        USER_NOTIF | TRACE => Answer::Asks,
        _ => Answer::Kills,
    }
}

/// Whether all filters let a call pass.
pub fn lets_pass(filters: &[Vec<Instruction>], call: &Call) -> bool {
    answer(filters, call) == Answer::Passes
}

/// Reads a word of `struct seccomp_data`: number, architecture, instruction pointer, arguments.
fn word(call: &Call, offset: u32) -> Option<u32> {
    let half = |value: u64, at: u32| {
        let bytes = value.to_le_bytes();
        let at = usize::try_from(at).ok()?;
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    match offset {
        0 => u32::try_from(call.number).ok(),
        4 => Some(call.arch),
        8 | 12 => half(call.at, offset - 8),
        16..64 if offset.is_multiple_of(4) => {
            let index = usize::try_from((offset - 16) / 8).ok()?;
            half(*call.arguments.get(index)?, offset % 8)
        }
        _ => None,
    }
}

#[derive(Default)]
struct FilterRegisters {
    a: u32,
    x: u32,
    memory: [u32; 16],
}

/// The return value of a filter; `None` for a program that the kernel would reject.
fn run(filter: &[Instruction], call: &Call) -> Option<u32> {
    let mut machine = FilterRegisters::default();
    let mut at = 0_usize;
    // Jumps go forward only, so each instruction is executed at most once.
    while let Some(instruction) = filter.get(at) {
        at += 1;
        let k = instruction.k;
        let source = if instruction.code & 0x08 == 0 { k } else { machine.x };
        match instruction.code & 0x07 {
            0x05 => {
                let a = machine.a;
                let condition = match instruction.code & 0xf0 {
                    0x00 => {
                        at = at.checked_add(usize::try_from(k).ok()?)?;
                        continue;
                    }
                    0x10 => a == source,
                    0x20 => a > source,
                    0x30 => a >= source,
                    0x40 => a & source != 0,
                    _ => return None,
                };
                let skip = if condition { instruction.if_true } else { instruction.if_false };
                at += usize::from(skip);
            }
            0x06 if instruction.code == 0x16 => return Some(machine.a),
            0x06 => return Some(k),
            _ => machine.step(instruction, source, call)?,
        }
    }
    None
}

impl FilterRegisters {
    fn step(&mut self, instruction: &Instruction, source: u32, call: &Call) -> Option<()> {
        let k = instruction.k;
        let place = usize::try_from(k).ok();
        match instruction.code {
            0x20 => self.a = word(call, k)?,
            0x00 => self.a = k,
            0x01 => self.x = k,
            0x60 => self.a = *self.memory.get(place?)?,
            0x61 => self.x = *self.memory.get(place?)?,
            0x80 => self.a = 64,
            0x81 => self.x = 64,
            0x02 => *self.memory.get_mut(place?)? = self.a,
            0x03 => *self.memory.get_mut(place?)? = self.x,
            0x07 => self.x = self.a,
            0x87 => self.a = self.x,
            code if code & 0x07 == 0x04 => {
                self.a = match code & 0xf0 {
                    0x00 => self.a.wrapping_add(source),
                    0x10 => self.a.wrapping_sub(source),
                    0x20 => self.a.wrapping_mul(source),
                    0x30 => self.a.checked_div(source)?,
                    0x40 => self.a | source,
                    0x50 => self.a & source,
                    0x60 => self.a.checked_shl(source).unwrap_or(0),
                    0x70 => self.a.checked_shr(source).unwrap_or(0),
                    0x80 => self.a.wrapping_neg(),
                    0xa0 => self.a ^ source,
                    _ => return None,
                };
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call = Call {
        name: "shmat",
        number: 30,
        arch: ARCH_X86_64,
        at: 0x7fff_0000_1234,
        arguments: [7, 0x1_2345_6789, 0o110_000, 0, 0, 9],
    };

    fn at(code: u16, if_true: u8, if_false: u8, k: u32) -> Instruction {
        Instruction { code, if_true, if_false, k }
    }

    /// Loads a word, compares it, and allows if it is equal.
    fn allows_if(offset: u32, value: u32) -> Vec<Instruction> {
        vec![
            at(0x20, 0, 0, offset),
            at(0x15, 0, 1, value),
            at(0x06, 0, 0, ALLOW),
            at(0x06, 0, 0, 0),
        ]
    }

    #[test]
    fn all_words_of_a_call_are_seen() {
        for (offset, value) in [
            (0, 30),
            (4, ARCH_X86_64),
            (8, 0x1234),
            (12, 0x7fff),
            (24, 0x2345_6789),
            (28, 1),
            (56, 9),
        ] {
            assert!(lets_pass(&[allows_if(offset, value)], &CALL), "{offset}");
            assert!(!lets_pass(&[allows_if(offset, value + 1)], &CALL), "{offset}");
        }
        assert!(!lets_pass(&[allows_if(64, 0)], &CALL));
    }

    #[test]
    fn one_filter_that_forbids_is_enough() {
        assert!(lets_pass(&[], &CALL));
        assert!(!lets_pass(&[allows_if(0, 30), allows_if(0, 31)], &CALL));
        let log = vec![at(0x06, 0, 0, LOG)];
        assert!(lets_pass(&[allows_if(0, 30), log], &CALL));
        // Error 1 instead of the call.
        assert!(!lets_pass(&[vec![at(0x06, 0, 0, 0x0005_0001)]], &CALL));
    }

    #[test]
    fn of_several_answers_the_strictest_counts() {
        let gives = |value| vec![at(0x06, 0, 0, value)];
        let all = |values: &[u32]| {
            answer(&values.iter().map(|value| gives(*value)).collect::<Vec<_>>(), &CALL)
        };
        assert_eq!(all(&[]), Answer::Passes);
        assert_eq!(all(&[ALLOW, LOG]), Answer::Passes);
        assert_eq!(all(&[ALLOW, ERRNO | 38]), Answer::Fails(38));
        assert_eq!(all(&[ERRNO | 1, TRACE]), Answer::Fails(1));
        assert_eq!(all(&[ERRNO | 0xffff]), Answer::Fails(4095));
        assert_eq!(all(&[USER_NOTIF | 3]), Answer::Asks);
        assert_eq!(all(&[ALLOW, 0x1234_0000]), Answer::Kills, "no action that there is");
        for killing in [KILL_PROCESS, 0, 0x0003_0000] {
            assert_eq!(all(&[ERRNO | 1, ALLOW, killing]), Answer::Kills, "{killing:#x}");
        }
        assert_eq!(answer(&[vec![]], &CALL), Answer::Kills, "no filter that the kernel takes");
        assert_eq!(Instruction::parse([0x15, 0, 1, 2, 4, 3, 2, 1]), at(0x15, 1, 2, 0x0102_0304));
    }

    #[test]
    fn arithmetic_memory_and_jumps_work() {
        // Refuses the flag SHM_EXEC, as systemd does: a & 0o100000 == 0o100000.
        let filter = vec![
            at(0x20, 0, 0, 32),
            at(0x02, 0, 0, 3),
            at(0x60, 0, 0, 3),
            at(0x54, 0, 0, 0o100_000),
            at(0x07, 0, 0, 0),
            at(0x05, 0, 0, 1),
            at(0x06, 0, 0, 0),
            at(0x87, 0, 0, 0),
            at(0x15, 0, 1, 0o100_000),
            at(0x06, 0, 0, 0x0005_0001),
            at(0x06, 0, 0, ALLOW),
        ];
        assert!(!lets_pass(std::slice::from_ref(&filter), &CALL));
        let read_only = Call { arguments: [7, 0, 0o010_000, 0, 0, 0], ..CALL };
        assert!(lets_pass(&[filter], &read_only));
        assert!(!lets_pass(&[vec![at(0x34, 0, 0, 0), at(0x06, 0, 0, ALLOW)]], &CALL)); // division by 0
        assert!(!lets_pass(&[vec![at(0x00, 0, 0, 1)]], &CALL)); // no end
    }
}
