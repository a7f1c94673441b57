//! What is known of the calls at one moment.

use std::time::Duration;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A function of the vDSO on one clock: number of the counter in `vdso_image::layout`.
    Vdso(u8),
    /// A system call, by its number on x86-64.
    Syscall(u32),
}

/// Calls of one function, or one system call, since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is called.
    pub key: Key,
    /// Its name, with the clock where it takes one: `clock_gettime(MONOTONIC)`.
    pub name: String,
    /// Exact number of calls until now.
    pub calls: u64,
    /// Time of all of them in nanoseconds: measured for system calls, estimated for the vDSO; 0
    /// where it is not known.
    pub time_ns: u64,
}

/// Everything, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Since the start.
    pub at: Duration,
    /// Processes that are counted now.
    pub processes: u64,
    /// Rows, those without calls left out.
    pub rows: Vec<Row>,
}

/// Who makes the calls of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallersOf {
    /// Of which row.
    pub key: Option<Key>,
    /// Function and share (0 to 1) of the row's calls, most calls first.
    pub callers: Vec<(String, f64)>,
}
