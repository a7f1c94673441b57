//! The report of `clockscope compare`.

pub mod bench_file;
pub mod host_changes;
pub mod judge;
pub mod ministat;
pub mod numbers;
pub mod plain;
pub mod plot;
pub mod sentence;
mod spelling;
pub mod text;
pub mod traces;
pub mod verdict;
