//! Paths to measure: a clock, counter or system call by a route, with its loop.

use std::fmt;

use clockscope_model::bench::PathName;
use clockscope_sys::loops::Loop;

/// Route to a clock, counter or system call.
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
    /// No call: the loop by itself.
    None,
}

impl Route {
    /// Name in JSON and on the command line.
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

/// A clock, counter or system call by a route.
pub struct Path {
    /// Name in reports.
    pub name: PathName,
    /// The loop that makes the calls.
    pub calling: Loop,
}

/// The name of a clock or counter by a route.
pub(crate) fn of_clock(clock: &str, route: Route) -> PathName {
    PathName { clock: Some(clock.to_owned()), call: None, route: route.name().to_owned() }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PathName { clock, call, route } = &self.name;
        write!(f, "{} by {route}", clock.as_deref().or(call.as_deref()).unwrap_or_default())
    }
}
