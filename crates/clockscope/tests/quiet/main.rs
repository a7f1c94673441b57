//! Tests that need neither another process nor the machine for themselves: the command line, reports from recorded
//! data, pages, documents.

#[allow(dead_code, unused_macros, reason = "each of the test binaries uses another part")]
#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod colours;
mod compare_command;
mod completions;
mod docs;
mod doctor_command;
mod doctor_input;
mod doctor_many;
mod fleet_files;
mod html_pages;
mod interface;
mod kernels;
mod manual_pages;
mod outputs;
mod peer_output;
mod refusals;
mod startup_check;
mod vdso_command;
mod vm;
mod wrongness_command;
