//! Whether a seccomp filter would refuse a clock read by system call. The vDSO makes that call if it cannot read the
//! clocksource in user mode. Pure.
//!
//! # References
//!
//! `clock_gettime_fallback` and `clock_gettime32_fallback` in `arch/x86/include/asm/vdso/gettimeofday.h` (Linux 6.18);
//! `arch/x86/entry/syscalls/syscall_{32,64}.tbl`, `include/uapi/asm-generic/unistd.h` and `arch/arm/tools/syscall.tbl`; glibc's `sysdeps/unix/sysv/linux/clock_gettime.c` and musl's
//! `src/time/clock_gettime.c`: a 32-bit program that asks for `clock_gettime64` goes on to `clock_gettime` after `ENOSYS` only

use crate::filter::{ARCH_AARCH64, ARCH_ARM, ARCH_I386, Answer, Call};

/// `ENOSYS`: there is no such call, after which the C library tries an older one.
const ENOSYS: u16 = 38;

/// A refused clock read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The system call.
    pub call: &'static str,
    /// 64 or 32: the word size of the programs that make the call.
    pub bits: u8,
    /// The filter's result for the call.
    pub answer: Answer,
}

/// The reads of `CLOCK_REALTIME` and `CLOCK_MONOTONIC` that are refused; `answer` gives the result for a call. `arch`:
/// the table of the kernel's 64-bit programs, [`ARCH_X86_64`](crate::filter::ARCH_X86_64) or [`ARCH_AARCH64`].
pub fn refused(arch: u32, answer: &dyn Fn(&Call) -> Answer) -> Vec<Refused> {
    // In both tables of 32-bit programs `getpid` is 20 and `clock_gettime64` is 403.
    let (clock_gettime, gettimeofday, narrow, narrow_clock_gettime) = match arch {
        ARCH_AARCH64 => (113, 169, ARCH_ARM, 263),
        _ => (228, 96, ARCH_I386, 265),
    };
    let read = |name, number, arch| {
        // Some filters test the clock's id.
        let of =
            |clock| answer(&Call { name, number, arch, at: 0, arguments: [clock, 0, 0, 0, 0, 0] });
        [of(0), of(1)].into_iter().find(|answer| is_refusal(*answer)).unwrap_or(Answer::Passes)
    };
    let mut found = Vec::new();
    let mut add = |call, bits, answer| {
        if is_refusal(answer) {
            found.push(Refused { call, bits, answer });
        }
    };
    add("clock_gettime", 64, read("clock_gettime", clock_gettime, arch));
    add("gettimeofday", 64, read("gettimeofday", gettimeofday, arch));
    // If `getpid` is refused to 32-bit programs, none can run.
    if answer(&Call { name: "getpid", number: 20, arch: narrow, at: 0, arguments: [0; 6] })
        == Answer::Passes
    {
        let old = read("clock_gettime", narrow_clock_gettime, narrow);
        add("clock_gettime", 32, old);
        match read("clock_gettime64", 403, narrow) {
            Answer::Fails(ENOSYS) if !is_refusal(old) => {}
            new => add("clock_gettime64", 32, new),
        }
    }
    found
}

