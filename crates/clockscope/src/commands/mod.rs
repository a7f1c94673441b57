//! One file a subcommand: wiring only.

pub mod attach;
pub mod bench;
pub mod callers;
pub mod capture;
pub mod clock_page;
pub mod clock_reads;
pub mod compare;
pub mod counter;
pub mod doctor;
pub mod fallback_reads;
pub mod host_state;
pub mod launch;
pub mod observers;
pub mod output;
pub mod program;
pub mod replace_file;
pub mod run;
pub mod serve;
pub mod signals;
pub mod streams;
pub mod summary;
pub mod timeline;
pub mod top;
pub mod trace;
pub mod tsc_guard;
pub mod vdso;
pub mod wrongness;

pub(crate) use streams::warn_user;
