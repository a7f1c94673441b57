//! Counts and locates instructions by executing them one at a time in a forked child.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;

use super::loops::Loop;
use super::ptrace::{self, Registers};
use super::{raw_syscall, wait};

/// Marker between two runs: the child passes it to `getppid`, which takes no arguments.
const MARK: usize = 0x636c_6f63_6b73_6370;
/// Base of the exit codes of a child that was refused before its first mark; the error number is added.
const REFUSED: i32 = 64;
/// The largest error number that fits into an exit code beside [`REFUSED`].
const ERROR_MAX: i32 = 255 - REFUSED;

/// Instructions of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Steps {
    /// All instructions in user mode.
    pub user: u64,
    /// Instructions of these at addresses in the given range.
    pub in_range: u64,
    /// Instructions of these that enter the kernel.
    pub syscalls: u64,
}

/// Forks a child that makes runs of `turns[0]`, `turns[1]`, ... turns of `calling`, and executes the child one
/// instruction at a time. Every run but the first, which may have to fill caches of libraries, has the same
/// instructions around its turns.
///
/// The child has one thread, this one, and does nothing but make the runs. It allocates nothing, so locks that other
/// threads of this process held at the fork do not matter.
///
/// # Errors
///
/// `EPERM` or `ENOSYS` where tracing is forbidden; `EAGAIN` when no more processes are allowed;
/// `TimedOut` when a run has more than `most` instructions; `Interrupted` when the child died.
///
/// # References
///
/// `PTRACE_SINGLESTEP` in `ptrace(2)`: an instruction that enters the kernel is one step, with all the work of the
/// kernel for it
pub fn count(
    calling: &Loop,
    turns: &[u64],
    range: &Range<u64>,
    most: u64,
) -> io::Result<Vec<Steps>> {
    let mut child = Child::start(calling, turns)?;
    let mut known = HashMap::new();
    turns.iter().map(|_| child.run(range, most, &mut known, &mut |_| ())).collect()
}

/// The instructions that one turn of `calling` executes in a range of addresses: for each its address, and the value of
/// the first argument's register before it. A turn of more than `most` instructions gives those of the first `most`: the
/// vDSO starts over whenever the kernel has written the clock page, which on a slow host happens during each stepped read.
///
/// # Errors
///
/// Those of [`count`] but `TimedOut`.
pub fn visits(calling: &Loop, range: &Range<u64>, most: u64) -> io::Result<BTreeSet<(u64, u64)>> {
    // Work on first use only is done before the fork.
    calling.run(1);
    let mut child = Child::start(calling, &[1])?;
    let mut visits = BTreeSet::new();
    let run = child.run(range, most, &mut HashMap::new(), &mut |registers| {
        if range.contains(&registers.pc()) {
            visits.insert((registers.pc(), registers.argument(0)));
        }
    });
    match run {
        Err(error) if error.kind() != io::ErrorKind::TimedOut => Err(error),
        _ => Ok(visits),
    }
}

/// In the child: starts being traced, and makes the runs with a mark before each and one after the last.
fn child(calling: &Loop, turns: &[u64]) -> ! {
    // SAFETY: system calls that take numbers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1 {
            libc::_exit(REFUSED + (*libc::__errno_location()).min(ERROR_MAX));
        }
        libc::raise(libc::SIGSTOP);
    }
    mark();
    for turns in turns {
        calling.run(*turns);
        mark();
    }
    // SAFETY: does not return and runs nothing of this process.
    unsafe { libc::_exit(0) }
}

#[inline(always)]
fn mark() {
    // SAFETY: the call takes nothing.
    unsafe { raw_syscall::one(libc::SYS_getppid, MARK) };
}

/// The child; killed and waited for when it is dropped.
struct Child {
    pid: i32,
    ended: bool,
}

