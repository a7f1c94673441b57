//! Tests that look at the machine itself, so that neighbours disturb them: figures of this moment, real-time
//! priorities, clocks that must be right in time, and tracers of the whole host.

#[allow(dead_code, unused_macros, reason = "each of the test binaries uses another part")]
#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod bench_instructions;
mod bpf;
mod callers_in_runtimes;
mod doctor_live;
mod host_tracing;
mod serve_command;
mod survey_command;
mod timekeeper_kill;
mod trace_callers_truth;
mod trace_figures;
mod trace_real_time;
mod wrongness_faults;
