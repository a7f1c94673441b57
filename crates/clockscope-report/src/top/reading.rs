//! What is known of the calls at one moment.

use std::time::Duration;

use clockscope_model::callers::Called;

/// Calls of one function, or one system call, since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is called.
    pub key: Called,
    /// Its name, with the clock where it takes one: `clock_gettime(MONOTONIC)`.
    pub name: String,
    /// Exact number of calls until now.
    pub calls: u64,
    /// Time of all of them in nanoseconds: measured for system calls, estimated for the vDSO; 0
    /// where it is not known.
    pub time_ns: u64,
    /// Whether it reads a clock.
    pub is_clock: bool,
    /// Whether it is made to wait: its time is no cost.
    pub waits: bool,
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
