//! Processes that are traced, attached to or given another clock: their calls are counted exactly, and they behave as
//! without clockscope.

#[allow(dead_code, unused_macros, reason = "each of the test binaries uses another part")]
#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod bench_command;
mod caller_state;
mod callers_formats;
mod command_lines;
mod foreign_text;
mod hostile_neighbour;
mod run_clocks;
mod run_page;
mod run_slow;
mod trace_attach_again;
mod trace_attach_contexts;
mod trace_attach_cycles;
mod trace_attach_exact;
mod trace_attach_faults;
mod trace_callers;
mod trace_counter;
mod trace_faults;
mod trace_follow;
mod trace_groups;
mod trace_intervals;
mod trace_kill;
mod trace_languages;
mod trace_namespaces;
mod trace_python;
mod trace_signals;
mod trace_sites;
mod trace_sites_all;
mod trace_sites_execs;
mod trace_sites_seen;
mod trace_sites_times;
mod trace_terminal;
mod trace_top;
mod trace_trees;
