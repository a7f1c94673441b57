//! Callers of clock calls: sampled stacks, unwound and named.
//!
//! The kernel copies registers and the top of the stack of a thread that makes a call, one call in
//! N (`perf_samples.rs` in `clockscope-sys`). This crate turns such a copy into functions. It never
//! touches the program.

mod arch;
mod debuginfod;
mod demangle;
pub mod frames;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod hotspot;
mod jit;
mod jit_files;
mod jit_wanted;
mod managed;
mod memory;
mod mini_debug;
mod module_file;
pub mod modules;
pub mod python;
pub mod records;
pub mod sample;
mod source_map;
mod stripped;
mod symbol_table;
pub mod symbols;
pub mod unwind;
mod unwind_cfi;
mod unwind_code;
mod unwind_go;
mod v8;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
