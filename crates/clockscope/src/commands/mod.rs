//! One file a subcommand: wiring only.

pub mod vdso;
