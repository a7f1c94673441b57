//! Loops around the ways to read a clock, each compiled as a C program's loop would be.
//!
//! Each turn stores the answer on the stack or in a register, where it is never read.

use std::io;
use std::mem::MaybeUninit;

use super::arch::counter;
use super::loops::Loop;
use super::vdso_call::Call;
use super::vdso_functions::Functions;
use super::{raw_syscall, tsc};
use fastclock::ClockId;

/// An instruction that reads the CPU's counter, with the barrier that orders it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOrder {
    /// The plain instruction (`rdtsc`), which the CPU may execute early or late.
    Bare,
    /// After a barrier (`lfence`, `isb`): reads after all earlier instructions.
    Fenced,
    /// `rdtscp`: reads once all earlier instructions are complete.
    Rdtscp,
}

/// Why there is no loop around a call by some route.
#[derive(Debug, thiserror::Error)]
pub enum NoLoop {
    /// The image of the vDSO does not export this symbol.
    #[error("the vDSO does not export {0}")]
    NoSymbol(String),
    /// The architecture has no such system call.
    #[error("this architecture has no such system call")]
    NoSystemCall,
    /// The CPU does not have the instruction.
    #[error("this CPU does not have the instruction")]
    NoInstruction,
    /// `PR_SET_TSC` makes the counter's instructions fail in this process.
    #[error("reading the counter is forbidden to this process (PR_SET_TSC)")]
    CounterForbidden,
    /// The kernel refuses the call.
    #[error("the kernel refuses it: {0}")]
    Refused(io::Error),
}

/// The loops without a call.
pub fn empty() -> Loop {
    Loop::around(|| ())
}

/// The loops around `std::time::Instant::now`.
pub fn instant() -> Loop {
    Loop::around(|| {
        std::hint::black_box(std::time::Instant::now());
    })
}

/// Memory for an answer, written at each turn and never read.
///
/// It never crosses a cache line. If it could, the cost would depend on the stack address that the kernel chose for
/// this launch.
#[repr(align(16))]
struct Answer<T>(MaybeUninit<T>);

#[inline(always)]
fn answer<T>() -> Answer<T> {
    Answer(MaybeUninit::uninit())
}

/// The loops around the function of the C library. For `getcpu(2)` that is `sched_getcpu(3)`.
///
/// # Errors
///
/// When the kernel refuses the call, or the C library has no function for it.
pub fn by_libc(call: Call) -> Result<Loop, NoLoop> {
    refusal(call)?;
    Ok(match call {
        Call::ClockGettime(clock) => {
            let id = clock.as_raw();
            // SAFETY: the pointer is to a local of the type that the function writes.
            Loop::around(move || unsafe {
                libc::clock_gettime(id, answer().0.as_mut_ptr());
            })
        }
        // SAFETY: as above.
        Call::Gettimeofday => Loop::around(|| unsafe {
            libc::gettimeofday(answer().0.as_mut_ptr(), std::ptr::null_mut());
        }),
        // SAFETY: as above.
        Call::Time => Loop::around(|| unsafe {
            libc::time(answer().0.as_mut_ptr());
        }),
        // SAFETY: as above.
        Call::ClockGetres => Loop::around(|| unsafe {
            libc::clock_getres(libc::CLOCK_MONOTONIC, answer().0.as_mut_ptr());
        }),
        // SAFETY: takes nothing.
        Call::Getcpu => Loop::around(|| unsafe {
            libc::sched_getcpu();
        }),
    })
}

type ClockFunction = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;
type DayFunction = unsafe extern "C" fn(*mut libc::timeval, *mut libc::c_void) -> libc::c_int;
type TimeFunction = unsafe extern "C" fn(*mut libc::time_t) -> libc::time_t;
type CpuFunction =
    unsafe extern "C" fn(*mut libc::c_uint, *mut libc::c_uint, *mut libc::c_void) -> libc::c_long;

/// The loops around the function of the vDSO, called by its address.
///
/// # Errors
///
/// When the kernel refuses the call, or the image does not export the function.
pub fn by_vdso(call: Call, functions: &Functions) -> Result<Loop, NoLoop> {
    refusal(call)?;
    let address =
        functions.address(&call.symbol()).ok_or_else(|| NoLoop::NoSymbol(call.symbol()))?;
    let pointer = std::ptr::with_exposed_provenance::<()>(address);
    Ok(match call {
        Call::ClockGettime(clock) => {
            let id = clock.as_raw();
            // SAFETY: the image of this process exports the function of this name there; it stays
            // mapped for the life of the process, and has the signature of its system call.
            let function = unsafe { std::mem::transmute::<*const (), ClockFunction>(pointer) };
            // SAFETY: the pointer is to a local of the type that the function writes.
            Loop::around(move || unsafe {
                function(id, answer().0.as_mut_ptr());
            })
        }
        Call::ClockGetres => {
            // SAFETY: as for clock_gettime.
            let function = unsafe { std::mem::transmute::<*const (), ClockFunction>(pointer) };
            // SAFETY: as above.
            Loop::around(move || unsafe {
                function(libc::CLOCK_MONOTONIC, answer().0.as_mut_ptr());
            })
        }
        Call::Gettimeofday => {
            // SAFETY: as for clock_gettime.
            let function = unsafe { std::mem::transmute::<*const (), DayFunction>(pointer) };
            // SAFETY: as above.
            Loop::around(move || unsafe {
                function(answer().0.as_mut_ptr(), std::ptr::null_mut());
            })
        }
        Call::Time => {
            // SAFETY: as for clock_gettime.
            let function = unsafe { std::mem::transmute::<*const (), TimeFunction>(pointer) };
            // SAFETY: as above.
            Loop::around(move || unsafe {
                function(answer().0.as_mut_ptr());
            })
        }
        Call::Getcpu => {
            // SAFETY: as for clock_gettime.
            let function = unsafe { std::mem::transmute::<*const (), CpuFunction>(pointer) };
            // SAFETY: as above.
            Loop::around(move || unsafe {
                function(answer().0.as_mut_ptr(), answer().0.as_mut_ptr(), std::ptr::null_mut());
            })
        }
    })
}

