//! One file a subcommand: wiring only.

pub mod attach;
pub mod bench;
pub mod capture;
pub mod colour;
pub mod compare;
pub mod completions;
pub mod doctor;
mod groups;
pub mod observers;
pub mod output;
pub mod program;
pub mod replace_file;
pub mod run;
pub mod serve;
mod spinner;
pub mod streams;
pub mod survey;
pub mod top;
pub mod trace;
pub mod tsc_guard;
pub mod vdso;
pub mod view;
pub mod wrongness;

pub(crate) use streams::warn_user;
