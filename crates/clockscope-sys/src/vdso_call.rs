//! The functions of a vDSO, and whether those of this process's own answer in user space.

use fastclock::ClockId;

use super::arch::machine;
use super::raw_syscall;
use super::vdso_functions::Functions;

/// A function of the vDSO, with the clock that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `clock_gettime(2)` of this clock.
    ClockGettime(ClockId),
    /// `gettimeofday(2)`, without a time zone.
    Gettimeofday,
    /// `time(2)`, with memory for the answer.
    Time,
    /// `clock_getres(2)` of `CLOCK_MONOTONIC`.
    ClockGetres,
    /// `getcpu(2)`: the CPU and its node.
    Getcpu,
}

/// How the vDSO's function answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The function answers in user mode.
    Fast,
    /// The function makes the system call itself.
    Syscall,
}

/// An error number that no system call gives.
pub(super) const FENCED: i32 = 3999;

/// The C signature of the vDSO functions called here, widened to three arguments.
type Function = unsafe extern "C" fn(usize, usize, usize) -> libc::c_long;

impl Call {
    /// Every call, in the order of the report.
    pub fn all() -> Vec<Self> {
        let clocks = ClockId::ALL.into_iter().map(Self::ClockGettime);
        clocks.chain([Self::Gettimeofday, Self::Time, Self::ClockGetres, Self::Getcpu]).collect()
    }

    /// The name of the function in C.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClockGettime(_) => "clock_gettime",
            Self::Gettimeofday => "gettimeofday",
            Self::Time => "time",
            Self::ClockGetres => "clock_getres",
            Self::Getcpu => "getcpu",
        }
    }

    /// The name of its symbol in the image.
    pub fn symbol(self) -> String {
        format!("{}{}", machine::VDSO_PREFIX, self.name())
    }

    /// The number of the system call; `None` where the architecture has none of this name.
    pub(super) const fn number(self) -> Option<libc::c_long> {
        match self {
            Self::ClockGettime(_) => Some(libc::SYS_clock_gettime),
            Self::Gettimeofday => Some(libc::SYS_gettimeofday),
            Self::Time => machine::SYS_TIME,
            Self::ClockGetres => Some(libc::SYS_clock_getres),
            Self::Getcpu => Some(libc::SYS_getcpu),
        }
    }
}

/// Finds out for each function of this process's own vDSO that is `wanted` whether it enters the kernel; `None` if that
/// cannot be tested.
///
/// Leaves out functions that the image does not have, and calls that the kernel refuses, such as alarm clocks on a
/// machine without the hardware for them.
///
/// A separate thread forbids itself the system calls in question, so that they fail with an error number of our choice.
/// It then calls the functions: a function that returns this number has made the system call. The rest of the process
/// is not affected.
///
/// # References
///
/// - `seccomp(2)`: filters belong to a thread
pub fn paths(wanted: impl Fn(Call) -> bool) -> Option<Vec<(Call, Path)>> {
    let functions = Functions::own().ok()?;
    let callable = |call: Call| Callable::new(call, functions.address(&call.symbol())?);
    let wanted = Call::all().into_iter().filter(|call| wanted(*call));
    let callables: Vec<Callable> = wanted.filter_map(callable).collect();
    let numbers: Vec<libc::c_long> = callables.iter().map(|one| one.number).collect();
    // If the user's threads or memory are limited, the thread may not start.
    let worker = std::thread::Builder::new().name("fenced".to_owned()).spawn(move || {
        forbid(&numbers)
            .then(|| callables.iter().map(|one| (one.call, one.fenced_path())).collect())
    });
    worker.ok()?.join().ok().flatten()
}

/// A function of this process's own vDSO, ready to be called.
struct Callable {
    call: Call,
    function: Function,
    number: libc::c_long,
    arguments: [usize; 3],
    /// The memory that `arguments` point to; kept alive and in place.
    _answer: Box<[u64; 8]>,
}

impl Callable {
    fn new(call: Call, address: usize) -> Option<Self> {
        let number = call.number()?;
        let pointer = std::ptr::with_exposed_provenance::<()>(address);
        // SAFETY: the address is that of a function of this process's own vDSO, which stays mapped; calls
        // pass the arguments that the function of this name takes.
        let function = unsafe { std::mem::transmute::<*const (), Function>(pointer) };
        let mut answer = Box::new([0u64; 8]);
        let room = answer.as_mut_ptr().expose_provenance();
        let arguments = match call {
            Call::ClockGettime(id) => [raw_syscall::argument(id.as_raw()), room, 0],
            Call::ClockGetres => [raw_syscall::argument(ClockId::Monotonic.as_raw()), room, 0],
            Call::Gettimeofday | Call::Time => [room, 0, 0],
            Call::Getcpu => [room, room + 8, 0],
        };
        let [a, b, c] = arguments;
        // SAFETY: the system calls of `Call` take at most three arguments and write only to `answer`, which
        // is large enough for each of them.
        let answered = unsafe { libc::syscall(number, a, b, c) };
        (answered >= 0).then_some(Self { call, function, number, arguments, _answer: answer })
    }

    /// Whether this function enters the kernel, on a thread whose system calls are forbidden.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a C int is in the low half of the register"
    )]
    fn fenced_path(&self) -> Path {
        let [a, b, c] = self.arguments;
        // SAFETY: `function` is an entry of this process's own vDSO, and the arguments are integers, and addresses in
        // memory that is large enough and outlives the call. Functions ignore arguments beyond their own.
        let status = unsafe { (self.function)(a, b, c) };
        if status as i32 == -FENCED { Path::Syscall } else { Path::Fast }
    }
}

/// Makes these system calls fail with [`FENCED`] on this thread; false if that fails.
pub(super) fn forbid(numbers: &[libc::c_long]) -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("all codes are below 256"),
        jt: 0,
        jf: 0,
        k,
    };
    // Load the system call's number; for each forbidden one: if equal, fail; then allow.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    let fail = libc::SECCOMP_RET_ERRNO | FENCED.unsigned_abs();
    for number in numbers {
        let Ok(number) = u32::try_from(*number) else { return false };
        let mut test = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number);
        test.jf = 1;
        program.extend([test, statement(libc::BPF_RET | libc::BPF_K, fail)]);
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let Ok(len) = u16::try_from(program.len()) else { return false };
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: both calls concern this thread only. The filter is a valid program of `len`
    // statements that outlives the call, in which the kernel copies it.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_clocks_never_enter_the_kernel_and_cpu_clocks_always_do() {
        let paths = paths(|_| true).unwrap();
        for (call, path) in &paths {
            match call {
                Call::ClockGettime(ClockId::RealtimeCoarse | ClockId::MonotonicCoarse)
                | Call::Time => assert_eq!(*path, Path::Fast, "{call:?}"),
                Call::ClockGettime(ClockId::ProcessCputime | ClockId::ThreadCputime) => {
                    assert_eq!(*path, Path::Syscall, "{call:?}");
                }
                _ => {}
            }
        }
        assert!(paths.len() >= 9, "{paths:?}");
    }

    #[test]
    fn the_rest_of_the_process_keeps_its_system_calls() {
        let cpu = Call::ClockGettime(ClockId::ThreadCputime);
        assert_eq!(paths(|call| call == cpu), Some(vec![(cpu, Path::Syscall)]));
        assert!(super::super::clock_reads::by_syscall(ClockId::ThreadCputime).is_some());
    }
}