/// The loops around the system call instruction.
///
/// # Errors
///
/// When the kernel refuses the call, or has none of this name.
pub fn by_syscall(call: Call) -> Result<Loop, NoLoop> {
    refusal(call)?;
    let number = call.number().ok_or(NoLoop::NoSystemCall)?;
    Ok(match call {
        Call::ClockGettime(clock) => by_number(number, clock),
        Call::ClockGetres => by_number(number, ClockId::Monotonic),
        // SAFETY: in each closure the pointers are to locals of the type that the kernel writes.
        Call::Gettimeofday => Loop::around(move || unsafe {
            let mut time = answer::<libc::timeval>();
            raw_syscall::two(number, time.0.as_mut_ptr().expose_provenance(), 0);
        }),
        // SAFETY: as above.
        Call::Time => Loop::around(move || unsafe {
            let mut time = answer::<libc::time_t>();
            raw_syscall::one(number, time.0.as_mut_ptr().expose_provenance());
        }),
        // SAFETY: as above.
        Call::Getcpu => Loop::around(move || unsafe {
            let (mut cpu, mut node) = (answer::<libc::c_uint>(), answer::<libc::c_uint>());
            let (cpu, node) = (cpu.0.as_mut_ptr(), node.0.as_mut_ptr());
            raw_syscall::three(number, cpu.expose_provenance(), node.expose_provenance(), 0);
        }),
    })
}

/// The loops around a system call that takes a clock and a place for a `timespec`.
fn by_number(number: libc::c_long, clock: ClockId) -> Loop {
    let id = raw_syscall::argument(clock.as_raw());
    // SAFETY: the pointer is to a local of the type that the kernel writes.
    Loop::around(move || unsafe {
        let mut time = answer::<libc::timespec>();
        raw_syscall::two(number, id, time.0.as_mut_ptr().expose_provenance());
    })
}

/// Makes the call once, through the C library; an error is a refusal.
fn refusal(call: Call) -> Result<(), NoLoop> {
    let status = match call {
        // SAFETY: the pointer is to a local of the type that is written.
        Call::ClockGettime(clock) => unsafe {
            libc::clock_gettime(clock.as_raw(), answer().0.as_mut_ptr())
        },
        // SAFETY: as above.
        Call::ClockGetres => unsafe {
            libc::clock_getres(libc::CLOCK_MONOTONIC, answer().0.as_mut_ptr())
        },
        // SAFETY: as above.
        Call::Gettimeofday => unsafe {
            libc::gettimeofday(answer().0.as_mut_ptr(), std::ptr::null_mut())
        },
        // SAFETY: takes nothing.
        Call::Getcpu => unsafe { libc::sched_getcpu() },
        Call::Time => 0,
    };
    if status < 0 { Err(NoLoop::Refused(io::Error::last_os_error())) } else { Ok(()) }
}

/// The loops around the instruction that reads the counter.
///
/// # Errors
///
/// When the CPU lacks the instruction or this process may not use it.
pub fn of_counter(order: CounterOrder) -> Result<Loop, NoLoop> {
    if tsc::is_permitted() == Some(false) {
        return Err(NoLoop::CounterForbidden);
    }
    counter::loops(order).ok_or(NoLoop::NoInstruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_makes_the_call() {
        let functions = Functions::own().unwrap();
        for call in Call::all() {
            if refusal(call).is_err() {
                continue;
            }
            let mut routes = vec![by_libc(call)];
            // arm64 has no system call `time`, and its vDSO exports fewer functions.
            routes.extend(call.number().map(|_| by_syscall(call)));
            routes.extend(functions.address(&call.symbol()).map(|_| by_vdso(call, &functions)));
            for calling in routes {
                calling.unwrap_or_else(|error| panic!("{call:?}: {error}")).run(3);
            }
        }
        for counter in [CounterOrder::Bare, CounterOrder::Fenced] {
            of_counter(counter).unwrap().run(3);
        }
        instant().run(3);
        empty().run(3);
    }

    #[test]
    fn a_forbidden_counter_is_declined() {
        let thread = std::thread::spawn(|| {
            tsc::forbid().then(|| {
                let counter = of_counter(CounterOrder::Bare);
                assert!(tsc::permit());
                matches!(counter, Err(NoLoop::CounterForbidden))
            })
        });
        match thread.join().unwrap() {
            Some(declined) => assert!(declined),
            // On arm64 Linux has this switch since 6.12.
            None => skips::skip("this kernel does not forbid the counter"),
        }
    }
}
