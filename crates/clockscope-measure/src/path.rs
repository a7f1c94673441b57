//! What is measured: a subject by a route, with the loops around it.

use std::fmt;

use clockscope_sys::loops::Loop;

/// The way to a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    /// Through the C library.
    Libc,
    /// The vDSO's function by its address.
    Vdso,
    /// The system call instruction itself.
    Syscall,
    /// A counter of the CPU, read by an instruction.
    Tsc,
    /// No call at all: the loop by itself.
    None,
}

impl Route {
    /// Every route, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Libc, Self::Vdso, Self::Syscall, Self::Tsc, Self::None];

    /// Its name, as in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Libc => "libc",
            Self::Vdso => "vdso",
            Self::Syscall => "syscall",
            Self::Tsc => "tsc",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is called: a clock or counter, or a system call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// `CLOCK_MONOTONIC`, `gettimeofday`, `rdtsc`, `std::time::Instant`, `empty loop`, ...
    Clock(&'static str),
    /// A system call of the table of system calls, such as `read`.
    Call(&'static str),
}

impl Subject {
    /// The name of the clock or call, as it is shown.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Clock(name) | Self::Call(name) => name,
        }
    }
}

/// Something to measure: a subject by a route.
#[derive(Debug)]
pub struct Path {
    /// The clock or call that is made.
    pub subject: Subject,
    /// The way by which it is made.
    pub route: Route,
    /// The loop around it.
    pub calling: Loop,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.subject.name(), self.route)
    }
}
