//! The counts at one moment.

use std::time::Duration;

use clockscope_model::callers::Called;

/// Calls of one function, or one system call, since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The called function or system call.
    pub key: Called,
    /// Name, with the clock if the function takes one: `clock_gettime(MONOTONIC)`.
    pub name: String,
    /// Exact number of calls so far.
    pub calls: u64,
    /// Time of all calls in nanoseconds: measured for system calls, estimated for the vDSO; 0 if unknown.
    pub time_ns: u64,
    /// Whether the call reads a clock.
    pub is_clock: bool,
    /// Whether the purpose of the call is to wait: its time is then no cost.
    pub waits: bool,
}

/// All counts at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Time since the start.
    pub at: Duration,
    /// Number of processes counted at present.
    pub processes: u64,
    /// The rows; calls that never happened have none.
    pub rows: Vec<Row>,
}