/// A decision by another process is unknown, so it is not counted as a refusal.
fn is_refusal(answer: Answer) -> bool {
    matches!(answer, Answer::Fails(_) | Answer::Kills)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{ARCH_X86_64, Instruction, answer};

    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    const KILL: u32 = 0x8000_0000;
    const BOTH: [&str; 2] = ["clock_gettime 64 Fails(1)", "gettimeofday 64 Fails(1)"];

    /// A filter that gives the `listed` answers for these numbers of table `arch`, `others` for the rest of the table,
    /// and `foreign` for other tables.
    fn filter(arch: u32, listed: &[(u32, u32)], others: u32, foreign: u32) -> Vec<Instruction> {
        let at = |code, if_true, if_false, k| Instruction { code, if_true, if_false, k };
        let mut program = vec![at(0x20, 0, 0, 4), at(0x15, 1, 0, arch), at(0x06, 0, 0, foreign)];
        program.push(at(0x20, 0, 0, 0));
        for (number, answer) in listed {
            program.push(at(0x15, 0, 1, *number));
            program.push(at(0x06, 0, 0, *answer));
        }
        program.push(at(0x06, 0, 0, others));
        program
    }

    fn told(filter: Vec<Instruction>) -> Vec<String> {
        told_of(ARCH_X86_64, &[filter])
    }

    fn told_of(arch: u32, filters: &[Vec<Instruction>]) -> Vec<String> {
        let found = refused(arch, &|call| answer(filters, call));
        found.iter().map(|one| format!("{} {} {:?}", one.call, one.bits, one.answer)).collect()
    }

    #[test]
    fn no_filter_and_one_that_allows_reads_refuse_nothing() {
        assert_eq!(told_of(ARCH_X86_64, &[]), [""; 0]);
        assert_eq!(told(filter(ARCH_X86_64, &[], ALLOW, ALLOW)), [""; 0]);
        let only = [(228, ALLOW), (96, ALLOW), (0, ALLOW)];
        assert_eq!(told(filter(ARCH_X86_64, &only, KILL, KILL)), [""; 0]);
        assert_eq!(told(filter(ARCH_X86_64, &only, ERRNO | 1, ERRNO | 38)), [""; 0]);
    }

    #[test]
    fn a_hardened_profile_refuses_reads_of_64_bit_programs() {
        let without = [(0, ALLOW), (1, ALLOW), (60, ALLOW)];
        assert_eq!(told(filter(ARCH_X86_64, &without, ERRNO | 1, KILL)), BOTH);
        let kills = filter(ARCH_X86_64, &[(228, KILL)], ALLOW, KILL);
        assert_eq!(told(kills), ["clock_gettime 64 Kills"]);
        // The second of two filters refuses, with ENOSYS, which no 64-bit program expects.
        let allows = filter(ARCH_X86_64, &[], ALLOW, ALLOW);
        let refuses = filter(ARCH_X86_64, &[(228, ERRNO | 38)], ALLOW, ALLOW);
        assert_eq!(told_of(ARCH_X86_64, &[allows, refuses]), ["clock_gettime 64 Fails(38)"]);
    }

    #[test]
    fn a_filter_of_arm64_is_asked_about_the_calls_of_arm64() {
        let told = |filter| told_of(ARCH_AARCH64, &[filter]);
        let healthy = [(113, ALLOW), (169, ALLOW), (172, ALLOW)];
        assert_eq!(told(filter(ARCH_AARCH64, &healthy, ERRNO | 1, KILL)), [""; 0]);
        let hardened = [(63, ALLOW), (64, ALLOW), (228, ALLOW), (96, ALLOW)];
        assert_eq!(told(filter(ARCH_AARCH64, &hardened, ERRNO | 1, KILL)), BOTH);
        let old = [(20, ALLOW), (263, ALLOW)];
        assert_eq!(told(filter(ARCH_ARM, &old, ERRNO | 1, ALLOW)), ["clock_gettime64 32 Fails(1)"]);
    }

    #[test]
    fn an_old_docker_refuses_clock_gettime64_to_32_bit_programs() {
        let old = [(20, ALLOW), (265, ALLOW), (78, ALLOW)];
        let both = ["clock_gettime 32 Fails(38)", "clock_gettime64 32 Fails(38)"];
        for (listed, others, expected) in [
            (&old[..], ERRNO | 1, &["clock_gettime64 32 Fails(1)"][..]),
            // After ENOSYS the C library tries clock_gettime.
            (&old, ERRNO | 38, &[]),
            (&[(20, ALLOW)], ERRNO | 38, &both),
            // If no 32-bit program can run, nothing is reported for them.
            (&[], ERRNO | 1, &[]),
        ] {
            let told = told(filter(ARCH_I386, listed, others, ALLOW));
            assert_eq!(told, expected, "{listed:?} {others:#x}");
        }
    }

    #[test]
    fn a_filter_that_looks_at_the_clock_is_seen_through() {
        let at = |code, if_true, if_false, k| Instruction { code, if_true, if_false, k };
        // clock_gettime(CLOCK_MONOTONIC) fails; all else passes.
        let only_monotonic = vec![
            at(0x20, 0, 0, 0),
            at(0x15, 0, 3, 228),
            at(0x20, 0, 0, 16),
            at(0x15, 0, 1, 1),
            at(0x06, 0, 0, ERRNO | 1),
            at(0x06, 0, 0, ALLOW),
        ];
        assert_eq!(told(only_monotonic), ["clock_gettime 64 Fails(1)"]);
    }
}