impl Child {
    /// Forks a child that makes these runs, and advances it to the first mark.
    fn start(calling: &Loop, turns: &[u64]) -> io::Result<Self> {
        // SAFETY: the child makes the runs and exits; see `count`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => child(calling, turns),
            pid => {
                let mut child = Self { pid, ended: false };
                child.wait()?;
                ptrace::set_options(pid, libc::PTRACE_O_EXITKILL)?;
                // Between `raise` and the mark the C library executes a few hundred instructions.
                child.run(&(0..0), 100_000, &mut HashMap::new(), &mut |_| ())?;
                Ok(child)
            }
        }
    }

    /// Executes up to and including the next mark; the mark does not count. `known` caches by address whether the
    /// instruction there enters the kernel; `seen` gets the registers before each instruction.
    fn run(
        &mut self,
        range: &Range<u64>,
        most: u64,
        known: &mut HashMap<u64, bool>,
        seen: &mut dyn FnMut(&Registers),
    ) -> io::Result<Steps> {
        let mut steps = Steps::default();
        let mut registers = ptrace::registers(self.pid)?;
        let mut is_behind_call = true;
        while steps.user <= most {
            seen(&registers);
            let pc = registers.pc();
            let is_syscall = match known.get(&pc) {
                Some(is_syscall) => *is_syscall,
                None => ptrace::is_syscall(self.pid, pc)?,
            };
            known.insert(pc, is_syscall);
            ptrace::single_step(self.pid, 0)?;
            self.wait()?;
            if is_syscall && is_mark(&registers) {
                return Ok(steps);
            }
            registers = ptrace::registers(self.pid)?;
            // arm64 stops twice after a call, and executes nothing in between (`syscall_trace_exit` in
            // arch/arm64/kernel/ptrace.c, Linux 6.12).
            let stands_still = is_behind_call && registers.pc() == pc;
            is_behind_call = is_syscall;
            if stands_still {
                continue;
            }
            steps.user += 1;
            steps.in_range += u64::from(range.contains(&pc));
            steps.syscalls += u64::from(is_syscall);
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Waits for a stop. Signals from other processes are not passed on: the child does not live long.
    fn wait(&mut self) -> io::Result<()> {
        let status = wait::child(self.pid)?;
        if libc::WIFSTOPPED(status) {
            return Ok(());
        }
        self.ended = true;
        let code = libc::WEXITSTATUS(status);
        Err(if libc::WIFEXITED(status) && code > REFUSED {
            io::Error::from_raw_os_error(code - REFUSED)
        } else {
            io::ErrorKind::Interrupted.into()
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: the child is ours and has not been waited for, so the number still refers to it.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL);
            }
        }
    }
}

fn is_mark(registers: &Registers) -> bool {
    registers.next_call_number() == libc::SYS_getppid.cast_unsigned()
        && usize::try_from(registers.argument(0)) == Ok(MARK)
}

#[cfg(test)]
mod tests {
    use std::arch::asm;

    use super::*;
    use crate::arch::registers::known;
    use crate::loops::Loop;

    /// The instructions of one call: those of two turns minus those of one turn, minus those of an empty turn.
    fn of_one_call(calling: &Loop, range: &Range<u64>) -> Steps {
        let of_call = of_turn(calling, range);
        Steps { user: of_call.user - of_turn(&Loop::around(|| ()), range).user, ..of_call }
    }

    fn of_turn(calling: &Loop, range: &Range<u64>) -> Steps {
        let steps = count(calling, &[1, 1, 2], range, 100_000).unwrap();
        Steps {
            user: steps[2].user - steps[1].user,
            in_range: steps[2].in_range - steps[1].in_range,
            syscalls: steps[2].syscalls - steps[1].syscalls,
        }
    }

    #[test]
    fn as_many_instructions_are_counted_as_stand_there() {
        let nowhere = 0..0;
        let one = Loop::around(|| {
            // SAFETY: does nothing.
            unsafe { asm!("nop", options(nomem, nostack)) };
        });
        assert_eq!(of_one_call(&one, &nowhere), Steps { user: 1, in_range: 0, syscalls: 0 });
        let many = Loop::around(|| {
            // SAFETY: does nothing.
            unsafe { asm!(".rept 1000", "nop", ".endr", options(nomem, nostack)) };
        });
        assert_eq!(of_one_call(&many, &nowhere), Steps { user: 1000, in_range: 0, syscalls: 0 });
        assert_eq!(
            of_one_call(&many, &(0..u64::MAX)).in_range,
            1000 + of_turn(&Loop::around(|| ()), &nowhere).user
        );
    }

    #[test]
    fn the_instruction_that_enters_the_kernel_is_one_and_is_recognised() {
        let call = Loop::around(known::call);
        assert_eq!(of_one_call(&call, &(0..0)), Steps { user: 4, in_range: 0, syscalls: 1 });
    }

    #[test]
    fn a_loop_inside_is_counted_turn_by_turn() {
        let call = Loop::around(known::ten_turns);
        assert_eq!(of_one_call(&call, &(0..0)).user, 1 + 10 * 2);
    }

    #[test]
    fn a_run_that_does_not_end_is_given_up() {
        let error = count(&Loop::around(|| ()), &[1 << 40], &(0..0), 1000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_visits_of_a_long_turn_are_those_of_its_beginning() {
        let long = Loop::around(|| (0..10_000).for_each(|_| known::ten_turns()));
        let visits = |most| visits(&long, &(0..u64::MAX), most).unwrap();
        let few = visits(100);
        assert!(few.len() > 2, "{few:?}");
        assert!(few.is_subset(&visits(500)), "{few:?}");
    }

    #[test]
    fn a_child_that_dies_is_an_error() {
        let call = Loop::around(|| {
            // SAFETY: ends this child, as intended.
            unsafe { libc::_exit(0) };
        });
        let error = count(&call, &[1], &(0..0), 100_000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
