//! One file a subcommand: wiring only.

pub mod program;
pub mod run;
pub mod signals;
pub mod summary;
pub mod trace;
pub mod traced;
pub mod vdso;
