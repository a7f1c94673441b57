//! Calls the functions of this process's own vDSO by their addresses.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fastclock::{ClockId, Nanos, Picos};

use super::arch::machine;
use super::loaded_vdso;
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
    /// Whether the vDSO's function enters the kernel.
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

/// Calls of one function in a row, so many that the two clock reads around them do not show.
const BATCH: u32 = 200;
/// Batches, for each route, that are measured even if the time is used up.
const BATCHES_MIN: u32 = 5;
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

/// A function of this process's own vDSO, ready to be called.
pub struct Callable {
    call: Call,
    function: Function,
    number: libc::c_long,
    arguments: [usize; 3],
    /// The memory that `arguments` point to; kept alive and in place.
    answer: Box<[u64; 8]>,
}

/// Prepares all calls of the functions in `image`, if these are the bytes of this process's own vDSO.
///
/// Leaves out functions that the image does not have, and calls that the kernel refuses, such as alarm clocks on a
/// machine without the hardware for them. Gives `None` for another image, because its functions are not in this
/// process.
pub fn callables(image: &[u8]) -> Option<Vec<Callable>> {
    let own = loaded_vdso::load(None).ok()?.bytes;
    let functions = Functions::own().ok().filter(|_| own == image)?;
    let callable = |call: Call| Callable::new(call, functions.address(&call.symbol())?);
    Some(Call::all().into_iter().filter_map(callable).collect())
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
        let callable = Self { call, function, number, arguments, answer };
        (callable.by_syscall() >= 0).then_some(callable)
    }

    fn by_vdso(&self) -> libc::c_long {
        by_vdso(self.function, self.arguments)
    }

    fn by_syscall(&self) -> libc::c_long {
        let [a, b, c] = self.arguments;
        // SAFETY: the system calls of `Call` take at most three arguments and write only to `answer`, which
        // is large enough for each of them.
        unsafe { libc::syscall(self.number, a, b, c) }
    }

    /// The function, with the clock that it reads.
    pub fn call(&self) -> Call {
        self.call
    }

    /// Cost of a call through the vDSO and by system call: the fastest of the batches made within this time, at least
    /// `BATCHES_MIN`.
    pub fn cost(&self, within: Duration) -> (Picos, Picos) {
        let start = Instant::now();
        let (mut vdso, mut syscall) = (Duration::MAX, Duration::MAX);
        let mut batches = 0;
        while batches < BATCHES_MIN || start.elapsed() < within {
            vdso = vdso.min(batch(|| self.by_vdso()));
            syscall = syscall.min(batch(|| self.by_syscall()));
            batches += 1;
        }
        black_box(&self.answer);
        (per_call(vdso), per_call(syscall))
    }
}

/// The time of one batch of calls.
fn batch(call: impl Fn() -> libc::c_long) -> Duration {
    let start = Instant::now();
    for _ in 0..BATCH {
        black_box(call());
    }
    start.elapsed()
}

fn per_call(total: Duration) -> Picos {
    let nanos = i64::try_from(total.as_nanos()).expect("a batch takes no 292 years");
    Picos::per_call(Nanos(nanos), u64::from(BATCH))
}

/// Finds out for each function whether it enters the kernel; `None` if that cannot be tested.
///
/// A separate thread forbids itself the system calls in question, so that they fail with an error number of our choice.
/// It then calls the functions: a function that returns this number has made the system call. The rest of the process
/// is not affected.
///
/// # References
///
/// - `seccomp(2)`: filters belong to a thread
pub fn paths(callables: &[Callable]) -> Option<Vec<Path>> {
    let jobs: Vec<(Function, [usize; 3])> =
        callables.iter().map(|one| (one.function, one.arguments)).collect();
    let numbers: Vec<libc::c_long> = callables.iter().map(|one| one.number).collect();
    // If the user's threads or memory are limited, the thread may not start.
    let worker = std::thread::Builder::new().name("fenced".to_owned()).spawn(move || {
        forbid(&numbers).then(|| jobs.iter().map(|job| fenced_path(job.0, job.1)).collect())
    });
    worker.ok()?.join().ok().flatten()
}

/// Whether this function enters the kernel, on a thread whose system calls are forbidden.
fn fenced_path(function: Function, arguments: [usize; 3]) -> Path {
    let status = by_vdso(function, arguments);
    if as_int(status) == -FENCED { Path::Syscall } else { Path::Fast }
}

fn by_vdso(function: Function, [a, b, c]: [usize; 3]) -> libc::c_long {
    // SAFETY: `function` is an entry of this process's own vDSO, and the arguments are those that its `Callable` was
    // made with: integers, and addresses in memory that is large enough and outlives the call (a caller waits for a
    // thread that it lets make the call). Functions ignore arguments beyond their own.
    unsafe { function(a, b, c) }
}

/// The C int that a function returned, in the low half of the register.
#[expect(clippy::cast_possible_truncation, reason = "the other half has no meaning")]
const fn as_int(status: libc::c_long) -> i32 {
    status as i32
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

impl std::fmt::Debug for Callable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callable").field("call", &self.call).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_image() -> Vec<u8> {
        loaded_vdso::load(None).unwrap().bytes
    }

    #[test]
    fn coarse_clocks_never_enter_the_kernel_and_cpu_clocks_always_do() {
        let callables = callables(&own_image()).unwrap();
        let paths = paths(&callables).unwrap();
        for (callable, path) in callables.iter().zip(paths) {
            match callable.call() {
                Call::ClockGettime(ClockId::RealtimeCoarse | ClockId::MonotonicCoarse)
                | Call::Time => assert_eq!(path, Path::Fast, "{callable:?}"),
                Call::ClockGettime(ClockId::ProcessCputime | ClockId::ThreadCputime) => {
                    assert_eq!(path, Path::Syscall, "{callable:?}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn the_rest_of_the_process_keeps_its_system_calls() {
        let callables = callables(&own_image()).unwrap();
        assert!(paths(&callables).is_some());
        let cpu = callables
            .iter()
            .find(|one| one.call() == Call::ClockGettime(ClockId::ThreadCputime))
            .unwrap();
        assert_eq!(cpu.by_syscall(), 0);
        assert_eq!(cpu.by_vdso(), 0);
    }

    #[test]
    fn a_call_costs_something_both_ways() {
        let callables = callables(&own_image()).unwrap();
        let first = callables.first().unwrap();
        let (vdso, syscall) = first.cost(Duration::from_millis(20));
        assert!(vdso > Picos(0) && syscall > Picos(0));
        assert!(first.answer[0] > 1_600_000_000, "CLOCK_REALTIME was read");
    }

    #[test]
    fn functions_of_another_image_are_not_called() {
        let mut other = own_image();
        other[0x20] ^= 1;
        assert!(callables(&other).is_none());
        assert!(callables(&[]).is_none_or(|callables| callables.is_empty()));
    }
}
